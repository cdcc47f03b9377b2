"""How order enters a model. Each kind overrides the one place it uses; cross-attention is given none.

`at` (b or 1, n) and `to` (b or 1, m) are the positions of queries and keys, counted from 0 in each sequence,
so that padded, packed and cached sequences need no special case. Fixed frequencies are plain float32 tensors,
not buffers: a model cast to bfloat16 must not lose their digits.
"""

import math

import torch
from torch import Tensor, nn

from clearhead.config.model import ModelConfig, RotaryScaling
from clearhead.layers.masks import Angles


class Positions(nn.Module):
    """No positions: a stack without a mask then maps sets to sets."""

    is_added = False  # whether `embed` adds something to the tokens

    def __init__(self, config: ModelConfig, d: int, causal: bool) -> None:
        super().__init__()

    def embed(self, at: Tensor) -> Tensor | None:
        """Vectors (b or 1, n, d) added to the token embeddings, or nothing."""
        return None

    def angles(self, at: Tensor) -> Angles | None:
        """By how much each pair of a query or key is turned, or nothing."""
        return None

    def bias(self, at: Tensor, to: Tensor) -> Tensor | None:
        """Numbers (b or 1, h, n, m) added to the scores, or nothing."""
        return None


class Learned(Positions):
    """x_i = E t_i + P p_i: one learned vector per position."""

    is_added = True

    def __init__(self, config: ModelConfig, d: int, causal: bool) -> None:
        super().__init__(config, d, causal)
        assert config.context is not None
        self.offset = config.position_offset
        self.weight = nn.Parameter(torch.zeros(config.context + self.offset, d))

    def embed(self, at: Tensor) -> Tensor:
        """Rows of the table."""
        return self.weight[at + self.offset]


class Sinusoidal(Positions):
    """sin(i ω) and cos(i ω) for d/2 frequencies ω from 1 down to 1/10,000 (Vaswani et al., 2017)."""

    is_added = True

    def __init__(self, config: ModelConfig, d: int, causal: bool) -> None:
        super().__init__(config, d, causal)
        self.is_interleaved = config.sinusoid_layout == "interleaved"
        self.frequencies = 10_000.0 ** -(torch.arange(0, d, 2, device="cpu") / d)

    def embed(self, at: Tensor) -> Tensor:
        """Computed when needed, so that no length is too long."""
        turns = at[..., None] * self.frequencies.to(at.device)  # (b, n, d / 2)
        waves = [turns.sin(), turns.cos()]
        return torch.stack(waves, -1).flatten(-2) if self.is_interleaved else torch.cat(waves, -1)


class Rotary(Positions):
    """Turns pair i of a query or key by position · base^(−2i/d_k): scores see distances (Su et al., 2021)."""

    def __init__(self, config: ModelConfig, d: int, causal: bool) -> None:
        super().__init__(config, d, causal)
        d_k = config.width_k
        self.frequencies = config.rotary_base ** -(torch.arange(0, d_k, 2, device="cpu") / d_k)
        if config.rotary_scaling:
            self.frequencies = stretch(self.frequencies, config.rotary_scaling)

    def angles(self, at: Tensor) -> Angles:
        """Cosines and sines, (b or 1, 1, n, d_k / 2)."""
        turns = at[:, None, :, None] * self.frequencies.to(at.device)
        return turns.cos(), turns.sin()


def stretch(frequencies: Tensor, scaling: RotaryScaling) -> Tensor:
    """Slower frequencies, so that distant positions turn as far as near ones did in training."""
    if scaling.kind == "linear":
        return frequencies / scaling.factor
    turns = scaling.original_context * frequencies / (2 * math.pi)  # within the original context
    share = ((turns - scaling.low) / (scaling.high - scaling.low)).clamp(0, 1)  # 1: left alone, 0: stretched
    return frequencies * (share + (1 - share) / scaling.factor)


def rotate(X: Tensor, angles: Angles | None) -> Tensor:
    """Turns each pair (x_i, x_{i + d_k/2}) of (b, h, n, d_k) by its angle."""
    if angles is None:
        return X
    cos, sin = angles[0].to(X.dtype), angles[1].to(X.dtype)
    U, V = X.chunk(2, dim=-1)
    return torch.cat([U * cos - V * sin, V * cos + U * sin], dim=-1)


class Alibi(Positions):
    """−m_c |i − j|: head c forgets with the distance at its own rate m_c = 2^(−8c/h) (Press et al., 2021)."""

    def __init__(self, config: ModelConfig, d: int, causal: bool) -> None:
        super().__init__(config, d, causal)
        self.rates = 2.0 ** (-8 * torch.arange(1, config.h + 1, device="cpu") / config.h)

    def bias(self, at: Tensor, to: Tensor) -> Tensor:
        """(b or 1, h, n, m)."""
        return -self.rates.to(at.device)[:, None, None] * (at[:, None, :, None] - to[:, None, None, :]).abs()


class Relative(Positions):
    """A learned number per head and bucket of j − i, shared by a stack's blocks (Raffel et al., 2020)."""

    def __init__(self, config: ModelConfig, d: int, causal: bool) -> None:
        super().__init__(config, d, causal)
        self.buckets, self.distance, self.causal = config.relative_buckets, config.relative_distance, causal
        self.weight = nn.Parameter(torch.zeros(config.relative_buckets, config.h))

    def bias(self, at: Tensor, to: Tensor) -> Tensor:
        """(b or 1, h, n, m)."""
        return self.weight[self.bucket(to[:, None, :] - at[:, :, None])].permute(0, 3, 1, 2)

    def bucket(self, gap: Tensor) -> Tensor:
        """Near gaps have a bucket each, far ones share: half the buckets grow logarithmically."""
        buckets, first = self.buckets, torch.zeros_like(gap)
        if self.causal:
            gap = (-gap).clamp(min=0)
        else:  # the upper half of the table is for keys to the right
            buckets //= 2
            first = (gap > 0) * buckets
            gap = gap.abs()
        exact = buckets // 2
        growth = torch.log(gap.clamp(min=1).float() / exact) / math.log(self.distance / exact)
        far = (exact + (growth * (buckets - exact)).long()).clamp(max=buckets - 1)
        return first + torch.where(gap < exact, gap, far)


POSITIONS: dict[str, type[Positions]] = {
    "learned": Learned,
    "sinusoidal": Sinusoidal,
    "rotary": Rotary,
    "alibi": Alibi,
    "relative": Relative,
    "none": Positions,
}
