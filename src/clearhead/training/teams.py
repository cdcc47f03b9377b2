"""Ranks that do one thing together while they train: each its share, all or none."""

from collections.abc import Callable
from secrets import token_hex

import torch
import torch.distributed as dist

from clearhead.errors import TrainingError
from clearhead.training.distributed import PATIENCE, rank, told_by_first
from clearhead.training.shares import of_all

LONGEST = 1000  # bytes of what is told
DONE, FAILED = "+", "-"


class Team:
    """All ranks, or one by itself; it may meet in a thread, since its group is its own.

    A rank that dies closes its connections, so that nobody waits for it.
    """

    def __init__(self, size: int = 1) -> None:
        self.size, self.number = size, rank() if size > 1 else 0
        self.group = dist.new_group(backend="gloo", timeout=PATIENCE) if size > 1 else None
        self.token = told_by_first(lambda: token_hex(4)) if size > 1 else token_hex(4)  # of no other team

    def told(self, text: str) -> list[str]:
        """The texts of all, on each of them."""
        if self.group is None:
            return [text]
        line = text.encode()[:LONGEST].ljust(LONGEST, b"\0")
        lines = of_all(torch.tensor(list(line), dtype=torch.uint8), self.group)
        return [bytes(line.tolist()).rstrip(b"\0").decode(errors="replace") for line in lines]

    def each(self, do: Callable[[], str]) -> list[str]:
        """What all say when they have done their shares; where one fails, all fail, and say why."""
        if self.group is None:
            return [do()]
        try:
            said = DONE + do()
        except Exception as error:
            self.told(f"{FAILED}{error}")
            raise
        told = self.told(said)
        for number, text in enumerate(told):
            if not text.startswith(DONE):
                raise TrainingError(
                    f"Rank {number} could not write its part of a checkpoint: {text[1:]}.\n"
                    "What was kept before is whole. When the cause is gone, go on with --resume."
                )
        return [text[1:] for text in told]
