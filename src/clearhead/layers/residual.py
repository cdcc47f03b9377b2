"""The residual connection and the place of its norm: X + F(X), so that every sublayer adds to one stream."""

from collections.abc import Callable

from torch import Tensor, nn

from clearhead.layers.dropout import Dropout
from clearhead.layers.norms import NORMS

Sublayer = Callable[[Tensor], Tensor]


class Residual(nn.Module):
    """Pre-norm: X + F(norm(X)). The stream itself is never normalised, and gradients pass it untouched."""

    def __init__(self, d: int, norm: str, epsilon: float, bias: bool, dropout: float) -> None:
        super().__init__()
        self.norm = NORMS[norm](d, epsilon, bias)
        self.dropout = Dropout(dropout)

    def forward(self, X: Tensor, sublayer: Sublayer, real: Tensor | None = None) -> Tensor:
        """(b, n, d) -> (b, n, d)."""
        return X + self.dropout(sublayer(self.norm(X, real)))


class Post(Residual):
    """Post-norm, as in 2017: norm(X + F(X))."""

    def forward(self, X: Tensor, sublayer: Sublayer, real: Tensor | None = None) -> Tensor:
        """(b, n, d) -> (b, n, d)."""
        return self.norm(X + self.dropout(sublayer(X)), real)


class Both(Residual):
    """A norm on each side of the sublayer: X + norm(F(norm(X)))."""

    def __init__(self, d: int, norm: str, epsilon: float, bias: bool, dropout: float) -> None:
        super().__init__(d, norm, epsilon, bias, dropout)
        self.norm_after = NORMS[norm](d, epsilon, bias)

    def forward(self, X: Tensor, sublayer: Sublayer, real: Tensor | None = None) -> Tensor:
        """(b, n, d) -> (b, n, d)."""
        return X + self.dropout(self.norm_after(sublayer(self.norm(X, real)), real))


PLACEMENTS: dict[str, type[Residual]] = {"pre": Residual, "post": Post, "both": Both}
