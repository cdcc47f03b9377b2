"""Prepared columns of token ids enter; batches of tensors leave, each a pure function of its position."""
