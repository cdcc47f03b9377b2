"""What if a part were missing? A model and the names of some parts enter; the same weights without them leave.

    without(model, "mask", "scaling")

    scaling       scores are q · k, not q · k / √d_k (N12)
    mask          every token sees every other, the future too (N15)
    positions     nothing says where a token is (N7, N14)
    projections   self-attention compares x with x; each head keeps its own values (N10)

The new model shares the weights of the old one, which is left as it is: both may run at the same time.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from clearhead.config.model import ModelConfig
from clearhead.config.model_base import AnyModelConfig
from clearhead.errors import InputError, suggest
from clearhead.layers.blocks import Block
from clearhead.layers.similarity import Similarity
from clearhead.models.build import empty
from clearhead.models.model import Model
from clearhead.models.transformer.stack import TransformerStack

PARTS = ("projections", "scaling", "mask", "positions")


def why_not(config: AnyModelConfig) -> dict[str, str]:
    """The parts that this model cannot lose, each with the reason."""
    if not isinstance(config, ModelConfig):
        return dict.fromkeys(PARTS, f"It is a part of transformers, and this model is {config.family}.")
    reasons = {}
    if config.shape == "encoder" and config.window is None:
        reasons["mask"] = "An encoder has no mask: every token sees every other already."
    if config.similarity not in ("scaled_dot", "dot", "cosine", "gaussian"):
        reasons["projections"] = f"The similarity '{config.similarity}' does not compare x with x."
    elif config.projections == "none":
        reasons["projections"] = "This model has no projections."
    if config.scale == 1 or (config.scale is None and config.similarity != "scaled_dot"):
        reasons["scaling"] = "Its scores are not scaled."
    if config.positions == "none":
        reasons["positions"] = "This model has no positions."
    return reasons


def without(model: Model, *parts: str) -> Model:
    """A model that shares the weights of `model` but lacks these parts."""
    config = model.config
    check_parts(config, parts)
    assert isinstance(config, ModelConfig)  # no other has such parts
    changes: dict[str, Any] = {"scale": 1.0} if "scaling" in parts else {}
    if "positions" in parts or ("projections" in parts and config.positions == "rotary"):
        # x has no pairs of numbers that belong to a head, so there is nothing that rotary angles could turn.
        changes |= {"positions": "none", "position_offset": 0, "rotary_scaling": None}
    changed = config.replace(**changes)
    other = empty(changed)
    weights = dict(model.named_parameters())
    kept = {name: weights[name] for name, _ in other.named_parameters()}
    other.load_state_dict(kept, strict=False, assign=True)
    for stack in (module for module in other.modules() if isinstance(module, TransformerStack)):
        if "mask" in parts:
            stack.causal, stack.window = False, None
        if "projections" in parts:
            for block in (block for block in stack.blocks if isinstance(block, Block)):
                compare_inputs(block, changed)
    return other.eval()


def check_parts(config: AnyModelConfig, parts: Iterable[str]) -> None:
    """Refuses parts that do not exist or that this model cannot lose."""
    reasons = why_not(config)
    for part in parts:
        if part not in PARTS:
            raise InputError(f"'{part}' is not a part that can be removed. {suggest(part, PARTS)}")
        if part in reasons:
            raise InputError(f"'{part}' cannot be removed. {reasons[part]}")


class Repeated(nn.Module):
    """The input itself for every head, in place of a projection."""

    def __init__(self, h: int) -> None:
        super().__init__()
        self.h = h

    def forward(self, X: Tensor) -> Tensor:
        """(b, n, d) -> (b, n, h · d)."""
        return X.repeat(1, 1, self.h)


def compare_inputs(block: Block, config: ModelConfig) -> None:
    """Lets self-attention compare x with x; the scale is that of vectors as wide as x."""
    attention = block.self
    kind: type[Similarity] = type(attention.similarity)
    attention.W_q, attention.W_k = Repeated(attention.h), Repeated(attention.g)
    attention.norm_q, attention.norm_k = nn.Identity(), nn.Identity()
    attention.similarity = kind(attention.h, attention.size.d, config.scale)
    attention.size = replace(attention.size, d_k=attention.size.d)  # what a cache keeps is as wide as x
