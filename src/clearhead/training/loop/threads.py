"""Threads of our own: tasks enter, their results leave in order, each computed by one thread on one core.

PyTorch splits each operation over its threads, which wait for one another a thousand times per step, and spin
meanwhile. Beside other programs the awaited thread often has no core, and a step takes up to thirty times as long.
Here a thread computes a part of the batch from its first operation to its last, and threads meet a few times per
step. How work is divided depends on their number alone, never on which is faster: the bits do not depend on the load.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch

from clearhead.config.training import MOST_THREADS

T = TypeVar("T")
R = TypeVar("R")

_count: ContextVar[int] = ContextVar("count", default=1)


def start_pool() -> None:
    """Makes the pool, which starts a thread only if none is idle; a forked process has none of its parent's."""
    global _pool
    _pool = ThreadPoolExecutor(MOST_THREADS, "clearhead-worker")


_pool: ThreadPoolExecutor
start_pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=start_pool)


def own_threads() -> int:
    """The number of threads that `spread` uses: 1 outside `one_core_each`."""
    return _count.get()


@contextmanager
def one_core_each(is_wanted: bool = True) -> Iterator[None]:
    """Has PyTorch compute on one core, and `spread` use as many threads as PyTorch had, inside the `with`."""
    count = torch.get_num_threads()
    if not is_wanted or count == 1:
        yield
        return
    token = _count.set(count)
    torch.set_num_threads(1)  # of MKL for all threads, of OpenMP for this one and for new ones
    try:
        yield
    finally:
        torch.set_num_threads(count)
        _count.reset(token)


def spread(task: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """The results of a task for some items, each on a thread of its own."""
    if len(items) == 1:
        return [task(items[0])]
    futures = [_pool.submit(task, item) for item in items]
    wait(futures)  # also for the others if one fails
    return [future.result() for future in futures]


def share_out(items: Sequence[T]) -> list[Sequence[T]]:
    """Items in as many groups as there are threads, fewer if there are fewer items; the same ones each time."""
    count = max(1, min(own_threads(), len(items)))
    return [items[number::count] for number in range(count)]
