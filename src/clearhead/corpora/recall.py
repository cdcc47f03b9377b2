"""A word to recall after a stated distance: what one vector forgets and attention looks up (N42).

A seed and options enter; texts leave, each labelled with the word that comes next:

    Anna likes plums. Tom likes figs. The old dog slept outside. Rain fell. Anna likes -> plums

The distance counts the words after the one to recall, here 12. It is drawn between `shortest` and `longest`;
give both the same number to measure recall at that distance. Any of the pairs may be asked about, the early ones
as often as the late ones, so that a reader who knows only which fruits were named is right in 1 of `pairs`
cases, and one who knows nothing in 1 of 16.
"""

from collections.abc import Iterator
from random import Random

from clearhead.corpora.corpus import Corpus, Option, Options
from clearhead.errors import ConfigError
from clearhead.examples import Example, Labelled

NAMES = (
    *("Anna", "Tom", "Karin", "Lars", "Emma", "Johan", "Maria", "Peter"),
    *("Sara", "David", "Nina", "Oskar", "Julia", "Felix", "Clara", "Hugo"),
)  # fmt: skip
FRUITS = (
    *("plums", "figs", "pears", "apples", "cherries", "lemons", "grapes", "melons"),
    *("peaches", "dates", "limes", "oranges", "berries", "mangos", "olives", "nuts"),
)  # fmt: skip
ANIMALS = ("dog", "cat", "horse", "goose", "goat", "fox", "owl", "sheep")
ACTIONS = ("slept", "sang", "waited", "sneezed", "rested", "turned", "jumped", "smiled")
WAYS = ("outside", "quietly", "again", "twice", "today", "alone")
LOOKS = ("old", "young", "brown", "grey", "tired", "small")
SPOTS = ("tree", "bridge", "wall", "roof")
LONG = range(3, 7)  # words of a sentence of filler, where there is room for it
PAIR = 3  # words of a pair: name, verb, fruit
ASK = 2  # words of the question: name, verb


def sentence(rng: Random, words: int) -> str:
    """A sentence of filler with exactly so many words, from one to six."""
    animal, action = rng.choice(ANIMALS), rng.choice(ACTIONS)
    match words:
        case 1:
            return rng.choice(("Silence.", "Rain.", "Fog."))
        case 2:
            return rng.choice(("Rain fell.", "Time passed.", "Bells rang.", "Leaves fell."))
        case 3:
            return f"The {animal} {action}."
        case 4:
            return f"The {rng.choice(LOOKS)} {animal} {action}."
        case 5:
            return f"The {rng.choice(LOOKS)} {animal} {action} {rng.choice(WAYS)}."
        case _:
            return f"The {animal} {action} near the {rng.choice(SPOTS)}."


def filler(rng: Random, words: int) -> list[str]:
    """Sentences with exactly so many words together."""
    sentences = []
    while words:
        size = min(words, rng.choice(LONG))
        sentences.append(sentence(rng, size))
        words -= size
    return sentences


def scattered(rng: Random, pairs: list[str], words: int) -> list[str]:
    """So many words of filler with the pairs scattered among its sentences."""
    sentences = filler(rng, words)
    for pair in pairs:
        sentences.insert(rng.randint(0, len(sentences)), pair)
    return sentences


def draw(rng: Random, distance: int, pairs: int) -> Labelled:
    """One text whose answer is `distance` words before its end."""
    names, fruits = rng.sample(NAMES, pairs), rng.sample(FRUITS, pairs)
    said = [f"{name} likes {fruit}." for name, fruit in zip(names, fruits, strict=True)]
    room = distance - ASK
    asked = rng.randrange(max(0, pairs - 1 - room // PAIR), pairs)
    before = scattered(rng, said[:asked], rng.randint(0, distance))
    after = scattered(rng, said[asked + 1 :], room - PAIR * (pairs - 1 - asked))
    return Labelled(" ".join([*before, said[asked], *after, f"{names[asked]} likes"]), fruits[asked])


def make(seed: int, options: Options) -> Iterator[tuple[str, Example]]:
    """Texts without end."""
    shortest, longest, pairs = (int(options[name]) for name in ("shortest", "longest", "pairs"))
    if shortest > longest:
        raise ConfigError(
            f"builtin:recall: shortest = {shortest} is more than longest = {longest}. "
            "Give the smaller distance as shortest."
        )
    rng = Random(f"recall {seed}")
    while True:
        example = draw(rng, rng.randint(shortest, longest), pairs)
        yield example.text, example


CORPUS = Corpus(
    name="recall",
    kind="labelled",
    description="a word to recall after a stated number of other words",
    make=make,
    counts={"train": 20_000, "validation": 1_000, "test": 1_000},
    options=(
        Option("shortest", range(ASK, 2001), 10, "fewest words after the one to recall"),
        Option("longest", range(ASK, 2001), 50, "most words after the one to recall"),
        Option("pairs", range(1, len(NAMES) + 1), 3, "names that like something; one of them is asked"),
    ),
)
