"""The meter counts what is allocated, while it is, and nothing else."""

import torch
import torch.nn.functional as F

from clearhead.training.run.allocations import AllocationMeter

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
