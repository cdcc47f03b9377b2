"""One new token for every text, with as few calls between the matrix products as possible.

A decoder's own `step` passes modules, sites and views that serve every purpose; in a small model they cost as
much as its matrices. Where each text takes one token and no capture is active, the same formulas are
computed from the same weights: at first here, by PyTorch, and when that has paid for a compiler, by the compiled step.
Many rows, and what is not compiled, stay here; everything else is left to the decoder itself. The state is its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.decoding.engine import Stepper
from clearhead.decoding.steppers.compiled import MOST_ROWS, CompiledStep, why_not_compiled
from clearhead.decoding.steppers.kernels import ready
from clearhead.decoding.steppers.products import Order, Product, Stamp, product, product_of, stamp
from clearhead.layers.attention import Attention
from clearhead.layers.blocks import Block
from clearhead.layers.cache import DecoderState
from clearhead.layers.feedforward import FeedForward, Gated
from clearhead.layers.masks import Angles
from clearhead.layers.norms import LayerNorm, Norm, RMSNorm
from clearhead.layers.positions import rotate
from clearhead.layers.residual import Both, Post, Residual
from clearhead.layers.sites import listener
from clearhead.models.heads import LanguageHead
from clearhead.models.inputs import check_tokens
from clearhead.models.model import Model
from clearhead.models.transformer.decoder import Decoder
from clearhead.models.transformer.stack import TransformerStack

# Whether a model's weights may change between texts; "as they are" also keeps their order, and so every rounding.
Weights = Literal["changing", "fixed", "as they are"]

COPY_AFTER = 32  # steps with several rows, after which another order of the weights would have paid
# Weights used for a row, after which the compiled step would have paid: its machine code must be loaded, or made first.
READ_AFTER, COMPILE_AFTER = 2e9, 2e10


@dataclass
class Now:
    """What the blocks must know about one step."""

    state: DecoderState
    b: int
    m: int  # slots to look at
    at: Tensor  # (b or 1, 1) positions of the new tokens
    is_even: bool  # all texts have the same length
    mask: Tensor | None  # where the queries may look, with the bias of positions; everywhere if None
    angles: Angles | None
    mask_of_source: Tensor | None


DirectSublayer = Callable[[Tensor, Now], Tensor]  # (b, d) -> (b, d)


def stepper_of(model: Model, weights: Weights = "changing") -> Stepper[Any]:
    """The fastest stepper for a model: a direct one where it is made of the parts that are known here."""
    if not isinstance(model, Decoder):
        return model
    config = model.config
    is_dot = config.similarity in ("scaled_dot", "dot") and config.width_k == config.width_v
    # Pruning may leave groups of unequal size, which the kernel cannot share keys among.
    is_even = config.groups == config.h or not any(name.startswith("decoder.") for name in config.kept_heads)
    is_usual = config.projections != "none" and not config.token_types and config.convolution is None
    return DirectStepper(model, weights) if is_dot and is_even and is_usual else model


class DirectStepper:
    """Takes a decoder's place: the same logits, sooner."""

    def __init__(self, model: Decoder, weights: Weights = "changing") -> None:
        self.model, self.stack, self.weights = model, model.decoder, weights
        self.stamp: Stamp | None = None
        self.order: Order = "own"
        self.others = 0  # steps in a row for which another order is better
        self.compiled: CompiledStep | None = None
        self.why_not = why_not_compiled(model) if weights != "as they are" else "weights stay as they are"
        self.size = sum(weight.numel() for weight in model.parameters())
        self.used = 0  # weights, for each row of each step

    def start(
        self, batch: int, capacity: int, source: Tensor | None = None, source_counts: Tensor | None = None
    ) -> DecoderState:
        """An empty state; looks the weights up again if they have changed."""
        if self.stamp is None or (self.weights == "changing" and self.stamp != stamp(self.model)):
            self.refresh()
        return self.model.start(batch, capacity, source, source_counts)

    def refresh(self) -> None:
        """Looks all weights up again; needed by hand where PyTorch does not see a change, as through `.data`."""
        self.look_up("own")
        self.compiled = None if self.compiled is None else CompiledStep(self.model)

    @torch.no_grad()
    def look_up(self, order: Order) -> None:
        """Finds the weights of every sublayer, and copies them where another order is asked for."""
        self.order, self.others = order, 0
        blocks = enumerate(self.blocks)
        self.sublayers = [part for i, block in blocks for part in sublayers(block, i, order)]
        self.norm, self.head = direct_norm(self.stack.norm), direct_head(self.model.head, order)
        self.stamp = stamp(self.model)

    @property
    def blocks(self) -> list[Block]:
        """The blocks of the stack."""
        return [block for block in self.stack.blocks if isinstance(block, Block)]

    def reorder(self, best: Order) -> None:
        """Looks the weights up in another order once that is likely to pay."""
        self.others = self.others + 1 if best != self.order and self.weights != "as they are" else 0
        if self.others >= COPY_AFTER:
            self.look_up(best)

    def is_compiled(self, rows: int) -> bool:
        """Whether so many rows are stepped by machine code, loaded or made aside once that is likely to pay."""
        if self.why_not is not None or rows > MOST_ROWS:
            return False
        if self.compiled is None:
            self.used += rows * self.size
            if self.used >= READ_AFTER and ready.advance(may_compile=self.used >= COMPILE_AFTER):
                self.compiled = CompiledStep(self.model)
            self.why_not = ready.why_not()
        return self.compiled is not None

    def prepare(self) -> None:
        """Reads or makes the machine code now, or says why there is none."""
        if self.why_not is None and ready.prepare():
            self.compiled = CompiledStep(self.model)
        self.why_not = self.why_not or ready.why_not()

    @torch.no_grad()
    def step(
        self, tokens: Tensor, state: DecoderState, counts: Tensor | None = None, last: bool = False
    ) -> Tensor:
        """Adds tokens (b, n) to the state and gives their logits (b, n, vocabulary)."""
        cache = state.cache
        lengths = cache.lengths.tolist()
        is_usual = counts is None and tokens.shape == (len(lengths), 1) and max(lengths) < cache.capacity
        if not is_usual or tokens.is_floating_point() or listener() is not None:
            return self.model.step(tokens, state, counts, last)
        if self.is_compiled(len(lengths)) and self.compiled is not None and ready.why_not() is None:
            check_tokens(tokens, self.model.config.vocabulary, self.model.config.d)
            return self.compiled(tokens, state)
        if cache.is_ring:
            return self.model.step(tokens, state, counts, last)
        self.reorder("own" if len(lengths) == 1 else "for rows")
        now = open_step(state, self.stack, lengths)
        X = embed(self.stack, tokens, now.at)[:, 0]
        for sublayer in self.sublayers:
            X = sublayer(X, now)
        cache.lengths = cache.lengths + 1
        return self.head(self.norm(X))[:, None]


