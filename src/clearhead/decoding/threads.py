"""Threads for the cores that are free: a piece of work enters; it gets its share of a busy machine.

PyTorch's threads wait for one another after every product. Beside another program one of them waits for a core, and all
others for it, so that one thread is faster than two. Texts and passes stay the same within 1e-4. Training has a way of
its own, whose bits do not depend on the load: `training.loop.threads`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import local

import torch

from clearhead.machine.free_cores import FreeCores

FREE = FreeCores()
INSIDE = local()  # `threads`: those that this thread had outside, while it is inside

if hasattr(os, "register_at_fork"):
    # PyTorch's threads end at a fork, and a child would wait for them for ever.
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


@contextmanager
def free_cores() -> Iterator[None]:
    """Runs what is inside with as many of PyTorch's threads as cores are free; inside other work it changes nothing."""
    most = torch.get_num_threads()
    if hasattr(INSIDE, "threads") or (threads := FREE.threads(most)) == most:
        yield
        return
    INSIDE.threads = most
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(most)
        del INSIDE.threads
