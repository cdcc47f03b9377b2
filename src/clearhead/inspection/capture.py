"""Reads and changes the tensors of the lecture while a model runs.

    with capture(model, "decoder.*.self.weights") as trace:
        model(Inputs(tokens))
    trace["decoder.0.self.weights"]  # (b, h, n, m)

    with intervene(model, zero("decoder.2.self.3")):  # mute head 3
        model(Inputs(tokens))

    with intervene(model, edit("decoder.0.ffn", torch.tanh)):  # any function of a tensor
        model(Inputs(tokens))

Names of sites enter, tensors by name leave. A model is a module, or what `clearhead.load` returns. Captures and
interventions nest: the outer one acts first.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.decoding.threads import free_cores
from clearhead.errors import InputError, suggest
from clearhead.layers.attention import Attention
from clearhead.layers.sites import CachedStep, Listener, cached_step, listener, listening, site_names

Function = Callable[[Tensor], Tensor]
HEADED = ("q", "k", "v", "scores", "weights", "heads")  # sites whose tensors have an axis of heads


class Trace(dict[str, Tensor]):
    """What a capture has recorded, by site; a site passed twice keeps its last tensor."""

    def __missing__(self, name: str) -> Tensor:
        check_name(name)
        longer = [known for known in self if known.endswith(f".{name}")]
        if len(longer) == 1:
            return self[longer[0]]
        raise InputError(f"Nothing was captured at {name}. {suggest(name, longer or self)}")


@dataclass(frozen=True)
class Edit:
    """A change to what passes a site, for all of it, or for one head, one unit, or one token."""

    place: str  # a site, a sublayer ('decoder.2.cross'), a head ('decoder.2.cross.3') or a unit ('decoder.2.ffn.17')
    kind: Literal["zero", "mean", "scale", "replace", "edit"]
    value: float | Tensor | Function | None = None
    head: int | None = None
    token: int | None = None  # its position in the text, also where a cache gives a site only the new ones
    unit: int | None = None  # of the last axis


def zero(place: str, head: int | None = None, token: int | None = None) -> Edit:
    """Puts zeros at a place: a site, or a sublayer, head or unit by its name; `token` is a position in the text."""
    return Edit(place, "zero", None, head, token)


def mean(place: str, head: int | None = None, token: int | None = None) -> Edit:
    """Puts the mean over all sequences and tokens of the pass at a place; with a cache, over those read so far."""
    return Edit(place, "mean", None, head, token)


def scale(place: str, factor: float | Tensor, head: int | None = None, token: int | None = None) -> Edit:
    """Multiplies the tensor at a place."""
    return Edit(place, "scale", factor, head, token)


def replace(place: str, value: float | Tensor, head: int | None = None, token: int | None = None) -> Edit:
    """Puts a given number or tensor at a place."""
    return Edit(place, "replace", value, head, token)


def edit(place: str, function: Function, head: int | None = None, token: int | None = None) -> Edit:
    """Puts what a function makes of the tensor at a place."""
    return Edit(place, "edit", function, head, token)


KINDS: dict[str, Callable[[Tensor, Any], Any]] = {
    "zero": lambda X, value: X.new_zeros(X.shape),  # X * 0 would keep NaN
    "mean": lambda X, value: X.mean((0, -2) if X.ndim > 2 else 0, keepdim=True).expand_as(X),
    "scale": lambda X, value: X * value,
    "replace": lambda X, value: (
        value.to(X).expand_as(X) if isinstance(value, Tensor) else X.new_full((), value).expand_as(X)
    ),
    "edit": lambda X, function: function(X),
}


@contextmanager
def capture(
    model: Any,
    *sites: str,
    edits: tuple[Edit, ...] = (),
    attached: bool = False,
    rows: int | None = None,
) -> Iterator[Trace]:
    """Records the sites that match (all if none is named), and makes edits, inside the `with`.

    A site is named in full, by a pattern ('encoder.*.self.weights'), or by its end where that is enough
    ('embeddings.tokens'). Recorded tensors are detached unless `attached`. With `rows` scores and weights exist for so
    many queries at a time only: edits see each part, and what is recorded of them is the last.
    """
    watcher = Watcher(module_of(model), sites or ("*",), edits, attached, rows)
    with free_cores(), listening(watcher):
        yield watcher.trace


def intervene(model: Any, *edits: Edit) -> AbstractContextManager[Trace]:
    """Makes edits inside the `with`, and records nothing."""
    return capture(model, "", edits=edits)


def module_of(model: Any) -> nn.Module:
    """The module of what `clearhead.load` returns, or a module itself."""
    module = model if isinstance(model, nn.Module) else getattr(model, "module", None)
    if not isinstance(module, nn.Module):
        raise InputError(
            f"A {type(model).__name__} is not a model.\nGive what clearhead.load returns, or a PyTorch module."
        )
    return module


class Watcher:
    """The listener of one capture: knows the model's sites by module and key."""

    def __init__(
        self,
        model: nn.Module,
        sites: tuple[str, ...],
        edits: tuple[Edit, ...],
        attached: bool,
        rows: int | None = None,
    ) -> None:
        self.model, self.attached, self.trace = model, attached, Trace()
        self.outer: Listener | None = listener()
        self.rows = rows if self.outer is None else self.outer.rows  # what is around may record them in full
        known = site_names(model)
        self.names = {place: name for name, place in known.items()}
        self.wanted = {name for pattern in sites if pattern for name in resolve(pattern, list(known))}
        self.edits: dict[str, list[Edit]] = {}
        self.sums: WeakKeyDictionary[object, dict[str, tuple[Tensor, Tensor]]] = WeakKeyDictionary()
        for one in edits:
            check_edit(one)
            for name, simple in locate(one, known):
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
        step = cached_step()
        for one in self.edits.get(name, ()):
            if one.kind == "mean" and step is not None:
                mean = self.mean_so_far(name, X, step)
                mean = mean if one.head is None else mean[:, one.head : one.head + 1]
                mean = mean if one.unit is None else mean[..., one.unit : one.unit + 1]
                one = Edit(name, "replace", mean, one.head, one.token, one.unit)
            X = apply(one, X, name, step)
        if name in self.wanted:
            self.trace[name] = X if self.attached else X.detach()
        return X

    def mean_so_far(self, name: str, X: Tensor, step: CachedStep) -> Tensor:
        """The mean over the tokens that a cache has read so far, those of this step included."""
        if name.endswith(".scores"):
            raise InputError(
                f"{name} has no mean with a cache: earlier tokens have no scores for later keys.\n"
                "Take the mean of the weights, or run the model without a cache."
            )
        sums, real = self.sums.setdefault(step.cache, {}), over_tokens(step.real, X)
        new, count = (X * real).sum((0, -2), keepdim=True), real.sum()
        if name in sums:
            old, before = sums[name]
            # Earlier tokens did not look at keys that came later.
            new, count = new + F.pad(old, (0, new.shape[-1] - old.shape[-1])), count + before
        sums[name] = new, count
        return new / count

    def keep(self, module: nn.Module, key: str, X: Tensor) -> None:
        """Records what was edited part by part."""
        if self.outer is not None:
            self.outer.keep(module, key, X)
        name = self.names.get((module, key))
        if name in self.wanted:
            self.trace[name] = X if self.attached else X.detach()


