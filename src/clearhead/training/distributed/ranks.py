"""Several processes that train one model: `torchrun` starts them, each has a rank, and all take the same steps.

Each rank reads its rows of the same batches, so that the result does not depend on their number. The first rank plans,
prints and writes. Without `torchrun` there is one rank, and nothing here communicates.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from clearhead.errors import ClearheadError, TrainingError

# A rank may wait while another reads all the data; torchrun ends those that wait for a dead one.
TIMEOUT = timedelta(days=7)
LOST_CONNECTION = (
    "closed by peer",
    "reset by peer",
    "timed out",
    "Timed out",
    "roken pipe",
)  # messages of gloo
message_numbers = count()  # all ranks count alike


def rank() -> int:
    """The number of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def ranks() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_first() -> bool:
    """Whether this is the process that plans, prints and writes."""
    return rank() == 0


def local_ranks() -> int:
    """How many of the processes share this machine; another machine may have more or fewer."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if dist.is_initialized() else 1


@contextmanager
def process_group() -> Iterator[None]:
    """Connects the processes of `torchrun`; an error that all of them raise is reported by one."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or dist.is_initialized():
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    store, number, size = next(rendezvous("env://"))
    # The store may outlive a restart: messages of the previous processes must not reach these.
    store = PrefixStore(f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    # gloo for CPUs, nccl for GPUs
    dist.init_process_group(store=store, rank=number, world_size=size, timeout=TIMEOUT)
    try:
        yield
    except (ClearheadError, RuntimeError) as error:
        is_known = isinstance(error, ClearheadError)
        if not is_known and not is_lost_connection(error):
            raise
        if not is_first_to_report(store):
            sys.exit(1)
        if is_known:
            raise
        raise TrainingError(
            f"Rank {number} of {size} lost the connection to another rank: its process or the network failed.\n"
            "Resume from the latest checkpoint with --resume."
        ) from None
    dist.destroy_process_group()


def is_lost_connection(error: Exception) -> bool:
    """Whether an error says that another process has ended."""
    return isinstance(error, dist.DistError) or any(sign in str(error) for sign in LOST_CONNECTION)


def is_first_to_report(store: Store) -> bool:
    """Whether no other rank has reported an error; if the store cannot be reached, yes."""
    try:
        return store.add("errors", 1) == 1
    except RuntimeError:
        return True


def broadcast_from_first(make: Callable[[], str]) -> str:
    """A text that the first rank makes, however long it takes, on all ranks."""
    if ranks() == 1:
        return make()
    store, name = dist.distributed_c10d._get_default_store(), f"message {next(message_numbers)}"
    if is_first():
        store.set(name, make())
    store.wait([name], TIMEOUT)
    return store.get(name).decode()


@contextmanager
def one_rank_first() -> Iterator[None]:
    """Runs a block on one rank of each machine, then on its other ranks, which find the cache filled."""
    if ranks() == 1:
        yield
        return
    store = dist.distributed_c10d._get_default_store()
    # Numbered by `torchrun`: rank and local_ranks are not enough, since machines may differ.
    machine, local_rank = os.environ.get("GROUP_RANK", "0"), int(os.environ.get("LOCAL_RANK", "0"))
    name = f"done {next(message_numbers)} on {machine}"
    if local_rank:
        store.wait([name], TIMEOUT)
    yield
    if not local_rank:
        store.set(name, "")
