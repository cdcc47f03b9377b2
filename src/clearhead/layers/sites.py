"""Sites: the places where the lecture's tensors pass, open to readers and writers.

A module that owns sites lists them in `sites` and passes each tensor through `site(self, "weights", A)`.
Outside a capture that returns the tensor itself. Inside, a listener may keep it or put another in its place.
A site's full name is the module's path in the model and the site's own name: `decoder.0.self.weights`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn


class Listener(Protocol):
    """Reads or replaces tensors at sites while a model runs."""

    @property
    def rows(self) -> int | None:
        """How many queries' scores and weights pass at once; all if None."""

    def watches(self, module: nn.Module, key: str) -> bool:
        """Whether this site's tensor is wanted."""

    def hear(self, module: nn.Module, key: str, X: Tensor) -> Tensor:
        """Takes a site's tensor and returns the one that continues in its place."""

    def keep(self, module: nn.Module, key: str, X: Tensor) -> None:
        """Takes the whole of a tensor whose parts have passed the site one by one."""


class CachedStep(NamedTuple):
    """A step in which a site sees only some tokens: the new ones, or one at a time in a recurrence."""

    cache: object  # the same one at every step of some texts
    at: Tensor  # (b or 1, n) the positions of the new tokens in their texts
    real: Tensor  # (b, n) whether they are tokens, not padding


# Of the running thread or task, so that a served model can be watched by one request and not by another.
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_step: ContextVar[CachedStep | None] = ContextVar("step", default=None)


def site(module: nn.Module, key: str, X: Tensor) -> Tensor:
    """Passes X through the site `key` of a module: to the listener, if there is one."""
    if torch.compiler.is_compiling() or (now := _listener.get()) is None:
        return X
    return now.hear(module, key, X)


def keep(module: nn.Module, key: str, X: Tensor) -> None:
    """Records the whole of a tensor that has passed a site token by token, as a recurrence computes it."""
    if not torch.compiler.is_compiling() and (now := _listener.get()) is not None:
        now.keep(module, key, X)


def is_watched(module: nn.Module, *keys: str) -> bool:
    """Whether the listener wants one of these sites, so that their tensors must exist."""
    if torch.compiler.is_compiling() or (now := _listener.get()) is None:
        return False
    return any(now.watches(module, key) for key in keys)


def rows_at_once() -> int | None:
    """How many queries' scores and weights the listener wants to pass at once; all if None."""
    if torch.compiler.is_compiling() or (now := _listener.get()) is None:
        return None
    return now.rows


def site_names(model: nn.Module) -> dict[str, tuple[nn.Module, str]]:
    """Every site of a model by its full name, in the order of the modules."""
    names = {}
    for path, module in model.named_modules():
        place = path.replace("blocks.", "")
        for key in getattr(module, "sites", ()):
            names[f"{place}.{key}" if place else key] = (module, key)
    return names


def listener() -> Listener | None:
    """The current listener."""
    return _listener.get()


@contextmanager
def listening(new: Listener) -> Iterator[None]:
    """Lets a listener hear every site that is passed inside the `with`."""
    token = _listener.set(new)
    try:
        yield
    finally:
        _listener.reset(token)


def cached_step() -> CachedStep | None:
    """The step that runs now, if it has a cache."""
    return _step.get()


@contextmanager
def in_step(step: CachedStep) -> Iterator[None]:
    """Lets listeners know the step that runs inside the `with`."""
    token = _step.set(step)
    try:
        yield
    finally:
        _step.reset(token)
