"""A decoder's step in machine code: which models have one, the table of their weights, and the call.

Matrices are copied into the order in which the kernels read them, in float32, or as whole numbers, a quarter of the
bytes, if the model was rounded to int8. docs/kernels.md compares the formulas with those of the layers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.decoding.steppers.kernels import ready
from clearhead.layers.attention import Attention
from clearhead.layers.blocks import Block
from clearhead.layers.cache import Cache, DecoderState
from clearhead.layers.feedforward import FEEDFORWARDS, Gated
from clearhead.layers.memory import Memory
from clearhead.layers.norms import LayerNorm, Norm, RMSNorm
from clearhead.layers.positions import Learned, Positions
from clearhead.layers.residual import Both
from clearhead.models.heads import LanguageHead
from clearhead.models.int8 import to_int8
from clearhead.models.model import Model
from clearhead.models.transformer.decoder import Decoder

NOWHERE = np.zeros((0, 0), np.int64)  # no keys and values in the place of another sequence
NO_CHOICE = np.zeros((0, 0), np.int64), np.zeros((0, 0), np.float32)


def why_not_compiled(model: Model) -> str | None:
    """The reason why a model's steps are left to PyTorch, or None; the only place that says so."""
    if not isinstance(model, Decoder):
        return f"a model of family '{model.config.family}' has no compiled step"
    config, head = model.config, model.head
    usual = {
        "similarity": config.similarity in ("scaled_dot", "dot"),
        "cross_similarity": config.shape == "decoder" or config.cross_similarity in ("scaled_dot", "dot"),
        "projections": config.projections != "none",
        "token_types": not config.token_types,
        "convolution": config.convolution is None,
        "norm": config.norm != "whole",
    }
    if unusual := [name for name, is_usual in usual.items() if not is_usual]:
        return f"model.{unusual[0]} = {getattr(config, unusual[0])!r} has no compiled step"
    if type(head) is not LanguageHead:
        return "its head has no compiled step"
    weight = next(model.parameters())
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return f"compiled steps are for float32 on a CPU, not for {weight.dtype} on {weight.device.type}"
    return ready.why_not()


