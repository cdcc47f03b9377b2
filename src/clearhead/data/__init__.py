"""A recipe enters; batches of tensors leave, in an order that can be repeated (`prepare.py`)."""
