"""What a model makes of held-out examples as it learns: a model enters; samples and attention weights leave."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from itertools import islice
from typing import Any

import torch

from clearhead.config.model import ModelConfig
from clearhead.config.run import RunConfig
from clearhead.config.tasks import Objective
from clearhead.data.batching.batches import Position
from clearhead.data.chats import answer_ends, first_question
from clearhead.data.prepare import Prepared
from clearhead.decoding.generate import Generator, Prompt
from clearhead.decoding.read import Answer, Classification, Reader, SeveralLabels
from clearhead.examples import Conversation, Example, Labelled, Pair, Split, Text
from clearhead.inspection.figures import AttentionPicture, attention_of
from clearhead.inspection.heads.roles import head_roles, start_of
from clearhead.model_folder import Bundle
from clearhead.models.model import Model
from clearhead.text.sources.read import read_split
from clearhead.training.loop.losses import inputs_of
from clearhead.training.reporting.history import HeadScores, Sample

SEARCHED = 1000  # held-out examples among which samples are chosen
WATCHED_TOKENS = 2048  # on which the scores of heads are computed


class Sampler:
    """Tries a model on the first validation examples; the weights are those of the moment."""

    def __init__(self, config: RunConfig, data: Prepared, model: Model) -> None:
        self.config, self.data, self.model = config, data, model

    @property
    def bundle(self) -> Bundle:
        """The model with its tokenizers and labels."""
        source, target = self.data.tokenizers.source, self.data.tokenizers.target
        labels = list(self.data.labels) if self.config.kind == "labelled" else None
        return Bundle(self.model, target, None if source is target else source, labels)

    @torch.inference_mode()
    def samples(self, step: int) -> list[Sample]:
        """Some held-out texts and what the model makes of them."""
        count, sample = self.config.training.samples, SAMPLERS[self.config.task_row.objective]
        if not count or sample is None:
            return []
        with self.without_dropout():
            return [Sample(step, *one) for one in sample(self, count)]

    def head_scores(self, step: int) -> HeadScores | None:
        """Where every head looks, on a batch of held-out data and on repeated random tokens; None unless asked for."""
        if not self.config.training.watch_heads or not isinstance(self.model.config, ModelConfig):
            return None
        split: Split = "validation" if "validation" in self.data.splits else "train"
        batch = self.data.batches(split, WATCHED_TOKENS).at(Position())
        device = next(self.model.parameters()).device
        with self.without_dropout():
            roles = head_roles(self.model, [inputs_of(batch.to(device))], start_of(self.bundle))
        scores: dict[str, dict[str, float]] = {}
        for head, role in roles.items():
            for name, value in asdict(role).items():
                if value is not None:
                    scores.setdefault(name, {})[head] = value
        return HeadScores(step, scores)

    def attention(self, sample: Sample | None) -> AttentionPicture | None:
        """The attention weights of a sample, or of the first held-out text if there is no sample."""
        if not self.bundle.config.attentions():
            return None
        with self.without_dropout():
            if self.config.kind == "pair":
                return attention_of(self.bundle, sample.given, sample.made) if sample else None
            for example in self.held_out[:1]:
                if isinstance(example, Conversation):
                    question = first_question(self.data.tokenizers.target, example)
                    return attention_of(self.bundle, question.ids)
            text = sample.given or sample.made if sample else "".join(e.text for e in self.held_out[:1])
            return attention_of(self.bundle, text)

    @cached_property
    def held_out(self) -> list[Any]:
        """The first validation examples that fit into the context."""
        reader = read_split(self.config.data, self.config.kind, "validation")
        found = [] if reader is None else filter(self.fits, islice(reader, SEARCHED))
        return list(islice(found, max(1, self.config.training.samples)))

    def fits(self, example: Example) -> bool:
        """Whether an example's input is no longer than the context; plain text can be truncated anywhere."""
        context = self.config.model.context
        if context is None or isinstance(example, Text):
            return True
        text = example.source if isinstance(example, Pair) else example.text
        text = example.input if isinstance(example, Labelled) else text
        return len(self.data.tokenizers.source.encode(text, begin=True, end=True)) <= context

    @contextmanager
    def without_dropout(self) -> Iterator[None]:
        """The model as it is used."""
        was_training = self.model.training
        self.model.eval()
        try:
            yield
        finally:
            self.model.train(was_training)


def sample_text(sampler: Sampler, count: int) -> list[tuple[str, ...]]:
    """What a language model writes from nothing, or its answers if it learns from conversations."""
    if talks := [example for example in sampler.held_out[:count] if isinstance(example, Conversation)]:
        return sample_answers(sampler, talks)
    room = min(120, (sampler.config.model.context or 122) - 2)
    settings = sampler.config.decoding.replace(max_tokens=max(1, room))
    generator = Generator(sampler.bundle)
    written = (generator.write([""], settings.replace(seed=seed))[0] for seed in range(1, count + 1))
    return [("", best[0].text) for best in written]


def sample_answers(sampler: Sampler, talks: list[Conversation]) -> list[tuple[str, ...]]:
    """The openings of some conversations, and the model's greedy answers."""
    asked = [first_question(sampler.data.tokenizers.target, talk) for talk in talks]
    settings = sampler.config.decoding.replace(beam=1, temperature=0.0, n_best=1, max_tokens=100)
    generator = Generator(sampler.bundle)
    ends = answer_ends(sampler.data.tokenizers.target)
    written = generator.complete([Prompt(one.ids, ends=ends) for one in asked], settings)
    return [(one.text, best[0].text, one.answer) for one, best in zip(asked, written, strict=True)]


def sample_translations(sampler: Sampler, count: int) -> list[tuple[str, ...]]:
    """Validation pairs, and the model's greedy translations of their sources."""
    pairs = [example for example in sampler.held_out[:count] if isinstance(example, Pair)]
    settings = sampler.config.decoding.replace(beam=1, temperature=0.0, n_best=1, max_tokens=100)
    written = Generator(sampler.bundle).write([pair.source for pair in pairs], settings)
    return [(pair.source, best[0].text, pair.target) for pair, best in zip(pairs, written, strict=True)]


def sample_classes(sampler: Sampler, count: int) -> list[tuple[str, ...]]:
    """Validation texts, and the labels that the model gives them."""
    texts = [example for example in sampler.held_out[:count] if isinstance(example, Labelled)]
    reader = Reader(sampler.bundle)
    made = reader.classify([reader.item(text.text, text.second, truncate=True) for text in texts])
    return [(text.input, written(answer), text.answer) for text, answer in zip(texts, made, strict=True)]


def written(answer: Answer) -> str:
    """The labels of an answer as one text."""
    if isinstance(answer, Classification) and not isinstance(answer, SeveralLabels):
        return answer.label
    return " ".join(label or "-" for label in answer.labels)


# Given text, what the model made of it and, where known, what is right.
SAMPLERS: dict[Objective, Callable[[Sampler, int], list[tuple[str, ...]]] | None] = {
    "next": sample_text,
    "masked": None,
    "target": sample_translations,
    "label": sample_classes,
    "labels": sample_classes,
    "tags": sample_classes,
}
