"""Texts and their references enter; scores leave. They are summed, so that any number fits in memory.

BLEU and chrF are sacreBLEU's, from the statistics of each sentence, with its signatures: a score without one cannot
be compared.
"""

from collections.abc import Sequence
from typing import Any

import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from torch import Tensor

from clearhead.errors import InputError, suggest

TOKENIZATIONS = (
    "13a",
    "intl",
    "char",
    "zh",
    "none",
)  # tokenizations of sacreBLEU that need no further packages or downloads

BINS = 15  # of confidence, as is usual for the expected calibration error


class TextScores:
    """BLEU, chrF and exact match of translations against their references."""

    def __init__(self, tokenize: str | None = None, lowercase: bool = False) -> None:
        if tokenize is not None and tokenize not in TOKENIZATIONS:
            raise InputError(
                f"'{tokenize}' is not a tokenization of sacreBLEU that works here. {suggest(tokenize, TOKENIZATIONS)}"
            )
        self.bleu = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
        self.chrf = CHRF(lowercase=lowercase)
        self.sums: list[list[int]] = [[], []]
        self.exact = self.count = 0

    def add(self, hypotheses: Sequence[str], references: Sequence[str]) -> None:
        """Adds some translations."""
        for place, metric in enumerate((self.bleu, self.chrf)):
            statistics = metric._extract_corpus_statistics(hypotheses, [references])
            before = [self.sums[place]] if self.count else []
            self.sums[place] = [sum(column) for column in zip(*before, *statistics, strict=True)]
        self.exact += sum(
            mine.strip() == right.strip() for mine, right in zip(hypotheses, references, strict=True)
        )
        self.count += len(references)

    def result(self) -> dict[str, Any]:
        """The scores, with the signatures of BLEU and chrF."""
        bleu, chrf = (
            metric._aggregate_and_compute([sums]).score
            for metric, sums in zip((self.bleu, self.chrf), self.sums, strict=True)
        )
        return {
            "bleu": bleu,
            "bleu_signature": str(self.bleu.get_signature()),
            "chrf": chrf,
            "chrf_signature": str(self.chrf.get_signature()),
            "exact_match": self.exact / self.count,
        }


class CalibrationError:
    """The expected calibration error: |accuracy − confidence| of each bin, weighted by its examples."""

    def __init__(self, temperature: float = 1.0) -> None:
        self.temperature = temperature
        self.sums = torch.zeros(2, BINS, dtype=torch.double)  # right answers, and confidence
        self.count = 0

    def add(self, logits: Tensor, right: Tensor) -> None:
        """Adds the logits (b, classes) of some texts, and the numbers of their classes (b)."""
        confidence, given = torch.softmax(logits.double().cpu() / self.temperature, -1).max(-1)
        bins = (confidence * BINS).long().clamp(0, BINS - 1)
        self.sums[0].index_add_(0, bins, (given == right.cpu()).double())
        self.sums[1].index_add_(0, bins, confidence)
        self.count += len(right)

    def result(self) -> float:
        """The error, from 0 to 1."""
        return float((self.sums[0] - self.sums[1]).abs().sum()) / max(1, self.count)
