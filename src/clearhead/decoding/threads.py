"""Threads for the cores that are free: a piece of work enters; it gets its share of a busy machine.

PyTorch's threads wait for one another after every product. Beside another program one of them waits for a core, and all
others for it, so that one thread is faster than two. Texts and passes stay the same within 1e-4. Training has a way of
its own, whose bits do not depend on the load: `training.loop.threads`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from clearhead.machine.free_cores import FreeCores

FREE = FreeCores()


@contextmanager
def free_cores() -> Iterator[None]:
    """Runs what is inside with as many of PyTorch's threads as cores are free."""
    most = torch.get_num_threads()
    threads = FREE.threads(most)
    if threads == most:
        yield
        return
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(most)
