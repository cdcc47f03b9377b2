"""One captured pass over a text: a text enters, its tokens and every named tensor leave.

    captured = Inspector(bundle).run("he is old", muted=["decoder.0.self.1"])
    captured.trace["decoder.0.self.weights"]  # (1, h, n, m)

Muting a head is the edit `zero` of `inspection.capture`; ablating a part is `without` of `inspection.variants`.
The same pass also runs by the fast path, and the largest difference of the two is kept beside the tensors.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

import torch
from torch import Tensor

from clearhead.config.decoding import DecodingConfig
from clearhead.config.model import ModelConfig
from clearhead.data.frames import Frame
from clearhead.decoding.generate import Generator, tokenizer_of
from clearhead.decoding.read import Reader
from clearhead.errors import InputError
from clearhead.inspection.capture import Edit, Trace, capture, intervene, zero
from clearhead.inspection.tokens import TextToken, text_tokens
from clearhead.inspection.variants import without
from clearhead.model_folder import Bundle
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model as Module
from clearhead.text.tokenizers.tokenizer import Tokenizer


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
    trace: Trace
    difference: Difference
    seconds: dict[str, float]
    muted: tuple[Edit, ...] = ()
    own_target: str | None = None  # the model's own translation, where no target was given
    ids: dict[str, list[int]] = field(init=False)
    bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.ids = {stack: [token.id for token in tokens] for stack, tokens in self.tokens.items()}
        self.bytes = sum(X.numel() * X.element_size() for X in self.trace.values())

    @property
    def top(self) -> str:
        """The stack that the head reads."""
        return top_stack(self.ids)

    @torch.no_grad()
    def rerun(self, *edits: Edit, ids: dict[str, list[int]] | None = None) -> Tensor:
        """Logits of the same tokens, or of others, with the same heads muted and further edits."""
        with intervene(self.module, *self.muted, *edits):
            return forward(self.module, ids or self.ids)


def top_stack(ids: Collection[str]) -> str:
    """The stack that the head reads, of those that have ids."""
    return "decoder" if "decoder" in ids else "encoder"


def forward(module: Module, ids: dict[str, list[int]]) -> Tensor:
    """Logits (1, n, vocabulary) or (1, classes); the vectors (1, n, d) of a model without a head."""
    source = torch.tensor([ids["encoder"]]) if module.translates else None
    return module.outputs(Inputs(torch.tensor([ids[top_stack(ids)]]), source=source))


def largest_difference(captured: Tensor, fast: Tensor) -> Difference:
    """Where two results of the same shape are furthest apart."""
    at = int((captured - fast).abs().argmax())
    place = tuple(int(index) for index in torch.unravel_index(torch.tensor(at), captured.shape))
    return Difference(place, float(captured[place]), float(fast[place]))


def least_bytes(config: ModelConfig, counts: dict[str, int]) -> int:
    """What a captured pass over so many tokens of each stack needs for scores, weights and logits alone, in float32."""
    numbers = counts[top_stack(counts)] * config.vocabulary if config.head == "language" else 0
    for attention in config.attentions():
        stack = attention.split(".")[0]
        keys = counts["encoder"] if attention.endswith(".cross") else counts[stack]
        numbers += 2 * len(config.heads(attention)) * counts[stack] * keys
    return 4 * numbers


class Inspector:
    """Runs one model, captured; variants that lack a part are built on first use.

    `most_tokens` limits a sequence below the model's context, and `most_bytes` the tensors of a pass, since
    attention weights grow with the square of the sequence.
    """

    def __init__(self, bundle: Bundle, most_tokens: int | None = None, most_bytes: int | None = None) -> None:
        self.most_bytes = most_bytes
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
        ablated: Sequence[str] = (),
        muted: Sequence[str] = (),
    ) -> Pass:
        """Runs the model twice, captured and fast, on a text; a translator without a target uses its own.

        `appended` are ids after the text, `removed` places of its tokens, `ablated` parts that the model is
        run without (see `variants`), `muted` heads such as decoder.0.self.1.
        """
        module = self.variant(tuple(sorted(set(ablated))))
        edits = tuple(zero(head) for head in dict.fromkeys(muted))
        own = self.translate(text) if self.translates and target is None else None
        tokens = self.tokens(text, own if target is None else target, appended, removed)
        ids = {stack: self.checked_ids(stack, some) for stack, some in tokens.items()}
        self.check_memory({stack: len(some) for stack, some in ids.items()})
        with intervene(module, *edits):
            start = time.perf_counter()
            fast = forward(module, ids)
            between = time.perf_counter()
        with capture(module, edits=edits) as trace:
            captured = forward(module, ids)
            end = time.perf_counter()
        difference = largest_difference(captured[0].float(), fast[0].float())
        seconds = {"fast": between - start, "captured": end - between}
        return Pass(text, self, module, tokens, trace, difference, seconds, edits, own)

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

    def check_memory(self, counts: dict[str, int]) -> None:
        """Rejects a pass before it is computed if its tensors would need too much memory."""
        if self.most_bytes is not None and (need := least_bytes(self.config, counts)) > self.most_bytes:
            raise InputError(
                f"The tensors of a pass over {max(counts.values())} tokens need at least {need / 2**20:,.0f} MiB, "
                f"but {self.most_bytes / 2**20:,.0f} MiB is the limit.\nShorten the text."
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
