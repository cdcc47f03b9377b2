"""Convolutions: each token vector becomes a weighted sum of its neighbours', X (b, n, d) -> (b, n, d_out) (N44).

The weights depend on the relative position alone, and what is farther away than the filter is wide has no weight.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.layers.masks import real_tokens


class Convolution(nn.Module):
    """y_i = b + Σ_j W_j x_{i + j · dilation}, j ≤ 0 if causal and centred otherwise; several widths side by side."""

    def __init__(
        self, d: int, d_out: int, widths: tuple[int, ...], dilation: int = 1, causal: bool = False
    ) -> None:
        super().__init__()
        shares = [d_out // len(widths) + (i < d_out % len(widths)) for i in range(len(widths))]
        self.filters = nn.ModuleList(
            nn.Conv1d(d, share, width, dilation=dilation) for share, width in zip(shares, widths, strict=True)
        )
        reaches = [
            (width - 1) * dilation for width in widths
        ]  # tokens under a filter beside the one it stands at
        self.before = [reach if causal else reach // 2 for reach in reaches]
        self.after = [reach - before for reach, before in zip(reaches, self.before, strict=True)]
        self.reach = max(self.before)

    def forward(self, X: Tensor, counts: Tensor | None = None, past: Tensor | None = None) -> Tensor:
        """(b, n, d) -> (b, n, d_out); `past` (b, reach, d) came before X, nothing if omitted."""
        n, real = X.shape[1], real_tokens(counts, X.shape[1])
        if real is not None and any(self.after):  # what is after the text must be nothing
            X = X * real[..., None]
        X = F.pad(X, (0, 0, 0 if past is not None else self.reach, max(self.after)))
        X = X if past is None else torch.cat([past, X], 1)
        X = X.transpose(1, 2)  # (b, d, reach + n + after)
        parts = [
            convolve(X[..., self.reach - before : self.reach + n + after])
            for convolve, before, after in zip(self.filters, self.before, self.after, strict=True)
        ]
        return torch.cat(parts, 1).transpose(1, 2)


def in_phase(X: Tensor, period: int, counts: Tensor | None = None) -> Tensor:
    """y_i = Σ_j x_j / √n over all real tokens j that are some periods from i, before and after: (b, n, d) -> (b, n, d).

    A filter of equal weights that reaches over the whole text. √n, as for a pool of kind root.
    """
    b, n, d = X.shape
    real = real_tokens(counts, n)
    X = X / n**0.5 if real is None else X * (real / real.sum(1, keepdim=True).sqrt())[..., None]
    periods = -(-n // period)
    sums = F.pad(X, (0, 0, 0, periods * period - n)).view(b, periods, period, d).sum(1)  # (b, period, d)
    return sums.repeat(1, periods, 1)[:, :n]


def latest(past: Tensor, X: Tensor, counts: Tensor) -> Tensor:
    """The last vectors of each row once its first `counts` of X (b, n, d) follow past (b, reach, d): (b, reach, d)."""
    places = torch.arange(past.shape[1], device=X.device) + counts.to(X.device)[:, None]  # (b, reach)
    return torch.cat([past, X], 1).gather(1, places[..., None].expand(-1, -1, X.shape[2]))
