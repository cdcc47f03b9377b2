"""A model and texts enter; written texts, classes or vectors leave."""
