"""Text in, text out: prompts and sources become ids, are written on or translated, and become text again.

Framing (which tokens stand before and after) is that of training, from `data.frames`. What does not fit the
context is refused with its length; nothing is cut off silently.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from clearhead.checkpoint import Checkpoint
from clearhead.config.decoding import BEAM_OF_TRANSLATE, TEMPERATURE_OF_GENERATE, DecodingConfig
from clearhead.data.frames import document_frame, input_frame, target_frame
from clearhead.decoding.engine import Engine, Stepper, Text, Token
from clearhead.decoding.search import Hypothesis, beam_search
from clearhead.decoding.stopping import Reason, Writer
from clearhead.errors import InputError
from clearhead.text.tokenizer import Tokenizer

SLOTS = 32  # texts written side by side


@dataclass(frozen=True)
class Generation:
    """What a model has written."""

    text: str
    tokens: list[int]
    reason: Reason
    logprobs: list[float] = field(default_factory=list)
    top: list[list[tuple[int, float]]] = field(default_factory=list)
    score: float | None = None  # of a beam's hypothesis


@dataclass(frozen=True)
class Piece:
    """A part of a text while it is written: of which prompt, what is new, and why it ended if it did."""

    index: int
    text: str
    token: Token | None
    reason: Reason | None = None


@dataclass(frozen=True)
class Task:
    """What the model is given for one text, as ids."""

    prompt: list[int]
    source: list[int] | None = None


class Generator:
    """Writes with a checkpoint's model; `stepper` is the model itself, or a faster one that does the same."""

    def __init__(self, checkpoint: Checkpoint, stepper: Stepper | None = None, slots: int = SLOTS) -> None:
        self.config, self.slots = checkpoint.config, slots
        if self.config.shape == "encoder" or self.config.head != "language":
            raise InputError(
                f"A model of shape '{self.config.shape}' with head '{self.config.head}' does not write text.\n"
                "Use a language model or a translator; this one can be used with classify or embed."
            )
        self.model: Stepper = checkpoint.module if stepper is None else stepper  # type: ignore[assignment]
        self.tokenizer = tokenizer_of(checkpoint.tokenizer)
        self.source_tokenizer = checkpoint.source_tokenizer or self.tokenizer
        self.translates = self.config.shape == "encoder-decoder"
        frame = target_frame if self.translates else document_frame
        self.frame = frame(self.tokenizer.specials)
        self.end = self.frame.after or self.frame.before

    def settle(self, settings: DecodingConfig) -> DecodingConfig:
        """The settings with what was left open decided: by chance for a language model, by search for a translator."""
        beam, temperature = settings.beam, settings.temperature
        if beam is None:
            beam = BEAM_OF_TRANSLATE if self.translates and not temperature else 1
            beam = max(beam, settings.n_best)
        if temperature is None:
            temperature = 0.0 if self.translates or beam > 1 else TEMPERATURE_OF_GENERATE
        return settings.replace(beam=beam, temperature=temperature)

    def task(self, text: str) -> Task:
        """The ids of a prompt, or of a source for a translator; refused where they do not fit."""
        ids = self.source_tokenizer.encode(text)
        if not self.translates:
            return Task([*self.frame.before, *self.fitting(ids, len(self.frame.before), "prompt")])
        frame = input_frame(self.source_tokenizer.specials)
        return Task(list(self.frame.before), frame.wrap(self.fitting(ids, len(frame), "source")))

    def fitting(self, ids: list[int], more: int, what: str) -> list[int]:
        """The ids, if the context has room for them."""
        context = self.config.context
        # A prompt needs room for at least one new token; a source does not grow.
        room = None if context is None else context - more - (what == "prompt")
        if room is not None and len(ids) > room:
            raise InputError(
                f"The {what} has {len(ids)} tokens, but this model has room for {room} of them "
                f"(context {context}).\nShorten the {what} or split it; nothing is cut off silently."
            )
        if not ids and what == "source":
            raise InputError("The source is empty: there is nothing to translate.\nGive a text.")
        return ids

    def write(self, texts: Sequence[str], settings: DecodingConfig) -> list[list[Generation]]:
        """The generations of every text: one, or the n best of a beam."""
        settings = self.settle(settings)
        tasks = [self.task(text) for text in texts]
        if settings.beam == 1:
            return [[generation] for generation in self.run(tasks, settings)]
        found: list[list[Generation]] = []
        for first in range(0, len(tasks), self.slots):
            found += self.search(tasks[first : first + self.slots], settings)
        return found

    def search(self, tasks: Sequence[Task], settings: DecodingConfig) -> list[list[Generation]]:
        """By beam search."""
        sources = [task.source for task in tasks if task.source is not None] or None
        prompts = [task.prompt for task in tasks]
        beams = beam_search(self.model, prompts, settings, self.end, self.config.context, sources)
        return [[self.read(hypothesis, settings) for hypothesis in beam] for beam in beams]

    def read(self, hypothesis: Hypothesis, settings: DecodingConfig) -> Generation:
        """The text of a hypothesis, up to a stop string if it has one."""
        writer = Writer(self.tokenizer, settings.stop)
        text = "".join(writer.push(token) for token in self.visible(hypothesis.ids)) + writer.finish()
        reason = "stop" if writer.is_stopped else hypothesis.reason
        return Generation(text, hypothesis.ids, reason, score=hypothesis.score)

    def visible(self, ids: Sequence[int]) -> Sequence[int]:
        """The ids without the end token."""
        return ids[:-1] if ids and ids[-1] in self.end else ids

    def run(self, tasks: Sequence[Task], settings: DecodingConfig) -> list[Generation]:
        """Token by token, all texts side by side."""
        texts = [""] * len(tasks)
        made = [Text(task.prompt, settings, task.source) for task in tasks]
        for piece in self.pieces(made):
            texts[piece.index] += piece.text
        return [generation(text, task) for text, task in zip(texts, made, strict=True)]

    def stream(self, text: str, settings: DecodingConfig) -> Iterator[Piece]:
        """One text in pieces, as they are written; joined they are the whole."""
        settings = self.settle(settings)
        task = self.task(text)
        if settings.beam != 1:
            whole = self.search([task], settings)[0][0]
            return iter([Piece(0, whole.text, None, whole.reason)])
        return self.pieces([Text(task.prompt, settings, task.source)])

    def pieces(self, texts: Sequence[Text]) -> Iterator[Piece]:
        """Pieces of all texts as the engine writes them."""
        engine = Engine(self.model, self.end, self.config.context, self.slots)
        writers = {id(text): (i, Writer(self.tokenizer, text.settings.stop)) for i, text in enumerate(texts)}
        for text in texts:
            engine.add(text)
        while engine.is_busy:
            for text, token in engine.step():
                index, writer = writers[id(text)]
                piece = "" if text.reason == "end" else writer.push(token.id)
                if writer.is_stopped:
                    text.stop()
                elif text.reason is not None:
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
            "This model folder has no tokenizer.json, so it can read ids but no text.\nPut its tokenizer there."
        )
    return tokenizer
