"""Answers of a classifier and the right labels enter; scores leave, one class for each way of labelling.

    one          accuracy, macro F1, confusion matrix
    several      micro and macro F1, and how often all labels of a text are right
    each-word    accuracy; for labels that mark spans, F1 of the spans as in the shared task of CoNLL (Tjong Kim Sang
                 and De Meulder, 2003): a span is right if its words and its type are

Precision P = hits / given, recall R = hits / true, F1 = 2 P R / (P + R) = 2 hits / (given + true). Micro F1 is that of
all labels together, macro F1 the mean over the labels that occur or are given.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from clearhead.config.labels import LabelKind
from clearhead.decoding.read import Answer, Classification, SeveralLabels, Tagging
from clearhead.decoding.spans import OUTSIDE, Span, marks_spans, spans_of
from clearhead.examples import Labelled


@dataclass
class Hits:
    """How often each label is given, is true, and is both."""

    given: Counter[str] = field(default_factory=Counter)
    true: Counter[str] = field(default_factory=Counter)
    both: Counter[str] = field(default_factory=Counter)

    def add(self, given: Iterable[str], true: Iterable[str], both: Iterable[str]) -> None:
        """Adds the labels of one text."""
        self.given.update(given)
        self.true.update(true)
        self.both.update(both)

    def f1(self, label: str) -> float:
        """2 · hits / (given + true); 0 for a label that neither occurs nor is given."""
        return share(2 * self.both[label], self.given[label] + self.true[label])

    def micro(self) -> dict[str, float]:
        """Precision, recall and F1 of all labels together."""
        hits, given, true = self.both.total(), self.given.total(), self.true.total()
        return {
            "precision": share(hits, given),
            "recall": share(hits, true),
            "f1": share(2 * hits, given + true),
        }

    def macro(self, labels: Iterable[str]) -> float:
        """The mean F1 of the labels that occur or are given."""
        used = [label for label in labels if self.given[label] + self.true[label]]
        return sum(map(self.f1, used)) / len(used) if used else 0.0

    def by_label(self, labels: Iterable[str]) -> dict[str, dict[str, float]]:
        """Precision, recall, F1 and how often each label is true."""
        return {
            label: {
                "precision": share(self.both[label], self.given[label]),
                "recall": share(self.both[label], self.true[label]),
                "f1": self.f1(label),
                "true": self.true[label],
            }
            for label in labels
        }


class LabelScores:
    """What the scores of all ways of labelling share; `name` is that of the score by which models are compared."""

    name = "accuracy"

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = list(labels)
        self.hits = Hits()
        self.texts = 0

    def add(self, answer: Answer, example: Labelled) -> tuple[float, float]:
        """Adds an answer; returns what it adds to the two parts of the compared score, which is their quotient."""
        raise NotImplementedError

    def result(self) -> dict[str, Any]:
        """The scores."""
        raise NotImplementedError

    def tables(self, labels: Sequence[str]) -> dict[str, Any]:
        """The scores of each label, and the labels without a single example, of which they say nothing."""
        absent = [label for label in labels if not self.hits.true[label]]
        return {"by_label": self.hits.by_label(labels), **({"unmeasured": absent} if absent else {})}


class ClassScores(LabelScores):
    """Accuracy, macro F1 and the confusion matrix."""

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__(labels)
        self.pairs: Counter[tuple[str, str]] = Counter()  # (true, given) -> how often

    def add(self, answer: Answer, example: Labelled) -> tuple[float, float]:
        """One class, right or wrong."""
        given, right = cast(Classification, answer).label, example.labels[0]
        self.pairs[right, given] += 1
        self.hits.add([given], [right], [right] * (given == right))
        return float(given == right), 1.0

    def result(self) -> dict[str, Any]:
        """Accuracy, macro F1, and counts (rows true, columns given)."""
        return {
            "accuracy": share(self.hits.both.total(), self.pairs.total()),
            "macro_f1": self.hits.macro(self.labels),
            "labels": self.labels,
            "confusion": [[self.pairs[right, given] for given in self.labels] for right in self.labels],
            **self.tables(self.labels),
        }


class SetScores(LabelScores):
    """Micro and macro F1 of texts that several labels may fit."""

    name = "micro_f1"

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__(labels)
        self.exact = 0

    def add(self, answer: Answer, example: Labelled) -> tuple[float, float]:
        """The labels of one text."""
        given, right = set(cast(SeveralLabels, answer).labels), set(example.labels)
        self.hits.add(given, right, given & right)
        self.texts += 1
        self.exact += given == right
        return 2.0 * len(given & right), float(len(given) + len(right))

    def result(self) -> dict[str, Any]:
        """F1 over all labels, its mean by label, and the share of texts of which all labels are right."""
        micro = {f"micro_{key}": value for key, value in self.hits.micro().items()}
        return {
            **{key: micro[key] for key in ("micro_f1", "micro_precision", "micro_recall")},
            "macro_f1": self.hits.macro(self.labels),
            "exact_match": share(self.exact, self.texts),
            "labels": self.labels,
            **self.tables(self.labels),
        }


class TagScores(LabelScores):
    """Accuracy of the labels of words, and F1 of the spans that they mark; truncated words are not counted."""

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__(labels)
        self.has_spans = marks_spans(labels)
        self.name = "span_f1" if self.has_spans else "accuracy"
        self.right = self.words = 0

    def add(self, answer: Answer, example: Labelled) -> tuple[float, float]:
        """The words of one text."""
        labels = cast(Tagging, answer).labels
        pairs = [(mine, true) for mine, true in zip(labels, example.labels, strict=True) if mine is not None]
        right = sum(mine == true for mine, true in pairs)
        self.right, self.words = self.right + right, self.words + len(pairs)
        if not self.has_spans:
            for mine, true in pairs:
                self.hits.add([mine], [true], [true] * (mine == true))
            return float(right), float(len(pairs))
        given, wanted = (set(spans_of([pair[side] for pair in pairs])) for side in (0, 1))
        self.hits.add(types_of(given), types_of(wanted), types_of(given & wanted))
        return 2.0 * len(given & wanted), float(len(given) + len(wanted))

    def result(self) -> dict[str, Any]:
        """Accuracy of words; F1 of spans, or the mean F1 of the labels."""
        scores: dict[str, Any] = {"accuracy": share(self.right, self.words)}
        if not self.has_spans:
            macro = {"macro_f1": self.hits.macro(self.labels)}
            return scores | macro | {"labels": self.labels} | self.tables(self.labels)
        micro = self.hits.micro()
        scores = {f"span_{key}": micro[key] for key in ("f1", "precision", "recall")} | scores
        types = sorted({label.partition("-")[2] for label in self.labels if label != OUTSIDE})
        return scores | {"labels": self.labels} | self.tables(types)


def types_of(spans: Iterable[Span]) -> list[str]:
    """The type of each span."""
    return [span.type for span in spans]


def share(part: float, whole: float) -> float:
    """Part of a whole; 0 of nothing."""
    return part / whole if whole else 0.0


SCORES: dict[LabelKind, type[LabelScores]] = {
    "one": ClassScores,
    "several": SetScores,
    "each-word": TagScores,
}
