"""The self-check of a model: laws that must hold on this machine, each with the largest difference seen.

A checkpoint enters; a `Law` a line leaves. Sums round differently for other shapes of a matrix product, so
logits agree within 1e-4 of the largest, not to the last bit; what is only read again agrees in every bit.
"""

import math
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from clearhead import checkpoint as folder
from clearhead.checkpoint import Checkpoint
from clearhead.decoding.direct import DirectStepper, stepper_of
from clearhead.decoding.products import Order
from clearhead.errors import CheckpointError
from clearhead.inspection.capture import capture
from clearhead.layers.attention import Attention
from clearhead.models.decoder import Decoder
from clearhead.models.translator import Translator

TOLERANCE = 1e-4  # times the largest logit, or 1 if that is smaller
DIRECT_STEPS = 8  # of each order of the weights
LENGTHS = (48, 31, 7, 1)  # tokens of the rows that are checked, as far as the context allows


@dataclass(frozen=True)
class Law:
    """One thing that must hold, and how far from it this model is."""

    name: str
    difference: float
    limit: float

    @property
    def holds(self) -> bool:
        """Whether the difference is within the limit; not a number is not."""
        return self.difference <= self.limit


class Probe:
    """A model with random rows of different length to try it on."""

    def __init__(self, checkpoint: Checkpoint, seed: int = 1) -> None:
        self.checkpoint, self.module, config = checkpoint, checkpoint.module, checkpoint.config
        generator = torch.Generator().manual_seed(seed)
        longest = LENGTHS[0] if config.context is None else min(LENGTHS[0], config.context)
        self.counts = torch.tensor(LENGTHS).clamp(max=longest)
        shape = (len(LENGTHS), longest)
        self.tokens = torch.randint(config.vocabulary, shape, generator=generator)
        self.source = torch.randint(config.vocabulary_encoder, shape, generator=generator)
        self.source_counts = self.counts.flip(0)
        self.whole = self.run()
        self.limit = TOLERANCE * max(1.0, float(self.whole.abs().max()))

    def run(self, row: int | None = None) -> Tensor:
        """The logits of all rows, or of one row alone and without padding; vectors where there is no head."""
        module = self.module
        if row is None:
            tokens, counts, source, source_counts = self.tokens, self.counts, self.source, self.source_counts
        else:
            tokens, counts = self.tokens[row : row + 1, : self.counts[row]], None
            source, source_counts = self.source[row : row + 1, : self.source_counts[row]], None
        given = (source, counts, source_counts) if isinstance(module, Translator) else (counts,)
        call = module.vectors if self.checkpoint.config.head == "none" else module
        return call(tokens, *given)

    def real(self, logits: Tensor, row: int) -> Tensor:
        """A row of logits without its padding; a classifier has one vector for the row."""
        return logits[row] if logits.ndim == 2 else logits[row, : self.counts[row]]


def batched_equals_single(probe: Probe) -> Law:
    """Rows padded into one batch against each alone."""
    gaps = [distance(probe.real(probe.whole, row), probe.run(row)[0]) for row in range(len(LENGTHS))]
    return Law("batched = single", largest(gaps), probe.limit)


def captured_equals_fast(probe: Probe) -> Law:
    """Every site recorded, scores and weights in full, against the fast path."""
    with capture(probe.module):
        captured = probe.run()
    gaps = [distance(probe.real(captured, row), probe.real(probe.whole, row)) for row in range(len(LENGTHS))]
    return Law("captured = fast", largest(gaps), probe.limit)


def rows_sum_to_one(probe: Probe) -> Law:
    """The attention weights of every real token."""
    with capture(probe.module, "*.weights") as trace:
        probe.run()
    gaps = []
    for name, A in trace.items():
        counts = probe.source_counts if is_of_source(probe, name) else probe.counts
        for row, count in enumerate(counts.tolist()):
            gaps.append(float((A[row, :, :count].sum(-1) - 1).abs().max()))
    return Law("attention rows sum to 1", largest(gaps), 1e-5)


def is_of_source(probe: Probe, name: str) -> bool:
    """Whether a site's rows are the tokens of a translator's source."""
    return isinstance(probe.module, Translator) and name.startswith("encoder.")


def cached_equals_uncached(probe: Probe) -> Law:
    """A prompt of half the row, then a token at a time through the cache, against one full pass.

    By the model's own step, and by the one that decoding takes: for one row, and for several.
    """
    assert isinstance(probe.module, Decoder)
    gaps, stepper = own_steps(probe, probe.module), stepper_of(probe.module)
    if isinstance(stepper, DirectStepper):
        gaps += direct_steps(probe, stepper, 1) + direct_steps(probe, stepper, len(LENGTHS))
    return Law("cached = uncached", largest(gaps), probe.limit)


def own_steps(probe: Probe, module: Decoder) -> list[float]:
    """The model's own steps, with rows of different length."""
    longest = probe.tokens.shape[1]
    source = (probe.source, probe.source_counts) if isinstance(module, Translator) else ()
    state = module.start(len(LENGTHS), longest, *source)
    first = (probe.counts + 1) // 2  # of different length in every row
    logits = module.step(probe.tokens[:, : int(first.max())], state, first)
    gaps = [distance(logits[row, :n], probe.whole[row, :n]) for row, n in enumerate(first.tolist())]
    while bool((state.lengths < probe.counts).any()):
        at = state.lengths.clamp(max=longest - 1)
        counts = (state.lengths < probe.counts).long()
        logits = module.step(probe.tokens.gather(1, at[:, None]), state, counts)
        rows = counts.nonzero()[:, 0]
        gaps.append(distance(logits[rows, 0], probe.whole[rows, at[rows]]))
    return gaps


