"""Text in, text out: prompts and sources become ids, are continued or translated, and become text again.

The framing (which tokens come before and after) is that of training, from `data.frames`. What does not fit the
context is read with a warning where positions have no table, and rejected with its length where they have one;
nothing is truncated silently.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from clearhead.config.decoding import BEAM_OF_TRANSLATE, TEMPERATURE_OF_GENERATE, DecodingConfig
from clearhead.data.chats import answer_ends, prompt_ids
from clearhead.data.frames import document_frame, input_frame, prompt_frame, target_frame
from clearhead.decoding.engine import Draft, Engine, Stepper, Token
from clearhead.decoding.lengths import LengthLimit
from clearhead.decoding.search import Hypothesis, Steps, Stops, finish, search_in_steps
from clearhead.decoding.sentences import split_sentences as split_into_sentences
from clearhead.decoding.steppers.switching import stepper_of
from clearhead.decoding.stopping import Reason, Writer
from clearhead.errors import InputError
from clearhead.examples import Message
from clearhead.model_folder import Bundle
from clearhead.text.tokenizers.conversations import encode_prompt, spells_marker
from clearhead.text.tokenizers.tokenizer import Tokenizer

SLOTS = 32  # texts generated side by side
SEARCHED_ROWS = 160  # beginnings searched side by side


@dataclass(frozen=True)
class Generation:
    """What a model has generated; `tokens` are all of it, with the end token or what spells a stop string."""

    text: str
    tokens: list[int]
    reason: Reason  # why it ended, such as "end" or "length"
    logprobs: list[float] = field(default_factory=list)  # of each token, before any rule
    top: list[list[tuple[int, float]]] = field(
        default_factory=list
    )  # the likeliest tokens instead of each, if `logprobs` is set
    score: float | None = None  # of a beam's hypothesis
    others: list["Generation"] = field(default_factory=list)  # the next best of a beam, if `n_best` is set


@dataclass(frozen=True)
class Piece:
    """A part of a text while it is generated: of which prompt, what is new, and why it ended if it did."""

    index: int  # of the prompt among several
    text: str  # what is new; empty while a character is incomplete
    token: Token | None  # that was generated last, if any
    reason: Reason | None = None  # why the text ended, in its last piece


@dataclass(frozen=True)
class Prompt:
    """What the model is given for one text, as ids; an empty source is nothing to translate."""

    ids: list[int]
    source: list[int] | None = None
    parts: tuple["Prompt", ...] = ()  # the sentences of a source that are translated one by one
    space: str = ""  # between this sentence and the next
    ends: tuple[int, ...] = ()  # ids at which an answer is over, besides the end of a text

    @property
    def size(self) -> int:
        """By which prompts are sorted, so that those of similar length share a batch."""
        return len(self.ids if self.source is None else self.source)


class Generator:
    """Generates with the model of a bundle, by `stepper`, or if omitted by the fastest one."""

    def __init__(self, bundle: Bundle, stepper: Stepper[Any] | None = None, slots: int = SLOTS) -> None:
        self.config, self.slots = bundle.config, slots
        module = bundle.module
        if not module.generates:
            raise module.cannot_write()
        self.model: Stepper[Any] = stepper_of(module) if stepper is None else stepper
        self.tokenizer = tokenizer_of(bundle.tokenizer)
        self.source_tokenizer = bundle.source_tokenizer or self.tokenizer
        self.translates = module.translates
        self.lengths = LengthLimit(bundle.config)
        specials = self.tokenizer.specials
        frame = (target_frame if self.translates else document_frame)(specials)
        self.frame = frame if self.translates else prompt_frame(specials)
        self.start, self.end = frame.before, frame.after or frame.before

    def settle(self, settings: DecodingConfig) -> DecodingConfig:
        """The settings with what was left open decided: a language model draws, a translator searches."""
        settings.check_ids(self.config.vocabulary)
        beam, temperature = settings.beam, settings.temperature
        if beam is None:
            beam = BEAM_OF_TRANSLATE if self.translates and temperature is None else 1
            beam = max(beam, settings.n_best)
        if temperature is None:
            temperature = 0.0 if self.translates or beam > 1 else TEMPERATURE_OF_GENERATE
        return settings.replace(beam=beam, temperature=temperature)

    def is_asked(self, text: str, chat: bool | None = None) -> bool:
        """Whether a prompt is a message to answer: if nothing is said, for models trained on conversations.

        A prompt that spells the markers of a conversation is one already, and an empty one asks nothing.
        """
        if chat is not None:
            return chat
        return bool(self.tokenizer.markers and text) and not spells_marker(self.tokenizer, text)

    def prompt(
        self,
        text: str,
        split_sentences: bool | None = None,
        chat: bool | None = None,
        system: str | None = None,
    ) -> Prompt:
        """The ids of a prompt, or of a source for a translator; rejected if they do not fit.

        `chat` makes it a message to answer, after a message of the `system` if there is one. A source is split into
        sentences where asked to and, if nothing is said, where it is longer than the context.
        """
        if chat is None and system is not None:
            chat = True
        if not self.translates and self.is_asked(text, chat):
            given = [] if system is None else [Message("system", system)]
            return self.ask([*given, Message("user", text)])
        if not self.translates:
            ids = encode_prompt(self.tokenizer, text)
            # Room for one new token at least; what has no beginning starts as a document does.
            ids = [*self.frame.before, *self.fitting(ids, len(self.frame) + 1, "prompt")]
            return Prompt(ids or list(self.start))
        ids = self.source_tokenizer.encode(text)
        frame = input_frame(self.source_tokenizer.specials)
        is_long = self.lengths.is_unlearned(len(ids) + len(frame))
        if split_sentences or (split_sentences is None and is_long):
            sentences = split_into_sentences(text)
            if len(sentences) > 1:
                parts = [
                    replace(self.source(self.source_tokenizer.encode(part), part, "sentence"), space=space)
                    for part, space in sentences
                ]
                return Prompt(list(self.frame.before), None, tuple(parts))
        return self.source(ids, text, "source")

    def ask(self, messages: Sequence[Message]) -> Prompt:
        """The ids of a conversation to answer; rejected if they leave no room for an answer."""
        ids = self.fitting(prompt_ids(self.tokenizer, messages), 1, "conversation")
        return Prompt(ids, ends=answer_ends(self.tokenizer))

    def source(self, ids: list[int], text: str, what: str) -> Prompt:
        """What is translated at once; white space alone is nothing, like an empty line between paragraphs."""
        frame = input_frame(self.source_tokenizer.specials)
        is_empty = not ids or not text.strip()
        source = [] if is_empty else frame.wrap(self.fitting(ids, len(frame), what))
        return Prompt(list(self.frame.before), source)

    def fitting(self, ids: list[int], more: int, what: str) -> list[int]:
        """The ids, if the model has room for them and for `more`."""
        if not self.lengths.allows(len(ids) + more, what):
            assert self.lengths.longest is not None
            raise InputError(
                f"The {what} has {len(ids)} tokens, but this model has room for {self.lengths.longest - more} of them "
                f"(context {self.config.context}).\nShorten the {what} or split it; nothing is truncated silently."
            )
        return ids

    def limit(self, prompt: Prompt) -> int | None:
        """How many tokens a prompt and its text may have together."""
        return self.lengths.room(prompt.size)

    def write(self, texts: Sequence[str], settings: DecodingConfig) -> list[list[Generation]]:
        """The generations of every text: one, or the n best of a beam."""
        return self.complete([self.prompt(text) for text in texts], settings)

    def complete(self, prompts: Sequence[Prompt], settings: DecodingConfig) -> list[list[Generation]]:
        """The generations of every prompt, in order; those of sentences joined again."""
        sentences = [part for prompt in prompts for part in prompt.parts or (prompt,)]
        return self.joined(prompts, iter(self.complete_each(sentences, settings)))

    def joined(self, prompts: Sequence[Prompt], done: Iterator[list[Generation]]) -> list[list[Generation]]:
        """The generations of every prompt from those of its sentences."""
        return [
            join_sentences(prompt.parts, list(islice(done, len(prompt.parts))))
            if prompt.parts
            else next(done)
            for prompt in prompts
        ]

    def complete_each(self, prompts: Sequence[Prompt], settings: DecodingConfig) -> list[list[Generation]]:
        """The generations of every prompt, in order; inside, prompts of similar length share a batch."""
        settings = self.settle(settings)
        nothing = Generation("", [], "end", score=0.0 if settings.beam != 1 else None)
        done = [[nothing] * settings.n_best for _ in prompts]
        order = [row for row, prompt in enumerate(prompts) if prompt.source != []]
        order.sort(key=lambda row: -prompts[row].size)
        work = self.run if settings.beam == 1 else self.search
        for row, found in zip(order, work([prompts[row] for row in order], settings), strict=True):
            done[row] = found
        return done

    def search(self, prompts: Sequence[Prompt], settings: DecodingConfig) -> list[list[Generation]]:
        """By beam search."""
        return finish(self.search_in_steps(prompts, settings))

    def search_in_steps(
        self, prompts: Sequence[Prompt], settings: DecodingConfig
    ) -> Steps[list[list[Generation]]]:
        """The same in steps, as many texts at a time as give a batch of about the usual size."""
        size = max(1, SEARCHED_ROWS // (settings.beam or 1))
        done: list[list[Generation]] = []
        for first in range(0, len(prompts), size):
            group = prompts[first : first + size]
            sources = [prompt.source for prompt in group if prompt.source is not None] or None
            ids = [prompt.ids for prompt in group]
            limits, stops = [self.limit(prompt) for prompt in group], self.stops(settings)
            ends = self.ends(group)
            beams = yield from search_in_steps(self.model, ids, settings, ends, limits, sources, stops)
            done += [[self.read(hypothesis, settings) for hypothesis in beam] for beam in beams]
        return done

    def ends(self, prompts: Sequence[Prompt]) -> tuple[int, ...]:
        """The ids at which texts end: an answer also at its own end."""
        return tuple(dict.fromkeys([*self.end, *(id for prompt in prompts for id in prompt.ends)]))

    def stops(self, settings: DecodingConfig) -> Stops | None:
        """Whether ids spell one of the stop strings, where there are any."""
        if not settings.stop:
            return None

        def stops(ids: list[int]) -> bool:
            text = self.tokenizer.decode(ids)
            if not any(stop in text for stop in settings.stop):
                return False
            writer = Writer(
                self.tokenizer, settings.stop
            )  # which waits for the rest of an incomplete character
            for token in ids:
                writer.push(token)
            return writer.is_stopped

        return stops

    def read(self, hypothesis: Hypothesis, settings: DecodingConfig) -> Generation:
        """The text of a hypothesis, up to a stop string if it has one."""
        writer = Writer(self.tokenizer, settings.stop)
        ids = hypothesis.ids[:-1] if hypothesis.reason == "end" else hypothesis.ids
        text = "".join(writer.push(token) for token in ids) + writer.finish()
        reason: Reason = "stop" if writer.is_stopped else hypothesis.reason
        return Generation(text, hypothesis.ids, reason, hypothesis.logprobs, score=hypothesis.score)

    def run(self, prompts: Sequence[Prompt], settings: DecodingConfig) -> list[list[Generation]]:
        """Token by token, all texts side by side."""
        shown = [""] * len(prompts)
        texts = [Draft(prompt.ids, settings, prompt.source, self.limit(prompt)) for prompt in prompts]
        for piece in self.pieces(texts, self.ends(prompts)):
            shown[piece.index] += piece.text
        return [[generation(text, done)] for text, done in zip(shown, texts, strict=True)]

    def stream(self, text: str | Prompt, settings: DecodingConfig) -> Iterator[Piece]:
        """One text in pieces, as they are written; joined they are the whole. A beam gives one piece."""
        settings = self.settle(settings)
        prompt = self.prompt(text) if isinstance(text, str) else text
        if settings.beam == 1 and prompt.source != [] and not prompt.parts:
            draft = Draft(prompt.ids, settings, prompt.source, self.limit(prompt))
            return self.pieces([draft], self.ends([prompt]))
        whole = self.complete([prompt], settings)[0][0]
        return iter([Piece(0, whole.text, None, whole.reason)])

    def pieces(self, texts: Sequence[Draft], ends: Sequence[int]) -> Iterator[Piece]:
        """Pieces of all texts as the engine writes them, one for each token."""
        engine = Engine(self.model, ends, self.config.context, self.slots)
        writers = {id(text): (i, Writer(self.tokenizer, text.settings.stop)) for i, text in enumerate(texts)}
        for text in texts:
            engine.add(text)
        while engine.is_busy:
            for text, token in engine.step():
                index, writer = writers[id(text)]
                piece = "" if text.reason == "end" else writer.push(token.id)
                if text.reason is not None:
                    piece += writer.finish()
                if writer.is_stopped:
                    text.stop()
                yield Piece(index, piece, token, text.reason)


def generation(text: str, done: Draft) -> Generation:
    """The result of one finished text."""
    assert done.reason is not None
    top = [token.top for token in done.tokens] if done.settings.logprobs else []
    return Generation(text, done.ids, done.reason, [token.logprob for token in done.tokens], top)


def join_sentences(parts: Sequence[Prompt], found: Sequence[list[Generation]]) -> list[Generation]:
    """The generations of a text from those of its sentences: of each the best, then of each the next."""
    return [join_each(parts, ranked) for ranked in zip(*found, strict=True)]


def join_each(parts: Sequence[Prompt], found: Sequence[Generation]) -> Generation:
    """One generation from one of each sentence; it ended as the first of them that did not end by itself."""
    count = sum(len(one.tokens) for one in found)
    scores = [one.score * len(one.tokens) for one in found if one.score is not None]
    return Generation(
        text="".join(one.text + part.space for part, one in zip(parts, found, strict=True)),
        tokens=[token for one in found for token in one.tokens],
        reason=next((one.reason for one in found if one.reason != "end"), "end"),
        logprobs=[logprob for one in found for logprob in one.logprobs],
        top=[top for one in found for top in one.top],
        score=sum(scores) / max(1, count) if scores else None,  # the mean over tokens
    )


def tokenizer_of(tokenizer: Tokenizer | None) -> Tokenizer:
    """The tokenizer, without which a model cannot read text."""
    if tokenizer is None:
        raise InputError(
            "This model folder has no tokenizer.json, so the model can read ids but no text.\n"
            "Put the model's tokenizer.json into it, then: clearhead check FOLDER --accept"
        )
    return tokenizer
