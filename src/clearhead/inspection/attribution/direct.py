"""Direct logit attribution: a logit as the sum of what every part adds to it, exactly.

Every sublayer adds to one stream, and the logit is a dot product with its end, so the logit is a sum over the
embeddings, the heads, the feed-forwards and the biases. What is between an addition and the end, the norms, is kept
as it was in this pass (μ and σ are constants), and so are the gates f(u)/u of a dense layer in the head; all that is
left is linear. The sum is found from the end: the gradient g of the logit walks down the stream, through the frozen
norms, and what a part added is worth its dot product with g. The logit is that before a soft cap.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.inspection.attribution.goals import Logit, one_text, transformer_of
from clearhead.inspection.capture import capture
from clearhead.inspection.pass_bytes import top_stack
from clearhead.layers.attention import Attention
from clearhead.layers.blocks import Block
from clearhead.layers.norms import LayerNorm, Norm, RMSNorm, WholeNorm
from clearhead.layers.residual import Both, Post, Residual
from clearhead.models.heads import ClassifierHead, LanguageHead
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model
from clearhead.models.transformer.heads import TransformedHead
from clearhead.models.transformer.stack import TransformerStack

BIASES = "biases"  # of all matrices and norms, together


@dataclass(frozen=True)
class LogitAttribution:
    """A logit, and what each part adds to it, in the order of the pass; heads by name, all biases as one part."""

    logit: float  # before a soft cap
    parts: dict[str, float]

    @property
    def total(self) -> float:
        """The sum of the parts: the logit, but for rounding."""
        return sum(self.parts.values())


@torch.no_grad()
def direct_logit_attribution(model: Any, inputs: Inputs, goal: Logit) -> LogitAttribution:
    """What every part adds to a logit, or to the difference of two, in a pass over one text."""
    module, inputs = transformer_of(model), one_text(inputs)
    name = top_stack(dict(module.named_children()))
    stack = getattr(module, name)
    assert isinstance(stack, TransformerStack)
    sites = [f"{name}.{key}" for key in (*stack.sites, *stack.stream)]
    inside = [
        f"{name}.{i}.{key}"
        for i in range(len(stack.blocks))
        for key in ("self.heads", "self.out", "cross.heads", "cross.out", "ffn.out")
        if not key.startswith("cross") or module.translates
    ]
    with capture(module, *sites, *inside) as trace:
        goal(module(inputs))  # which checks its ids and its position
    walk = Walk({site: X[0].double() for site, X in trace.items()})
    logit = walk.start(module, walk.trace[f"{name}.norm"], goal)
    walk.down(stack, name, inputs)
    return LogitAttribution(logit, {**dict(reversed(walk.parts.items())), BIASES: walk.constant})


@dataclass(frozen=True)
class FrozenNorm:
    """y = (x − mean(x)) scale + shift, or without the mean: a norm whose statistics are constants."""

    scale: Tensor
    shift: Tensor | float
    is_centred: bool

    def back(self, g: Tensor) -> Tensor:
        """The gradient of x from that of y."""
        g = g * self.scale
        return g - g.mean(-1, keepdim=True) if self.is_centred else g


def freeze(norm: Norm, X: Tensor) -> FrozenNorm:
    """A norm as it was for X (n, d)."""
    if isinstance(norm, LayerNorm):
        r = (X.var(-1, correction=0, keepdim=True) + norm.epsilon).rsqrt()
        return FrozenNorm(norm.weight.double() * r, 0.0 if norm.bias is None else norm.bias.double(), True)
    if isinstance(norm, RMSNorm):
        r = (X.square().mean(-1, keepdim=True) + norm.epsilon).rsqrt()
        return FrozenNorm(norm.weight.double() * r, 0.0, False)
    if isinstance(norm, WholeNorm):
        r = (X.var(correction=0) + norm.epsilon).rsqrt()
        return FrozenNorm(r, -X.mean() * r, False)
    return FrozenNorm(X.new_ones(()), 0.0, False)


class Walk:
    """The way down from a logit: the gradient g (n, d) of the stream, and the parts found so far, the last first."""

    def __init__(self, trace: Mapping[str, Tensor]) -> None:
        self.trace, self.parts = trace, dict[str, float]()
        self.constant = 0.0
        self.g = torch.empty(0)

    def through(self, norm: Norm, X: Tensor, g: Tensor) -> Tensor:
        """The gradient before a norm of X; its shift is a constant."""
        frozen = freeze(norm, X)
        self.constant += float((g * frozen.shift).sum())
        return frozen.back(g)

    def through_dense(self, dense: nn.Linear, X: Tensor, activation: Any, g: Tensor) -> Tensor:
        """The gradient before f(W x + b), with the gate f(u)/u kept as it was."""
        u = X @ dense.weight.double().mT + dense.bias.double()
        g = g * torch.where(u == 0, 0.0, activation(u) / u)
        self.constant += float((g * dense.bias.double()).sum())
        return g @ dense.weight.double()

    def start(self, module: Model, X: Tensor, goal: Logit) -> float:
        """Sets g to the gradient of what the head reads, X (n, d); returns the logit."""
        head = module.head
        if isinstance(head, ClassifierHead):
            return self.start_classes(head, X, goal)
        assert isinstance(head, LanguageHead)
        w = direction(head.table.weight, goal) * head.scale
        self.add_bias(head.bias, goal)
        g = torch.zeros_like(X)
        g[goal.position_in(len(X))] = w
        if isinstance(head, TransformedHead):
            U = nn.functional.gelu(X @ head.transform.weight.double().mT + head.transform.bias.double())
            g = self.through(head.transform_norm, U, g)
            g = self.through_dense(head.transform, X, nn.functional.gelu, g)
        self.g = g
        return float((X * g).sum()) + self.constant

    def start_classes(self, head: ClassifierHead, X: Tensor, goal: Logit) -> float:
        """The same of a classifier, whose head reads one vector for all tokens."""
        self.add_bias(head.out.bias, goal)
        w = direction(head.out.weight, goal)
        shares = pool_shares(head.pool, X)
        if head.dense is not None:
            w = self.through_dense(head.dense, (X * shares).sum(0), head.activation, w)
        self.g = shares * w
        return float((X * self.g).sum()) + self.constant

    def add_bias(self, bias: Tensor | None, goal: Logit) -> None:
        """Adds the head's own bias to the constants."""
        if bias is not None:
            self.constant += float(direction(bias[:, None], goal).sum())

    def down(self, stack: TransformerStack, name: str, inputs: Inputs) -> None:
        """Passes the blocks from the last to the first, then the embeddings."""
        stream = [self.trace[f"{name}.{site}"] for site in stack.stream]
        self.g = self.through(stack.norm, stream.pop(), self.g)
        for i in reversed(range(len(stack.blocks))):
            block = stack.blocks[i]
            assert isinstance(block, Block)
            for sublayer in reversed(stack.sublayers):
                self.pass_sublayer(block, sublayer, f"{name}.{i}.{sublayer}", stream.pop())
        self.pass_embeddings(stack, name, inputs)

    def pass_sublayer(self, block: Block, sublayer: str, place: str, before: Tensor) -> None:
        """What a sublayer adds, head by head; g becomes that of the stream before it."""
        residual, out = getattr(block, f"add_{sublayer}"), self.trace[f"{place}.out"]
        assert isinstance(residual, Residual)
        if isinstance(residual, Post):
            self.g = self.through(residual.norm, before + out, self.g)
        inner = self.through(residual.norm_after, out, self.g) if isinstance(residual, Both) else self.g
        part = getattr(block, sublayer)
        last = part.W_o if isinstance(part, Attention) else part.W_2
        b = getattr(last, "bias", None)
        bias = 0.0 if b is None else float((inner * b.double()).sum())
        self.constant += bias
        if not isinstance(part, Attention):
            self.parts[place] = float((inner * out).sum()) - bias
            return
        H = self.trace[f"{place}.heads"]  # (h, n, d_v)
        if not len(H):  # pruned
            return
        G = inner @ last.weight.double() if isinstance(last, nn.Linear) else inner  # (n, h · d_v)
        worth = (H.transpose(0, 1).flatten(1) * G).sum(0).unflatten(0, (len(H), -1)).sum(1)  # (h,)
        for head, value in reversed([*zip(part.size.heads, worth.tolist(), strict=True)]):
            self.parts[f"{place}.{head}"] = value

    def pass_embeddings(self, stack: TransformerStack, name: str, inputs: Inputs) -> None:
        """What the embeddings add, each kind by itself."""
        place, X = f"{name}.embeddings", self.trace[f"{name}.embeddings.tokens"]
        if f"{place}.convolution" in self.trace:
            self.parts[f"{place}.convolution"] = float((self.g * self.trace[f"{place}.convolution"]).sum())
        added = {"tokens": X}
        if f"{place}.positions" in self.trace:
            added["positions"] = self.trace[f"{place}.positions"]
        if stack.types is not None:
            types = torch.zeros(len(X), dtype=torch.long) if inputs.types is None else inputs.types[0]
            added["types"] = stack.types(types.to(X.device)).double()
        g = self.through(
            stack.embedding_norm, torch.stack([Y.expand_as(X) for Y in added.values()]).sum(0), self.g
        )
        for kind, Y in reversed(added.items()):
            self.parts[f"{place}.{kind}"] = float((g * Y).sum())


def direction(W: Tensor, goal: Logit) -> Tensor:
    """The row of a matrix whose dot product is the logit, or the difference of two rows."""
    w = W[goal.id].double()
    return w if goal.against is None else w - W[goal.against].double()


def pool_shares(kind: str, X: Tensor) -> Tensor:
    """Which share each number of X (n, d) has in the pooled vector; the largest ones are chosen as in this pass."""
    shares = torch.zeros_like(X)
    if kind in ("mean", "root"):
        shares += len(X) ** (-1 if kind == "mean" else -0.5)
    elif kind == "max":
        shares[X.argmax(0), torch.arange(X.shape[1], device=X.device)] = 1
    else:
        shares[0 if kind == "first" else -1] = 1
    return shares
