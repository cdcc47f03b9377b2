"""Rules that rename the weights of a model, and reshape the few that are kept in another form, both ways.

A rule pairs a name of theirs with the name of ours that holds the same numbers:

    Rule("layers.{i}.mlp.up_proj.{p}", "decoder.blocks.{i}.ffn.W_1.{p}")

Laid over a model, the rules become a list of moves. `fill` walks it from their weights into a model,
`renamed` from a model to their weights, so that one table serves import and export.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Protocol

import torch
from torch import Tensor

from clearhead.config.model import Head, ModelConfig
from clearhead.errors import CheckpointError
from clearhead.models.build import Model

VARIABLES = {
    "i": r"\d+",  # number of a block
    "p": "weight|bias",
    "qk": "[qk]",
    "qkv": "[qkv]",
    "qkvo": "[qkvo]",
    "stack": "encoder|decoder",
}
OLD_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}  # norms in files older than these names


@dataclass(frozen=True)
class Operation:
    """How one tensor of theirs is taken apart into ours, and how it is put together again."""

    split: Callable[[Tensor], Sequence[Tensor]]
    join: Callable[[Sequence[Tensor]], Tensor]


AS_IS = Operation(lambda X: [X], lambda parts: parts[0])
# A matrix that is kept as (in, out), where ours are (out, in); a bias has one axis and stays as it is.
TRANSPOSED = Operation(lambda X: [X.t()], lambda parts: parts[0].t())
# W_q, W_k and W_v side by side in one such matrix.
FUSED = Operation(lambda X: X.t().contiguous().chunk(3), lambda parts: torch.cat(list(parts)).t())
# A vector that is kept as (1, n).
ROW = Operation(lambda X: [X[0]], lambda parts: parts[0][None])


@dataclass(frozen=True)
class Rule:
    """One tensor of theirs is one or several of ours, in models `when` it applies."""

    theirs: str
    ours: str | tuple[str, ...]
    operation: Operation = AS_IS
    when: Callable[[ModelConfig], bool] = lambda config: True


@dataclass(frozen=True)
class Names:
    """All weight names of a family. Of two names of theirs for one tensor of ours the first is written."""

    trunk: Sequence[Rule]
    heads: Mapping[Head, Sequence[Rule]]
    prefix: str = ""  # before the names of the trunk, where a head stands on it
    unused: Sequence[str] = ()  # patterns of tensors that are computed, or that no head of ours reads

    def bare(self, name: str) -> str:
        """A name of theirs without the prefix and with today's ending."""
        for old, new in OLD_ENDINGS.items():
            if name.endswith(old):
                name = name.removesuffix(old) + new
        return name.removeprefix(self.prefix)

    def is_unused(self, bare: str, head: Head) -> bool:
        """Whether a model with this head can do without a tensor of theirs."""
        others = [rule.theirs for kind, rules in self.heads.items() if kind != head for rule in rules]
        patterns = [*self.unused, *(re.sub(r"{\w+}", "*", self.bare(name)) for name in others)]
        return any(fnmatchcase(bare, pattern) for pattern in patterns)


class Shaped(Protocol):
    """A tensor, or a tensor that is still in a file."""

    @property
    def shape(self) -> torch.Size:
        """Its sizes."""


@dataclass(frozen=True)
class Move:
    """A rule with all numbers filled in."""

    theirs: str
    ours: tuple[str, ...]
    operation: Operation


def moves(model: Model, names: Names) -> list[Move]:
    """Every tensor of theirs that a model has, tied ones under each of their names."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    first = {id(parameter): name for name, parameter in model.named_parameters()}
    found = []
    for prefix, rules in parts(names, model.config.head):
        for rule in rules:
            for theirs, ours in matches(rule, parameters) if rule.when(model.config) else ():
                stored = tuple(first[id(parameters[name])] for name in ours)
                found.append(Move(prefix + theirs, stored, rule.operation))
    nameless = set(first.values()).difference(*(move.ours for move in found))
    if nameless:
        raise CheckpointError(
            f"These weights have no name in this family: {some(nameless)}.\n"
            "The settings describe a model that it does not have."
        )
    return found


def parts(names: Names, head: Head) -> list[tuple[str, Sequence[Rule]]]:
    """The rules of a model with this head, and what stands before their names."""
    return [("" if head == "none" else names.prefix, names.trunk), ("", names.heads.get(head, ()))]


def matches(rule: Rule, parameters: Mapping[str, Tensor]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The names of theirs and of ours that a rule pairs, for the parameters there are."""
    ours = (rule.ours,) if isinstance(rule.ours, str) else rule.ours
    pattern = re.escape(ours[0]).replace(r"\{", "{").replace(r"\}", "}")
    for variable, choices in VARIABLES.items():
        pattern = pattern.replace(f"{{{variable}}}", f"(?P<{variable}>{choices})")
    for name in parameters:
        if match := re.fullmatch(pattern, name):
            values = match.groupdict()
            group = tuple(part.format(**values) for part in ours)
            if all(part in parameters for part in group):
                yield rule.theirs.format(**values), group


