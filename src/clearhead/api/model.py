"""What `clearhead.load` returns: a model with its tokenizer, to generate, translate, classify and inspect."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self, overload

import torch
from torch import Tensor

from clearhead import model_folder
from clearhead.api.arguments import check_path, check_text, is_pair, prepare_each, rows_of
from clearhead.api.figures import (
    EXPLORER,
    Figure,
    attention_figure,
    attribution_figure,
    explorer,
    heads_figure,
    picture_of,
)
from clearhead.config.decoding import DecodingConfig
from clearhead.config.model_base import AnyModelConfig
from clearhead.data.chats import messages_of
from clearhead.decoding.chat import Turn, dropped_note, next_turn
from clearhead.decoding.generate import Generation, Generator, Piece, Prompt, tokenizer_of
from clearhead.decoding.read import THRESHOLD, LabelItem, Reader
from clearhead.errors import InputError
from clearhead.examples import Message
from clearhead.inspection.capture import Trace, capture
from clearhead.model_folder import Bundle
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model as Module
from clearhead.text.tokenizers.tokenizer import Tokenizer

log = logging.getLogger(__name__)

TextPair = tuple[str, str]
Ids = Sequence[int] | Sequence[Sequence[int]] | Tensor


class Model:
    """A model and everything it needs to read and write text."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle

    @property
    def config(self) -> AnyModelConfig:
        """The model's settings."""
        return self.bundle.config

    @property
    def module(self) -> Module:
        """The PyTorch module."""
        return self.bundle.module

    @property
    def tokenizer(self) -> Tokenizer:
        """What turns text into ids; that of the target, if source and target have different ones."""
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

    def save(self, path: str | Path, overwrite: bool = False) -> Self:
        """Writes the model folder; with `overwrite`, in place of an existing one."""
        folder = check_path(path)
        check_free(folder, overwrite)
        model_folder.save(folder, self.bundle)
        return self

    @torch.no_grad()
    def logits(self, ids: Tensor, source: Tensor | None = None) -> Tensor:
        """(b, n) ids -> float32 (b, n, vocabulary), or (b, classes); a translator also takes its source."""
        return self.module(Inputs(ids, source=source)).float()

    @overload
    def generate(self, prompt: str, **settings: Any) -> Generation: ...
    @overload
    def generate(self, prompt: Sequence[str], **settings: Any) -> list[Generation]: ...
    @overload
    def generate(self, prompt: None = None, *, ids: Ids, **settings: Any) -> Any: ...
    def generate(
        self, prompt: str | Sequence[str] | None = None, *, ids: Ids | None = None, **settings: Any
    ) -> Generation | list[Generation]:
        """Continues a prompt, or each of a list; `settings` are those of `[decoding]`.

        `ids` are the tokens of a prompt, of a translator those of its source, exactly as the model reads them: a list
        or a tensor, or several of them for a list of results. `chat` says whether a prompt is a message to answer; if
        omitted, it is one for a model that was trained on conversations. A translator also takes `split_sentences`; if
        omitted, it splits what is longer than its context.
        """
        how = {key: settings.pop(key, None) for key in ("split_sentences", "chat")}
        if prompt is not None and ids is not None:
            raise InputError("generate takes a prompt or its ids, not both.\nOmit one of them.")
        if ids is not None:
            rows, is_single = rows_of(ids)
            items = [self.prompt_of(row) for row in rows]
        else:
            items = prepare_each(prompt, partial(self.generator.prompt, **how))
            is_single = isinstance(prompt, str)
        best = self.generator.complete(items, DecodingConfig(**settings))
        written = [replace(first, others=others) if others else first for first, *others in best]
        return written[0] if is_single else written

    def prompt_of(self, ids: list[int]) -> Prompt:
        """A prompt, or the source of a translator, from its ids."""
        size = self.config.vocabulary_encoder if self.translates else self.config.vocabulary
        if wrong := [id for id in ids if not 0 <= id < size]:
            raise InputError(
                f"ids contain {wrong[0]}, but the model has ids 0 to {size - 1}.\n"
                "Encode the text with this model's own tokenizer."
            )
        if self.translates:
            return Prompt(list(self.generator.frame.before), self.generator.fitting(ids, 0, "source"))
        return Prompt(self.generator.fitting(ids, 1, "prompt"))

    def stream(self, prompt: str, **settings: Any) -> Iterator[Piece]:
        """Continues a prompt, piece by piece, as `generate` does; a piece never splits a character."""
        prepared = self.generator.prompt(check_text(prompt), chat=settings.pop("chat", None))
        return self.generator.stream(prepared, DecodingConfig(**settings))

    def chat(self, messages: str | Sequence[Message | dict[str, str]], **settings: Any) -> Generation:
        """The answer to a conversation, by the model's own chat template or markers; a text is a user's message.

        `settings` are those of `[decoding]`. If the context is full, the oldest turns are dropped, with a warning.
        """
        turn, decoding = self.turn(messages, settings)
        return self.generator.complete([turn.prompt], decoding)[0][0]

    def stream_chat(
        self, messages: str | Sequence[Message | dict[str, str]], **settings: Any
    ) -> Iterator[Piece]:
        """The answer to a conversation, as `chat` gives it, piece by piece."""
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
        """The translation of a text, or of each of a list; `settings` are those of `generate`."""
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

    def classify(
        self,
        texts: str | TextPair | Sequence[str | TextPair],
        truncate: bool = False,
        threshold: float = THRESHOLD,
    ) -> list[Any]:
        """The `Classification` of each text, or of each pair of texts; `truncate` shortens those that do not fit.

        A model with several labels per text returns `SeveralLabels`, whose `labels` are at least as likely as
        `threshold`; one with a label for each word returns a `Tagging`.
        """
        self.reader.check_classes()
        given = [texts] if is_pair(texts) else texts
        return list(
            self.reader.classify(prepare_each(given, partial(self.item, truncate=truncate)), threshold)
        )

    def item(self, text: str | TextPair, truncate: bool = False) -> LabelItem:
        """A text, or a pair of texts, as a classifier reads it."""
        if isinstance(text, str):
            return self.reader.item(text, truncate=truncate)
        return self.reader.item(text[0], text[1], truncate)

    def embed(self, texts: str | Sequence[str], truncate: bool = False) -> Tensor:
        """One vector for each text: float32 (len(texts), d); `truncate` shortens those that do not fit."""
        return self.reader.embed(prepare_each(texts, partial(self.reader.ids, truncate=truncate)))

    def inputs(self, text: str, target: str | None = None) -> Inputs:
        """What the module reads of a text; of a translator also of a target, its own translation if omitted."""
        if not self.translates and target is not None:
            raise InputError(f"A model of shape '{self.config.shape}' takes no target.\nGive a text only.")
        ids = torch.tensor([self.reader.framed(self.reader.tokenizer.encode(check_text(text)))])
        if not self.translates:
            return Inputs(ids)
        target = self.translate(text) if target is None else check_text(target)
        written = [*self.generator.frame.before, *self.tokenizer.encode(target)]
        return Inputs(torch.tensor([written]), source=ids)

    def trace(self, text: str, target: str | None = None) -> "TextTrace":
        """Every named tensor of one pass over a text, with its ids and tokens; a translator's over source and target.

        If omitted, the target is the model's own translation.
        """
        inputs = self.inputs(text, target)
        with torch.no_grad(), capture(self.module) as trace:
            self.module.outputs(inputs)
        read = inputs.tokens[0].tolist()
        source = [] if inputs.source is None else inputs.source[0].tolist()
        tokenizer = self.tokenizer if self.translates else self.reader.tokenizer
        return TextTrace(trace, read, source, tokenizer.piece, self.reader.tokenizer.piece)

    def explore(
        self, text: str, target: str | None = None, view: str = "attention", height: int = EXPLORER
    ) -> Figure:
        """The explorer's page on one text, for a notebook; `view` is the one that it opens with, `height` in pixels.

        A translator without `target` uses its own translation, here and in the three figures below.
        """
        return explorer(self.bundle, check_text(text), target, view, height)

    def attention(self, text: str, target: str | None = None, head: str | None = None) -> Figure:
        """Where a `head` such as decoder.0.self.1 looks; if omitted, the one with the sharpest weights."""
        return attention_figure(picture_of(self.bundle, check_text(text), target), head)

    def heads(self, text: str, target: str | None = None) -> Figure:
        """Where all heads look; of a translator those that look from the target to the source."""
        return heads_figure(picture_of(self.bundle, check_text(text), target))

    def attribution(self, text: str, target: str | None = None, position: int = -1) -> Figure:
        """What each part and each word adds to the likeliest token after a `position`, or to the likeliest class."""
        return attribution_figure(self.bundle, check_text(text), target, position)

    def __repr__(self) -> str:
        count = sum(weight.numel() for weight in self.module.parameters())
        return f"<clearhead {self.config.shape}, {count:,} weights>"


