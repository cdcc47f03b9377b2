"""How a query is compared with a key: Q (b, h, n, d_k) and K (b, h, m, d_k) become scores S (b, h, n, m).

Every kind has the plain formula in `forward`. A kind that is a dot product of something also says of what in
`as_dot`, so that a fused kernel can do it: scale · Q′K′ᵀ must equal S up to a constant per row, which the
softmax does not see.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.layers.masks import View


class Similarity(nn.Module):
    """S = scale · sim(Q, K)."""

    is_dot = False  # whether `as_dot` can express it
    uses_content = True  # whether queries and keys matter at all

    def __init__(self, h: int, d_k: int, scale: float | None) -> None:
        super().__init__()
        self.scale = self.default_scale(d_k) if scale is None else scale

    def default_scale(self, d_k: int) -> float:
        """The scale if none is given."""
        return 1.0

    def forward(self, Q: Tensor, K: Tensor, view: View) -> Tensor:
        """The scores (b, h, n, m)."""
        Q, K = self.as_dot(Q, K)
        return Q @ K.mT * self.scale

    def as_dot(self, Q: Tensor, K: Tensor) -> tuple[Tensor, Tensor]:
        """Q′ and K′ such that scale · Q′K′ᵀ is S up to a constant per row."""
        return Q, K


class Dot(Similarity):
    """q · k."""

    is_dot = True


class ScaledDot(Dot):
    """q · k / √d_k: for q and k of variance 1 the product has deviation √d_k, and would saturate softmax."""

    def default_scale(self, d_k: int) -> float:
        """1 / √d_k."""
        return d_k**-0.5


class Cosine(Dot):
    """q · k / (|q| |k|)."""

    def as_dot(self, Q: Tensor, K: Tensor) -> tuple[Tensor, Tensor]:
        """Both made unit vectors."""
        return F.normalize(Q, dim=-1), F.normalize(K, dim=-1)


class Gaussian(Dot):
    """−½ |q − k|² = q · k − ½|q|² − ½|k|²: the softmax of it weighs keys by a Gaussian around the query."""

    def forward(self, Q: Tensor, K: Tensor, view: View) -> Tensor:
        """The full formula, with the term of |q|² that a softmax does not see."""
        return super().forward(Q, K, view) - Q.square().sum(-1, keepdim=True) * (self.scale / 2)

    def as_dot(self, Q: Tensor, K: Tensor) -> tuple[Tensor, Tensor]:
        """[q, 1] · [k, −½|k|²]."""
        return F.pad(Q, (0, 1), value=1.0), torch.cat([K, K.square().sum(-1, keepdim=True) / -2], -1)


class Additive(Similarity):
    """v · tanh(q + k), the attention of 2014, where q and k are already projections."""

    CHUNK = (
        1 << 22
    )  # numbers of tanh(q + k) held at once: (b, h, n, m, d_k) in full would be d_k times the scores

    def __init__(self, h: int, d_k: int, scale: float | None) -> None:
        super().__init__(h, d_k, scale)
        self.v = nn.Parameter(torch.zeros(h, d_k))

    def forward(self, Q: Tensor, K: Tensor, view: View) -> Tensor:
        """The scores, a chunk of queries at a time."""
        step = max(1, self.CHUNK // max(1, K.numel()))
        V = self.v[:, None, None, :] * self.scale  # (h, 1, 1, d_k)
        parts = [
            (torch.tanh(q[..., :, None, :] + K[..., None, :, :]) * V).sum(-1)  # (b, h, step, m)
            for q in Q.split(step, dim=-2)
        ]
        return torch.cat(parts, dim=-2)


class Distance(Similarity):
    """−½ (i − j)²: fixed weights, a Gaussian of the distance in position; content does not matter."""

    uses_content = False

    def forward(self, Q: Tensor, K: Tensor, view: View) -> Tensor:
        """The same scores for every head, (b or 1, 1, n, m) expanded."""
        gap = (view.at[:, None, :, None] - view.to[:, None, None, :]).to(Q.dtype)
        S = gap.square() * (-self.scale / 2)
        return S.expand(Q.shape[0], Q.shape[1], -1, -1)


SIMILARITIES: dict[str, type[Similarity]] = {
    "scaled_dot": ScaledDot,
    "dot": Dot,
    "cosine": Cosine,
    "additive": Additive,
    "gaussian": Gaussian,
    "distance": Distance,
}
