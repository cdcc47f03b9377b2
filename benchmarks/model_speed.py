"""Does the one configurable model cost more than a hand-written GPT? Forward and backward, side by side.

Both have d = 384, 6 blocks, 6 heads, n = 256, batch 8, learned positions, layer norm, gelu, a tied head, and
`scaled_dot_product_attention`. The bar is 1.05.
"""

import torch
import torch.nn.functional as F
from harness import arguments, is_within, paired, ratio, report
from torch import Tensor, nn

from clearhead.config.model import ModelConfig
from clearhead.models.build import build

D, BLOCKS, HEADS, N, BATCH, VOCABULARY, BAR = 384, 6, 6, 256, 8, 512, 1.05


class MinimalBlock(nn.Module):
    """A pre-norm block with one matrix for queries, keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        self.up, self.down = nn.Linear(D, 4 * D, bias=False), nn.Linear(4 * D, D, bias=False)

    def forward(self, X: Tensor) -> Tensor:
        b, n, _ = X.shape
        Q, K, V = self.qkv(self.norm_1(X)).view(b, n, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)
        H = F.scaled_dot_product_attention(Q, K, V, is_causal=True)
        X = X + self.out(H.transpose(1, 2).reshape(b, n, D))
        return X + self.down(F.gelu(self.up(self.norm_2(X))))


class MinimalGPT(nn.Module):
    """The shortest GPT that does the same work."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, D), nn.Embedding(N, D)
        self.blocks = nn.Sequential(*(MinimalBlock() for _ in range(BLOCKS)))
        self.norm = nn.LayerNorm(D)

    def forward(self, ids: Tensor) -> Tensor:
        X = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        return F.linear(self.norm(self.blocks(X)), self.tokens.weight)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    options = parser.parse_args()
    torch.manual_seed(1)
    ids = torch.randint(0, VOCABULARY, (BATCH, N))
    settings = ModelConfig(
        vocabulary=VOCABULARY,
        d=D,
        h=HEADS,
        decoder_blocks=BLOCKS,
        context=N,
        positions="learned",
        norm="layer",
    )
    ours, minimal = build(settings).train(), MinimalGPT()
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in minimal.parameters())

    def step(model: nn.Module) -> None:
        F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
        model.zero_grad()

    result = ratio(*paired(lambda: step(ours), lambda: step(minimal), options.pairs))
    low, high = result["interval_95"]
    print(
        f"forward + backward, ours / minimal: {result['median_ratio']:.3f}  (95 %: {low:.3f} to {high:.3f})"
    )
    keeps = is_within(result, BAR)
    print(f"bar {BAR}: {'kept' if keeps else 'FAILED'}")
    report("model_speed", result | {"bar": BAR, "kept": keeps, "seed": 1}, options.save)
    raise SystemExit(not keeps)


if __name__ == "__main__":
    main()
