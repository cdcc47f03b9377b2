"""Weights as whole numbers from −127 to 127 with a scale for each row: a model enters, a quarter of its bytes leaves.

    W_ij ≈ s_i q_ij        s_i = max_j |W_ij| / 127        q_ij = round(W_ij / s_i)

A scale has 17 significant bits, so that s · q is exact in float32 for every q of 7 bits. The same scales and numbers
are therefore found again in the rounded weights: a model that was rounded once does not change any more.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from clearhead.errors import InputError
from clearhead.layers.positions import Learned
from clearhead.models.model import Model

LARGEST = 127
SCALE = ".scale"  # follows the name of a weight in a file
CUT = ~0x7F  # of the 24 significant bits of a float32, these 7 are dropped


def to_int8(W: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers q (n, k) and scales s (n) of a matrix."""
    W = W.detach().float()
    check_finite(W)
    s = (W.abs().amax(1) / LARGEST).contiguous()
    s = (s.view(torch.int32) & CUT).view(torch.float32)
    q = torch.where(s[:, None] > 0, W / s[:, None], 0.0)
    return q.round_().clamp_(-LARGEST, LARGEST).to(torch.int8), s


def check_finite(W: Tensor) -> None:
    """Rejects a weight that has no scale."""
    if not bool(W.isfinite().all()):
        raise InputError(
            "The weights contain NaN or infinity, which no scale can represent.\nUse another model."
        )


def from_int8(q: Tensor, s: Tensor) -> Tensor:
    """The rounded matrix in float32."""
    return q.float() * s[:, None]


def matrices(model: Model) -> set[str]:
    """The weights that are rounded: matrices and tables of vectors, not norms and biases."""
    kinds = (nn.Linear, nn.Embedding, Learned)
    own = {id(part.weight) for part in model.modules() if isinstance(part, kinds)}
    return {name for name, weight in model.named_parameters() if id(weight) in own}


def pack(model: Model) -> dict[str, Tensor]:
    """All weights as they are stored: int8 with scales under a name of their own, the others as they are."""
    packed, rounded = {}, matrices(model)
    for name, weight in model.named_parameters():
        if name in rounded:
            packed[name], packed[name + SCALE] = to_int8(weight)
        else:
            packed[name] = weight.detach().contiguous()
    return packed


@torch.no_grad()
def round_weights(model: Model) -> None:
    """Replaces each weight by the number that int8 keeps of it."""
    weights, rounded = dict(model.named_parameters()), matrices(model)
    for name in rounded:
        weights[name].copy_(from_int8(*to_int8(weights[name])))


def stored_shapes(model: Model, types: Mapping[str, str]) -> dict[str, list[int]]:
    """What a file must contain, by the safetensors types of its tensors: int8 weights bring their scales along."""
    shapes = {name: list(weight.shape) for name, weight in model.named_parameters()}
    scales = {
        name + SCALE: shapes[name][:1] for name, kind in types.items() if kind == "I8" and name in shapes
    }
    return shapes | scales
