"""Text in, text out: prompts and sources become ids, are written on or translated, and become text again.

Framing (which tokens stand before and after) is that of training, from `data.frames`. What does not fit the
context is refused with its length; nothing is cut off silently.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from clearhead.checkpoint import Checkpoint
from clearhead.config.decoding import BEAM_OF_TRANSLATE, TEMPERATURE_OF_GENERATE, DecodingConfig
from clearhead.data.frames import document_frame, input_frame, target_frame
from clearhead.decoding.direct import stepper_of
from clearhead.decoding.engine import Engine, Stepper, Text, Token
from clearhead.decoding.search import Hypothesis, Stops, beam_search
from clearhead.decoding.stopping import Reason, Writer
from clearhead.errors import InputError
from clearhead.models.encoder import Encoder
from clearhead.text.conversations import encode_prompt
from clearhead.text.tokenizer import Tokenizer

SLOTS = 32  # texts written side by side
SEARCHED_ROWS = 160  # beginnings searched side by side


@dataclass(frozen=True)
class Generation:
    """What a model has written; `tokens` are all of it, with the end token or what spells a stop string."""

    text: str
    tokens: list[int]
    reason: Reason
    logprobs: list[float] = field(default_factory=list)  # of each token, before any rule
    top: list[list[tuple[int, float]]] = field(default_factory=list)  # alternatives of each, where asked for
    score: float | None = None  # of a beam's hypothesis
    others: list["Generation"] = field(default_factory=list)  # the next best of a beam, where asked for


@dataclass(frozen=True)
class Piece:
    """A part of a text while it is written: of which prompt, what is new, and why it ended if it did."""

    index: int
    text: str
    token: Token | None
    reason: Reason | None = None


@dataclass(frozen=True)
class Task:
    """What the model is given for one text, as ids; a source of none is nothing to translate."""

    prompt: list[int]
    source: list[int] | None = None

    @property
    def size(self) -> int:
        """By which tasks are sorted, so that those of like length meet in a batch."""
        return len(self.prompt if self.source is None else self.source)


class Generator:
    """Writes with a checkpoint's model; `stepper` takes the model's place, the fastest one when not given."""

    def __init__(
        self, checkpoint: Checkpoint, stepper: Stepper[Any] | None = None, slots: int = SLOTS
    ) -> None:
        self.config, self.slots = checkpoint.config, slots
        module = checkpoint.module
        if isinstance(module, Encoder) or self.config.head != "language":
            raise InputError(
                f"A model of shape '{self.config.shape}' with head '{self.config.head}' writes no text.\n"
                "Use a language model or a translator; this one can be used with classify or embed."
            )
        self.model: Stepper[Any] = stepper_of(module) if stepper is None else stepper
        self.tokenizer = tokenizer_of(checkpoint.tokenizer)
        self.source_tokenizer = checkpoint.source_tokenizer or self.tokenizer
        self.translates = self.config.shape == "encoder-decoder"
        frame = target_frame if self.translates else document_frame
        self.frame = frame(self.tokenizer.specials)
        self.end = self.frame.after or self.frame.before

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

    def task(self, text: str) -> Task:
        """The ids of a prompt, or of a source for a translator; refused where they do not fit.

        A prompt may spell the markers of a conversation, where the model knows some. A source of white space
        alone is nothing to translate, as an empty line between paragraphs.
        """
        if not self.translates:
            ids = encode_prompt(self.tokenizer, text)
            # Room for one new token at least.
            return Task([*self.frame.before, *self.fitting(ids, len(self.frame.before) + 1, "prompt")])
        ids = self.source_tokenizer.encode(text)
        frame = input_frame(self.source_tokenizer.specials)
        is_empty = not ids or not text.strip()
        source = [] if is_empty else frame.wrap(self.fitting(ids, len(frame), "source"))
        return Task(list(self.frame.before), source)

    def fitting(self, ids: list[int], more: int, what: str) -> list[int]:
        """The ids, if the context has room for them and for `more`."""
        context = self.config.context
        if context is not None and len(ids) + more > context:
            raise InputError(
                f"The {what} has {len(ids)} tokens, but this model has room for {context - more} of them "
                f"(context {context}).\nShorten the {what} or split it; nothing is cut off silently."
            )
        return ids

    def write(self, texts: Sequence[str], settings: DecodingConfig) -> list[list[Generation]]:
        """The generations of every text: one, or the n best of a beam."""
        return self.do([self.task(text) for text in texts], settings)

    def do(self, tasks: Sequence[Task], settings: DecodingConfig) -> list[list[Generation]]:
        """The generations of every task, in order; inside, tasks of like length go together."""
        settings = self.settle(settings)
        nothing = Generation("", [], "end", score=0.0 if settings.beam != 1 else None)
        done = [[nothing] * settings.n_best for _ in tasks]
        order = [row for row, task in enumerate(tasks) if task.source != []]
        order.sort(key=lambda row: -tasks[row].size)
        work = self.run if settings.beam == 1 else self.search
        for row, found in zip(order, work([tasks[row] for row in order], settings), strict=True):
            done[row] = found
        return done

    def search(self, tasks: Sequence[Task], settings: DecodingConfig) -> Iterator[list[Generation]]:
        """By beam search, as many texts at a time as give a batch of about the usual size."""
        size = max(1, SEARCHED_ROWS // (settings.beam or 1))
        for first in range(0, len(tasks), size):
            group = tasks[first : first + size]
            sources = [task.source for task in group if task.source is not None] or None
            prompts = [task.prompt for task in group]
            context, stops = self.config.context, self.stops(settings)
            for beam in beam_search(self.model, prompts, settings, self.end, context, sources, stops):
                yield [self.read(hypothesis, settings) for hypothesis in beam]

    def stops(self, settings: DecodingConfig) -> Stops | None:
        """Whether ids spell one of the stop strings, where there are any."""
        if not settings.stop:
            return None

        def stops(ids: list[int]) -> bool:
            text = self.tokenizer.decode(ids)
            if not any(stop in text for stop in settings.stop):
                return False
            writer = Writer(self.tokenizer, settings.stop)  # it waits for the rest of half a character
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

    def run(self, tasks: Sequence[Task], settings: DecodingConfig) -> list[list[Generation]]:
        """Token by token, all texts side by side."""
        shown = [""] * len(tasks)
        texts = [Text(task.prompt, settings, task.source) for task in tasks]
        for piece in self.pieces(texts):
            shown[piece.index] += piece.text
        return [[generation(text, done)] for text, done in zip(shown, texts, strict=True)]

    def stream(self, text: str, settings: DecodingConfig) -> Iterator[Piece]:
        """One text in pieces, as they are written; joined they are the whole. A beam gives one piece."""
        settings = self.settle(settings)
        task = self.task(text)
        if settings.beam == 1 and task.source != []:
            return self.pieces([Text(task.prompt, settings, task.source)])
        whole = self.do([task], settings)[0][0]
        return iter([Piece(0, whole.text, None, whole.reason)])

    def pieces(self, texts: Sequence[Text]) -> Iterator[Piece]:
        """Pieces of all texts as the engine writes them, one for each token."""
        engine = Engine(self.model, self.end, self.config.context, self.slots)
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


def generation(text: str, done: Text) -> Generation:
    """The result of one finished text."""
    assert done.reason is not None
    top = [token.top for token in done.tokens] if done.settings.logprobs else []
    return Generation(text, done.ids, done.reason, [token.logprob for token in done.tokens], top)


def tokenizer_of(tokenizer: Tokenizer | None) -> Tokenizer:
    """The tokenizer, which a model needs to meet text."""
    if tokenizer is None:
        raise InputError(
            "This model folder has no tokenizer.json, so the model can read ids but no text.\n"
            "Put its tokenizer there."
        )
    return tokenizer
