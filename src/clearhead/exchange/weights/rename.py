"""Renames weights between Hugging Face and clearhead, and converts the few that have another layout there.

A rename pairs a name of theirs with the name of ours for the same numbers:

    Rename("layers.{i}.mlp.up_proj.{p}", "decoder.blocks.{i}.ffn.W_1.{p}")

Applied to a model, the renames become a list of conversions, which import and export both follow.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.config.model_base import Head
from clearhead.errors import ModelFolderError, first_few
from clearhead.models.model import Model

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
class Layout:
    """How one tensor of theirs is split into ours, and how ours are joined again."""

    split: Callable[[Tensor], Sequence[Tensor]]
    join: Callable[[Sequence[Tensor]], Tensor]


AS_IS = Layout(lambda X: [X], lambda parts: parts[0])
# A matrix stored as (in, out), where ours are (out, in); a bias has one axis and is unchanged.
TRANSPOSED = Layout(lambda X: [X.t()], lambda parts: parts[0].t())
# W_q, W_k and W_v side by side in one such matrix.
FUSED = Layout(lambda X: X.t().contiguous().chunk(3), lambda parts: torch.cat(list(parts)).t())
# A vector stored as (1, n).
ROW = Layout(lambda X: [X[0]], lambda parts: parts[0][None])


@dataclass(frozen=True)
class Rename:
    """One tensor of theirs is one or several of ours, in models `when` it applies."""

    theirs: str
    ours: str | tuple[str, ...]
    layout: Layout = AS_IS
    when: Callable[[ModelConfig], bool] = lambda config: True
    is_copy: bool = False  # export writes it too, although another name has the same numbers


@dataclass(frozen=True)
class WeightNames:
    """All weight names of a family. Where it has two names for one tensor of ours, export writes the first."""

    trunk: Sequence[Rename]
    heads: Mapping[Head, Sequence[Rename]]
    prefix: str = ""  # before the names of the trunk, in a model with a head
    unused: Sequence[str] = ()  # patterns of tensors that are computed, or that none of our heads reads

    def bare(self, name: str) -> str:
        """A name of theirs without the prefix and with the current ending."""
        for old, new in OLD_ENDINGS.items():
            if name.endswith(old):
                name = name.removesuffix(old) + new
        return name.removeprefix(self.prefix)

    def is_unused(self, bare: str, head: Head) -> bool:
        """Whether a model with this head ignores a tensor of theirs."""
        others = [row.theirs for kind, renames in self.heads.items() if kind != head for row in renames]
        patterns = [*self.unused, *(re.sub(r"{\w+}", "*", self.bare(name)) for name in others)]
        return any(fnmatchcase(bare, pattern) for pattern in patterns)

    def of_head(self, head: Head) -> list[tuple[str, Sequence[Rename]]]:
        """The renames of a model with this head, and the prefix of their names."""
        return [("" if head == "none" else self.prefix, self.trunk), ("", self.heads.get(head, ()))]


@dataclass(frozen=True)
class Conversion:
    """A rename with all variables filled in: one tensor of the family, and those of ours with the same numbers."""

    theirs: str
    ours: tuple[str, ...]
    layout: Layout
    is_copy: bool = False

    def joined_shape(self, shapes: Mapping[str, torch.Size]) -> torch.Size:
        """The shape of the family's tensor, from the shapes of ours."""
        return self.layout.join([torch.empty(shapes[name], device="meta") for name in self.ours]).shape


def conversions(model: Model, names: WeightNames) -> list[Conversion]:
    """Every tensor of the family that a model has, tied ones under each of their names."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    first = {id(parameter): name for name, parameter in model.named_parameters()}
    found, config = [], model.config
    assert isinstance(config, ModelConfig)  # no other is exchanged
    for prefix, renames in names.of_head(config.head):
        for rename in renames:
            for theirs, ours in matches(rename, parameters) if rename.when(config) else ():
                stored = tuple(first[id(parameters[name])] for name in ours)
                found.append(Conversion(prefix + theirs, stored, rename.layout, rename.is_copy))
    nameless = set(first.values()).difference(*(conversion.ours for conversion in found))
    if nameless:
        raise ModelFolderError(
            f"This family has no name for the weights {first_few(sorted(nameless), 8)}.\n"
            "The settings describe a model outside the family."
        )
    return found


def matches(rename: Rename, parameters: Mapping[str, Tensor]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The names that a rename pairs, theirs and ours, among these parameters."""
    ours = (rename.ours,) if isinstance(rename.ours, str) else rename.ours
    pattern = re.escape(ours[0]).replace(r"\{", "{").replace(r"\}", "}")
    for variable, choices in VARIABLES.items():
        pattern = pattern.replace(f"{{{variable}}}", f"(?P<{variable}>{choices})")
    for name in parameters:
        if match := re.fullmatch(pattern, name):
            values = match.groupdict()
            group = tuple(part.format(**values) for part in ours)
            if all(part in parameters for part in group):
                yield rename.theirs.format(**values), group