Sites = Mapping[str, tuple[nn.Module, str]]  # by name, the module and its key there


def locate(edit: Edit, known: Sites) -> list[tuple[str, Edit]]:
    """The sites where an edit acts, and the edit with its head as an index among those kept."""
    place, head, unit = edit.place, edit.head, edit.unit
    if match := re.fullmatch(r"(.+\.(?:self|cross))\.(\d+)", place):
        place, head = f"{match[1]}.heads", int(match[2])
    elif match := re.fullmatch(r"(.+\.ffn)\.(\d+)", place):
        place, unit = f"{match[1]}.hidden", int(match[2])
    elif re.fullmatch(r".+\.(?:self|cross|ffn)", place):
        place = f"{place}.out"
    return [
        (name, Edit(name, edit.kind, edit.value, head_index(known, name, head), edit.token, unit))
        for name in resolve(place, list(known))
    ]


def head_index(known: Sites, name: str, head: int | None) -> int | None:
    """A head's index among those that pruning left."""
    if head is None:
        return None
    module, key = known[name]
    if not isinstance(module, Attention) or key not in HEADED:
        raise InputError(
            f"{name} has no heads, so head {head} cannot be changed there.\nName an attention site."
        )
    heads = module.size.key_heads if key in ("k", "v") else module.size.heads
    if head not in heads:
        path = name.rpartition(".")[0]
        raise InputError(f"{path} has no head {head}. Its heads: {', '.join(map(str, heads))}.")
    return heads.index(head)


