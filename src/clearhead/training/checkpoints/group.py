"""The ranks that write or read one checkpoint together: each its share, all or none."""

from collections.abc import Callable
from secrets import token_hex

import torch
import torch.distributed as dist

from clearhead.errors import TrainingError
from clearhead.training.distributed.collectives import all_gather
from clearhead.training.distributed.ranks import TIMEOUT, broadcast_from_first, rank

MESSAGE_BYTES = 1000
DONE, FAILED = "+", "-"


class CheckpointGroup:
    """All ranks, or a single one.

    It may communicate in a thread during training, since its process group is its own. A rank that dies closes its
    connections, so that no other waits for it.
    """

    def __init__(self, size: int = 1) -> None:
        self.size, self.rank = size, rank() if size > 1 else 0
        self.process_group = dist.new_group(backend="gloo", timeout=TIMEOUT) if size > 1 else None
        self.token = broadcast_from_first(lambda: token_hex(4)) if size > 1 else token_hex(4)  # unique

    def gather(self, text: str) -> list[str]:
        """The texts of all ranks, on each of them."""
        if self.process_group is None:
            return [text]
        line = text.encode()[:MESSAGE_BYTES].ljust(MESSAGE_BYTES, b"\0")
        lines = all_gather(torch.tensor(list(line), dtype=torch.uint8), self.process_group)
        return [bytes(line.tolist()).rstrip(b"\0").decode(errors="replace") for line in lines]

    def all_or_none(self, write: Callable[[], str]) -> list[str]:
        """What `write` returns on each rank; if it fails on one, all raise with its reason."""
        if self.process_group is None:
            return [write()]
        try:
            message = DONE + write()
        except Exception as error:
            self.gather(f"{FAILED}{error}")
            raise
        messages = self.gather(message)
        for number, text in enumerate(messages):
            if not text.startswith(DONE):
                raise TrainingError(
                    f"Rank {number} could not write its part of a checkpoint: {text[1:]}.\n"
                    "Earlier checkpoints are undamaged. Fix the cause, then resume with --resume."
                )
        return [text[1:] for text in messages]
