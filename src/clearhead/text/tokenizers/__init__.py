"""Texts enter and ids leave, or the other way round (`tokenizer.py`); `kinds.py` trains each kind of tokenizer."""
