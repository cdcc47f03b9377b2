"""The self-check of a model: laws that must hold on this machine, each with the largest difference seen.

A bundle enters; one `Law` after the other leaves. Sums round differently for other shapes of a matrix product, so
logits agree within 1e-4 of the largest, not to the last bit; saved weights agree in every bit.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from clearhead import model_folder
from clearhead.decoding.steppers.compiled import why_not_compiled
from clearhead.decoding.steppers.switching import SwitchingStepper, stepper_of
from clearhead.errors import ModelFolderError
from clearhead.folder_files import changed_files, read_checksums
from clearhead.inspection.capture import capture
from clearhead.layers.attention import Attention
from clearhead.model_folder import Bundle
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model

TOLERANCE = 1e-4  # times the largest logit, or 1 if that is smaller
INT8_SHARE = 200  # of the tolerance: activations are rounded too, to 12 bits
FILES_LAW = "files as written"
COMPILED_STEPS = 8  # of each order of the weights
LENGTHS = (48, 31, 7, 1)  # tokens of the rows that are checked, as far as the context allows


@dataclass(frozen=True)
class Law:
    """One thing that must hold, and how far from it this model is."""

    name: str
    difference: float
    limit: float
    note: str = ""  # what differs, if that is not a number

    @property
    def holds(self) -> bool:
        """Whether the difference is within the limit; NaN is not."""
        return self.difference <= self.limit


class Probe:
    """A model with random rows of different length to try it on."""

    def __init__(self, bundle: Bundle, seed: int = 1) -> None:
        self.bundle, self.module, config = bundle, bundle.module, bundle.config
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
        return self.module.outputs(self.inputs() if row is None else self.single(row))

    def inputs(self, b: int = len(LENGTHS)) -> Inputs:
        """The first b rows in one batch."""
        inputs = Inputs(self.tokens[:b], self.counts[:b])
        if not self.module.translates:
            return inputs
        return inputs._replace(source=self.source[:b], source_counts=self.source_counts[:b])

    def single(self, row: int) -> Inputs:
        """One row alone, without padding."""
        inputs = Inputs(self.tokens[row : row + 1, : self.counts[row]])
        if not self.module.translates:
            return inputs
        return inputs._replace(source=self.source[row : row + 1, : self.source_counts[row]])

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
    return probe.module.translates and name.startswith("encoder.")


def cached_equals_uncached(probe: Probe) -> Law:
    """A prompt of half the row, then a token at a time through the cache, against one full pass."""
    return Law("cached = uncached", largest(own_steps(probe, probe.module)), probe.limit)


def compiled_equals_cached(probe: Probe) -> Law:
    """The compiled step against one full pass; or why steps are left to PyTorch."""
    name, limit = "compiled = uncached", probe.limit * (INT8_SHARE if probe.module.is_int8 else 1)
    stepper = stepper_of(probe.module, "fixed")
    if not isinstance(stepper, SwitchingStepper):
        return Law(name, 0.0, limit, f"left to PyTorch: {why_not_compiled(probe.module)}")
    stepper.prepare()
    if stepper.compiled is None:
        return Law(name, 0.0, limit, f"left to PyTorch: {stepper.why_not}")
    return Law(name, largest([gap for b in (1, len(LENGTHS)) for gap in steps(probe, stepper, b)]), limit)


def own_steps(probe: Probe, module: Model) -> list[float]:
    """The model's own steps, with rows of different length."""
    longest = probe.tokens.shape[1]
    inputs = probe.inputs()
    state = module.start(len(LENGTHS), longest, inputs.source, inputs.source_counts)
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


def steps(probe: Probe, stepper: SwitchingStepper, b: int) -> list[float]:
    """A prompt and some steps of decoding with b rows that continue without padding."""
    inputs = probe.inputs(b)._replace(counts=None)
    gaps, tokens, whole = [], inputs.tokens, probe.module(inputs)
    first = (probe.counts[:b] + 1) // 2
    longest, rows = tokens.shape[1], torch.arange(b)
    state = stepper.start(b, longest, inputs.source, inputs.source_counts)
    stepper.step(tokens[:, : int(first.max())], state, first)
    for _ in range(min(COMPILED_STEPS, longest - int(first.max()))):
        at = state.lengths
        logits = stepper.step(tokens.gather(1, at[:, None]), state)
        gaps.append(distance(logits[:, 0], whole[rows, at]))
    return gaps