def placed(model: Model, names: Names, weights: Mapping[str, Shaped]) -> list[tuple[str, Move]]:
    """Which tensor of theirs goes where. All names and shapes are checked, and no number has been read."""
    table = moves(model, names)
    present = {names.bare(name): name for name in weights}
    check_names(table, names, weights, model.config.head)
    parameters = dict(model.named_parameters())
    found = []
    for move in table:
        name = present.get(names.bare(move.theirs))
        if name is not None:
            check_shape(name, weights[name].shape, move, parameters)
            found.append((name, move))
    return found


def fill(model: Model, names: Names, weights: Mapping[str, Tensor]) -> None:
    """Copies weights of theirs into a model, one tensor at a time."""
    parameters = dict(model.named_parameters())
    filled: dict[tuple[str, ...], str] = {}
    for name, move in placed(model, names, weights):
        targets, pieces = [parameters[ours] for ours in move.ours], move.operation.split(weights[name])
        if move.ours in filled:
            check_tied(filled[move.ours], name, pieces, targets)
            continue
        filled[move.ours] = name
        with torch.no_grad():
            for target, piece in zip(targets, pieces, strict=True):
                target.copy_(piece)


def renamed(model: Model, names: Names) -> Iterator[tuple[str, Tensor]]:
    """The weights of a model under their names and in their form; a tied one once."""
    parameters = dict(model.named_parameters())
    written = set()
    for move in moves(model, names):
        if move.ours not in written:
            written.add(move.ours)
            pieces = [parameters[ours].detach() for ours in move.ours]
            yield move.theirs, move.operation.join(pieces).contiguous()


def check_names(table: list[Move], names: Names, weights: Iterable[str], head: Head) -> None:
    """Refuses weights of which some are missing, or that the model has no place for."""
    places = {names.bare(move.theirs) for move in table}
    present, unknown = set(), []
    for name in weights:
        bare = names.bare(name)
        if bare in present or (bare not in places and not names.is_unused(bare, head)):
            unknown.append(name)  # a name may stand there with the prefix or without it, and not both
        present.add(bare)
    found = {move.ours for move in table if names.bare(move.theirs) in present}
    missing: dict[tuple[str, ...], str] = {}
    for move in table:
        if move.ours not in found:
            missing.setdefault(move.ours, move.theirs)
    if missing or unknown:
        complaints = [f"lack {some(missing.values())}"] if missing else []
        complaints += [f"hold {some(unknown)}, which the settings have no place for"] if unknown else []
        raise CheckpointError(
            f"The weights {' and '.join(complaints)}.\nCheck that config.json belongs to these weights."
        )


def check_shape(name: str, shape: torch.Size, move: Move, parameters: Mapping[str, Tensor]) -> None:
    """Refuses a tensor of theirs that has another shape than the model's."""
    empty = [torch.empty(parameters[ours].shape, device="meta") for ours in move.ours]
    expected = move.operation.join(empty).shape
    if shape != expected:
        raise CheckpointError(
            f"{name} has shape {tuple(shape)}, but the settings ask for {tuple(expected)}.\n"
            "Check that config.json belongs to these weights."
        )


def check_tied(first: str, name: str, pieces: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
    """Refuses a second copy of a tied tensor that is not the same."""
    if not all(
        torch.equal(piece.to(target.dtype), target) for piece, target in zip(pieces, targets, strict=True)
    ):
        raise CheckpointError(
            f"{first} and {name} hold different numbers, but the settings make them one tensor.\n"
            "If they are meant to differ, say so in config.json (tie_word_embeddings = false)."
        )


def some(names: Iterable[str]) -> str:
    """The first few of many names."""
    listed = sorted(names)
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "")
