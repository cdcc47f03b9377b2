"""Stories that need two steps of look-up: who searches where, and what was left there (N31).

A seed and options enter; stories leave, each labelled with the word that comes next:

    In the kitchen Karin left the guitar. In the garden Anna left the wine. Then Tom searched the kitchen and found
    the -> guitar

The first step finds the sentence of the place that was searched, the second what was left in it, and the second
cannot start before the first has ended. With more than one of `searches` the earlier ones say what was found, so
that a language model of the stories has many answers to learn from; the last one is asked.

Which object lies where is drawn evenly, and so is every place that is searched. Whoever takes only the first step
knows the place and the objects, but not which belongs to which, and is right in 1 of `objects` cases: which
object it is, how often it is named before the searches and where in the story it stands say nothing.
"""

from collections.abc import Iterator
from random import Random

from clearhead.corpora.corpus import Corpus, Option, Options
from clearhead.examples import Example, Labelled

PEOPLE = ("Karin", "Anna", "Tom", "Lars", "Emma", "Johan", "Maria", "Peter")
PLACES = ("kitchen", "garden", "attic", "cellar", "garage", "office", "library", "bedroom")
OBJECTS = ("guitar", "wine", "book", "lamp", "ball", "hat", "camera", "letter")


def aside(rng: Random, places: list[str], objects: list[str]) -> str:
    """A sentence that helps nobody: it names a place or an object, but never both."""
    person = rng.choice(PEOPLE)
    return rng.choice(
        (
            f"It was cold in the {rng.choice(places)}.",
            f"{person} had bought the {rng.choice(objects)}.",
            f"{person} was tired.",
        )
    )


def draw(rng: Random, objects: int, asides: int, searches: int) -> Labelled:
    """One story; each of its places is as likely as the others to be searched, every time."""
    places, things = rng.sample(PLACES, objects), rng.sample(OBJECTS, objects)
    story = [
        f"In the {place} {rng.choice(PEOPLE)} left the {thing}."
        for place, thing in zip(places, things, strict=True)
    ]
    for _ in range(rng.randint(0, asides)):
        story.insert(rng.randint(0, len(story)), aside(rng, places, things))
    for _ in range(searches):
        asked = rng.randrange(objects)
        story.append(f"Then {rng.choice(PEOPLE)} searched the {places[asked]} and found the {things[asked]}.")
    return Labelled(" ".join(story).removesuffix(f" {things[asked]}."), things[asked])


def make(seed: int, options: Options) -> Iterator[tuple[str, Example]]:
    """Stories without end."""
    rng = Random(f"hops {seed}")
    objects, asides, searches = (int(options[name]) for name in ("objects", "asides", "searches"))
    while True:
        example = draw(rng, objects, asides, searches)
        yield example.text, example


CORPUS = Corpus(
    name="hops",
    kind="labelled",
    description="stories that need two steps of look-up: who searches where, and what was left there",
    make=make,
    counts={"train": 50_000, "validation": 1_000, "test": 1_000},
    options=(
        Option("objects", range(2, len(OBJECTS) + 1), 3, "places in a story, each with an object"),
        Option("asides", range(6), 2, "most sentences that do not matter"),
        Option(
            "searches", range(1, 21), 1, "places that are searched; what is found is said of all but the last"
        ),
    ),
)