def sees_no_future(probe: Probe) -> Law:
    """Another last token must leave every logit before it as it was."""
    n = probe.tokens.shape[1]
    before, kept = probe.run(0)[0, : n - 1], probe.tokens
    probe.tokens = kept.clone()
    probe.tokens[0, -1] = (kept[0, -1] + 1) % probe.bundle.config.vocabulary
    after = probe.run(0)[0, : n - 1]
    probe.tokens = kept
    return Law("no look at the future", distance(after, before), probe.limit)


def saved_equals_loaded(probe: Probe) -> Law:
    """Written to a folder and read again: the same weights to the last bit."""
    with tempfile.TemporaryDirectory() as place:
        model_folder.save(f"{place}/model", probe.bundle)
        dtype = next(probe.module.parameters()).dtype
        again = model_folder.load(f"{place}/model", dtype).module
    pairs = zip(probe.module.parameters(), again.parameters(), strict=True)
    return Law("saved = loaded", largest([apart(*pair) for pair in pairs]), 0.0)


def files_as_written(folder: Path) -> Law | None:
    """Every file of a model folder against its checksum, the weights too; None if the folder has no checksums."""
    written = read_checksums(folder)
    if written is None:
        return None
    changed = changed_files(folder, written, model_folder.CHECKED)
    note = (
        "; ".join(f"{name} {what}" for name, what in changed) or f"{len(written)} files match their SHA-256"
    )
    return Law(FILES_LAW, float(len(changed)), 0.0, note)


def apart(X: Tensor, Y: Tensor) -> float:
    """0 where two tensors are equal in every bit, −0 and NaN included; else how far they differ."""
    is_same = torch.equal(X.reshape(-1).view(torch.uint8), Y.reshape(-1).view(torch.uint8))
    return 0.0 if is_same else max(distance(X, Y), sys.float_info.min)


def same_as_reference(probe: Probe, reference: Callable[[Inputs], Tensor], avoided: int | None = None) -> Law:
    """Every row alone against another implementation; an id that it treats specially is avoided."""
    if avoided is not None:
        other = (avoided + 1) % probe.bundle.config.vocabulary
        probe.tokens = probe.tokens.where(probe.tokens != avoided, other)
        probe.source = probe.source.where(probe.source != avoided, other)
    gaps = []
    for row in range(len(LENGTHS)):
        theirs, ours = reference(probe.single(row)), probe.run(row)
        if theirs.shape != ours.shape:
            raise ModelFolderError(
                f"The reference returns {tuple(theirs.shape)} where this model returns {tuple(ours.shape)}.\n"
                "They are not the same model."
            )
        gaps.append(distance(ours, theirs))
    return Law("same as reference", largest(gaps), probe.limit)


def distance(X: Tensor, Y: Tensor) -> float:
    """The largest difference of two tensors; 0 where there is nothing to compare."""
    return float((X.float() - Y.float()).abs().max()) if X.numel() else 0.0


def largest(gaps: list[float]) -> float:
    """The largest of some differences; NaN if one of them is, which `max` may skip."""
    return float(torch.tensor(gaps, dtype=torch.double).max()) if gaps else 0.0


OF_ALL = (batched_equals_single, captured_equals_fast)
OF_WRITERS = (cached_equals_uncached, compiled_equals_cached, sees_no_future)


@torch.no_grad()
def check(bundle: Bundle, *more: Callable[[Probe], Law]) -> Iterator[Law]:
    """The laws that concern this model, one after the other, and then more of them."""
    probe = Probe(bundle)
    laws: list[Callable[[Probe], Law]] = list(OF_ALL)
    if any(isinstance(part, Attention) for part in bundle.module.modules()):
        laws.append(rows_sum_to_one)
    if bundle.module.generates:
        laws += OF_WRITERS
    for law in [*laws, saved_equals_loaded, *more]:
        yield law(probe)
