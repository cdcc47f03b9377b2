"""The residual stream of a token, sublayer by sublayer, and what the head would predict from it (N21 to N25, N32).

The logit lens puts the model's own final norm and head on the stream after every sublayer (nostalgebraist 2020).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from clearhead.inspection.passes import Pass
from clearhead.inspection.readings.predictions import Prediction, check_position, likeliest_of, probabilities
from clearhead.inspection.readings.tensors import block_of, stack_of, stream_before, sublayers_of

LENS_TOKENS = 5  # predictions at each site


@dataclass(frozen=True)
class StreamStep:
    """The embeddings, or one sublayer: the norm of the stream before, of what is added, and after."""

    name: str
    before: float
    added: float
    after: float
    cosine: float | None  # of what is added with the stream before


@dataclass(frozen=True)
class LensReading:
    """What the head predicts from the stream at a site."""

    site: str
    top: list[Prediction]
    log_sum: float  # ln ∑ exp z


@torch.no_grad()
def stream_steps(captured: Pass, stack: str, position: int) -> list[StreamStep]:
    """The stream of one token: the embeddings first, then every sublayer."""
    blocks = stack_of(captured, stack).blocks
    check_position(captured, stack, position)
    start = float(captured.trace[f"{stack}.embeddings.out"][0, position].norm())
    steps = [StreamStep(f"{stack}.embeddings", 0.0, start, start, None)]
    for i in range(len(blocks)):
        block = block_of(captured, stack, str(i))
        for index, sublayer in enumerate(sublayers_of(block)):
            place = f"{stack}.{i}.{sublayer}"
            before = stream_before(captured, place)[position]
            added = captured.trace[f"{place}.out"][0, position]
            after = captured.trace[f"{stack}.{i}.residual.{index}"][0, position]
            cosine = float(F.cosine_similarity(before, added, dim=0))
            steps.append(
                StreamStep(place, float(before.norm()), float(added.norm()), float(after.norm()), cosine)
            )
    return steps


def stream_sites(captured: Pass, stack: str) -> list[str]:
    """Where the stream of a stack is recorded: after the embeddings, and after every sublayer."""
    return [f"{stack}.{site}" for site in stack_of(captured, stack).stream]


def stream_norms(captured: Pass) -> dict[str, list[float]]:
    """By stack, the mean norm of the stream over all tokens at each of its sites."""
    return {
        stack: [float(captured.trace[site][0].norm(dim=-1).mean()) for site in stream_sites(captured, stack)]
        for stack in captured.ids
    }


@torch.no_grad()
def logit_lens(captured: Pass, position: int) -> list[LensReading]:
    """What the head predicts from the stream after each sublayer, normed as at the end; nothing of several labels."""
    module, top = captured.module, captured.top
    stack = stack_of(captured, top)
    check_position(captured, top, position)
    readings = []
    config = module.config
    is_one_choice = config.head != "none" and config.labels != "several"
    for site in stream_sites(captured, top) if is_one_choice else []:
        X = stack.norm(captured.trace[site])
        if (
            config.head == "language" or config.labels == "each-word"
        ):  # one row of logits, not one for each token
            X = X[:, [position]]
        z = module.head(X).flatten().double()
        best = likeliest_of(captured, probabilities(captured, z), LENS_TOKENS)
        readings.append(LensReading(site, best, float(torch.logsumexp(z, -1))))
    return readings
