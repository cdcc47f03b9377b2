"""Several processes that train one model: `torchrun` starts them, each has a rank, and all take the same steps.

Each rank reads its rows of the same batches, so that what is learned does not depend on how many there are. The
first one plans, prints and writes. A process by itself meets nobody, and waits for nobody.
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

PATIENCE = timedelta(days=7)  # with a rank that reads all the data; torchrun ends who would wait for the dead
LOST = ("closed by peer", "reset by peer", "timed out", "Timed out", "roken pipe")  # what gloo says
turns = count()  # of what is told; all ranks count alike


def rank() -> int:
    """The number of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def ranks() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_first() -> bool:
    """Whether this is the process that plans, prints and writes."""
    return rank() == 0


def neighbours() -> int:
    """How many of the processes share this machine; another machine may have more or fewer."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if dist.is_initialized() else 1


@contextmanager
def joined() -> Iterator[None]:
    """Meets the other processes of `torchrun`; of an error that they share only one of them tells."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or dist.is_initialized():
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    store, number, size = next(rendezvous("env://"))
    # It may outlive a restart: what the processes before told each other is not for these.
    store = PrefixStore(f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    # gloo for CPUs, nccl for GPUs
    dist.init_process_group(store=store, rank=number, world_size=size, timeout=PATIENCE)
    try:
        yield
    except (ClearheadError, RuntimeError) as error:
        is_known = isinstance(error, ClearheadError)
        if not is_known and not is_lost(error):
            raise
        if not speaks_first(store):
            sys.exit(1)
        if is_known:
            raise
        raise TrainingError(
            f"Rank {number} of {size} has lost the others: one of them has ended, or the network between them.\n"
            "Go on from the newest checkpoint with --resume."
        ) from None
    dist.destroy_process_group()


def is_lost(error: Exception) -> bool:
    """Whether an error says that another process is gone."""
    return isinstance(error, dist.DistError) or any(sign in str(error) for sign in LOST)


def speaks_first(store: Store) -> bool:
    """Whether no other rank has told of an error; where nobody can be asked, yes."""
    try:
        return store.add("errors", 1) == 1
    except RuntimeError:
        return True


def told_by_first(make: Callable[[], str]) -> str:
    """A text that the first rank makes, however long it takes, on all of them."""
    if ranks() == 1:
        return make()
    store, name = dist.distributed_c10d._get_default_store(), f"told {next(turns)}"
    if is_first():
        store.set(name, make())
    store.wait([name], PATIENCE)
    return store.get(name).decode()


@contextmanager
def one_ahead() -> Iterator[None]:
    """Lets one process of each machine through, and the others when it is done: what it makes, they find made."""
    if ranks() == 1:
        yield
        return
    store = dist.distributed_c10d._get_default_store()
    # As `torchrun` numbers them: rank and neighbours do not tell, since machines may differ.
    machine, place = os.environ.get("GROUP_RANK", "0"), int(os.environ.get("LOCAL_RANK", "0"))
    name = f"done {next(turns)} on {machine}"
    if place:
        store.wait([name], PATIENCE)
    yield
    if not place:
        store.set(name, "")
