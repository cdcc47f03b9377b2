"""A seed enters; the examples of `builtin:NAME` leave: corpora that the package makes itself, with no network."""

from clearhead.corpora import (
    aspects,
    dna,
    entities,
    hops,
    lecture,
    paraphrases,
    pronouns,
    python,
    recall,
    reviews,
    spanish,
    words,
)
from clearhead.corpora.corpus import Corpus

CORPORA: dict[str, Corpus] = {
    "spanish": spanish.CORPUS,
    "python": python.CORPUS,
    "reviews": reviews.CORPUS,
    "dna": dna.CORPUS,
    "hops": hops.CORPUS,
    "recall": recall.CORPUS,
    "words": words.CORPUS,
    "entities": entities.CORPUS,
    "aspects": aspects.CORPUS,
    "paraphrases": paraphrases.CORPUS,
    "pronouns": pronouns.CORPUS,
    "lecture": lecture.CORPUS,
    "lines": lecture.LINES,
}