def open_step(state: DecoderState, stack: TransformerStack, lengths: list[int]) -> Now:
    """Opens a step of one token for texts of these lengths."""
    weight, m = stack.tokens.weight, max(lengths) + 1
    state.cache.reserve(len(lengths), m)
    is_even = min(lengths) + 1 == m
    at = torch.tensor([lengths[:1]] if is_even else [[n] for n in lengths], device=weight.device)
    to = torch.arange(m, device=weight.device)[None]
    mask = None if is_even else (to <= at)[:, None, None]  # (b, 1, 1, m)
    bias = stack.positions.bias(at, to)
    if bias is not None:
        mask = (bias if mask is None else bias.masked_fill(~mask, -torch.inf)).to(weight.dtype)
    real = None if state.memory is None else state.memory.real
    mask_of_source = None if real is None else real[:, None, None]
    return Now(state, len(lengths), m, at, is_even, mask, stack.positions.angles(at), mask_of_source)


def embed(stack: TransformerStack, tokens: Tensor, at: Tensor) -> Tensor:
    """x_i = E t_i + P p_i: (b, 1, d)."""
    E = stack.tokens.weight
    X = F.embedding(tokens.to(E.device), E)
    X = X * stack.scale if stack.scale != 1 else X
    P = stack.positions.embed(at)
    return stack.embedding_norm.forward(X if P is None else X + P.to(X.dtype))


def sublayers(block: Block, i: int, order: Order) -> list[DirectSublayer]:
    """The sublayers of block i in their order, each with the stream it adds to."""
    parts = [add_to_stream(block.add_self, direct_self(block.self, i, order))]
    if block.cross is not None and block.add_cross is not None:
        parts.append(add_to_stream(block.add_cross, direct_cross(block.cross, i, order)))
    return [*parts, add_to_stream(block.add_ffn, direct_feedforward(block.ffn, order))]


def add_to_stream(residual: Residual, sublayer: DirectSublayer) -> DirectSublayer:
    """X + F(X), with the norm in its place."""
    norm = direct_norm(residual.norm)
    if isinstance(residual, Post):
        return lambda X, now: norm(X + sublayer(X, now))
    if isinstance(residual, Both):
        after = direct_norm(residual.norm_after)
        return lambda X, now: X + after(sublayer(norm(X), now))
    return lambda X, now: X + sublayer(norm(X), now)


