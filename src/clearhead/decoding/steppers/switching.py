"""PyTorch first, and machine code when it has paid: a decoder's own step, replaced by the compiled one.

Captures, vectors instead of tokens, prompts that go round a ring, and models that are not compiled stay with the
decoder's own step. The state is its own in both ways, so that texts can go on in the other at any token.
"""

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.decoding.engine import Stepper
from clearhead.decoding.sampling import damaged
from clearhead.decoding.steppers.compiled import CompiledStep, why_not_compiled, why_not_encoded
from clearhead.decoding.steppers.encoding import CompiledEncoder
from clearhead.decoding.steppers.kernels import ready
from clearhead.layers.cache import Cache, DecoderState, lengths_after
from clearhead.layers.sites import listener
from clearhead.models.inputs import check_counts, check_tokens
from clearhead.models.model import Model
from clearhead.models.transformer.decoder import Decoder
from clearhead.models.transformer.translator import Translator

# Whether a model's weights may change between texts; "as they are" also keeps every rounding of PyTorch.
Weights = Literal["changing", "fixed", "as they are"]
Stamp = list[tuple[int, int]]

# Weights used for a row, after which the compiled step would have paid: its machine code must be loaded, or made first.
READ_AFTER, COMPILE_AFTER = 2e9, 2e10


def stepper_of(model: Model, weights: Weights = "changing") -> Stepper[Any]:
    """The fastest stepper for a model: the model itself where there is no machine code for it."""
    if weights == "as they are" or not isinstance(model, Decoder) or why_not_compiled(model) is not None:
        return model
    return SwitchingStepper(model, weights)


class SwitchingStepper:
    """Takes a decoder's place: the same logits, sooner."""

    def __init__(self, model: Decoder, weights: Weights = "changing") -> None:
        self.model, self.weights = model, weights
        self.stamp: Stamp | None = None
        self.compiled: CompiledStep | None = None
        self.encoder: CompiledEncoder | None = None
        self.why_not = why_not_compiled(model)
        self.size = sum(weight.numel() for weight in model.parameters())
        self.used = 0  # weights, for each row of each step

    def start(
        self, batch: int, capacity: int, source: Tensor | None = None, source_counts: Tensor | None = None
    ) -> DecoderState:
        """An empty state; looks the weights up again if they have changed."""
        if self.compiled is not None and self.weights == "changing" and self.stamp != stamp(self.model):
            self.refresh()
        if source is None or not self.encodes(source, source_counts):
            return self.model.start(batch, capacity, source, source_counts)
        assert isinstance(self.model, Translator)
        assert self.encoder is not None
        self.model.check_start(batch, capacity, source, source_counts)
        self.model.check_source(source, source_counts)
        self.model.check_pairs(len(source), batch)
        state = DecoderState(self.model.decoder.cache(batch, capacity))
        state.memory = self.encoder(source, source_counts)
        return state

    def encodes(self, source: Tensor, counts: Tensor | None) -> bool:
        """Whether the compiled encoder is ready for some sources, and nobody looks inside."""
        is_usual = source.dim() == 2 and listener() is None and (counts is None or bool((counts > 0).all()))
        return is_usual and self.is_compiled(source.numel()) and self.encoder is not None

    def refresh(self) -> None:
        """Looks all weights up again; needed by hand where PyTorch does not see a change, as through `.data`."""
        if self.compiled is not None:
            self.compile()

    def compile(self) -> None:
        """Makes the compiled step of the weights as they are now."""
        self.compiled, self.stamp = CompiledStep(self.model), stamp(self.model)
        if isinstance(self.model, Translator) and why_not_encoded(self.model) is None:
            self.encoder = CompiledEncoder(self.model)

    def is_compiled(self, rows: int) -> bool:
        """Whether rows are stepped by machine code, loaded or made aside once that is likely to pay."""
        if self.why_not is None and self.compiled is None:
            self.used += rows * self.size
            if self.used >= READ_AFTER and ready.advance(may_compile=self.used >= COMPILE_AFTER):
                self.compile()
            self.why_not = ready.why_not()
        return self.compiled is not None and ready.why_not() is None

    def prepare(self) -> None:
        """Reads or makes the machine code now, or says why there is none."""
        if self.why_not is None and ready.prepare():
            self.compile()
        self.why_not = self.why_not or ready.why_not()

    @torch.no_grad()
    def step(
        self, tokens: Tensor, state: DecoderState, counts: Tensor | None = None, last: bool = False
    ) -> Tensor:
        """Adds tokens (b, n) to the state and gives their logits (b, n, vocabulary), or those of the last."""
        compiled = self.compiled_for(tokens, state)
        if compiled is not None and fits(state.cache, tokens, counts):
            check_tokens(tokens, self.model.config.vocabulary, self.model.config.d)
            check_counts(counts, tokens, least=0)
            return compiled(tokens, state, counts, last or tokens.shape[1] == 1)
        return self.model.step(tokens, state, counts, last)

    def compiled_for(self, tokens: Tensor, state: DecoderState) -> CompiledStep | None:
        """The compiled step, if it is ready and nobody looks inside."""
        is_usual = not tokens.is_floating_point() and listener() is None and len(tokens) == state.cache.batch
        return self.compiled if is_usual and self.is_compiled(tokens.numel()) else None

    def write(self, tokens: Tensor, state: DecoderState, count: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Adds ids (b, 1), then the likeliest next one, and so on: `count` of them (count, b), and their log P.

        None without machine code.
        """
        compiled = self.compiled_for(tokens, state)
        if compiled is None:
            return None
        check_tokens(tokens, self.model.config.vocabulary, self.model.config.d)
        cache = state.cache
        lengths_after(cache.lengths, torch.full_like(cache.lengths, count), cache.capacity)
        ids, log_P = compiled.write(tokens, state, count)
        if np.isnan(log_P).any():
            raise damaged()
        return ids, log_P


def fits(cache: Cache, tokens: Tensor, counts: Tensor | None) -> bool:
    """Whether every sequence gets a token and has room for it, and no ring goes round within a step."""
    n = tokens.shape[1]
    if counts is not None and int(counts.min()) < 1:
        return False
    lengths_after(
        cache.lengths, torch.full_like(cache.lengths, n) if counts is None else counts, cache.capacity
    )
    return n == 1 or not cache.is_ring


def stamp(model: nn.Module) -> Stamp:
    """Changes when a weight is replaced, and when PyTorch sees it change: not through `.data` or a fused optimizer."""
    return [(weight.data_ptr(), version(weight)) for weight in model.parameters()]


def version(weight: Tensor) -> int:
    """How often PyTorch saw it change; what was made in inference mode has no count."""
    return 0 if weight.is_inference() else weight._version
