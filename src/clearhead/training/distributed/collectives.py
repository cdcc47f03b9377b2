"""Numbers and tensors of all ranks: sums, gathers, tensors that are sharded by rows, work that is divided.

With one rank every function returns its input. FSDP2 shards a tensor as a `DTensor`: each rank has some of its rows.
"""

from collections.abc import Callable, Iterable, Iterator
from types import EllipsisType
from typing import TYPE_CHECKING, Protocol, cast

import torch
import torch.distributed as dist
from torch import Tensor

from clearhead.training.distributed.ranks import rank, ranks

if TYPE_CHECKING:  # takes more than a second to import, and one rank never needs it
    from torch.distributed.tensor import DTensor


class Rows(Protocol):
    """A tensor in memory, or one in a file of which only the rows that are asked for are read."""

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the full tensor."""

    def __getitem__(self, rows: slice | EllipsisType, /) -> Tensor:
        """Some rows, or all with `...`."""


def sum_over_ranks(device: torch.device, *numbers: float) -> list[float]:
    """The sum of each number over all ranks."""
    if ranks() == 1:
        return list(numbers)
    values = torch.tensor(numbers, dtype=torch.float64, device=device)
    dist.all_reduce(values)
    return [float(value) for value in values.tolist()]


def all_gather(tensor: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """The tensors of all ranks, which have one shape, stacked: (ranks, …)."""
    if ranks() == 1:
        return tensor[None]
    gathered = tensor.new_empty(ranks() * len(tensor), *tensor.shape[1:])
    dist.all_gather_single(gathered, tensor.contiguous(), group)
    return gathered.unflatten(0, (ranks(), -1))


def is_sharded(tensor: Tensor) -> bool:
    """Whether each rank has only some of its rows."""
    return hasattr(tensor, "full_tensor")


def full_tensor(tensor: Tensor) -> Tensor:
    """All rows of a tensor; every rank has to call it."""
    return cast("DTensor", tensor).full_tensor() if is_sharded(tensor) else tensor


def local_rows(tensor: Tensor) -> Tensor:
    """The rows of a tensor that this rank has."""
    return cast("DTensor", tensor).to_local() if is_sharded(tensor) else tensor


def distribute_like(value: Rows, like: Tensor) -> Tensor:
    """A copy of a full tensor, stored as `like` is: on its device and, if that is sharded, this rank's rows."""
    if not is_sharded(like) or value.shape != like.shape:
        return value[...].to(like.device, copy=True)
    rows = rows_per_rank(len(like))
    first = sum(rows[: rank()])
    return as_sharded(value[first : first + rows[rank()]].to(like.device, copy=True), like)


def as_sharded(rows: Tensor, like: Tensor) -> Tensor:
    """A sharded tensor from the rows of this rank."""
    from torch.distributed.tensor import DTensor

    other = cast(DTensor, like)
    shape, stride = other.shape, other.stride()
    return DTensor.from_local(rows, other.device_mesh, other.placements, shape=shape, stride=stride)


def rows_per_rank(count: int) -> list[int]:
    """How many of so many rows each rank has; the last ones may have fewer, or none."""
    size = -(-count // ranks())
    return [max(0, min(size, count - number * size)) for number in range(ranks())]


def map_over_ranks(make: Callable[[Tensor], Tensor], matrices: list[Tensor]) -> Iterable[Tensor]:
    """`make`, a function of (k, rows, columns), of full matrices of one shape; each rank computes some of them."""
    if ranks() == 1:
        return make(torch.stack(matrices))
    return (map_sharded if is_sharded(matrices[0]) else map_replicated)(make, matrices)


def map_replicated(make: Callable[[Tensor], Tensor], matrices: list[Tensor]) -> list[Tensor]:
    """Where every rank has all matrices: rank r computes those at r, r + ranks, …, and all are gathered."""
    count = ranks()
    mine = matrices[rank() :: count]
    idle = [torch.zeros_like(matrices[0])] * (-(-len(matrices) // count) - len(mine))
    made = all_gather(make(torch.stack(mine + idle)))  # (ranks, k, rows, columns)
    return [made[i % count, i // count] for i in range(len(matrices))]


def map_sharded(make: Callable[[Tensor], Tensor], matrices: list[Tensor]) -> Iterator[Tensor]:
    """Where every rank has some rows of each: as many matrices as ranks at a time, rank r computes the r-th.

    Rows travel to the rank that needs them and back, so that no rank ever has more than one full matrix.
    """
    count, rows = ranks(), rows_per_rank(len(matrices[0]))
    for first in range(0, len(matrices), count):
        current = matrices[first : first + count]
        local = torch.cat([local_rows(matrix) for matrix in current])
        here = rows if rank() < len(current) else [0] * count  # rows that come here, from each rank
        there = [rows[rank()] if other < len(current) else 0 for other in range(count)]  # that go to each
        M = all_to_all(local, there, here)
        M = make(M[None])[0].contiguous() if len(M) else M
        parts = all_to_all(M, here, there).reshape(len(current), rows[rank()], M.shape[1])
        yield from (as_sharded(part, matrix) for part, matrix in zip(parts, current, strict=True))


def all_to_all(M: Tensor, sent: list[int], received: list[int]) -> Tensor:
    """Sends each rank its rows of M, in order, and returns the rows that the ranks send, concatenated."""
    result = M.new_empty(sum(received), M.shape[1])
    dist.all_to_all_single(result, M, received, sent)
    return result
