"""builtin:spanish: a grammar of English and Spanish that makes pairs of sentences.

A seed enters; pairs leave, each side with exactly one translation. The word lists are in `nouns`,
`adjectives`, `verbs` and `adverbs`, the rules in `inflection`, `phrases` and `clauses`, and what is said in
the other files.
"""

from collections.abc import Iterator

from clearhead.corpora.corpus import Corpus, Option, Options
from clearhead.corpora.spanish.labels import labels
from clearhead.corpora.spanish.phrases import Dice
from clearhead.corpora.spanish.sentences import sentence
from clearhead.examples import Example, Pair

# The sentences of the lecture notes: never trained on, always tested.
OF_THE_NOTES = {
    "Tengo un coche.": "I have a car.",
    "Todavía no tengo hambre.": "I'm not hungry yet.",
}


def pairs(seed: int) -> Iterator[tuple[str, str]]:
    """An endless stream of (Spanish, English), with repetitions."""
    dice = Dice(seed)
    while True:
        yield sentence(dice)


def make(seed: int, options: Options) -> Iterator[tuple[str, Example]]:
    """The notes' sentences, then the stream, in the direction asked for; Spanish decides the split."""
    for spanish, english in OF_THE_NOTES.items():
        yield spanish, _pair(spanish, english, options)
    for spanish, english in pairs(seed):
        yield spanish, _pair(spanish, english, options)


def _pair(spanish: str, english: str, options: Options) -> Pair:
    return Pair(spanish, english) if options["direction"] == "es-en" else Pair(english, spanish)


CORPUS = Corpus(
    name="spanish",
    kind="pair",
    description="sentences of a grammar of Spanish and English, each with exactly one translation",
    make=make,
    counts={"train": 200_000, "validation": 1000, "test": 2000},
    options=(Option("direction", ("es-en", "en-es"), "es-en", "from which language into which"),),
    pinned=frozenset(OF_THE_NOTES),
    word_labels=labels,
)
