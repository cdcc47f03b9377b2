"""Reads what the service sends to the page: the other side of `clearhead.page.service.packets`."""

import json

import torch
from torch import Tensor


def unpack(content: bytes) -> dict[str, Tensor]:
    """The tensors of a packet."""
    size = int.from_bytes(content[:4], "little")
    header = json.loads(content[4 : 4 + size])
    numbers = torch.frombuffer(bytearray(content[4 + size :]), dtype=torch.float32)
    found, at = {}, 0
    for entry in header["tensors"]:
        count = int(torch.tensor(entry["shape"]).prod())
        found[entry["name"]] = numbers[at : at + count].reshape(entry["shape"])
        at += count
    assert at == len(numbers)
    return found
