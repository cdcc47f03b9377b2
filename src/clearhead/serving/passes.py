"""One captured pass over a text: a question enters, its tokens and every named tensor leave.

The same pass also runs by the fast path, and the largest difference of the two is kept beside the tensors.
"""

import time
from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor

from clearhead.api import Model
from clearhead.data.frames import Frame
from clearhead.errors import InputError
from clearhead.inspection.capture import Trace, capture, intervene, zero
from clearhead.inspection.variants import without
from clearhead.models.build import Model as Module
from clearhead.models.translator import Translator
from clearhead.serving.questions import MOST_TOKENS, Question
from clearhead.serving.tokens import ShownToken, show_tokens
from clearhead.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Difference:
    """The number that differs most between the captured and the fast pass, and its place."""

    place: tuple[int, ...]
    captured: float
    fast: float

    @property
    def size(self) -> float:
        """How far they are apart."""
        return abs(self.captured - self.fast)


@dataclass
class Pass:
    """What one question led to: tokens by stack, tensors by site, and how far the fast path is from them."""

    question: Question
    module: Module
    ids: dict[str, list[int]]
    tokens: dict[str, list[ShownToken]]
    trace: Trace
    difference: "Difference"
    seconds: dict[str, float]
    own_target: str | None = None
    bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.bytes = sum(X.numel() * X.element_size() for X in self.trace.values())

    @property
    def top(self) -> str:
        """The stack that the head reads."""
        return "decoder" if "decoder" in self.ids else "encoder"

    def run(self, module: Module, ids: dict[str, list[int]] | None = None) -> Tensor:
        """Logits of this pass's tokens, or of others, by any model of the same shape."""
        return run(module, ids or self.ids)


def run(module: Module, ids: dict[str, list[int]]) -> Tensor:
    """Logits (1, n, vocabulary) or (1, classes); the vectors (1, n, d) of a model without a head."""
    given = [torch.tensor([ids["decoder" if "decoder" in ids else "encoder"]])]
    if isinstance(module, Translator):
        given.append(torch.tensor([ids["encoder"]]))
    return module.vectors(*given) if module.config.head == "none" else module(*given)


def largest_difference(captured: Tensor, fast: Tensor) -> Difference:
    """Where two results of the same shape are furthest apart."""
    at = int((captured - fast).abs().argmax())
    place = tuple(int(index) for index in torch.unravel_index(torch.tensor(at), captured.shape))
    return Difference(place, float(captured[place]), float(fast[place]))


class Passes:
    """Asks one model; the models that lack parts are made when they are first asked for."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.variant = cache(self._variant)

    def _variant(self, parts: tuple[str, ...]) -> Module:
        return without(self.model.module, *parts) if parts else self.model.module

    @torch.no_grad()
    def ask(self, question: Question) -> Pass:
        """Runs the model twice: captured, and fast."""
        module = self.variant(tuple(sorted(set(question.off))))
        edits = tuple(zero(head) for head in dict.fromkeys(question.mute))
        ids, tokens, own = self.read(question)
        with intervene(module, *edits):
            start = time.perf_counter()
            fast = run(module, ids)
            between = time.perf_counter()
        with capture(module, edits=edits) as trace:
            captured = run(module, ids)
            end = time.perf_counter()
        difference = largest_difference(captured[0].float(), fast[0].float())
        seconds = {"fast": between - start, "captured": end - between}
        return Pass(question, module, ids, tokens, trace, difference, seconds, own)

    def read(
        self, question: Question
    ) -> tuple[dict[str, list[int]], dict[str, list[ShownToken]], str | None]:
        """Ids and tokens by stack, framed as in training, and the model's own translation where it was used."""
        model = self.model
        main = "decoder" if model.config.shape == "decoder" else "encoder"
        parts = {main: (question.text, model.reader.tokenizer, model.reader.frame)}
        own = None
        if model.translates:
            own = model.translate(question.text) if question.target is None else None
            target = own if question.target is None else question.target
            parts["decoder"] = (target or "", model.tokenizer, Frame(model.generator.frame.before))
        elif question.target is not None:
            raise InputError(f"A model of shape '{model.config.shape}' takes no target.\nGive a text only.")
        ids, tokens = {}, {}
        for stack, (text, words, frame) in parts.items():
            shown = show_tokens(words, text, frame, question.more if stack == "decoder" else ())
            left = question.leave if stack == main else ()
            tokens[stack] = [token for place, token in enumerate(shown) if place not in left]
            ids[stack] = [token.id for token in tokens[stack]]
            self.check(ids[stack], stack)
        if question.more and "decoder" not in ids:
            raise InputError("An encoder writes nothing, so no tokens follow its text.\nLeave `more` out.")
        return ids, tokens, own

    def check(self, ids: list[int], stack: str) -> None:
        """Refuses what is too long to be looked at, or empty."""
        context = self.model.config.context
        most = MOST_TOKENS if context is None else min(context, MOST_TOKENS)
        if len(ids) > most:
            why = "the model's context" if most == context else "the most that the page shows"
            raise InputError(
                f"The {stack} would read {len(ids)} tokens, but {most} is {why}.\nShorten the text."
            )
        if not ids:
            raise InputError("The text is empty, and the tokenizer has no token to begin with.\nGive a text.")
        size = self.model.config.vocabulary if stack == "decoder" else self.model.config.vocabulary_encoder
        if wrong := [id for id in ids if not 0 <= id < size]:
            raise InputError(f"{wrong[0]} is not an id of this model, which has 0 to {size - 1}.")


def tokenizer_of(model: Model, stack: str) -> Tokenizer:
    """The tokenizer whose ids a stack reads."""
    return model.tokenizer if stack == "decoder" else model.reader.tokenizer
