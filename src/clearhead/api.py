"""The object that `clearhead.load` returns: a model with its tokenizer, to write, translate, classify and look inside."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self, overload

import torch
from torch import Tensor

from clearhead import checkpoint as folder
from clearhead.checkpoint import Checkpoint
from clearhead.config.decoding import DecodingConfig
from clearhead.config.model import ModelConfig
from clearhead.decoding.generate import Generation, Generator, Piece, tokenizer_of
from clearhead.decoding.read import Classification, Reader
from clearhead.errors import InputError
from clearhead.inspection.capture import Trace, capture
from clearhead.models.build import Model as Module
from clearhead.text.tokenizer import Tokenizer


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

    @torch.inference_mode()
    def logits(self, ids: Tensor, source: Tensor | None = None) -> Tensor:
        """(b, n) ids -> float32 (b, n, vocabulary), or (b, classes); a translator also takes the source's ids."""
        if (source is not None) != (self.config.shape == "encoder-decoder"):
            needs = "needs a source" if source is None else "takes no source"
            raise InputError(
                f"A model of shape '{self.config.shape}' {needs}.\nCall logits(ids{', source' * (source is None)})."
            )
        given = (ids,) if source is None else (ids, source)
        return self.module(*given).float()  # type: ignore[no-any-return]

    @overload
    def generate(self, prompt: str, **settings: Any) -> Generation: ...
    @overload
    def generate(self, prompt: Sequence[str], **settings: Any) -> list[Generation]: ...
    def generate(self, prompt: str | Sequence[str], **settings: Any) -> Generation | list[Generation]:
        """Writes on from a prompt, or from each of a list; `settings` are those of `[decoding]`."""
        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        written = [best[0] for best in self.generator.write(prompts, DecodingConfig(**settings))]
        return written[0] if isinstance(prompt, str) else written

    def stream(self, prompt: str, **settings: Any) -> Iterator[Piece]:
        """Writes on from a prompt, piece by piece; a piece never splits a character."""
        return self.generator.stream(prompt, DecodingConfig(**settings))

    @overload
    def translate(self, text: str, **settings: Any) -> str: ...
    @overload
    def translate(self, text: Sequence[str], **settings: Any) -> list[str]: ...
    def translate(self, text: str | Sequence[str], **settings: Any) -> str | list[str]:
        """The translation of a text, or of each of a list."""
        if self.config.shape != "encoder-decoder":
            raise InputError(
                f"A model of shape '{self.config.shape}' does not translate.\nUse generate, or load a translator."
            )
        texts = [text] if isinstance(text, str) else list(text)
        translated = [best[0].text for best in self.generator.write(texts, DecodingConfig(**settings))]
        return translated[0] if isinstance(text, str) else translated

    def classify(self, texts: Sequence[str]) -> list[Classification]:
        """The label of each text, and the probability of every label."""
        return self.reader.classify(one_or_many(texts))

    def embed(self, texts: Sequence[str]) -> Tensor:
        """One vector for each text: float32 (len(texts), d)."""
        return self.reader.embed(one_or_many(texts))

    @torch.inference_mode()
    def trace(self, text: str, target: str | None = None) -> Trace:
        """Every named tensor of one pass over a text, or over a source and its target (its translation when None)."""
        with capture(self.module) as trace:
            if self.config.shape != "encoder-decoder":
                self.module(torch.tensor([self.reader.ids(text)]))
            else:
                target = self.translate(text) if target is None else target
                task = self.generator.task(text)
                ids = torch.tensor([[*task.prompt, *self.tokenizer.encode(target)]])
                trace.clear()  # of the search for a translation
                self.module(ids, torch.tensor([task.source]))
        return trace

    def __repr__(self) -> str:
        count = sum(weight.numel() for weight in self.module.parameters())
        return f"<clearhead {self.config.shape}, {count:,} weights>"


def one_or_many(texts: Sequence[str]) -> list[str]:
    """A list of texts, also from a single one."""
    return [texts] if isinstance(texts, str) else list(texts)


def load(path: str | Path, dtype: torch.dtype = torch.float32) -> Model:
    """Reads a model folder."""
    return Model(folder.load(path, dtype))