class TextTrace(Trace):
    """The tensors of a pass over a text, by site, and what the model read: `ids` and `tokens`.

    Of a translator these are the target's; its source is in `source_ids` and `source_tokens`.
    """

    def __init__(
        self,
        trace: Trace,
        ids: list[int],
        source_ids: list[int],
        piece: Callable[[int], str],
        source_piece: Callable[[int], str],
    ) -> None:
        super().__init__(trace)
        self.ids, self.source_ids = ids, source_ids
        self.piece, self.source_piece = piece, source_piece

    @cached_property
    def tokens(self) -> list[str]:
        """The ids as people read them."""
        return list(map(self.piece, self.ids))

    @cached_property
    def source_tokens(self) -> list[str]:
        """The same of a translator's source."""
        return list(map(self.source_piece, self.source_ids))


def check_free(folder: Path, overwrite: bool) -> None:
    """Refuses to write a model folder in the place of something, or of something else."""
    if folder.exists() and not (folder.is_dir() and is_replaceable(folder, overwrite)):
        may_replace = not overwrite and model_folder.is_model_folder(folder)
        raise InputError(
            f"{folder} already exists{' and is not a model folder' * overwrite}.\n"
            + "Choose another name"
            + (", or replace it: --overwrite (in Python overwrite=True)." if may_replace else ".")
        )


def is_replaceable(folder: Path, overwrite: bool) -> bool:
    """Whether a folder may be replaced by a model: an empty one, or with `overwrite` a model folder."""
    return not any(folder.iterdir()) or (overwrite and model_folder.is_model_folder(folder))
