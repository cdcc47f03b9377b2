"""Reviews of hotels that speak of several things at once, or of none: each has as many labels as it has subjects.

A seed enters; reviews leave, labelled with those of *room*, *food*, *staff*, *price* and *place* that they praise or
criticise. A word alone does not decide: *I did not ask for the price* judges nothing, and *the room service was rude*
is about the staff.
"""

from collections.abc import Iterator
from random import Random

from clearhead.corpora.corpus import Corpus, Options
from clearhead.examples import Example, Labelled

JUDGED = {
    "room": ("the room was {a}", "our bed was {a}", "I found the bathroom {a}", "we slept in a {a} room"),
    "food": (
        "breakfast was {a}",
        "the restaurant serves {a} food",
        "I had a {a} soup",
        "their dinner tasted {a}",
    ),
    "staff": (
        "the room service was {s}",
        "the waiter was {s}",
        "{s} people at the desk",
        "the owner of the bar is {s}",
    ),
    "price": ("it costs {p}", "we paid {p}", "for that price it is {v}", "the breakfast alone costs {p}"),
    "place": (
        "the beach is {f}",
        "the station is {f}",
        "it lies in a {a} street",
        "the view from the street was {a}",
    ),
}
SAID = (
    "we stayed for {n} nights", "I did not ask for the price", "we never saw the restaurant",
    "my sister knows the owner", "the staff changed in {m}", "nobody told us about the beach",
    "I wrote this in my room", "we came by train",
)  # fmt: skip
FILL = {
    "a": ("wonderful", "awful", "lovely", "dreadful", "excellent", "poor"),
    "s": ("friendly", "rude", "helpful", "slow", "kind"),
    "p": ("too much", "next to nothing", "a fortune", "very little"),
    "v": ("a bargain", "robbery"),
    "f": ("far away", "just around the corner", "close", "too far"),
    "n": ("two", "three", "five"),
    "m": ("May", "winter", "spring"),
}
JOINTS = (", and ", ", but ", "; ", ". ")


def draw(rng: Random) -> Labelled:
    """One review."""
    labels = [label for label in JUDGED if rng.random() < 0.35]
    clauses = [rng.choice(JUDGED[label]) for label in labels]
    clauses += rng.sample(SAID, rng.randint(0 if clauses else 1, 2))
    rng.shuffle(clauses)
    filled = [clause.format(**{key: rng.choice(words) for key, words in FILL.items()}) for clause in clauses]
    text = filled[0] + "".join(rng.choice(JOINTS) + clause for clause in filled[1:])
    return Labelled(f"{text}.", tuple(sorted(labels)))


def make(seed: int, options: Options) -> Iterator[tuple[str, Example]]:
    """Reviews without end."""
    rng = Random(f"aspects {seed}")
    while True:
        example = draw(rng)
        yield example.text, example


CORPUS = Corpus(
    name="aspects",
    kind="labelled",
    description="reviews of hotels with several labels each: what they judge",
    make=make,
    counts={"train": 8_000, "validation": 1_000, "test": 1_000},
    labels="several",
)
