"""The meter counts what is allocated, while it is, and nothing else."""

import ctypes
import os
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from clearhead.training.run.allocations import AllocationMeter, release_memory

SIZE = 4 * 1000


def test_tensors_count_while_they_exist() -> None:
    before = torch.zeros(1000)
    with AllocationMeter() as meter:
        X = before + 1
        Y = X * 2
        assert (meter.now, meter.most) == (2 * SIZE, 2 * SIZE)
        del X
        assert meter.now == SIZE
        Z = Y + Y
        del Y, Z
    assert (meter.now, meter.most) == (0, 2 * SIZE)


def test_views_and_changes_in_place_allocate_nothing() -> None:
    before = torch.zeros(1000)
    with AllocationMeter() as meter:
        view = before.view(10, 100)
        view.add_(1)
        F.relu_(before)
        view.t()[3].mul_(2)
    assert meter.most == 0


def test_a_backward_pass_counts_with_its_gradients() -> None:
    W = torch.zeros(10, 100, requires_grad=True)
    with AllocationMeter() as meter:
        (W.exp() * W).sum().backward()
        assert W.grad is not None
        assert meter.now == SIZE
        W.grad = None
    assert meter.now == 0
    assert 3 * SIZE <= meter.most <= 6 * SIZE


def test_freed_memory_goes_back_to_the_system() -> None:
    status = Path("/proc/self/statm")
    if not status.exists() or not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("This C library cannot give memory back, or nothing says how much there is.")

    def resident() -> int:
        return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    release_memory()
    before = resident()
    parts = [torch.ones(16_000) for _ in range(2000)]  # 128 MB, in blocks that the C library keeps for itself
    last = torch.ones(16_000)  # above them, so that the heap does not shrink by itself
    del parts
    kept = resident() - before
    release_memory()
    assert resident() - before < kept / 2
    assert last.sum() == 16_000