def direct_norm(norm: Norm) -> Callable[[Tensor], Tensor]:
    """A norm without its module."""
    if isinstance(norm, LayerNorm):
        weight, bias, shape, epsilon = norm.weight, norm.bias, norm.weight.shape, norm.epsilon
        return lambda X: torch.layer_norm(X, shape, weight, bias, epsilon)
    if isinstance(norm, RMSNorm):
        weight, shape, epsilon = norm.weight, norm.weight.shape, norm.epsilon
        return lambda X: torch.rms_norm(X, shape, weight, epsilon)
    return norm.forward


def direct_head(head: nn.Module, order: Order) -> Product:
    """The logits (b, vocabulary) of vectors (b, d)."""
    if type(head) is not LanguageHead or head.soft_cap is not None:
        return lambda X: head.forward(X[:, None])[:, 0]
    W, scale = product(head.table.weight, head.bias, order), head.scale
    return W if scale == 1 else lambda X: W(X * scale)


def direct_feedforward(ffn: FeedForward, order: Order) -> DirectSublayer:
    """W_2 f(W_1 x + b_1) + b_2, with a gate where there is one."""
    f = ffn.activation
    one, two = product_of(ffn.W_1, order=order), product_of(ffn.W_2, order=order)
    if isinstance(ffn, Gated):
        gate = product_of(ffn.W_g, order=order)
        return lambda X, now: two(f(gate(X)) * one(X))
    return lambda X, now: two(f(one(X)))


def direct_self(attention: Attention, i: int, order: Order) -> DirectSublayer:
    """softmax(Q Kᵀ) V over the cache of block i, joined by W_o."""
    if not attention.h:
        return without_heads(attention)
    h, g, d_k, scale = attention.h, attention.g, attention.size.d_k, attention.similarity.scale
    qkv = product_of(attention.W_q, attention.W_k, attention.W_v, order=order)
    o, sizes = product_of(attention.W_o, order=order), [h * d_k, g * d_k, g * d_k]
    norm_q, norm_k, activation = attention.norm_q, attention.norm_k, attention.activation
    is_plain = isinstance(activation, nn.Identity) and isinstance(norm_q, nn.Identity)

    def look(X: Tensor, now: Now) -> Tensor:
        b = now.b
        # A mask has a bias for every head, those that pruning removed too; without biases it is one for all.
        has_own_bias = now.mask is not None and now.mask.shape[1] > 1
        Q, K, V = qkv(X).split_with_sizes(sizes, 1)
        Q, K, V = Q.view(b, h, 1, d_k), K.view(b, g, 1, d_k), V.view(b, g, 1, d_k)
        if not is_plain:
            Q, K, V = norm_q(activation(Q)), norm_k(activation(K)), activation(V)
        if now.angles is not None:
            Q, K = rotate(Q, now.angles), rotate(K, now.angles)
        K, V = extend(now.state.cache.K[i], K, now), extend(now.state.cache.V[i], V, now)
        mask = attention.select(now.mask) if has_own_bias else now.mask
        H = F.scaled_dot_product_attention(Q, K, V, mask, scale=scale, enable_gqa=h != g)
        return o(H.view(b, h * d_k))

    return look


def extend(X: Tensor, new: Tensor, now: Now) -> Tensor:
    """Writes new keys or values (b, g, 1, d_k) into their slots; all that the queries may look at."""
    X = X if X.shape[0] == now.b else X.narrow(0, 0, now.b)
    if now.is_even:
        X.narrow(2, now.m - 1, 1).copy_(new)
    else:
        X[torch.arange(now.b, device=X.device), :, now.at[:, 0]] = new[:, :, 0]
    return X.narrow(2, 0, now.m)


def without_heads(attention: Attention) -> DirectSublayer:
    """What attention adds if pruning left it no heads: the bias of W_o, or nothing."""
    return lambda X, now: attention.W_o(X[:, :0])


def direct_cross(attention: Attention, i: int, order: Order) -> DirectSublayer:
    """softmax(Q Kᵀ) V over the source, joined by W_o."""
    if not attention.h:
        return without_heads(attention)
    h, g, d_k, scale = attention.h, attention.g, attention.size.d_k, attention.similarity.scale
    q, o = (product_of(W, order=order) for W in (attention.W_q, attention.W_o))
    norm_q, activation = attention.norm_q, attention.activation

    def look(X: Tensor, now: Now) -> Tensor:
        assert now.state.memory is not None
        Q = norm_q(activation(q(X)).view(now.b, h, 1, d_k))
        K, V = now.state.memory.keys_values[i]
        H = F.scaled_dot_product_attention(Q, K, V, now.mask_of_source, scale=scale, enable_gqa=h != g)
        return o(H.view(now.b, h * d_k))

    return look
