"""Who is *it*? English sentences with their German translations, in which *it* must be understood (N20, N46).

    The animal didn't cross the street because it was too tired.
    Weil es zu müde war, überquerte das Tier die Straße nicht.

    The animal didn't cross the street because it was too wide.
    Weil sie zu breit war, überquerte das Tier die Straße nicht.

A seed enters; pairs leave. *It* is *er*, *sie* or *es* in German, by the gender of what it stands for. Only an animal
is tired and only a place is wide, so the last word of the reason decides which of the two nouns *it* is. The German
reason comes first, so that nothing that is already written gives the gender away.
"""

from collections.abc import Iterator
from random import Random

from clearhead.corpora.corpus import Corpus, Labels, Options, Relation
from clearhead.examples import Example, Pair

Noun = tuple[str, str, str]  # in English; in German; its gender: m, f or n

ANIMALS: tuple[Noun, ...] = (
    ("animal", "Tier", "n"), ("horse", "Pferd", "n"), ("sheep", "Schaf", "n"), ("pig", "Schwein", "n"),
    ("dog", "Hund", "m"), ("donkey", "Esel", "m"), ("fox", "Fuchs", "m"), ("wolf", "Wolf", "m"),
    ("cat", "Katze", "f"), ("cow", "Kuh", "f"), ("goat", "Ziege", "f"), ("mouse", "Maus", "f"),
)  # fmt: skip
PLACES: tuple[Noun, ...] = (
    ("street", "Straße", "f"), ("bridge", "Brücke", "f"), ("meadow", "Wiese", "f"), ("track", "Spur", "f"),
    ("river", "Fluss", "m"), ("square", "Platz", "m"), ("path", "Weg", "m"), ("stream", "Bach", "m"),
    ("field", "Feld", "n"), ("valley", "Tal", "n"), ("ice", "Eis", "n"), ("yard", "Gehege", "n"),
)  # fmt: skip
OF_ANIMALS = (
    ("tired", "müde"), ("lazy", "faul"), ("weak", "schwach"), ("sick", "krank"), ("afraid", "ängstlich"),
    ("hungry", "hungrig"), ("sleepy", "schläfrig"), ("young", "jung"),
)  # fmt: skip
OF_PLACES = (
    ("wide", "breit"), ("long", "lang"), ("steep", "steil"), ("wet", "nass"), ("dark", "dunkel"),
    ("narrow", "schmal"), ("slippery", "glatt"), ("bright", "hell"),
)  # fmt: skip
VERBS = (
    ("cross", "überquerte"),
    ("reach", "erreichte"),
    ("leave", "verließ"),
    ("like", "mochte"),
    ("see", "sah"),
)
SUBJECT = {"m": "der", "f": "die", "n": "das"}
OBJECT = {"m": "den", "f": "die", "n": "das"}
IT = {"m": "er", "f": "sie", "n": "es"}


def sentence(animal: Noun, verb: tuple[str, str], place: Noun, reason: tuple[str, str]) -> Pair:
    """One sentence; the reason says which of the nouns *it* is."""
    who = animal if reason in OF_ANIMALS else place
    return Pair(
        f"The {animal[0]} didn't {verb[0]} the {place[0]} because it was too {reason[0]}.",
        f"Weil {IT[who[2]]} zu {reason[1]} war, "
        f"{verb[1]} {SUBJECT[animal[2]]} {animal[1]} {OBJECT[place[2]]} {place[1]} nicht.",
    )


def make(seed: int, options: Options) -> Iterator[tuple[str, Example]]:
    """Sentences without end; animals and places have their reasons equally often."""
    rng = Random(f"pronouns {seed}")
    while True:
        example = sentence(
            rng.choice(ANIMALS), rng.choice(VERBS), rng.choice(PLACES), rng.choice(OF_ANIMALS + OF_PLACES)
        )
        yield example.source, example


REASONS = {english for english, _ in OF_ANIMALS}
NOUNS = {english for english, _, _ in ANIMALS + PLACES}


def labels(text: str) -> Labels:
    """Of an English sentence: *it*, and the noun that it is; and the word that decides."""
    words, places, at = text.removesuffix(".").split(), list[tuple[int, int]](), 0
    for word in words:
        start = text.index(word, at)
        at = start + len(word)
        places.append((start, at))
    nouns = [place for word, place in zip(words, places, strict=True) if word in NOUNS]
    if "it" not in words or len(nouns) != 2:
        return Labels()
    it = places[words.index("it")]
    who, other = nouns if words[-1] in REASONS else nouns[::-1]
    return Labels(
        relations=(
            Relation("coreference", it, who),
            Relation("other noun", it, other),
            Relation("reason", it, places[-1]),
        )
    )


CORPUS = Corpus(
    name="pronouns",
    kind="pair",
    description="English and German sentences in which the last word says who 'it' is",
    make=make,
    counts={"train": 9_000, "validation": 400, "test": 400},
    word_labels=labels,
)
