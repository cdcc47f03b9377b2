"""A translator's encoder in machine code: sources enter, the keys and values that its decoder looks at leave."""

import torch
from torch import Tensor, nn

from clearhead.decoding.steppers.compiled import NO_CHOICE, NOWHERE, rows_of
from clearhead.decoding.steppers.table import Table
from clearhead.layers.attention import split
from clearhead.layers.blocks import Block
from clearhead.layers.masks import real_tokens
from clearhead.layers.memory import Memory
from clearhead.models.transformer.translator import Translator


class CompiledEncoder:
    """The compiled pass of one model's encoder, with its weights as they are now.

    The matrices of all keys and values of the decoder's cross-attention are its last one.
    """

    def __init__(self, model: Translator) -> None:
        blocks = [block for block in model.decoder.blocks if isinstance(block, Block)]
        self.crosses = [block.cross for block in blocks if block.cross is not None]
        matrices = [W for cross in self.crosses for W in (cross.W_k, cross.W_v) if isinstance(W, nn.Linear)]
        self.width = sum(W.out_features for W in matrices)
        last = [(W.weight, W.bias) for W in matrices]
        self.table = Table(model.encoder, model.config, model.is_int8, last, vocabulary=self.width)

    @torch.no_grad()
    def __call__(self, source: Tensor, counts: Tensor | None) -> Memory:
        """What the decoder remembers of sources (b, m), of which the first `counts` tokens are real."""
        b, m = source.shape
        rows, wanted = rows_of(source, torch.zeros(b, dtype=torch.long), counts, last=False)
        rows[:, 4] = m if counts is None else counts.numpy()[rows[:, 2]]
        self.table.reach(m)
        kept = self.place(b, m)
        found = self.table.run(rows, NOWHERE, m, wanted, m, self.width, *NO_CHOICE)
        del kept
        real = real_tokens(counts, m)
        if real is None:
            return self.memory(found.view(b, m, self.width), None)
        X = torch.zeros(b, m, self.width)
        X[real] = found
        return self.memory(X, real)

    def place(self, b: int, m: int) -> list[tuple[Tensor, Tensor]]:
        """Room for the keys and values of the encoder's own attention, which is in the table."""
        table, kept = self.table, []
        for row, attention in enumerate(table.parts):
            if attention is not None:
                size = attention.size
                K, V = (torch.empty(b, attention.g, m, width) for width in (size.d_k, size.d_v))
                table.places[row] = K.data_ptr(), V.data_ptr(), K.stride()[:3], V.stride()[:3]
                kept.append((K, V))
        return kept

    def memory(self, X: Tensor, real: Tensor | None) -> Memory:
        """Divides (b, m, width) into the keys and values of every block, each head's side by side."""
        stored, first = [], 0
        for cross in self.crosses:
            size, g = cross.size, cross.g
            middle = first + g * size.d_k
            last = middle + g * size.d_v
            K, V = (cross.activation(part) for part in (X[..., first:middle], X[..., middle:last]))
            stored.append(
                (cross.norm_k(split(K, g, size.d_k)).contiguous(), split(V, g, size.d_v).contiguous())
            )
            first = last
        return Memory(stored, real, *X.shape[:2])