def direct_steps(probe: Probe, stepper: DirectStepper, b: int) -> list[float]:
    """Some steps of decoding with b rows that go on without padding, with the weights in every order."""
    gaps, tokens, of_source = [], probe.tokens[:b], (probe.source[:b], probe.source_counts[:b])
    translates = isinstance(probe.module, Translator)
    whole = probe.module(tokens, of_source[0], None, of_source[1]) if translates else probe.module(tokens)
    first = (probe.counts[:b] + 1) // 2
    longest, rows = tokens.shape[1], torch.arange(b)
    stepper.patience = dict.fromkeys(stepper.patience, math.inf)  # each order stays
    for order in get_args(Order):
        state = stepper.start(b, longest, *(of_source if translates else ()))
        stepper.look_up(order)
        stepper.step(tokens[:, : int(first.max())], state, first)
        for _ in range(min(DIRECT_STEPS, longest - int(first.max()))):
            at = state.lengths
            logits = stepper.step(tokens.gather(1, at[:, None]), state)
            gaps.append(distance(logits[:, 0], whole[rows, at]))
    return gaps


def sees_no_future(probe: Probe) -> Law:
    """Another last token must leave every logit before it as it was."""
    n = probe.tokens.shape[1]
    before, kept = probe.run(0)[0, : n - 1], probe.tokens
    probe.tokens = kept.clone()
    probe.tokens[0, -1] = (kept[0, -1] + 1) % probe.checkpoint.config.vocabulary
    after = probe.run(0)[0, : n - 1]
    probe.tokens = kept
    return Law("no look at the future", distance(after, before), probe.limit)


def saved_equals_loaded(probe: Probe) -> Law:
    """Written to a folder and read again: the same weights to the last bit."""
    with tempfile.TemporaryDirectory() as place:
        folder.save(f"{place}/model", probe.checkpoint)
        dtype = next(probe.module.parameters()).dtype
        again = folder.load(f"{place}/model", dtype).module
    pairs = zip(probe.module.parameters(), again.parameters(), strict=True)
    return Law("saved = loaded", largest([apart(*pair) for pair in pairs]), 0.0)


def apart(X: Tensor, Y: Tensor) -> float:
    """0 where two tensors are equal in every bit, −0 and what is no number included; else how far they differ."""
    is_same = torch.equal(X.reshape(-1).view(torch.uint8), Y.reshape(-1).view(torch.uint8))
    return 0.0 if is_same else max(distance(X, Y), sys.float_info.min)


def same_as_reference(
    probe: Probe, reference: Callable[[Tensor, Tensor | None], Tensor], avoided: int | None = None
) -> Law:
    """Every row alone against another implementation; an id that it reads in its own way is avoided."""
    if avoided is not None:
        other = (avoided + 1) % probe.checkpoint.config.vocabulary
        probe.tokens = probe.tokens.where(probe.tokens != avoided, other)
        probe.source = probe.source.where(probe.source != avoided, other)
    gaps = []
    for row in range(len(LENGTHS)):
        tokens = probe.tokens[row : row + 1, : probe.counts[row]]
        source = probe.source[row : row + 1, : probe.source_counts[row]]
        theirs = reference(tokens, source if isinstance(probe.module, Translator) else None)
        ours = probe.run(row)
        if theirs.shape != ours.shape:
            raise CheckpointError(
                f"The reference gives {tuple(theirs.shape)} where this model gives {tuple(ours.shape)}.\n"
                "They are not the same model."
            )
        gaps.append(distance(ours, theirs))
    return Law("same as reference", largest(gaps), probe.limit)


def distance(X: Tensor, Y: Tensor) -> float:
    """The largest difference of two tensors; 0 where there is nothing to compare."""
    return float((X.float() - Y.float()).abs().max()) if X.numel() else 0.0


def largest(gaps: list[float]) -> float:
    """The largest of some differences; not a number where one of them is none, which `max` may pass over."""
    return float(torch.tensor(gaps, dtype=torch.double).max()) if gaps else 0.0


OF_ALL = (batched_equals_single, captured_equals_fast)
OF_WRITERS = (cached_equals_uncached, sees_no_future)


@torch.no_grad()
def check(checkpoint: Checkpoint, *more: Callable[[Probe], Law]) -> Iterator[Law]:
    """The laws that concern this model, one after the other, and then more of them."""
    probe = Probe(checkpoint)
    laws: list[Callable[[Probe], Law]] = list(OF_ALL)
    if any(isinstance(part, Attention) for part in checkpoint.module.modules()):
        laws.append(rows_sum_to_one)
    if isinstance(checkpoint.module, Decoder) and checkpoint.config.head == "language":
        laws += OF_WRITERS
    for law in [*laws, saved_equals_loaded, *more]:
        yield law(probe)
