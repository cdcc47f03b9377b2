"""The weights of a stack as the kernels read them: a line for each sublayer, with the addresses of its numbers.

Matrices are copied into the order in which the kernels read them, in float32, or as whole numbers, a quarter of the
bytes, if the model was rounded to int8.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.config.model import ModelConfig
from clearhead.decoding.steppers.kernels import ready
from clearhead.layers.attention import Attention
from clearhead.layers.blocks import Block
from clearhead.layers.feedforward import FEEDFORWARDS, Gated
from clearhead.layers.norms import LayerNorm, Norm, RMSNorm
from clearhead.layers.positions import Learned, Positions
from clearhead.layers.residual import Both
from clearhead.models.int8 import to_int8
from clearhead.models.transformer.stack import TransformerStack

Matrix = Sequence[tuple[Tensor, Tensor | None]]  # weights and biases above each other


class Table:
    """The table of one stack, with its weights as they are now, and what follows it: a head, or other matrices."""

    def __init__(
        self, stack: TransformerStack, config: ModelConfig, is_int8: bool, last: Matrix, **facts: Any
    ) -> None:
        self.stack, self.is_int8 = stack, is_int8
        self.kept: list[Any] = []  # arrays whose addresses are in the table
        self.positions = 0  # for which there are tables
        self.kernel = ready.kernel()
        from clearhead.decoding.steppers.kernels.products import pack
        from clearhead.decoding.steppers.kernels.team import new_team

        self.pack, self.team = pack, new_team()
        self.parts: list[Attention | None] = []
        blocks = [block for block in stack.blocks if isinstance(block, Block)]
        lines = [line for block in blocks for line in self.lines_of(block)]
        self.sublayers = np.zeros(len(lines), self.kernel.SUBLAYER)
        for row, line in enumerate(lines):
            for name, value in line.items():
                self.sublayers[name][row] = value
        self.places = np.zeros(len(lines), self.kernel.PLACE)
        self.facts = np.zeros(1, self.kernel.MODEL)
        for name, value in (self.facts_of(config) | self.matrix("head", last) | facts).items():
            self.facts[name] = value

    def run(
        self, rows: np.ndarray, origins: np.ndarray, slots: int, wanted: np.ndarray, longest: int, wide: int,
        chosen: np.ndarray, log_P: np.ndarray,
    ) -> Tensor:  # fmt: skip
        """Calls the kernel: (wanted, wide) numbers that the last matrix gives for the rows that are asked for."""
        self.facts["longest"] = longest
        self.team[:] = 0
        Z = torch.empty(len(wanted), wide)
        self.kernel.step(
            self.facts, self.sublayers, self.places, rows, origins, slots, wanted, ready.threads(), self.team,
            Z.numpy(), chosen, log_P,
        )  # fmt: skip
        return Z

    @torch.no_grad()
    def reach(self, n: int) -> None:
        """Makes tables of positions for texts of n tokens, if they are shorter.

        They double: texts grow token by token, and the old tables stay, since another thread may read them.
        """
        if n <= self.positions:
            return
        self.positions = n = 1 << (n - 1).bit_length()
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

    def matrix(self, name: str, weights: Matrix) -> dict[str, int]:
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
        own = kernel.SUBLAYER_KINDS["self"] if self.stack.causal else kernel.SUBLAYER_KINDS["around"]
        rows = [(block.add_self, self.attention(block.self, own), block.self)]
        if block.cross is not None and block.add_cross is not None:
            rows.append(
                (block.add_cross, self.attention(block.cross, kernel.SUBLAYER_KINDS["cross"]), block.cross)
            )
        matrices = self.linear("in", ffn.W_1) | self.linear("out", ffn.W_2)
        if isinstance(ffn, Gated):
            matrices |= self.linear("gate", ffn.W_g)
        last = {"kind": kernel.SUBLAYER_KINDS["ffn"], "inner": ffn.W_1.out_features} | matrices
        lines = []
        for add, line, attention in [*rows, (block.add_ffn, last, None)]:
            after = self.norm("_after", add.norm_after) if isinstance(add, Both) else {}
            lines.append(line | self.norm("", add.norm) | after)
            self.parts.append(
                attention
                if line["kind"] != kernel.SUBLAYER_KINDS["cross"] and attention and attention.h
                else None
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
        is_own = kind != self.kernel.SUBLAYER_KINDS["cross"]
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

    def facts_of(self, config: ModelConfig) -> dict[str, Any]:
        """What holds for all sublayers, and what is before and after them."""
        stack, kernel = self.stack, self.kernel
        d = stack.tokens.embedding_dim
        return {
            "d": d,
            "widest": max([d, *self.sublayers["width"], *self.sublayers["inner"]]),
            "norm": kernel.NORM_KINDS[config.norm if stack.causal else config.norm_encoder],
            "placement": kernel.PLACEMENT_KINDS[config.norm_placement],
            "activation": kernel.number_of(FEEDFORWARDS[config.feedforward][1]),
            "is_gated": FEEDFORWARDS[config.feedforward][0] is Gated,
            "has_relu": config.projections == "relu",
            "E": stack.tokens.weight.data_ptr(),
            **self.norm("_first", stack.embedding_norm),
            "has_first": isinstance(stack.embedding_norm, LayerNorm | RMSNorm),
            **self.norm("_last", stack.norm),
            "has_last": isinstance(stack.norm, LayerNorm | RMSNorm),
            "epsilon": config.norm_epsilon,
            "epsilon_heads": config.norm_epsilon,
            "scale": stack.scale,
            "head_scale": 1.0,
        }


def biases(positions: Positions, attention: Attention, n: int) -> Tensor | None:
    """What positions add to the scores: a number for each head and distance (h, n), or nothing."""
    B = attention.select(positions.bias(torch.tensor([[n - 1]]), torch.arange(n)[None]))
    return None if B is None else B[0, :, 0].flip(-1).float()
