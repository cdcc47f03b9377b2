"""Transformers you can see through.

Importing the package is instant: whatever needs PyTorch is imported by the part that uses it.
"""

__version__ = "0.1.0"
