"""The corpora that the package makes itself, so that everything works with no network: `builtin:NAME`."""

from clearhead.text.builtin import dna, hops, python, recall, reviews, spanish, words
from clearhead.text.builtin.corpus import Corpus

CORPORA: dict[str, Corpus] = {
    "spanish": spanish.CORPUS,
    "python": python.CORPUS,
    "reviews": reviews.CORPUS,
    "dna": dna.CORPUS,
    "hops": hops.CORPUS,
    "recall": recall.CORPUS,
    "words": words.CORPUS,
}
