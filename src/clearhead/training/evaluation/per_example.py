"""An evaluation that also keeps the statistics of every example, for intervals and paired tests.

What it adds up is what `Evaluation` adds up, so that the scores are those that `clearhead evaluate` prints:

    language model     the bits and bytes of each text, so that models with different tokenizers are comparable
    classifier         whether each answer is right; with several labels or spans, the two parts of its F1
    translator         sacreBLEU's statistics of each translation

A masked language model has none: which tokens it must guess depends on its tokenizer.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
import torch.nn.functional as F

from clearhead.config.decoding import DecodingConfig
from clearhead.data.batching.batches import IGNORE, Batch
from clearhead.data.frames import document_frame
from clearhead.examples import Example, Pair, Text
from clearhead.training.evaluation.evaluate import Evaluation
from clearhead.training.evaluation.label_scores import SCORES
from clearhead.training.evaluation.labels import Progress
from clearhead.training.evaluation.paired import Scored, Statistics
from clearhead.training.evaluation.scores import TextScores
from clearhead.training.loop.losses import inputs_of, loss_of, side_by_side


class ExampleEvaluation(Evaluation):
    """Evaluates one model; afterwards `scored` has the statistics of its examples, if it has any."""

    scored: Scored | None = None
    unknown = 0.0  # share of a text's tokens that the tokenizer does not know: what they spell costs nothing

    def add(self, batch: Batch) -> None:
        """Adds the loss of a batch to the sums, and keeps that of each token."""
        logits = self.bundle.module(inputs_of(batch))
        loss = loss_of(logits, batch)
        self.nats += float(loss.total)
        self.predictions += loss.count
        self.right += loss.right
        Z, wanted = side_by_side(logits, batch)
        each = F.cross_entropy(Z, wanted, ignore_index=IGNORE, reduction="none")
        self.token_nats.append(each[wanted != IGNORE].double().cpu().numpy())

    def score_text(self, examples: Iterable[Example], progress: Progress) -> dict[str, Any]:
        """A language model: windows follow the order of the text, so that each token's loss finds its text."""
        self.token_nats: list[Any] = []
        kept: list[Example] = []
        result = super().score_text(keep(examples, kept), progress)
        if all(isinstance(example, Text) for example in kept):
            self.scored = Scored("bits_per_byte", False, self.bits_and_bytes(kept), ratio)
        return result

    def bits_and_bytes(self, texts: Sequence[Any]) -> Statistics:
        """The bits and bytes of each text; the token that ends it counts as the next one's."""
        nats = np.concatenate(self.token_nats)
        frame = document_frame(self.tokenizer.specials)
        border = len(
            frame.after or frame.before
        )  # a beginning token is not predicted if there is an end token
        rows = self.tokenizer.encode_batch([text.text for text in texts])
        counts = [len(ids) for ids in rows]
        self.unknown = sum(map(self.tokenizer.counts_unknown, rows)) / max(1, sum(counts))
        counts = [
            count + (border if text.starts and place else 0)
            for place, (text, count) in enumerate(zip(texts, counts, strict=True))
        ]
        counts[-1] += border  # the end of the stream
        assert sum(counts) == len(nats)
        parts = np.split(nats, np.cumsum(counts)[:-1])
        return np.array(
            [
                (part.sum() / math.log(2), len(text.text.encode()))
                for part, text in zip(parts, texts, strict=True)
            ]
        )

    def score_masked(self, examples: Iterable[Example], progress: Progress) -> dict[str, Any]:
        """A masked language model."""
        self.token_nats = []
        return super().score_masked(examples, progress)

    def score_labels(self, examples: Iterable[Example], progress: Progress) -> dict[str, Any]:
        """A classifier."""
        self.answers: dict[int, tuple[float, float]] = {}
        result = super().score_labels(examples, progress)
        rows = [self.answers[place] for place in range(len(self.answers))]
        self.scored = Scored(SCORES[self.config.labels](self.labels).name, True, np.array(rows), ratio)
        return result

    def keep(self, place: int, statistics: tuple[float, float]) -> None:
        """Keeps what a labelled text adds to the score."""
        self.answers[place] = statistics

    def score_translations(
        self, examples: Iterable[Example], settings: DecodingConfig, scores: TextScores, progress: Progress
    ) -> dict[str, Any]:
        """A translator."""
        self.token_nats = []
        self.read: list[Pair] = []
        kept = SentenceScores(scores)
        result = super().score_translations(examples, settings, kept, progress)
        key = sha256(repr(self.read).encode()).hexdigest()
        self.scored = Scored("bleu", True, np.array(kept.rows, dtype=np.float64), kept.bleu_of, key)
        return result

    def fitting(self, pairs: list[Pair]) -> list[tuple[Pair, tuple[list[int], list[int]]]]:
        """The pairs that fit into the context; keeps them, as the tests need the same ones of both models."""
        found = super().fitting(pairs)
        self.read += [pair for pair, _ in found]
        return found


class SentenceScores(TextScores):
    """Scores of translations that keep the statistics of each."""

    def __init__(self, like: TextScores) -> None:
        super().__init__()
        self.bleu, self.chrf = like.bleu, like.chrf
        self.rows: list[list[int]] = []

    def add(self, hypotheses: Sequence[str], references: Sequence[str]) -> None:
        """Adds some translations."""
        super().add(hypotheses, references)
        self.rows += self.bleu._extract_corpus_statistics(hypotheses, [references])

    def bleu_of(self, sums: Statistics) -> float:
        """BLEU from the sums of the statistics."""
        return float(self.bleu._compute_score_from_stats([round(value) for value in sums.tolist()]).score)


def keep(examples: Iterable[Example], kept: list[Example]) -> Iterator[Example]:
    """The examples, each added to a list on its way."""
    for example in examples:
        kept.append(example)
        yield example


def ratio(sums: Statistics) -> float:
    """Bits over bytes, or right answers over all."""
    return float(sums[0] / max(sums[1], 1.0))
