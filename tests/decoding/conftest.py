"""Tiny models are fastest on one thread; the kernel for one row is tested even where PyTorch is faster."""

from collections.abc import Iterator

import pytest
import torch

from clearhead.decoding.steppers import products


@pytest.fixture(autouse=True, scope="package")
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _kernel_is_used(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    kernel = products.row_kernel
    monkeypatch.setattr(products, "is_faster", lambda *given: True)
    kernel.cache_clear()
    yield
    kernel.cache_clear()
