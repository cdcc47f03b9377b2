"""Heads and units removed physically: a model and what to keep enter; a smaller model with the same logits leaves.

    pruned(model, heads={"decoder.2.cross": [0, 3]}, units={"decoder.2.ffn": [5, 8, 9]})

Its logits are those of the whole model with the other heads and units put to zero (Michel et al., 2019). The rows of
W_q, W_k, W_v and the columns of W_o that belong to a removed head are gone, and so is its part of the cache. A head of
keys stays while one of the heads that share it does. `padded` puts zeros in the place of all that was removed. Weights
that do not change are shared with the given model.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.errors import ConfigError, InputError, suggest
from clearhead.layers.attention import Attention, Dimensions
from clearhead.layers.feedforward import FeedForward
from clearhead.models.build import empty
from clearhead.models.model import Model

Numbers = list[int]  # of heads or units
Kept = Mapping[str, Collection[int]]  # by sublayer


def pruned(model: Model, heads: Kept | None = None, units: Kept | None = None) -> Model:
    """A model that keeps only these heads, by number, and these units, by place; sublayers not named keep all."""
    config, heads, units = transformer_config(model), heads or {}, units or {}
    for name, kept in heads.items():
        check_kept(name, kept, config.attentions(), config.heads(name))
    for name, kept in units.items():
        check_kept(name, kept, config.feedforwards(), range(config.units(name)))
        if not kept:
            raise InputError(f"{name} would keep no units.\nKeep at least one.")
    left = config.kept_heads | {name: tuple(sorted(kept)) for name, kept in heads.items()}
    counts = config.kept_units | {name: len(set(kept)) for name, kept in units.items()}
    whole = config.replace(kept_units={})
    smaller = config.replace(
        kept_heads={name: kept for name, kept in left.items() if len(kept) < config.h},
        kept_units={name: count for name, count in counts.items() if count < whole.units(name)},
    )
    return moved(model, smaller, {name: sorted(set(kept)) for name, kept in units.items()}, take)


def padded(model: Model) -> Model:
    """The whole model again: the heads and units that pruning removed are there, and add nothing."""
    config = transformer_config(model)
    if config.projections == "none" and config.kept_heads:
        raise ConfigError(
            "With projections = 'none' a head has no weights that could be zero.\nShare the pruned model."
        )
    whole = config.replace(kept_heads={}, kept_units={})
    return moved(model, whole, {}, put_back)


def transformer_config(model: Model) -> ModelConfig:
    """The settings of a model that has heads."""
    if not isinstance(model.config, ModelConfig):
        raise InputError(
            f"A model of family '{model.config.family}' has no heads to prune.\nGive a transformer."
        )
    return model.config


def check_kept(name: str, kept: Collection[int], known: Collection[str], there: Collection[int]) -> None:
    """Rejects sublayers, heads and units that do not exist."""
    if name not in known:
        raise InputError(f"{name} is not a sublayer that can be pruned. {suggest(name, known)}")
    if wrong := [number for number in kept if number not in there]:
        what = "unit" if name.endswith("ffn") else "head"
        shown = f"0 to {len(there) - 1}" if what == "unit" else ", ".join(map(str, there)) or "none"
        raise InputError(f"{name} has no {what} {wrong[0]}, so it cannot be kept. It has: {shown}.")


@dataclass(frozen=True)
class Change:
    """How a weight changes along one axis: the heads or units there before and after, each `width` rows or columns."""

    axis: int
    before: Numbers
    after: Numbers
    width: int = 1

    def rows(self, of: Numbers, among: Numbers) -> Tensor:
        """The rows of some heads among those of others."""
        starts = torch.tensor([among.index(number) for number in of], dtype=torch.long) * self.width
        return (starts[:, None] + torch.arange(self.width)).flatten()


def take(W: Tensor, change: Change) -> Tensor:
    """The rows or columns that a smaller model keeps."""
    return W.index_select(change.axis, change.rows(change.after, change.before))


def put_back(W: Tensor, change: Change) -> Tensor:
    """The rows or columns in their places, and zeros in the others."""
    shape = list(W.shape)
    shape[change.axis] = len(change.after) * change.width
    return W.new_zeros(shape).index_copy(change.axis, change.rows(change.before, change.after), W)


@torch.no_grad()
def moved(
    model: Model, config: ModelConfig, units: Mapping[str, Numbers], move: Callable[[Tensor, Change], Tensor]
) -> Model:
    """A model of other settings, into which each weight is moved; those that do not change are shared."""
    other = empty(config)
    changes = dict(changes_between(model, other, units))
    weights = dict(model.named_parameters())
    kept: dict[str, Tensor] = {}
    for name, new in other.named_parameters():
        if name not in weights:  # of a sublayer that had no heads
            kept[name] = torch.zeros(new.shape, dtype=next(model.parameters()).dtype)
        elif name in changes:
            kept[name] = move(weights[name].detach(), changes[name])
        else:
            kept[name] = weights[name]
    other.load_state_dict(kept, strict=False, assign=True)
    return other.requires_grad_().eval()


def changes_between(model: Model, other: Model, units: Mapping[str, Numbers]) -> Iterator[tuple[str, Change]]:
    """The weights that are larger in one model than in the other, by name."""
    modules = dict(other.named_modules())
    for path, old in model.named_modules():
        new = modules.get(path)
        if isinstance(old, Attention) and isinstance(new, Attention) and old.size.heads != new.size.heads:
            yield from changes_of_attention(path, old.size, new.size)
        elif isinstance(old, FeedForward) and isinstance(new, FeedForward):
            before, after = (list(range(one.W_1.out_features)) for one in (old, new))
            after = units.get(path.replace("blocks.", ""), after)
            if before != after:
                parts = ("W_1.weight", "W_1.bias", "W_g.weight", "W_g.bias")
                yield from ((f"{path}.{part}", Change(0, before, after)) for part in parts)
                yield f"{path}.W_2.weight", Change(1, before, after)


def changes_of_attention(path: str, old: Dimensions, new: Dimensions) -> Iterator[tuple[str, Change]]:
    """The weights of an attention sublayer whose heads change."""
    key_heads = list(old.key_heads), list(new.key_heads)
    heads = list(old.heads), list(new.heads)
    for part in ("weight", "bias"):
        yield f"{path}.W_q.{part}", Change(0, *heads, old.d_k)
        yield f"{path}.W_k.{part}", Change(0, *key_heads, old.d_k)
        yield f"{path}.W_v.{part}", Change(0, *key_heads, old.d_v)
    yield f"{path}.W_o.weight", Change(1, *heads, old.d_v)
    yield f"{path}.similarity.v", Change(0, *heads)
