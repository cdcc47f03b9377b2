"""DNA with and without a promoter: two boxes, TTGACA and TATAAT, 15 to 19 letters apart (N1).

A seed and options enter; sequences of `ACGT` leave, labelled `promoter` or `other`. In bacteria the two boxes,
thirty-five and ten letters before a gene, tell the polymerase where to start; few copies are perfect, so each
box may differ in `mismatches` letters. The label is a function of the sequence alone: `has_promoter`.

Half are promoters. Three in four of the others contain both boxes too, at a wrong distance (whose mean is the
right one) or in the wrong order, so that to know which boxes occur is right in 5 of 8 cases, and no more.
"""

from collections.abc import Iterator
from functools import cache
from itertools import combinations, product
from random import Random

from clearhead.corpora.corpus import Corpus, Option, Options
from clearhead.examples import Example, Labelled

LETTERS = "ACGT"
FIRST, SECOND = "TTGACA", "TATAAT"
BOX = len(FIRST)
GAPS = range(15, 20)  # letters between the boxes of a promoter
WRONG_GAPS = (*range(GAPS[0] - 10, GAPS[0]), *range(GAPS[-1] + 1, GAPS[-1] + 11))
SHORTEST = 2 * BOX + WRONG_GAPS[-1]


@cache
def variants(box: str, mismatches: int) -> tuple[str, ...]:
    """Every word that differs from the box in at most so many letters."""
    words = {
        "".join(changes.get(place, letter) for place, letter in enumerate(box))
        for places in combinations(range(BOX), mismatches)
        for letters in product(LETTERS, repeat=mismatches)
        for changes in [dict(zip(places, letters, strict=True))]
    }
    return tuple(sorted(words))


@cache
def _known(box: str, mismatches: int) -> frozenset[str]:
    return frozenset(variants(box, mismatches))


def places(sequence: str, box: str, mismatches: int) -> list[int]:
    """Where the box begins in the sequence, up to the mismatches."""
    known = _known(box, mismatches)
    return [at for at in range(len(sequence) - BOX + 1) if sequence[at : at + BOX] in known]


def has_promoter(sequence: str, mismatches: int) -> bool:
    """Whether the second box follows the first at a right distance."""
    seconds = set(places(sequence, SECOND, mismatches))
    return any(at + BOX + gap in seconds for at in places(sequence, FIRST, mismatches) for gap in GAPS)


def plan(rng: Random, promoter: bool) -> tuple[tuple[str, ...], int]:
    """Which boxes to write, in which order and how far apart."""
    if promoter:
        return (FIRST, SECOND), rng.choice(GAPS)
    match rng.randrange(8):
        case 0 | 1 | 2 | 3:
            return (FIRST, SECOND), rng.choice(WRONG_GAPS)
        case 4 | 5:
            return (SECOND, FIRST), rng.choice(GAPS)
        case 6:
            return rng.choice(((FIRST, FIRST), (SECOND, SECOND))), rng.choice(GAPS)
        case _:
            return rng.choice(((FIRST,), (SECOND,), ())), 0


def draw(rng: Random, length: int, mismatches: int) -> Labelled:
    """One sequence; the two labels are equally likely."""
    promoter = rng.random() < 0.5
    while True:
        boxes, gap = plan(rng, promoter)
        letters = rng.choices(LETTERS, k=length)
        start = rng.randrange(length - (len(boxes) * BOX + gap) + 1)
        for number, box in enumerate(boxes):
            at = start + number * (BOX + gap)
            letters[at : at + BOX] = rng.choice(variants(box, mismatches))
        sequence = "".join(letters)
        if has_promoter(sequence, mismatches) == promoter:
            return Labelled(sequence, "promoter" if promoter else "other")


def make(seed: int, options: Options) -> Iterator[tuple[str, Example]]:
    """Sequences without end."""
    rng = Random(f"dna {seed}")
    length, mismatches = int(options["length"]), int(options["mismatches"])
    while True:
        example = draw(rng, length, mismatches)
        yield example.text, example


CORPUS = Corpus(
    name="dna",
    kind="labelled",
    description="DNA with and without a promoter: two boxes in the right order at the right distance",
    make=make,
    counts={"train": 20_000, "validation": 1_000, "test": 1_000},
    options=(
        Option("length", range(SHORTEST, 1001), 60, "letters of a sequence"),
        Option("mismatches", range(3), 1, "letters in which each box may differ"),
    ),
)
