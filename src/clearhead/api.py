"""`clearhead.load` and `clearhead.train`: a model with its tokenizer, to generate, translate, classify and inspect."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import torch
from torch import Tensor

from clearhead import model_folder
from clearhead.config.decoding import DecodingConfig
from clearhead.config.model_base import AnyModelConfig
from clearhead.config.run import RunConfig
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

if TYPE_CHECKING:
    from clearhead.training.reporting.history import LogEntry

log = logging.getLogger(__name__)

Item = TypeVar("Item")
TextPair = tuple[str, str]
Ids = Sequence[int] | Sequence[Sequence[int]] | Tensor
TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


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

    def save(self, path: str | Path, overwrite: bool = False) -> Self:
        """Writes the model folder; with `overwrite`, in place of an existing one."""
        folder = check_path(path)
        if folder.exists() and not (folder.is_dir() and is_replaceable(folder, overwrite)):
            raise InputError(
                f"{folder} already exists{' and is not a model folder' * overwrite}.\n"
                + (
                    "Choose another name."
                    if overwrite
                    else "Choose another name, or save(path, overwrite=True)."
                )
            )
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

    def classify(
        self,
        texts: str | TextPair | Sequence[str | TextPair],
        truncate: bool = False,
        threshold: float = THRESHOLD,
    ) -> list[Any]:
        """The `Classification` of each text, or of each pair of texts; `truncate` shortens those that do not fit.

        With several labels a text it is `SeveralLabels`, of which those at least as likely as `threshold` fit; with a
        label for each word a `Tagging`.
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
        return TextTrace(
            trace,
            ids=read,
            tokens=[tokenizer.piece(id) for id in read],
            source_ids=source,
            source_tokens=[self.reader.tokenizer.piece(id) for id in source],
        )

    def __repr__(self) -> str:
        count = sum(weight.numel() for weight in self.module.parameters())
        return f"<clearhead {self.config.shape}, {count:,} weights>"


class TextTrace(Trace):
    """The tensors of a pass over a text, by site, and what the model read; of a translator also its source."""

    def __init__(
        self,
        trace: Trace,
        ids: list[int],
        tokens: list[str],
        source_ids: list[int],
        source_tokens: list[str],
    ) -> None:
        super().__init__(trace)
        self.ids, self.tokens = ids, tokens
        self.source_ids, self.source_tokens = source_ids, source_tokens


def is_pair(texts: object) -> bool:
    """Whether a value is a pair of texts: a tuple, since a list is several."""
    return isinstance(texts, tuple) and len(texts) == 2 and all(isinstance(text, str) for text in texts)


def prepare_each(texts: Any, prepare: Callable[[Any], Item]) -> list[Item]:
    """Prepares a single text, or each of a list, of which some may be pairs; an error says which of a list it means."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Sequence):
        return [prepare(check_text(texts))]
    items = []
    for place, text in enumerate(texts):
        try:
            items.append(prepare(text if is_pair(text) else check_text(text)))
        except InputError as error:
            raise InputError(f"text {place} of the list: {error}") from None
    return items


def check_text(text: object) -> str:
    """The text itself; rejects anything else."""
    if not isinstance(text, str):
        raise InputError(f"A text is a str, not a {type(text).__name__}.\nGive a text, or a list of texts.")
    return text


def rows_of(ids: object) -> tuple[list[list[int]], bool]:
    """Ids as rows, and whether they are a single one: a list or tensor (n), or several of them."""
    if isinstance(ids, Tensor):
        if ids.is_floating_point() or ids.ndim not in (1, 2):
            raise InputError(
                f"ids have shape {tuple(ids.shape)} and type {ids.dtype}, but are whole numbers (n) or (b, n)."
            )
        ids = ids.tolist()
    is_list = isinstance(ids, Sequence) and not isinstance(ids, str | bytes)
    items: list[Any] = list(ids) if is_list and isinstance(ids, Sequence) else []
    is_single = not any(isinstance(item, Sequence | Tensor) for item in items)
    rows = [items] if is_single else [item.tolist() if isinstance(item, Tensor) else item for item in items]
    for row in rows:
        if not isinstance(row, list | tuple) or not row or any(type(id) is not int for id in row):
            raise InputError(
                f"ids = {ids!r:.80} is not a list of whole numbers.\nGive at least one id, such as "
                "model.tokenizer.encode(text), or a list of such lists."
            )
    return [list(row) for row in rows], is_single


def check_path(path: object) -> Path:
    """A path; rejects anything else."""
    if not isinstance(path, str | PathLike) or not str(path):
        raise InputError(f"A path is a str or a Path, not {path!r:.80}.\nName a folder.")
    return Path(path)


def is_replaceable(folder: Path, overwrite: bool) -> bool:
    """Whether a folder may be replaced by a model: an empty one, or with `overwrite` a model folder."""
    return not any(folder.iterdir()) or (overwrite and model_folder.is_model_folder(folder))


def load(path: str | Path, dtype: torch.dtype | str = torch.float32, int8: bool = False) -> Model:
    """Reads a model folder, in float32 or another type such as torch.bfloat16 or "bfloat16".

    With `int8` the weights are rounded as `clearhead quantize` does.
    """
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if found not in TYPES:
        names = ", ".join(str(kind).removeprefix("torch.") for kind in TYPES)
        raise InputError(f"dtype = {dtype!r:.80} is not a type of weights.\nUse one of {names}.")
    if int8 and found != torch.float32:
        raise InputError(f"int8 weights are multiplied in float32, not in {dtype}.\nOmit dtype or int8.")
    bundle = model_folder.load(check_path(path), found)
    if int8:
        bundle.quantise()
    return Model(bundle)


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

    if not isinstance(recipe, str | PathLike | RunConfig):
        raise InputError(
            f"A recipe is a file, the name of a shipped one, or a RunConfig, not a {type(recipe).__name__}.\n"
            "For settings in a table: RunConfig(**table)."
        )
    config, place = recipe if isinstance(recipe, RunConfig) else RunConfig.read(recipe), check_path(out)
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
