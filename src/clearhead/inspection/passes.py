"""One captured pass over a text: a text enters, its tokens and every named tensor leave.

    captured = Inspector(bundle).run("he is old", muted=["decoder.0.self.1"])
    captured.trace["decoder.0.self.weights"]  # (1, h, n, m)

Muting a head is the edit `zero` of `inspection.capture`; what is switched off is missing in `inspection.variants`.
The same pass also runs by the fast path, and the largest difference of the two is kept beside the tensors. What a pass
takes is known before it runs (see `pass_trace`).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from threading import RLock
from typing import Any

import torch
from torch import Tensor

from clearhead.config.decoding import DecodingConfig
from clearhead.data.frames import Frame
from clearhead.decoding.generate import Generator, tokenizer_of
from clearhead.decoding.read import Reader
from clearhead.errors import InputError
from clearhead.inspection.capture import Edit, intervene, zero
from clearhead.inspection.pass_bytes import Ids, forward, inputs_of, top_stack
from clearhead.inspection.pass_trace import PassTrace
from clearhead.inspection.tokens import TextToken, text_tokens
from clearhead.inspection.variants import without
from clearhead.model_folder import Bundle
from clearhead.models.model import Model as Module
from clearhead.text.tokenizers.tokenizer import Tokenizer

PART = 1 << 22  # numbers that are compared at once


@dataclass(frozen=True)
class Difference:
    """The number that differs most between two results that should be equal, and its place."""

    place: tuple[int, ...]
    captured: float
    fast: float

    @property
    def size(self) -> float:
        """How far they are apart."""
        return abs(self.captured - self.fast)


@dataclass
class Pass:
    """What one text led to: tokens by stack, tensors by site, and how far the fast path is from them."""

    text: str
    inspector: "Inspector"
    module: Module  # of the inspector's model, or the same weights without a part
    tokens: dict[str, list[TextToken]]
    trace: PassTrace
    difference: Difference
    largest: float | None  # logit, in size; None without a head
    seconds: dict[str, float]
    muted: tuple[Edit, ...] = ()
    own_target: str | None = None  # the model's own translation, where no target was given
    readings: dict[str, Any] = field(default_factory=dict)  # what was read off it before

    @property
    def ids(self) -> Ids:
        """The ids that each stack reads."""
        return self.trace.ids

    @property
    def bytes(self) -> int:
        """The size of the tensors of all sites, of which those that are not used are not kept."""
        return self.trace.bytes.all

    @property
    def top(self) -> str:
        """The stack that the head reads."""
        return top_stack(self.ids)

    @property
    def main(self) -> str:
        """The stack that reads the text."""
        return "encoder" if "encoder" in self.ids else "decoder"

    @torch.no_grad()
    def rerun(self, *edits: Edit, position: int = -1, ids: Ids | None = None) -> Tensor:
        """One row of logits, after a position or of classes: with the same heads muted, further edits, or other ids."""
        module, ids = self.module, ids or self.ids
        with intervene(module, *self.muted, *edits):
            if module.config.head != "language":
                return forward(module, ids)[0]
            return module.head(module.vectors(inputs_of(module, ids))[:, [position]])[0, 0]

    @torch.no_grad()
    def rerun_rows(self, *edits: Edit, rows: int, position: int = -1) -> Tensor:
        """The same in a batch of equal rows, which edits may change: (rows, vocabulary), or (rows, classes)."""
        module = self.module
        with intervene(module, *self.muted, *edits):
            X = module.vectors(inputs_of(module, self.ids, rows))
            Z: Tensor = module.head(X[:, [position]] if module.config.head == "language" else X)
        return Z.flatten(1)


def largest_difference(captured: Tensor, fast: Tensor) -> Difference:
    """Where two results of the same shape are furthest apart; compared in parts, as logits may be large."""
    parts = zip(captured.flatten().split(PART), fast.flatten().split(PART), strict=True)
    gaps = [(one.float() - other.float()).abs().max(0) for one, other in parts]
    part = max(range(len(gaps)), key=lambda part: float(gaps[part].values.nan_to_num(torch.inf)))
    at = torch.tensor(part * PART + int(gaps[part].indices))
    place = tuple(int(index) for index in torch.unravel_index(at, captured.shape))
    return Difference(place, float(captured[place]), float(fast[place]))


def compare(trace: PassTrace, captured: Tensor, fast: Tensor) -> tuple[Difference, float | None]:
    """Where two results of a pass are furthest apart, and the size of the largest logit, if there are any."""
    if not trace.is_in_rows or captured.ndim == 2 or "logits" not in trace:
        size = max(map(abs, map(float, captured.aminmax()))) if "logits" in trace else None
        return largest_difference(captured[0], fast[0]), size
    found, largest = [], 0.0
    for rows in trace.logit_parts():
        Z, fast_Z = (trace.logits_of(trace.module, result, rows)[0] for result in (captured, fast))
        gap = largest_difference(Z, fast_Z)
        found.append(replace(gap, place=(gap.place[0] + rows.start, *gap.place[1:])))
        largest = max(largest, *map(abs, map(float, Z.aminmax())))
    return max(found, key=lambda gap: gap.size), largest


class Inspector:
    """Runs one model, captured; variants that lack a part are built on first use.

    `most_tokens` limits a sequence below the model's context, and `most_bytes` the memory of a pass, since
    attention weights grow with the square of the sequence.
    """

    def __init__(self, bundle: Bundle, most_tokens: int | None = None, most_bytes: int | None = None) -> None:
        self.most_bytes, self.lock = most_bytes, RLock()  # one pass, or block of a pass, runs at a time
        limits = [limit for limit in (bundle.config.context, most_tokens) if limit is not None]
        self.bundle, self.config, self.most_tokens = bundle, bundle.config, min(limits, default=None)
        self.variant = cache(self._variant)

    @cached_property
    def reader(self) -> Reader:
        """What reads text with this model."""
        return Reader(self.bundle)

    @cached_property
    def generator(self) -> Generator:
        """What generates text with this model."""
        return Generator(self.bundle)

    def _variant(self, parts: tuple[str, ...]) -> Module:
        return without(self.bundle.module, *parts) if parts else self.bundle.module

    def tokenizer(self, stack: str) -> Tokenizer:
        """The tokenizer whose ids a stack reads."""
        return tokenizer_of(self.bundle.tokenizer) if stack == "decoder" else self.reader.tokenizer

    @torch.no_grad()
    def run(
        self,
        text: str,
        target: str | None = None,
        appended: Sequence[int] = (),
        removed: Sequence[int] = (),
        off: Sequence[str] = (),
        muted: Sequence[str] = (),
        reserve: Callable[[int], None] = lambda count: None,
        first: str | None = None,
    ) -> Pass:
        """Runs the model twice, captured and fast, on a text; a translator without a target uses its own.

        `appended` are ids after the text, `removed` places of its tokens, `off` what the model is
        run without (see `variants`), `muted` heads such as decoder.0.self.1. `reserve` gets the bytes that the
        pass may take, before it runs. `first` is the block that will be asked for first.
        """
        module = self.variant(tuple(sorted(set(off))))
        edits = tuple(zero(head) for head in dict.fromkeys(muted))
        own = self.translate(text) if self.translates and target is None else None
        tokens = self.tokens(text, own if target is None else target, appended, removed)
        ids = {stack: self.checked_ids(stack, some) for stack, some in tokens.items()}
        trace = PassTrace(module, ids, edits, self.most_bytes, self.lock)
        self.check_memory(trace)
        reserve(trace.bytes.most(self.most_bytes))
        with intervene(module, *edits):
            start = time.perf_counter()
            fast = trace.run(module)
            between = time.perf_counter()
        captured = trace.record(first)
        end = time.perf_counter()
        seconds = {"fast": between - start, "captured": end - between}
        difference, largest = compare(trace, captured, fast)
        return Pass(text, self, module, tokens, trace, difference, largest, seconds, edits, own)

    @property
    def translates(self) -> bool:
        """Whether the model reads a source and generates a target."""
        return self.config.shape == "encoder-decoder"

    def translate(self, text: str) -> str:
        """The model's own translation."""
        return self.generator.write([text], DecodingConfig())[0][0].text

    def tokens(
        self, text: str, target: str | None, appended: Sequence[int], removed: Sequence[int]
    ) -> dict[str, list[TextToken]]:
        """Tokens by stack, framed as in training."""
        shape = self.config.shape
        main = "decoder" if shape == "decoder" else "encoder"
        after = appended if main == "decoder" else ()
        found = text_tokens(self.reader.tokenizer, text, self.reader.frame, after)
        tokens = {main: [token for place, token in enumerate(found) if place not in removed]}
        if self.translates:
            frame = Frame(self.generator.frame.before)
            tokens["decoder"] = text_tokens(self.tokenizer("decoder"), target or "", frame, appended)
        elif target is not None:
            raise InputError(f"A model of shape '{shape}' takes no target.\nGive a text only.")
        if appended and "decoder" not in tokens:
            raise InputError("An encoder generates no tokens, so none can be appended to its text.")
        return tokens

    def check_memory(self, trace: PassTrace) -> None:
        """Rejects a pass before it is computed if it would need too much memory."""
        if self.most_bytes is not None and (need := trace.bytes.least) > self.most_bytes:
            count = max(map(len, trace.ids.values()))
            raise InputError(
                f"A pass over {count} tokens of this model needs {need / 2**20:,.0f} MiB, but "
                f"{self.most_bytes / 2**20:,.0f} MiB is the limit.\nShorten the text."
            )

    def checked_ids(self, stack: str, tokens: Sequence[TextToken]) -> list[int]:
        """The ids of a stack; rejected where there are none, too many, or unknown ones."""
        ids, most = [token.id for token in tokens], self.most_tokens
        if most is not None and len(ids) > most:
            why = "the model's context" if most == self.config.context else "the limit for a captured pass"
            raise InputError(
                f"The {stack} would read {len(ids)} tokens, but {most} is {why}.\nShorten the text."
            )
        if not ids:
            raise InputError("The text is empty, and the tokenizer has no start token.\nGive a text.")
        size = self.config.vocabulary if stack == "decoder" else self.config.vocabulary_encoder
        if wrong := [id for id in ids if not 0 <= id < size]:
            raise InputError(f"{wrong[0]} is not an id of this model, which has 0 to {size - 1}.")
        return ids