def resolve(pattern: str, known: list[str]) -> list[str]:
    """The sites that a name or pattern means."""
    check_name(pattern)
    found = [name for name in known if fnmatchcase(name, pattern)]
    found = found or [name for name in known if fnmatchcase(name, f"*.{pattern}")]
    if not found:
        raise InputError(f"{pattern} is not a site of this model. {suggest(pattern, known)}")
    return found


def check_edit(given: object) -> None:
    """Rejects what is no edit."""
    if not isinstance(given, Edit):
        raise InputError(
            f"An edit is what zero, mean, scale, replace or edit return, not a {type(given).__name__}.\n"
            "For a function of your own: edit('decoder.0.ffn', function)."
        )
    check_name(given.place)
    for key in ("head", "token", "unit"):
        if not isinstance(getattr(given, key), int | None):
            raise InputError(f"{key} = {getattr(given, key)!r:.80} is not a number of a {key}.")
    if given.kind == "edit" and not callable(given.value):
        raise InputError(f"edit takes a function of a tensor, not a {type(given.value).__name__}.")
    if given.kind in ("scale", "replace") and not isinstance(given.value, int | float | Tensor):
        raise InputError(f"{given.kind} takes a number or a tensor, not a {type(given.value).__name__}.")


def check_name(name: object) -> None:
    """Rejects what cannot be the name of a site."""
    if not isinstance(name, str):
        raise InputError(f"A site has a name such as decoder.0.self.weights, not {name!r:.80}.")


def over_tokens(mask: Tensor, X: Tensor) -> Tensor:
    """What is true of tokens (b, n), for the axes of X: (b, n, 1), or (b, 1, n, 1) with heads."""
    return mask[..., None] if X.ndim == 3 else mask[:, None, :, None]


def apply(edit: Edit, X: Tensor, name: str, step: CachedStep | None = None) -> Tensor:
    """X with the edit made in its part: one head (axis 1), one token (axis −2), one unit (axis −1), or all."""
    if step is not None and edit.token is not None and edit.token >= 0:
        is_there = over_tokens(step.at == edit.token, X)
        whole = Edit(edit.place, edit.kind, edit.value, edit.head, unit=edit.unit)
        return torch.where(is_there, apply(whole, X, name), X) if bool(is_there.any()) else X
    index: list[int | slice] = [slice(None)] * X.ndim
    places = ((1, edit.head, "head"), (X.ndim - 2, edit.token, "token"), (X.ndim - 1, edit.unit, "unit"))
    for axis, number, what in places:
        if number is not None:
            if X.ndim < 3 or not -X.shape[axis] <= number < X.shape[axis]:
                raise InputError(
                    f"{name} has shape {tuple(X.shape)} here, so {what} {number} cannot be changed."
                )
            index[axis] = slice(number % X.shape[axis], number % X.shape[axis] + 1)
    part = X[tuple(index)]
    changed = changed_part(edit, X if edit.kind == "mean" else part, part, name)
    if part.shape == X.shape:
        return changed
    X = X.clone()
    X[tuple(index)] = changed[tuple(index)] if changed.shape == X.shape else changed
    return X


def changed_part(edit: Edit, X: Tensor, part: Tensor, name: str) -> Tensor:
    """What an edit makes of X, of which it changes a part."""
    try:
        changed = KINDS[edit.kind](X, edit.value)
    except RuntimeError as error:
        if edit.kind == "edit":
            raise InputError(
                f"The function of an edit failed at {name}, {tuple(part.shape)}: {error}"
            ) from error
        shape = tuple(edit.value.shape) if isinstance(edit.value, Tensor) else ()
        raise InputError(
            f"A value of shape {shape} does not fit {name}, which has {tuple(part.shape)} there."
        ) from None
    if not isinstance(changed, Tensor) or changed.shape != X.shape:
        what = tuple(changed.shape) if isinstance(changed, Tensor) else type(changed).__name__
        raise InputError(
            f"The function of an edit returned {what} at {name}, which has {tuple(X.shape)} there."
        )
    return changed
