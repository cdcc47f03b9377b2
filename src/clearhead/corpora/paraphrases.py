"""Pairs of sentences that say the same, or do not: who gave what to whom, said twice in different ways.

A seed enters; pairs leave, labelled *same* or *different*. Different ones differ in one point: somebody else gives,
somebody else receives, it is another thing, or giver and receiver are exchanged, so that both sentences name the same.
The label is drawn first, so each sentence by itself says nothing about it.
"""

from collections.abc import Iterator
from random import Random

from clearhead.corpora.corpus import Corpus, Options
from clearhead.examples import Example, Labelled

PEOPLE = ("Ana", "Tom", "Maria", "Lars", "Emma", "Johan", "Karin", "Peter", "Anna", "John", "Sara", "Ben")
THINGS = ("book", "guitar", "letter", "lamp", "ball", "hat", "camera", "coat", "key", "map", "cup", "chair")
WAYS = (
    "{giver} gave {receiver} the {thing}.",
    "{giver} gave the {thing} to {receiver}.",
    "the {thing} was given to {receiver} by {giver}.",
    "{receiver} got the {thing} from {giver}.",
    "it was {giver} who gave {receiver} the {thing}.",
)
SAME, DIFFERENT = "same", "different"


def other(rng: Random, choices: tuple[str, ...], *taken: str) -> str:
    """One that is not taken."""
    return rng.choice([choice for choice in choices if choice not in taken])


def draw(rng: Random) -> Labelled:
    """One pair."""
    giver, receiver = rng.sample(PEOPLE, 2)
    said = {"giver": giver, "receiver": receiver, "thing": rng.choice(THINGS)}
    again, label = dict(said), rng.choice((SAME, DIFFERENT))
    if label == DIFFERENT:
        point = rng.choice(("giver", "receiver", "thing", "exchanged"))
        if point == "exchanged":
            again |= {"giver": receiver, "receiver": giver}
        else:
            choices = THINGS if point == "thing" else PEOPLE
            again[point] = other(rng, choices, *said.values())
    first, second = rng.sample(WAYS, 2)
    return Labelled(first.format(**said), label, second.format(**again))


def make(seed: int, options: Options) -> Iterator[tuple[str, Example]]:
    """Pairs without end."""
    rng = Random(f"paraphrases {seed}")
    while True:
        example = draw(rng)
        yield example.input, example


CORPUS = Corpus(
    name="paraphrases",
    kind="labelled",
    description="pairs of sentences that say the same, or do not",
    make=make,
    counts={"train": 8_000, "validation": 500, "test": 500},
    texts=2,
)
