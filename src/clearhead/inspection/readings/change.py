"""What a what-if changes: the prediction that moves most, and the changed model's own output beside the original's."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.generate import Generator
from clearhead.inspection.cache_comparison import compare_cache
from clearhead.inspection.capture import intervene
from clearhead.inspection.pass_trace import forward
from clearhead.inspection.passes import Pass
from clearhead.inspection.readings.predictions import Prediction, likeliest_of, logits_at


@dataclass(frozen=True)
class Change:
    """The position whose prediction moves most, what is likeliest there before and after, and the own translations."""

    position: int
    before: Prediction
    after: Prediction
    own_before: str | None = None  # of a translator
    own_after: str | None = None


@torch.no_grad()
def change_of(captured: Pass, ablated: Sequence[str]) -> Change | None:
    """How the pass of a changed model differs from the original's on the same tokens; None without a head."""
    if captured.module.config.head == "none":
        return None
    original, changed = forward(captured.inspector.bundle.module, captured.ids), captured.trace["logits"]
    count = 1 if changed.ndim == 2 else changed.shape[1]
    moved = [divergence(logits_at(original, i), logits_at(changed, i)) for i in range(count)]
    position = max(range(count), key=moved.__getitem__)
    before, after = (likeliest(captured, logits_at(Z, position)) for Z in (original, changed))
    if not captured.inspector.translates:
        return Change(position, before, after)
    own = captured.inspector.translate(captured.text)
    return Change(position, before, after, own, changed_translation(captured, ablated))


def divergence(before: Tensor, after: Tensor) -> float:
    """KL(before, after) of two rows of logits, in nats."""
    P, Q = torch.log_softmax(before, -1), torch.log_softmax(after, -1)
    return float((P.exp() * (P - Q)).sum())


def likeliest(captured: Pass, z: Tensor) -> Prediction:
    """The likeliest token or class of a row of logits."""
    return max(likeliest_of(captured, torch.softmax(z, -1), 1), key=lambda one: one.p)


def changed_translation(captured: Pass, ablated: Sequence[str]) -> str:
    """The translation of a changed model by itself, found as the original's is."""
    inspector = captured.inspector
    if "mask" in ablated:  # no cache can be used, and so no search
        names = [edit.place for edit in captured.muted]
        found = compare_cache(inspector, captured.text, DecodingConfig(temperature=0.0), ablated, names)
        return inspector.tokenizer("decoder").decode([step.token.id for step in found.steps])
    generator = Generator(replace(inspector.bundle, module=captured.module), captured.module)
    with intervene(captured.module, *captured.muted):
        return generator.write([captured.text], DecodingConfig())[0][0].text
