"""Dropout (Srivastava et al., 2014): in training each number is 0 with probability p, and the others grow to match.

PyTorch draws from one generator for all threads: of two threads that draw at once, either may be first. Inside
`drawing_from` the running thread draws from a generator of its own, so that what it draws can be repeated.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_generator: ContextVar[torch.Generator | None] = ContextVar("generator", default=None)


class Dropout(nn.Dropout):
    """`nn.Dropout`, also with a generator of the thread's own."""

    def forward(self, X: Tensor) -> Tensor:
        """(…) -> (…)."""
        if not self.training or self.p == 0:
            return X
        if torch.compiler.is_compiling() or (generator := _generator.get()) is None:
            return F.dropout(X, self.p)
        return X * torch.empty_like(X).bernoulli_(1 - self.p, generator=generator).div_(1 - self.p)


@contextmanager
def drawing_from(generator: torch.Generator) -> Iterator[None]:
    """Lets the running thread draw from a generator of its own inside the `with`."""
    token = _generator.set(generator)
    try:
        yield
    finally:
        _generator.reset(token)