class CompiledStep:
    """The compiled step of one model, with its weights as they are now."""

    def __init__(self, model: Decoder) -> None:
        self.model, self.stack, self.is_int8 = model, model.decoder, model.is_int8
        self.kept: list[Any] = []  # arrays whose addresses are in the table
        self.positions = 0  # for which there are tables
        self.kernel = ready.kernel()
        from clearhead.decoding.steppers.kernels.products import pack
        from clearhead.decoding.steppers.kernels.team import new_team

        self.pack, self.team = pack, new_team()
        self.parts: list[Attention | None] = []
        blocks = [block for block in self.stack.blocks if isinstance(block, Block)]
        lines = [line for block in blocks for line in self.lines_of(block)]
        self.sublayers = np.zeros(len(lines), self.kernel.SUBLAYER)
        for row, line in enumerate(lines):
            for name, value in line.items():
                self.sublayers[name][row] = value
        self.kinds = self.sublayers["kind"].tolist()
        self.places = np.zeros(len(lines), self.kernel.PLACE)
        self.known: list[tuple[int, int]] | None = (
            None  # addresses and slots of the keys and values in `places`
        )
        self.facts = np.zeros(1, self.kernel.MODEL)
        for name, value in self.facts_of(model).items():
            self.facts[name] = value

    def __call__(
        self, tokens: Tensor, state: DecoderState, counts: Tensor | None = None, last: bool = True
    ) -> Tensor:
        """Adds tokens (b, n), of which the first `counts` are real, to the state; the logits of all, or of the last.

        Every row has a real token.
        """
        b, n = tokens.shape
        rows, wanted = rows_of(tokens, state.lengths, counts, last)
        Z = self.run(state, rows, wanted, state.lengths + (n if counts is None else counts), *NO_CHOICE)
        shape = (b, 1 if last else n, Z.shape[1])
        if len(wanted) == shape[0] * shape[1]:
            return Z.view(shape)
        assert counts is not None
        spread = torch.zeros(shape)  # what follows padding is nobody's
        spread[torch.arange(n) < counts[:, None]] = Z
        return spread

    def write(self, tokens: Tensor, state: DecoderState, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Adds tokens (b, 1), then the likeliest next one, and so on: `count` of them (count, b), and their log P."""
        rows, wanted = rows_of(tokens, state.lengths, None, last=True)
        shape = (count, len(rows))
        chosen, log_P = np.empty(shape, np.int64), np.empty(shape, np.float32)
        self.run(state, rows, wanted, state.lengths + count, chosen, log_P)
        return chosen, log_P

    def run(
        self, state: DecoderState, rows: np.ndarray, wanted: np.ndarray, after: Tensor,
        chosen: np.ndarray, log_P: np.ndarray,
    ) -> Tensor:  # fmt: skip
        """Calls the kernel, after which the texts have the lengths `after`: the logits of the wanted rows."""
        cache, memory = state.cache, state.memory
        longest = int(after.max())
        cache.reserve(cache.batch, longest)
        self.reach(longest)
        self.locate(cache, memory)
        if memory is not None:
            rows[:, 3] = memory.owner.numpy()[rows[:, 2]]
            rows[:, 4] = memory.stored_seen().sum(1).numpy()[rows[:, 3]]
            longest = max(longest, memory.to.shape[1])
        self.facts["longest"] = longest
        Z = torch.empty(len(wanted), self.model.config.vocabulary)
        origins = NOWHERE if cache.origins is None else cache.origins.numpy()
        self.team[:] = 0
        self.kernel.step(
            self.facts, self.sublayers, self.places, rows, origins, cache.slots, wanted, ready.threads(), self.team,
            Z.numpy(), chosen, log_P,
        )  # fmt: skip
        cache.lengths = after
        return Z

    def locate(self, cache: Cache, memory: Memory | None) -> None:
        """Enters where keys and values are, if they are elsewhere than in the last step."""
        own = zip(cache.stored_K, cache.stored_V, strict=True)
        pairs = {self.kernel.SELF: list(own), self.kernel.CROSS: [] if memory is None else memory.stored}
        known = [(X.data_ptr(), X.shape[2]) for pair in pairs.values() for KV in pair for X in KV]
        if known == self.known:
            return
        self.known, left = known, {kind: iter(pair) for kind, pair in pairs.items()}
        for i, kind in enumerate(self.kinds):
            if kind in left:
                K, V = next(left[kind])
                self.places[i] = K.data_ptr(), V.data_ptr(), K.stride()[:3], V.stride()[:3]

    @torch.no_grad()
    def reach(self, n: int) -> None:
        """Makes tables of positions for texts of n tokens, if they are shorter."""
        if n <= self.positions:
            return
        self.positions = n
        positions, at = self.stack.positions, torch.arange(n)[None]
        if isinstance(positions, Learned):
            self.facts["P"] = positions.weight[positions.offset :].data_ptr()
        elif (P := positions.embed(at)) is not None:
            self.facts["P"] = self.address(P[0].float())
        if (angles := positions.angles(at)) is not None:
            self.facts["cos"], self.facts["sin"] = (self.address(X[0, 0].float()) for X in angles)
        for row, attention in enumerate(self.parts):
            if attention is not None and (B := biases(positions, attention, n)) is not None:
                self.sublayers["bias"][row], self.sublayers["distances"][row] = self.address(B), n

    def address(self, X: Tensor) -> int:
        """Where a copy of some numbers is, which stays there."""
        self.kept.append(X.detach().contiguous().clone())
        return int(self.kept[-1].data_ptr())

    def matrix(self, name: str, weights: Sequence[tuple[Tensor, Tensor | None]]) -> dict[str, int]:
        """The addresses of one matrix, or of several above each other: numbers, scales of int8, and bias."""
        Ws = [W.detach() for W, _ in weights]
        W = Ws[0] if len(Ws) == 1 else torch.cat(Ws)
        b = torch.cat([torch.zeros(len(W)) if b is None else b.detach() for W, b in weights])
        vectors = {f"b_{name}": b}
        if self.is_int8 and W.numel():
            W, vectors[f"s_{name}"] = to_int8(W)
        self.kept.append(packed := self.pack(W.numpy()))
        missing = packed.shape[0] * packed.shape[2] - len(W)  # outputs up to the end of the last unit
        addresses = {name: self.address(F.pad(x, (0, missing))) for name, x in vectors.items()}
        return addresses | {f"W_{name}": packed.ctypes.data}

    def linear(self, name: str, *layers: nn.Module) -> dict[str, int]:
        """The addresses of linear layers that have the same inputs."""
        return self.matrix(
            name, [(layer.weight, layer.bias) for layer in layers if isinstance(layer, nn.Linear)]
        )

    def norm(self, name: str, norm: Norm) -> dict[str, int]:
        """The addresses of a norm's γ and β."""
        if not isinstance(norm, LayerNorm | RMSNorm):
            return {}
        bias = norm.bias if isinstance(norm, LayerNorm) else None
        beta = torch.zeros_like(norm.weight) if bias is None else bias
        return {f"gamma{name}": self.address(norm.weight), f"beta{name}": self.address(beta)}

    def lines_of(self, block: Block) -> list[dict[str, Any]]:
        """The lines of a block's sublayers, in their order."""
        kernel, ffn = self.kernel, block.ffn
        rows = [(block.add_self, self.attention(block.self, kernel.SELF), block.self)]
        if block.cross is not None and block.add_cross is not None:
            rows.append((block.add_cross, self.attention(block.cross, kernel.CROSS), block.cross))
        matrices = self.linear("in", ffn.W_1) | self.linear("out", ffn.W_2)
        if isinstance(ffn, Gated):
            matrices |= self.linear("gate", ffn.W_g)
        last = {"kind": kernel.FEEDFORWARD, "inner": ffn.W_1.out_features} | matrices
        lines = []
        for add, line, attention in [*rows, (block.add_ffn, last, None)]:
            after = self.norm("_after", add.norm_after) if isinstance(add, Both) else {}
            lines.append(line | self.norm("", add.norm) | after)
            self.parts.append(
                attention if line["kind"] == kernel.SELF and attention and attention.h else None
            )
        return lines

    def attention(self, attention: Attention, kind: int) -> dict[str, Any]:
        """The line of attention: over its own tokens, one matrix gives queries, keys and values."""
        size, h, g = attention.size, attention.h, attention.g
        line: dict[str, Any] = {"kind": kind, "h": h, "g": g, "d_k": size.d_k, "d_v": size.d_v}
        if not h:
            bias = getattr(attention.W_o, "bias", None)
            W = torch.zeros(size.d, 0)
            return line | self.matrix("out", [(W, bias)])
        is_own = kind == self.kernel.SELF
        matrices = (attention.W_q, attention.W_k, attention.W_v) if is_own else (attention.W_q,)
        width = h * size.d_k + (g * (size.d_k + size.d_v) if is_own else 0)
        line |= {"width": width, "inner": h * size.d_v, "scale": attention.similarity.scale}
        line["reads"] = self.address(torch.tensor(size.reads))
        if isinstance(attention.norm_q, RMSNorm) and isinstance(attention.norm_k, RMSNorm):
            line["norm_q"], line["norm_k"] = (
                self.address(attention.norm_q.weight),
                self.address(attention.norm_k.weight),
            )
        return line | self.linear("in", *matrices) | self.linear("out", attention.W_o)

    def facts_of(self, model: Decoder) -> dict[str, Any]:
        """What holds for all sublayers, and what is before and after them."""
        config, stack, head, kernel = model.config, self.stack, model.head, self.kernel
        assert isinstance(head, LanguageHead)
        return {
            "vocabulary": config.vocabulary,
            "d": config.d,
            "widest": max([config.d, *self.sublayers["width"], *self.sublayers["inner"]]),
            "norm": kernel.NORM_KINDS[config.norm],
            "placement": kernel.PLACEMENT_KINDS[config.norm_placement],
            "activation": kernel.number_of(FEEDFORWARDS[config.feedforward][1]),
            "is_gated": FEEDFORWARDS[config.feedforward][0] is Gated,
            "has_relu": config.projections == "relu",
            "E": stack.tokens.weight.data_ptr(),
            **self.norm("_first", stack.embedding_norm),
            "has_first": isinstance(stack.embedding_norm, LayerNorm | RMSNorm),
            **self.norm("_last", stack.norm),
            "has_last": isinstance(stack.norm, LayerNorm | RMSNorm),
            **self.matrix("head", [(head.table.weight, head.bias)]),
            "epsilon": config.norm_epsilon,
            "epsilon_heads": config.norm_epsilon,
            "scale": stack.scale,
            "head_scale": head.scale,
            "soft_cap": head.soft_cap or 0.0,
        }


def rows_of(
    tokens: Tensor, lengths: Tensor, counts: Tensor | None, last: bool
) -> tuple[np.ndarray, np.ndarray]:
    """For each real token of (b, n) its id, position and sequence; and the rows whose logits are asked for."""
    b, n = tokens.shape
    text = np.arange(b)
    if n > 1 or counts is not None:
        text = text.repeat(n if counts is None else counts.numpy())
    rows = np.zeros((len(text), 5), np.int64)
    if len(text) == b == tokens.numel():
        rows[:, 0], rows[:, 1], rows[:, 2] = tokens[:, 0].numpy(), lengths.numpy(), text
        return rows, text
    first = np.searchsorted(text, text)
    column = np.arange(len(text)) - first
    rows[:, 0], rows[:, 1], rows[:, 2] = tokens.numpy()[text, column], lengths.numpy()[text] + column, text
    return rows, last_of(text) if last else np.arange(len(text))


def last_of(text: np.ndarray) -> np.ndarray:
    """The last row of each sequence."""
    return np.flatnonzero(np.append(text[1:] != text[:-1], True))


def biases(positions: Positions, attention: Attention, n: int) -> Tensor | None:
    """What positions add to the scores: a number for each head and distance (h, n), or nothing."""
    B = attention.select(positions.bias(torch.tensor([[n - 1]]), torch.arange(n)[None]))
    return None if B is None else B[0, :, 0].flip(-1).float()
