"""Reads and changes the tensors of the lecture while a model runs.

    with capture(model, "decoder.*.self.weights") as trace:
        model(Inputs(tokens))
    trace["decoder.0.self.weights"]  # (b, h, n, m)

    with intervene(model, zero("decoder.2.self.3")):  # mute head 3
        model(Inputs(tokens))

Names of sites enter, tensors by name leave. Captures and interventions nest: the outer one acts first.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from torch import Tensor, nn

from clearhead.errors import InputError, suggest
from clearhead.layers.attention import Attention
from clearhead.layers.sites import Listener, listener, listening, site_names

HEADED = ("q", "k", "v", "scores", "weights", "heads")  # sites whose tensors have an axis of heads


class Trace(dict[str, Tensor]):
    """What a capture has recorded, by site; a site passed twice keeps its last tensor."""

    def __missing__(self, name: str) -> Tensor:
        longer = [known for known in self if known.endswith(f".{name}")]
        if len(longer) == 1:
            return self[longer[0]]
        raise InputError(f"Nothing was captured at {name}. {suggest(name, longer or self)}")


@dataclass(frozen=True)
class Edit:
    """A change to what passes a site, for all of it, or for one head, or for one token."""

    place: str  # a site, a sublayer ('decoder.2.cross'), or a head of one ('decoder.2.cross.3')
    kind: Literal["zero", "mean", "scale", "replace"]
    value: float | Tensor | None = None
    head: int | None = None
    token: int | None = None


def zero(place: str, head: int | None = None, token: int | None = None) -> Edit:
    """Puts zeros there."""
    return Edit(place, "zero", None, head, token)


def mean(place: str, head: int | None = None, token: int | None = None) -> Edit:
    """Puts the mean over all sequences and tokens of the pass there."""
    return Edit(place, "mean", None, head, token)


def scale(place: str, factor: float | Tensor, head: int | None = None, token: int | None = None) -> Edit:
    """Multiplies the tensor there."""
    return Edit(place, "scale", factor, head, token)


def replace(place: str, value: float | Tensor, head: int | None = None, token: int | None = None) -> Edit:
    """Puts a given number or tensor there."""
    return Edit(place, "replace", value, head, token)


KINDS: dict[str, Callable[[Tensor, float | Tensor | None], Tensor]] = {
    "zero": lambda X, value: X.new_zeros(X.shape),  # X * 0 would keep NaN
    "mean": lambda X, value: X.mean((0, -2) if X.ndim > 2 else 0, keepdim=True).expand_as(X),
    "scale": lambda X, value: X * value,  # type: ignore[operator]
    "replace": lambda X, value: (
        value.to(X).expand_as(X) if isinstance(value, Tensor) else X.new_full((), value).expand_as(X)  # type: ignore[arg-type]
    ),
}


@contextmanager
def capture(
    model: nn.Module, *sites: str, edits: tuple[Edit, ...] = (), attached: bool = False
) -> Iterator[Trace]:
    """Records the sites that match (all if none is named), and makes edits, inside the `with`.

    A site is named in full, by a pattern ('encoder.*.self.weights'), or by its end where that is enough
    ('embeddings.tokens'). Recorded tensors are detached unless `attached`.
    """
    watcher = Watcher(model, sites or ("*",), edits, attached)
    with listening(watcher):
        yield watcher.trace


def intervene(model: nn.Module, *edits: Edit) -> AbstractContextManager[Trace]:
    """Makes edits inside the `with`, and records nothing."""
    return capture(model, "", edits=edits)


class Watcher:
    """The listener of one capture: knows the model's sites by module and key."""

    def __init__(
        self, model: nn.Module, sites: tuple[str, ...], edits: tuple[Edit, ...], attached: bool
    ) -> None:
        self.model, self.attached, self.trace = model, attached, Trace()
        self.outer: Listener | None = listener()
        known = site_names(model)
        self.names = {place: name for name, place in known.items()}
        self.wanted = {name for pattern in sites if pattern for name in resolve(pattern, list(known))}
        self.edits: dict[str, list[Edit]] = {}
        for edit in edits:
            for name, simple in self.locate(edit, list(known)):
                self.edits.setdefault(name, []).append(simple)

    def watches(self, module: nn.Module, key: str) -> bool:
        """Whether this capture, or one around it, wants the site."""
        name = self.names.get((module, key))
        mine = name is not None and (name in self.wanted or name in self.edits)
        return mine or (self.outer is not None and self.outer.watches(module, key))

    def hear(self, module: nn.Module, key: str, X: Tensor) -> Tensor:
        """Edits, then records."""
        if self.outer is not None:
            X = self.outer.hear(module, key, X)
        name = self.names.get((module, key))
        if name is None:
            return X
        for edit in self.edits.get(name, ()):
            X = apply(edit, X, name)
        if name in self.wanted:
            self.trace[name] = X if self.attached else X.detach()
        return X

    def locate(self, edit: Edit, known: list[str]) -> list[tuple[str, Edit]]:
        """The sites where an edit acts, and the edit with its head as an index among those kept."""
        place, head = edit.place, edit.head
        if match := re.fullmatch(r"(.+\.(?:self|cross))\.(\d+)", place):
            place, head = f"{match[1]}.heads", int(match[2])
        elif re.fullmatch(r".+\.(?:self|cross|ffn)", place):
            place = f"{place}.out"
        return [
            (name, Edit(name, edit.kind, edit.value, self.head_index(name, head), edit.token))
            for name in resolve(place, known)
        ]

    def head_index(self, name: str, head: int | None) -> int | None:
        """A head's index among those that pruning left."""
        if head is None:
            return None
        path, _, key = name.rpartition(".")
        module = next((module for (module, _), known in self.names.items() if known == name), None)
        if not isinstance(module, Attention) or key not in HEADED:
            raise InputError(
                f"{name} has no heads, so head {head} cannot be changed there.\nName an attention site."
            )
        heads = module.size.key_heads if key in ("k", "v") else module.size.heads
        if head not in heads:
            raise InputError(f"{path} has no head {head}. Its heads: {', '.join(map(str, heads))}.")
        return heads.index(head)


def resolve(pattern: str, known: list[str]) -> list[str]:
    """The sites that a name or pattern means."""
    found = [name for name in known if fnmatchcase(name, pattern)]
    found = found or [name for name in known if fnmatchcase(name, f"*.{pattern}")]
    if not found:
        raise InputError(f"{pattern} is not a site of this model. {suggest(pattern, known)}")
    return found


def apply(edit: Edit, X: Tensor, name: str) -> Tensor:
    """X with the edit made in its part: one head (axis 1), one token (axis −2), or all."""
    index: list[int | slice] = [slice(None)] * X.ndim
    for axis, number, what in ((1, edit.head, "head"), (X.ndim - 2, edit.token, "token")):
        if number is not None:
            if X.ndim < 3 or not -X.shape[axis] <= number < X.shape[axis]:
                raise InputError(
                    f"{name} has shape {tuple(X.shape)} here, so {what} {number} cannot be changed."
                )
            index[axis] = slice(number % X.shape[axis], number % X.shape[axis] + 1)
    part = X[tuple(index)]
    try:
        changed = KINDS[edit.kind](X if edit.kind == "mean" else part, edit.value)
    except RuntimeError:
        shape = tuple(edit.value.shape) if isinstance(edit.value, Tensor) else ()
        raise InputError(
            f"A value of shape {shape} does not fit {name}, which has {tuple(part.shape)} there."
        ) from None
    if part.shape == X.shape:
        return changed
    X = X.clone()
    X[tuple(index)] = changed[tuple(index)] if changed.shape == X.shape else changed
    return X
