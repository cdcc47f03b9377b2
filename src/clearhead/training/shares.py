"""Numbers and tensors that belong to all ranks: sums over them, tensors of which each holds a part.

A process by itself gets back what it gives. FSDP2 keeps a tensor as a `DTensor`: each rank holds some of its rows.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, cast

import torch
import torch.distributed as dist
from torch import Tensor

from clearhead.training.distributed import rank, ranks
from clearhead.training.parts import OnDisk

if TYPE_CHECKING:  # takes more than a second to import, and a process by itself never needs it
    from torch.distributed.tensor import DTensor


def total(device: torch.device, *numbers: float) -> list[float]:
    """The sum of each number over all ranks."""
    if ranks() == 1:
        return list(numbers)
    values = torch.tensor(numbers, dtype=torch.float64, device=device)
    dist.all_reduce(values)
    return [float(value) for value in values.tolist()]


def of_all(tensor: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """The tensors of all ranks, which have one shape, under each other."""
    if ranks() == 1:
        return tensor[None]
    gathered = tensor.new_empty(ranks() * len(tensor), *tensor.shape[1:])
    dist.all_gather_single(gathered, tensor.contiguous(), group)
    return gathered.unflatten(0, (ranks(), -1))


def is_sharded(tensor: Tensor) -> bool:
    """Whether each rank holds only some rows of it."""
    return hasattr(tensor, "full_tensor")


def whole(tensor: Tensor) -> Tensor:
    """A tensor in full, where each rank holds some rows of it; all of them have to ask."""
    return cast("DTensor", tensor).full_tensor() if is_sharded(tensor) else tensor


def rows_here(tensor: Tensor) -> Tensor:
    """What this rank holds of a tensor."""
    return cast("DTensor", tensor).to_local() if is_sharded(tensor) else tensor


def placed(value: Tensor | OnDisk, like: Tensor) -> Tensor:
    """A copy of a tensor that is there in full, kept as another one is: on its device, and only this rank's rows."""
    if not is_sharded(like) or value.shape != like.shape:
        return value[...].to(like.device, copy=True)
    rows = rows_of(len(like))
    first = sum(rows[: rank()])
    return as_shard(value[first : first + rows[rank()]].to(like.device, copy=True), like)


def as_shard(rows: Tensor, like: Tensor) -> Tensor:
    """This rank's rows of a tensor as the tensor."""
    from torch.distributed.tensor import DTensor

    other = cast(DTensor, like)
    shape, stride = other.shape, other.stride()
    return DTensor.from_local(rows, other.device_mesh, other.placements, shape=shape, stride=stride)


def rows_of(count: int) -> list[int]:
    """How many of so many rows each rank holds; the last ones may have fewer, or none."""
    size = -(-count // ranks())
    return [max(0, min(size, count - number * size)) for number in range(ranks())]


# One function of many matrices, spread over the ranks.


def shared_out(make: Callable[[Tensor], Tensor], matrices: list[Tensor]) -> Iterable[Tensor]:
    """What `make` makes of (k, rows, columns), for whole matrices of one shape; each rank does some of them."""
    if ranks() == 1:
        return make(torch.stack(matrices))
    return (by_shards if is_sharded(matrices[0]) else by_copies)(make, matrices)


def by_copies(make: Callable[[Tensor], Tensor], matrices: list[Tensor]) -> list[Tensor]:
    """The same where every rank has all matrices: rank r makes those at r, r + ranks, …, and all get all."""
    count = ranks()
    mine = matrices[rank() :: count]
    idle = [torch.zeros_like(matrices[0])] * (-(-len(matrices) // count) - len(mine))
    made = of_all(make(torch.stack(mine + idle)))  # (ranks, k, rows, columns)
    return [made[i % count, i // count] for i in range(len(matrices))]


def by_shards(make: Callable[[Tensor], Tensor], matrices: list[Tensor]) -> Iterator[Tensor]:
    """The same where every rank has some rows of each: as many matrices as ranks at a time, rank r has the r-th whole.

    Rows travel to the rank that needs them and back, so that no rank ever holds more than one whole matrix.
    """
    count, rows = ranks(), rows_of(len(matrices[0]))
    for first in range(0, len(matrices), count):
        some = matrices[first : first + count]
        local = torch.cat([rows_here(matrix) for matrix in some])
        here = rows if rank() < len(some) else [0] * count  # rows that come here, from each rank
        there = [rows[rank()] if other < len(some) else 0 for other in range(count)]  # that go to each
        M = exchanged(local, there, here)
        M = make(M[None])[0].contiguous() if len(M) else M
        parts = exchanged(M, here, there).reshape(len(some), rows[rank()], M.shape[1])
        yield from (as_shard(part, matrix) for part, matrix in zip(parts, some, strict=True))


def exchanged(M: Tensor, sent: list[int], received: list[int]) -> Tensor:
    """Sends each rank its rows of M, in order, and gives what the ranks send, under each other."""
    result = M.new_empty(sum(received), M.shape[1])
    dist.all_to_all_single(result, M, received, sent)
    return result
