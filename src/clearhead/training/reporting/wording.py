"""Models, scores and times as people read them: numbers enter, short texts leave."""

from collections.abc import Iterator
from typing import Any

from clearhead.config.model_base import AnyModelConfig
from clearhead.errors import first_few

MEANINGS = {
    "loss": "mean −log P of the right answer, in nats",
    "perplexity": "e to the loss: as uncertain as between so many equally likely tokens",
    "bits_per_byte": "bits needed per byte of text; comparable between tokenizers",
    "bleu": "overlap of words with the reference, 0 to 100",
    "chrf": "overlap of letters with the reference, 0 to 100",
    "exact_match": "share of answers equal to the reference",
    "accuracy": "share of right answers",
    "macro_f1": "mean over the classes of the harmonic mean of precision and recall",
    "micro_f1": "harmonic mean of precision and recall, over all labels together",
    "micro_precision": "share of the given labels that are right",
    "micro_recall": "share of the right labels that are given",
    "span_f1": "harmonic mean of precision and recall of whole spans, by the convention of CoNLL",
    "span_precision": "share of the given spans that are right",
    "span_recall": "share of the right spans that are given",
    "unmeasured": "classes without an example in these data: the scores say nothing about them",
    "calibration_error": "how far the probability of the answers is from their accuracy, over 15 bins",
    "uncalibrated_error": "the same without the temperature",
    "temperature": "divides the logits before they become probabilities; fitted on the validation data",
    "examples": "examples evaluated",
    "predictions": "predictions evaluated",
    "too_long": "examples skipped because they are longer than the context",
    "truncated": "texts truncated to the context",
}


def describe_model(model: AnyModelConfig) -> str:
    """A model in a line: its shape, depth and width."""
    blocks = count_of(model.decoder_blocks if model.shape == "decoder" else model.encoder_blocks, "block")
    if model.shape == "encoder-decoder":
        blocks = f"{model.encoder_blocks} + {count_of(model.decoder_blocks, 'block')}"
    return f"{model.shape}, {blocks}, d = {model.d}, {model.trait}"


def count_of(number: int, what: str) -> str:
    """A number and a noun: 1 block, 2 blocks."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def explain_scores(quality: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The name, the value and the meaning of every score; zero examples too long need no line."""
    for key, value in quality.items():
        if key in MEANINGS and (value or key not in ("too_long", "truncated")):
            yield key.replace("_", " "), format_score(key, value), MEANINGS[key]


def format_score(key: str, value: Any) -> str:
    """A score with its significant digits."""
    if key in ("exact_match", "accuracy") or key.startswith(("macro_", "micro_", "span_")):
        return f"{value:.2%}"
    if isinstance(value, list):
        return first_few(value)
    if key in ("bleu", "chrf"):
        return f"{value:.2f}"
    return f"{value:,.4f}" if isinstance(value, float) else f"{value:,}"


def clock(seconds: float) -> str:
    """Seconds as on a clock: 0:42, 3:20, 2:05:00."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def duration(seconds: float) -> str:
    """Seconds in words: 42 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
