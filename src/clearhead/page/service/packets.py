"""Tensors on their way to the page: a JSON header with names and shapes, then float32 numbers, little-endian.

4 bytes   length of the header, a multiple of 4
header    {"tensors": [{"name": …, "shape": […]}, …]}, padded with spaces
numbers   of all tensors, one after the other
"""

import json

import torch
from torch import Tensor


def pack(tensors: dict[str, Tensor]) -> bytes:
    """The packet of some tensors."""
    shapes = [{"name": name, "shape": list(X.shape)} for name, X in tensors.items()]
    header = json.dumps({"tensors": shapes}).encode()
    header += b" " * (-len(header) % 4)
    numbers = [X.detach().to("cpu", torch.float32).contiguous().numpy() for X in tensors.values()]
    return b"".join([len(header).to_bytes(4, "little"), header, *(X.reshape(-1).data for X in numbers)])
