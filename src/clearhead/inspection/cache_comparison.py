"""One text generated twice, side by side: with the key-value cache, and with everything computed anew each step.

A prompt enters; every step leaves with its token, what it cost both ways, and how far the logits are apart (N38, N40).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.sampling import draw, likeliest, log_probabilities, narrow, number
from clearhead.errors import InputError
from clearhead.inspection.capture import intervene, zero
from clearhead.inspection.passes import Difference, Inspector, largest_difference
from clearhead.inspection.readings.predictions import Prediction, likeliest_tokens
from clearhead.inspection.tokens import TextToken, text_token
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model

ALTERNATIVES = 5  # likeliest tokens listed at each step


@dataclass(frozen=True)
class GenerationStep:
    """One token: how likely it was, and what it cost with the cache and without."""

    token: TextToken
    logprob: float
    top: list[Prediction]
    read: int  # tokens so far
    computed: int  # of which with the cache only these
    cache_bytes: int
    seconds: float
    seconds_without: float
    furthest: Difference  # between the logits with the cache and without


@dataclass(frozen=True)
class CacheComparison:
    """The prompt, and every step after it."""

    prompt: list[TextToken]
    steps: list[GenerationStep]


@torch.no_grad()
def compare_cache(
    inspector: Inspector,
    text: str,
    settings: DecodingConfig,
    off: Sequence[str] = (),
    muted: Sequence[str] = (),
) -> CacheComparison:
    """Generates from a prompt, or translates a source, both ways; without parts, or with muted heads, where asked to.

    Without its mask a model would change what earlier tokens have read at every step, which no cache can keep: the
    logits of both ways differ, and the token is chosen from those without it.
    """
    module = inspector.variant(tuple(sorted(set(off))))
    with intervene(module, *(zero(head) for head in dict.fromkeys(muted))):
        return compare_steps(inspector, module, text, settings, "mask" in off)


def compare_steps(
    inspector: Inspector, module: Model, text: str, settings: DecodingConfig, is_anew: bool
) -> CacheComparison:
    """Generates both ways by one module; tokens are chosen from the logits of the cache, or from those anew."""
    generator = inspector.generator
    prompt, tokenizer = generator.prompt(text, chat=False), generator.tokenizer
    if prompt.source == []:
        raise InputError("There is nothing to translate.\nGive a text.")
    source = None if prompt.source is None else torch.tensor([prompt.source])
    count = room_after(prompt.ids, settings.max_tokens, inspector.most_tokens)
    state = module.start(1, len(prompt.ids) + count, source)
    ids, new, steps = list(prompt.ids), list(prompt.ids), []
    for step in range(count):
        start = time.perf_counter()
        Z = module.step(torch.tensor([new]), state, last=True)[:, -1].float()
        between = time.perf_counter()
        again = last_logits(module, ids, source)
        end = time.perf_counter()
        Z, cached = (again if is_anew else Z), Z
        token = pick(Z, settings, step)
        steps.append(
            GenerationStep(
                token=text_token(tokenizer, token),
                logprob=float(log_probabilities(Z)[0, token]),
                top=likeliest_tokens(tokenizer, torch.softmax(Z[0], -1), ALTERNATIVES),
                read=len(ids),
                computed=len(new),
                cache_bytes=state.used_bytes,
                seconds=between - start,
                seconds_without=end - between,
                furthest=largest_difference(cached[0], again[0]),
            )
        )
        if token in generator.end:
            break
        ids, new = [*ids, token], [token]
    return CacheComparison([text_token(tokenizer, id) for id in prompt.ids], steps)


def room_after(prompt: list[int], max_tokens: int, most_tokens: int | None) -> int:
    """How many tokens can follow a prompt, at least one."""
    if most_tokens is None:
        return max_tokens
    if len(prompt) >= most_tokens:
        raise InputError(
            f"The prompt has {len(prompt)} tokens, but there is room for {most_tokens - 1}.\nShorten it."
        )
    return min(max_tokens, most_tokens - len(prompt))


def last_logits(module: Model, ids: list[int], source: Tensor | None) -> Tensor:
    """The last logits by one pass over all tokens, the source too."""
    X = module.vectors(Inputs(torch.tensor([ids]), source=source))
    return module.head(X[:, -1:])[:, -1].float()


def pick(Z: Tensor, settings: DecodingConfig, step: int) -> int:
    """The next token by the rules of decoding."""
    if not settings.temperature:
        return int(likeliest(Z))
    drawn = torch.tensor([number(settings.seed or 0, step)], dtype=torch.double)
    return int(draw(narrow(Z, settings), drawn))
