"""A decoder's step in machine code: which models have one, and the call.

docs/kernels.md compares the formulas of the kernels with those of the layers.
"""

import numpy as np
import torch
from torch import Tensor

from clearhead.decoding.steppers.kernels import ready
from clearhead.decoding.steppers.table import Table
from clearhead.layers.blocks import Block
from clearhead.layers.cache import Cache, DecoderState
from clearhead.layers.memory import Memory
from clearhead.models.heads import LanguageHead
from clearhead.models.model import Model
from clearhead.models.transformer.decoder import Decoder
from clearhead.models.transformer.translator import Translator

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


def why_not_encoded(model: Translator) -> str | None:
    """The reason why the encoder of a translator with compiled steps is left to PyTorch, or None."""
    config = model.config
    if config.window is not None:
        return "an encoder with a window has no compiled pass"
    if config.positions in ("alibi", "relative"):
        return f"an encoder with model.positions = {config.positions!r} has no compiled pass"
    if config.norm_encoder == "whole":
        return "model.norm_encoder = 'whole' has no compiled pass"
    if not any(
        isinstance(block, Block) and block.cross is not None and block.cross.h
        for block in model.decoder.blocks
    ):
        return "nothing looks at what it gives"
    return None


class CompiledStep:
    """The compiled step of one model, with its weights as they are now."""

    def __init__(self, model: Decoder) -> None:
        self.model, head = model, model.head
        assert isinstance(head, LanguageHead)
        self.table = Table(
            model.decoder, model.config, model.is_int8, [(head.table.weight, head.bias)],
            vocabulary=model.config.vocabulary, head_scale=head.scale, soft_cap=head.soft_cap or 0.0,
        )  # fmt: skip
        self.kinds = self.table.sublayers["kind"].tolist()
        # Addresses and slots of the keys and values in the table's places.
        self.known: list[tuple[int, int]] | None = None

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
        self.table.reach(longest)
        self.locate(cache, memory)
        if memory is not None:
            rows[:, 3] = memory.owner.numpy()[rows[:, 2]]
            rows[:, 4] = memory.stored_seen().sum(1).numpy()[rows[:, 3]]
            longest = max(longest, memory.to.shape[1])
        origins = NOWHERE if cache.origins is None else cache.origins.numpy()
        vocabulary = self.model.config.vocabulary
        Z = self.table.run(rows, origins, cache.slots, wanted, longest, vocabulary, chosen, log_P)
        cache.lengths = after
        return Z

    def locate(self, cache: Cache, memory: Memory | None) -> None:
        """Enters where keys and values are, if they are elsewhere than in the last step."""
        own = zip(cache.stored_K, cache.stored_V, strict=True)
        pairs = {
            self.table.kernel.SUBLAYER_KINDS["self"]: list(own),
            self.table.kernel.SUBLAYER_KINDS["cross"]: [] if memory is None else memory.stored,
        }
        known = [(X.data_ptr(), X.shape[2]) for pair in pairs.values() for KV in pair for X in KV]
        if known == self.known:
            return
        self.known, left = known, {kind: iter(pair) for kind, pair in pairs.items()}
        for i, kind in enumerate(self.kinds):
            if kind in left:
                K, V = next(left[kind])
                self.table.places[i] = K.data_ptr(), V.data_ptr(), K.stride()[:3], V.stride()[:3]


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
