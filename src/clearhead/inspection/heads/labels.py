"""How much each head looks at what the data name: nouns, verbs, dates, and from *it* to what it stands for (N46).

A model, texts and their labels enter; by label and head a mean weight leaves. Of a label it is the weight on the words
that have it, over the queries that see one; beside it the weight that even attention would give. Of a relation it is
the weight from one of its words to the other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clearhead.corpora.corpus import Labels, Span
from clearhead.data.frames import Frame, target_frame
from clearhead.decoding.generate import tokenizer_of
from clearhead.decoding.read import Reader
from clearhead.examples import Example, Labelled, Pair, Text
from clearhead.inspection.heads.importance import headed
from clearhead.inspection.heads.roles import WeightSums, read_weights
from clearhead.inspection.tokens import TextToken, text_tokens
from clearhead.model_folder import Bundle
from clearhead.models.inputs import Inputs

EVEN = " (even)"
Labeller = Callable[[str], Labels]


@dataclass(frozen=True)
class TokenLabels:
    """Labels and relations of a text as places of its tokens."""

    tags: Mapping[str, list[int]]
    relations: Mapping[str, list[tuple[int, list[int]]]]  # the last token of one word, all of the other


LabelledText = tuple[Inputs, dict[str, TokenLabels]]  # by stack


def labelled_texts(bundle: Bundle, examples: Iterable[Example], label: Labeller) -> Iterator[LabelledText]:
    """Texts as a model reads them, one at a time, with what their corpus says of their words."""
    reader = Reader(bundle)
    for example in examples:
        if isinstance(example, Pair):
            target = tokenizer_of(bundle.tokenizer)
            before = Frame(target_frame(target.specials).before)
            source = text_tokens(reader.tokenizer, example.source, reader.frame, ())
            written = text_tokens(target, example.target, before, ())
            inputs = Inputs(ids_of(written), source=ids_of(source))
            found = {
                "encoder": placed(label(example.source), source),
                "decoder": placed(label(example.target), written),
            }
        elif isinstance(example, Text | Labelled):
            tokens = text_tokens(reader.tokenizer, example.text, reader.frame, ())
            inputs = Inputs(ids_of(tokens))
            found = {bundle.config.shape: placed(label(example.text), tokens)}
        else:
            continue
        context = bundle.config.context
        if context is None or max(X.shape[1] for X in inputs if X is not None) <= context:
            yield inputs, found


def ids_of(tokens: list[TextToken]) -> Tensor:
    """The ids of some tokens, as one row."""
    return torch.tensor([[token.id for token in tokens]])


def placed(labels: Labels, tokens: list[TextToken]) -> TokenLabels:
    """Labels with their words as tokens."""

    def within(span: Span) -> list[int]:
        return [
            place
            for place, token in enumerate(tokens)
            if token.start < span[1] and token.end > span[0] and not token.special
        ]

    tags: dict[str, list[int]] = {}
    relations: dict[str, list[tuple[int, list[int]]]] = {}
    for tag in labels.tags:
        tags.setdefault(tag.name, []).extend(within(tag.place))
    for one in labels.relations:
        word, other = within(one.word), within(one.other)
        if word and other:
            relations.setdefault(one.name, []).append((word[-1], other))
    return TokenLabels(tags, relations)


def label_weights(model: Any, texts: Iterable[LabelledText]) -> dict[str, dict[str, float]]:
    """By label or relation and head, the mean weight; labels also with what even attention would give."""
    _, config = headed(model)
    sums = WeightSums()
    for inputs, labels in texts:

        def measure(
            name: str, A: Tensor, now: dict[str, TokenLabels] = labels
        ) -> dict[str, tuple[Tensor, int]]:
            stack = name.partition(".")[0]
            return measured_labels(A[0], now, stack, "encoder" if name.endswith("cross") else stack)

        read_weights(model, inputs, measure, sums)
    found: dict[str, dict[str, float]] = {}
    for name in config.attentions():
        for place, head in enumerate(config.heads(name)):
            for label, value in sums.means(name, place).items():
                found.setdefault(label, {})[f"{name}.{head}"] = value
    return found


def measured_labels(
    A: Tensor, labels: Mapping[str, TokenLabels], stack: str, keys: str
) -> dict[str, tuple[Tensor, int]]:
    """Sums of weights A (h, n, m) on what is labelled, and how many queries they are of."""
    found = {}
    visible = A.sum(0) > 0  # a mask gives exactly nothing
    for label, places in labels[keys].tags.items():
        sees = visible[:, places].any(-1)
        even = visible[:, places].sum(-1) / visible.sum(-1).clamp(min=1)
        found[label] = (A[:, sees][..., places].sum((1, 2)), int(sees.sum()))
        found[label + EVEN] = (even[sees].sum().expand(len(A)).double(), int(sees.sum()))
    if keys == stack:
        for relation, pairs in labels[stack].relations.items():
            seen = [(i, js) for i, js in pairs if bool(visible[i, js].any())]
            if seen:
                weights = [A[:, i, js].sum(-1) for i, js in seen]
                found[relation] = (torch.stack(weights).sum(0), len(seen))
    return found
