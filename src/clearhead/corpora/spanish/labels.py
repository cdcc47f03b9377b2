"""What the words of the grammar are: a Spanish or an English sentence enters; nouns, verbs, adjectives and dates leave.

The word lists themselves say it, with all forms. A form that two of them contain, such as *cook*, has no label.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache

from clearhead.corpora.corpus import Labels, Tag
from clearhead.corpora.spanish import (
    adjectives,
    adverbs,
    nouns,
    sentences,  # noqa: F401 (its modules make all verbs)
    verbs,
)

TIME = (
    "ayer",
    "anoche",
    "anteayer",
    "yesterday",
    "tomorrow",
    "tonight",
    "week",
    "month",
    "year",
    "today",
    "hoy",
)
DAYS = [f"{day}{end}" for pair in adverbs.DAYS.items() for day in pair for end in ("", "s")]
WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
OTHERS = {
    "de",
    "del",
    "el",
    "la",
    "a",
    "to",
    "not",
    "like",
    "down",
    "up",
    "of",
    "the",
    "in",
    "on",
}  # parts of forms


def verb_forms() -> Iterator[str]:
    """Every form of every verb, word by word."""
    for verb in verbs.LEXICON:
        yield from (form for tense in verb.es for form in tense)
        yield from (f"{group.aux} {group.main}" for tense in verb.en for group in tense)
        yield from (f"{group.denies} {group.denied}" for tense in verb.en for group in tense)
        yield from (verb.infinitive, verb.base, verb.ing)


@cache
def lexicon() -> dict[str, str]:
    """The label of every word that has one."""
    lists: dict[str, Iterable[str]] = {
        "noun": (form for noun in nouns.LEXICON.values() for form in (*noun.es, *noun.en)),
        "adjective": (form for one in adjectives.LEXICON.values() for form in (*one.es, one.en)),
        "verb": verb_forms(),
        "person": (*nouns.WOMEN, *nouns.MEN),
        "date": (*DAYS, *adverbs.MONTHS, *adverbs.MONTHS.values(),
                 *adverbs.SPANS, *adverbs.SPANS.values(), *TIME),
    }  # fmt: skip
    found: dict[str, set[str]] = {}
    for label, forms in lists.items():
        for form in forms:
            for word in form.lower().split():
                if word not in OTHERS:
                    found.setdefault(word, set()).add(label)
    return {word: next(iter(known)) for word, known in found.items() if len(known) == 1}


def labels(text: str) -> Labels:
    """The labels of the words of a sentence."""
    known = lexicon()
    return Labels(
        tuple(
            Tag(known[word], match.span())
            for match in WORD.finditer(text)
            if (word := match[0].lower()) in known
        )
    )
