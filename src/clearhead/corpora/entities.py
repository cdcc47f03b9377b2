"""Sentences in which each word has a label: who travels where, and when.

A seed enters; sentences leave, with B-PER, I-PER, B-LOC, I-LOC, B-DATE, I-DATE and O (IOB2). Many words do not decide
their label by themselves: *Florence* and *Sydney* are people or cities, *April* and *May* people or months, *Berg* and
*Santiago* are found in names and in places. What stands around them does.
"""

from collections.abc import Iterator
from random import Random

from clearhead.corpora.corpus import Corpus, Options
from clearhead.examples import Example, Labelled

FIRST = (
    "Ana", "Tom", "Maria", "Lars", "Emma", "Johan", "Karin", "Peter", "Florence", "Sydney", "Jordan", "Paris", "April",
    "May", "June", "Carolina", "Santiago",
)  # fmt: skip
LAST = ("Silva", "Smith", "Berg", "Rossi", "Lopez", "London", "Santiago", "Brown", "Lincoln", "Washington")
CITIES = (
    "Lisbon", "Rome", "Oslo", "Madrid", "Florence", "Sydney", "Paris", "Santiago", "Lincoln", "New York", "San Jose",
    "Berg", "Washington", "Rio de Janeiro", "Santiago de Chile", "Carolina Beach", "Jordan",
)  # fmt: skip
MONTHS = ("January", "March", "April", "May", "June", "July", "August", "October", "December")
DAYS = ("Monday", "Tuesday", "Thursday", "Friday", "Sunday")
PATTERNS = (
    "PER went to LOC on DATE .",
    "on DATE PER left LOC .",
    "PER and PER met in LOC .",
    "in DATE it rains in LOC .",
    "did PER call from LOC ?",
    "the train from LOC to LOC was late on DATE .",
    "PER , who was born in LOC , came back in DATE .",
    "we wrote to PER in DATE .",
    "LOC is far from LOC .",
    "nobody in LOC knew PER .",
    "may PER stay in LOC until DATE ?",
    "the march through LOC begins on DATE .",
    "PER may come on DATE .",
    "PER likes LOC , but PER does not .",
)


def person(rng: Random) -> str:
    """A first name, often with a last name."""
    return rng.choice(FIRST) + (f" {rng.choice(LAST)}" if rng.random() < 0.5 else "")


def place(rng: Random) -> str:
    """A city."""
    return rng.choice(CITIES)


def date(rng: Random) -> str:
    """A month, a day, or a day of a month."""
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice(DAYS)
    month = rng.choice(MONTHS)
    return (month, f"{month} {rng.randint(1, 28)}", f"{rng.choice(DAYS)} , {month} {rng.randint(1, 28)}")[
        kind - 1
    ]


MAKERS = {"PER": person, "LOC": place, "DATE": date}


def draw(rng: Random) -> Labelled:
    """One sentence."""
    words: list[str] = []
    labels: list[str] = []
    for part in rng.choice(PATTERNS).split():
        named = MAKERS[part](rng).split() if part in MAKERS else [part]
        words += named
        labels += [f"{'I' if at else 'B'}-{part}" if part in MAKERS else "O" for at in range(len(named))]
    return Labelled(" ".join(words), tuple(labels))


def make(seed: int, options: Options) -> Iterator[tuple[str, Example]]:
    """Sentences without end."""
    rng = Random(f"entities {seed}")
    while True:
        example = draw(rng)
        yield example.text, example


CORPUS = Corpus(
    name="entities",
    kind="labelled",
    description="sentences with a label for each word: people, places and dates",
    make=make,
    counts={"train": 8_000, "validation": 1_000, "test": 1_000},
    labels="each-word",
)
