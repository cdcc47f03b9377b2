"""A seed enters; the examples of `builtin:NAME` leave: corpora that the package makes itself, with no network."""

from clearhead.corpora import dna, hops, python, recall, reviews, spanish, words
from clearhead.corpora.corpus import Corpus

CORPORA: dict[str, Corpus] = {
    "spanish": spanish.CORPUS,
    "python": python.CORPUS,
    "reviews": reviews.CORPUS,
    "dna": dna.CORPUS,
    "hops": hops.CORPUS,
    "recall": recall.CORPUS,
    "words": words.CORPUS,
}
