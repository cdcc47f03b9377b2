"""`clearhead.load` and `clearhead.train`: a model with its tokenizer, to generate, translate, classify and inspect."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import torch
from torch import Tensor

from clearhead import model_folder
from clearhead.config.decoding import DecodingConfig
from clearhead.config.model import ModelConfig
from clearhead.config.run import RunConfig
from clearhead.data.chats import messages_of
from clearhead.decoding.chat import Turn, dropped_note, next_turn
from clearhead.decoding.generate import Generation, Generator, Piece, tokenizer_of
from clearhead.decoding.read import Classification, Reader
from clearhead.errors import InputError
from clearhead.examples import Message
from clearhead.inspection.capture import Trace, capture
from clearhead.model_folder import Bundle
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model as Module
from clearhead.text.tokenizers.tokenizer import Tokenizer

if TYPE_CHECKING:
    from clearhead.training.reporting.history import LogEntry

log = logging.getLogger(__name__)

Item = TypeVar("Item")


class Model:
    """A model and everything it needs to read and write text."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle

    @property
    def config(self) -> ModelConfig:
        """The model's settings."""
        return self.bundle.config

    @property
    def module(self) -> Module:
        """The PyTorch module."""
        return self.bundle.module

    @property
    def tokenizer(self) -> Tokenizer:
        """What turns text into ids; of the target, where source and target differ."""
        return tokenizer_of(self.bundle.tokenizer)

    @property
    def translates(self) -> bool:
        """Whether it reads a source and writes a target."""
        return self.module.translates

    @cached_property
    def generator(self) -> Generator:
        """Generates text with this model."""
        return Generator(self.bundle)

    @cached_property
    def reader(self) -> Reader:
        """Classifies and embeds text with this model."""
        return Reader(self.bundle)

    def save(self, path: str | Path) -> Self:
        """Writes the model folder."""
        model_folder.save(path, self.bundle)
        return self

    @torch.no_grad()
    def logits(self, ids: Tensor, source: Tensor | None = None) -> Tensor:
        """(b, n) ids -> float32 (b, n, vocabulary), or (b, classes); a translator also takes its source."""
        return self.module(Inputs(ids, source=source)).float()

    @overload
    def generate(self, prompt: str, **settings: Any) -> Generation: ...
    @overload
    def generate(self, prompt: Sequence[str], **settings: Any) -> list[Generation]: ...
    def generate(self, prompt: str | Sequence[str], **settings: Any) -> Generation | list[Generation]:
        """Continues a prompt, or each of a list; `settings` are those of `[decoding]`.

        `chat` says whether a prompt is a message to answer; if omitted, it is one for a model that was trained on
        conversations. A translator also takes `split_sentences`; if omitted, it splits what is longer than its context.
        """
        how = {key: settings.pop(key, None) for key in ("split_sentences", "chat")}
        items = prepare_each(prompt, partial(self.generator.prompt, **how))
        best = self.generator.complete(items, DecodingConfig(**settings))
        written = [replace(first, others=others) if others else first for first, *others in best]
        return written[0] if isinstance(prompt, str) else written

    def stream(self, prompt: str, **settings: Any) -> Iterator[Piece]:
        """Continues a prompt, piece by piece; a piece never splits a character."""
        prepared = self.generator.prompt(check_text(prompt), chat=settings.pop("chat", None))
        return self.generator.stream(prepared, DecodingConfig(**settings))

    def chat(self, messages: str | Sequence[Message | dict[str, str]], **settings: Any) -> Generation:
        """The answer to a conversation, by the model's own chat template or markers; a text is a user's message.

        If the context is full, the oldest turns are dropped, with a warning.
        """
        turn, decoding = self.turn(messages, settings)
        return self.generator.complete([turn.prompt], decoding)[0][0]

    def stream_chat(
        self, messages: str | Sequence[Message | dict[str, str]], **settings: Any
    ) -> Iterator[Piece]:
        """The same, piece by piece."""
        turn, decoding = self.turn(messages, settings)
        return self.generator.stream(turn.prompt, decoding)

    def turn(
        self, messages: str | Sequence[Message | dict[str, str]], settings: dict[str, Any]
    ) -> tuple[Turn, DecodingConfig]:
        """What the model reads of a conversation, and the settings of its answer."""
        decoding = DecodingConfig(**settings)
        turn = next_turn(self.generator, messages_of(messages), decoding)
        if turn.dropped:
            log.warning("Warning: %s", dropped_note(self.generator, turn.dropped))
        return turn, decoding

    @overload
    def translate(self, text: str, **settings: Any) -> str: ...
    @overload
    def translate(self, text: Sequence[str], **settings: Any) -> list[str]: ...
    def translate(self, text: str | Sequence[str], **settings: Any) -> str | list[str]:
        """The translation of a text, or of each of a list."""
        self.check_translates()
        if settings.get("n_best", 1) != 1:
            raise InputError(
                f"translate returns one string, not n_best = {settings['n_best']}.\n"
                "Use generate, whose result has the next best ones in `others`."
            )
        if isinstance(text, str):
            return self.generate(text, **settings).text
        return [generation.text for generation in self.generate(text, **settings)]

    def check_translates(self) -> None:
        """Rejects a model that does not translate."""
        if not self.translates:
            if self.config.head == "classifier":
                raise InputError("This is a classifier, not a translator.\nUse classify or embed.")
            raise InputError(
                f"A model of shape '{self.config.shape}' does not translate.\n"
                "Use generate, or load a translator."
            )

    def classify(self, texts: str | Sequence[str], cut: bool = False) -> list[Classification]:
        """The label of each text, and the probability of every label; `cut` truncates longer ones to what fits."""
        return self.reader.classify(prepare_each(texts, partial(self.reader.ids, cut=cut)))

    def embed(self, texts: str | Sequence[str], cut: bool = False) -> Tensor:
        """One vector for each text: float32 (len(texts), d); `cut` truncates longer ones to what fits."""
        return self.reader.embed(prepare_each(texts, partial(self.reader.ids, cut=cut)))

    def trace(self, text: str, target: str | None = None) -> Trace:
        """Every named tensor of one pass over a text; a translator's over its source and target.

        If omitted, the target is the model's own translation.
        """
        if not self.translates and target is not None:
            raise InputError(f"A model of shape '{self.config.shape}' takes no target.\nCall trace(text).")
        inputs = Inputs(torch.tensor([self.reader.framed(self.reader.tokenizer.encode(check_text(text)))]))
        if self.translates:
            target = self.translate(text) if target is None else target
            ids = [*self.generator.frame.before, *self.tokenizer.encode(target)]
            inputs = Inputs(torch.tensor([ids]), source=inputs.tokens)
        with torch.no_grad(), capture(self.module) as trace:
            self.module.outputs(inputs)
        return trace

    def __repr__(self) -> str:
        count = sum(weight.numel() for weight in self.module.parameters())
        return f"<clearhead {self.config.shape}, {count:,} weights>"


