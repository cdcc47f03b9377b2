"""Transformers you can see through.

Importing the package is instant: PyTorch is loaded when a name that needs it is first used.
"""

from typing import TYPE_CHECKING

from clearhead.machine.environment import keep_free_memory, set_environment

if TYPE_CHECKING:
    from clearhead.api import Model, data_report, load, train, training_curves

__all__ = ["Model", "__version__", "data_report", "load", "train", "training_curves"]
__version__ = "0.1.0"

set_environment()
keep_free_memory()


def __getattr__(name: str) -> object:
    """Fetch a public name from where it is defined."""
    if name in __all__:
        from clearhead import api

        return getattr(api, name)
    raise AttributeError(f"module 'clearhead' has no attribute '{name}'")


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted(__all__)
