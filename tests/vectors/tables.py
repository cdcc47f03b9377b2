"""Small tables of vectors for tests, whose geometry is known."""

import torch

from clearhead.vector_folder import VectorTable

WORDS = ["man", "woman", "king", "queen", "Paris", "T-shirt", "New_York"]
ROWS = [[1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1], [-2, 0, 0], [0, -1, 0], [0, 0, -3]]


def small_table() -> VectorTable:
    """Gender along one axis, royalty along another."""
    counts = [90, 80, 70, 60, 50, 40, 30]
    return VectorTable(list(WORDS), torch.tensor(ROWS, dtype=torch.float32), counts, {"by": "hand"})
