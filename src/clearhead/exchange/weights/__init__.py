"""Weights from file to file, one tensor at a time: tensors under one set of names enter, under another they leave."""
