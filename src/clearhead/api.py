"""`clearhead.load` and `clearhead.train`: a model with its tokenizer, to write, translate, classify and look into."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import torch
from torch import Tensor

from clearhead import checkpoint as folder
from clearhead.checkpoint import Checkpoint
from clearhead.config.decoding import DecodingConfig
from clearhead.config.model import ModelConfig
from clearhead.config.run import RunConfig
from clearhead.decoding.generate import Generation, Generator, Piece, tokenizer_of
from clearhead.decoding.read import Classification, Reader
from clearhead.errors import InputError
from clearhead.inspection.capture import Trace, capture
from clearhead.models.build import Model as Module
from clearhead.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from clearhead.training.history import Kept

Task = TypeVar("Task")


class Model:
    """A model and everything it needs to meet text."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint

    @property
    def config(self) -> ModelConfig:
        """The model's settings."""
        return self.checkpoint.config

    @property
    def module(self) -> Module:
        """The PyTorch module."""
        return self.checkpoint.module

    @property
    def tokenizer(self) -> Tokenizer:
        """What turns text into ids; of the target, where source and target differ."""
        return tokenizer_of(self.checkpoint.tokenizer)

    @property
    def translates(self) -> bool:
        """Whether it reads a source and writes a target."""
        return self.config.shape == "encoder-decoder"

    @cached_property
    def generator(self) -> Generator:
        """What writes text with this model."""
        return Generator(self.checkpoint)

    @cached_property
    def reader(self) -> Reader:
        """What reads text with this model."""
        return Reader(self.checkpoint)

    def save(self, path: str | Path) -> Self:
        """Writes the model folder."""
        folder.save(path, self.checkpoint)
        return self

    @torch.no_grad()
    def logits(self, ids: Tensor, source: Tensor | None = None) -> Tensor:
        """(b, n) ids -> float32 (b, n, vocabulary), or (b, classes); a translator also takes its source."""
        if (source is not None) != self.translates:
            needs, call = ("needs a source", "ids, source") if self.translates else ("takes no source", "ids")
            raise InputError(f"A model of shape '{self.config.shape}' {needs}.\nCall logits({call}).")
        given = (ids,) if source is None else (ids, source)
        return self.module(*given).float()

    @overload
    def generate(self, prompt: str, **settings: Any) -> Generation: ...
    @overload
    def generate(self, prompt: Sequence[str], **settings: Any) -> list[Generation]: ...
    def generate(self, prompt: str | Sequence[str], **settings: Any) -> Generation | list[Generation]:
        """Writes on from a prompt, or from each of a list; `settings` are those of `[decoding]`."""
        tasks = prepared(prompt, self.generator.task)
        best = self.generator.do(tasks, DecodingConfig(**settings))
        written = [replace(first, others=others) if others else first for first, *others in best]
        return written[0] if isinstance(prompt, str) else written

    def stream(self, prompt: str, **settings: Any) -> Iterator[Piece]:
        """Writes on from a prompt, piece by piece; a piece never splits a character."""
        return self.generator.stream(a_text(prompt), DecodingConfig(**settings))

    @overload
    def translate(self, text: str, **settings: Any) -> str: ...
    @overload
    def translate(self, text: Sequence[str], **settings: Any) -> list[str]: ...
    def translate(self, text: str | Sequence[str], **settings: Any) -> str | list[str]:
        """The translation of a text, or of each of a list."""
        self.check_translates()
        if settings.get("n_best", 1) != 1:
            raise InputError(
                f"translate gives one string, not n_best = {settings['n_best']}.\n"
                "Use generate, whose result has the next best ones in `others`."
            )
        if isinstance(text, str):
            return self.generate(text, **settings).text
        return [generation.text for generation in self.generate(text, **settings)]

    def check_translates(self) -> None:
        """Refuses a model that does not translate."""
        if not self.translates:
            raise InputError(
                f"A model of shape '{self.config.shape}' does not translate.\n"
                "Use generate, or load a translator."
            )

    def classify(self, texts: str | Sequence[str], cut: bool = False) -> list[Classification]:
        """The label of each text, and the probability of every label; `cut` reads what fits of longer ones."""
        return self.reader.classify(prepared(texts, partial(self.reader.ids, cut=cut)))

    def embed(self, texts: str | Sequence[str], cut: bool = False) -> Tensor:
        """One vector for each text: float32 (len(texts), d); `cut` reads what fits of longer ones."""
        return self.reader.embed(prepared(texts, partial(self.reader.ids, cut=cut)))

    def trace(self, text: str, target: str | None = None) -> Trace:
        """Every named tensor of one pass over a text; a translator's over its source and target.

        A target that is not given is the model's own translation.
        """
        if not self.translates and target is not None:
            raise InputError(f"A model of shape '{self.config.shape}' takes no target.\nCall trace(text).")
        given = [self.reader.ids(a_text(text))]
        if self.translates:
            target = self.translate(text) if target is None else target
            given.insert(0, [*self.generator.frame.before, *self.tokenizer.encode(target)])
        with torch.no_grad(), capture(self.module) as trace:
            self.module(*(torch.tensor([ids]) for ids in given))
        return trace

    def __repr__(self) -> str:
        count = sum(weight.numel() for weight in self.module.parameters())
        return f"<clearhead {self.config.shape}, {count:,} weights>"


def prepared(texts: str | Sequence[str], prepare: Callable[[str], Task]) -> list[Task]:
    """A single text, or each of a list, made ready; an error says which of a list it means."""
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        return [prepare(a_text(texts))]
    tasks = []
    for place, text in enumerate(texts):
        try:
            tasks.append(prepare(a_text(text)))
        except InputError as error:
            raise InputError(f"text {place} of the list: {error}") from None
    return tasks


def a_text(text: object) -> str:
    """The same, if it is a text."""
    if not isinstance(text, str):
        raise InputError(f"A text is a str, not a {type(text).__name__}.\nGive a text, or a list of texts.")
    return text


def load(path: str | Path, dtype: torch.dtype = torch.float32) -> Model:
    """Reads a model folder."""
    return Model(folder.load(path, dtype))


def train(
    recipe: str | Path | RunConfig,
    out: str | Path,
    resume: bool = False,
    on_record: "Callable[[Kept], None]" = lambda record: None,
) -> Model:
    """Trains a recipe (a file, the name of a shipped one, or a `RunConfig`) into a run folder; the best model.

    `on_record` hears of every logged step, every evaluation and every sample. Under `torchrun` all ranks call this.
    """
    from clearhead.training.distributed import is_first, joined, told_by_first  # only who trains waits for it
    from clearhead.training.place import RECIPE, check_free, holds_run
    from clearhead.training.runs import as_long_as, make_run

    config, place = recipe if isinstance(recipe, RunConfig) else RunConfig.read(recipe), Path(out)
    if not resume:
        check_free(place)  # before the data is read
    elif holds_run(place):
        config = as_long_as(RunConfig.read(place / RECIPE), config)
    with joined():
        run = make_run(config, place)
        for record in run.train(resume):
            if is_first():
                on_record(record)
        told_by_first(lambda: str(run.evaluate()))  # the others wait for it
    return load(place / "best")
