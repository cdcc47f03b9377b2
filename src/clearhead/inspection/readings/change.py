"""What a what-if changes: the prediction that moves most, and the changed model's own output beside the original's."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.generate import Generator
from clearhead.inspection.cache_comparison import compare_cache
from clearhead.inspection.capture import intervene
from clearhead.inspection.passes import Pass
from clearhead.inspection.readings.predictions import Prediction, likeliest_of, probabilities
from clearhead.models.model import Model


@dataclass(frozen=True)
class Change:
    """The position whose prediction moves most, what is likeliest there before and after, and the own translations."""

    position: int
    before: Prediction
    after: Prediction
    own_before: str | None = None  # of a translator
    own_after: str | None = None


@torch.no_grad()
def change_of(captured: Pass, off: Sequence[str]) -> Change | None:
    """How the pass of a changed model differs from the original's on the same tokens; None without a head."""
    if captured.module.config.head == "none":
        return None
    trace, module = captured.trace, captured.inspector.bundle.module
    result = trace.run(module)
    if result.ndim == 2:  # classes
        position, was, now = 0, result[0], trace.row(0)
    else:
        rows = moved_tokens(captured, module, result)
        position, was, now = max(rows, key=lambda row: divergence(*row[1:]))
    before, after = likeliest(captured, was), likeliest(captured, now)
    if not captured.inspector.translates:
        return Change(position, before, after)
    own = captured.inspector.translate(captured.text)
    return Change(position, before, after, own, changed_translation(captured, off))


def moved_tokens(captured: Pass, module: Model, result: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Each position with its logits in the original and in the changed model."""
    trace = captured.trace
    for part in trace.logit_parts():
        before, after = trace.logits_of(module, result, part)[0], trace.logits(part)[0]
        yield from ((part.start + i, before[i], after[i]) for i in range(len(before)))


def divergence(before: Tensor, after: Tensor) -> float:
    """KL(before, after) of two rows of logits, in nats."""
    P, Q = torch.log_softmax(before.double(), -1), torch.log_softmax(after.double(), -1)
    return float((P.exp() * (P - Q)).sum())


def likeliest(captured: Pass, z: Tensor) -> Prediction:
    """The likeliest token or class of a row of logits."""
    return max(likeliest_of(captured, probabilities(captured, z), 1), key=lambda one: one.p)


def changed_translation(captured: Pass, off: Sequence[str]) -> str:
    """The translation of a changed model by itself, found as the original's is."""
    inspector = captured.inspector
    if "mask" in off:  # no cache can be used, and so no search
        names = [edit.place for edit in captured.muted]
        found = compare_cache(inspector, captured.text, DecodingConfig(temperature=0.0), off, names)
        return inspector.tokenizer("decoder").decode([step.token.id for step in found.steps])
    generator = Generator(replace(inspector.bundle, module=captured.module), captured.module)
    with intervene(captured.module, *captured.muted):
        return generator.write([captured.text], DecodingConfig())[0][0].text
