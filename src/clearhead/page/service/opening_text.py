"""The text that the page opens with: one of the model's own kind, of those below and of the built-in corpora."""

from collections.abc import Iterator
from functools import cache

import torch

from clearhead.corpora import CORPORA
from clearhead.examples import Pair
from clearhead.inspection.passes import Inspector
from clearhead.models.inputs import Inputs

TRANSLATED = ("La chica lee un libro rojo.", "The girl reads a red book.")
TIRED = (
    "The animal didn't cross the street because it was too tired.",
    "The chicken didn't cross the road because it was too tired.",
)
WRITTEN = (
    "The chicken didn't cross the road because it was too",
    "The girl gave her little brother a red",
    "To be, or not to be, that is the",
    "def __init__(self, name): self.name",
    "La chica lee un libro",
)  # unfinished: the next word is the model's
READ = (
    "The girl gave her little brother a red book.",
    "The music was great, but the plot was boring.",
    *TRANSLATED,
)
MADE = ("reviews", "dna", "hops", "recall", "words")  # corpora of which one example is tried
LONGEST = 64  # tokens of a text that a screen has room for


def opening_text(model: Inspector) -> str:
    """The candidate that the model knows best: with the fewest unknown tokens, then the most likely one.

    A language model is asked for the loss of each character; others, which predict no text, have few tokens for a
    text like those that their tokenizer was trained on.
    """
    if model.translates:
        candidates: tuple[str, ...] = (*TRANSLATED, *TIRED)
    else:
        candidates = (*(READ if model.config.shape == "encoder" else WRITTEN), *made())
    return min(candidates, key=lambda text: strangeness(model, text))


@cache
def made() -> tuple[str, ...]:
    """One example of each corpus that the package makes itself."""
    return tuple(text for name in MADE for text in first_text(name))


def first_text(name: str) -> Iterator[str]:
    """The first text of a corpus's test data."""
    for example in CORPORA[name].examples("test", count=1):
        yield example.source if isinstance(example, Pair) else example.text


@torch.no_grad()
def strangeness(model: Inspector, text: str) -> tuple[float, float]:
    """The share of unknown tokens, and the loss or the tokens for each character: less is more familiar."""
    frame, tokens = model.reader.frame, model.reader.tokenizer.encode(text)
    ids = [*frame.before, *tokens, *frame.after]
    if not tokens or len(ids) > min(LONGEST, model.config.context or LONGEST):
        return 1.0, float("inf")
    unknown = model.reader.tokenizer.counts_unknown(tokens) / len(tokens)
    if model.config.shape != "decoder" or model.config.head != "language" or len(ids) < 2:
        return unknown, len(ids) / len(text)
    log_P = torch.log_softmax(model.bundle.module(Inputs(torch.tensor([ids])))[0, :-1].float(), -1)
    loss = -log_P.gather(-1, torch.tensor(ids[1:])[:, None]).sum()
    return unknown, float(loss) / len(text)