def prepare_each(texts: str | Sequence[str], prepare: Callable[[str], Item]) -> list[Item]:
    """Prepares a single text, or each of a list; an error says which of a list it means."""
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        return [prepare(check_text(texts))]
    items = []
    for place, text in enumerate(texts):
        try:
            items.append(prepare(check_text(text)))
        except InputError as error:
            raise InputError(f"text {place} of the list: {error}") from None
    return items


def check_text(text: object) -> str:
    """The text itself; rejects anything else."""
    if not isinstance(text, str):
        raise InputError(f"A text is a str, not a {type(text).__name__}.\nGive a text, or a list of texts.")
    return text


def load(path: str | Path, dtype: torch.dtype = torch.float32) -> Model:
    """Reads a model folder."""
    return Model(model_folder.load(path, dtype))


def train(
    recipe: str | Path | RunConfig,
    out: str | Path,
    resume: bool = False,
    on_record: "Callable[[LogEntry], None]" = lambda record: None,
) -> Model:
    """Trains a recipe (a file, the name of a shipped one, or a `RunConfig`) into a run folder; the best model.

    `on_record` receives every logged step, every evaluation and every sample. Under `torchrun` all ranks call this.
    """
    from clearhead.training.distributed.ranks import (  # imported only for training
        broadcast_from_first,
        is_first,
        process_group,
    )
    from clearhead.training.run.folder import RECIPE, check_free, holds_run
    from clearhead.training.run.run import keep_length, make_run

    config, place = recipe if isinstance(recipe, RunConfig) else RunConfig.read(recipe), Path(out)
    if not resume:
        check_free(place)  # before the data is read
    elif holds_run(place):
        config = keep_length(RunConfig.read(place / RECIPE), config)
    with process_group():
        run = make_run(config, place)
        for record in run.train(resume):
            if is_first():
                on_record(record)
        broadcast_from_first(lambda: str(run.evaluate()))  # the other ranks wait for it
    return load(place / "best")
