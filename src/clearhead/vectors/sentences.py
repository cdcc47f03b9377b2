"""From a source to the words of its sentences: read once, split, and kept on disk for the passes of training.

Every line is one sentence. A word is what `tokenizer.kind = "word"` makes a token, without punctuation marks, so
that the vectors fit the embeddings of such a model.
"""

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Regex, pre_tokenizers

from clearhead.config.vectors import VectorsConfig
from clearhead.examples import Example, Pair
from clearhead.text.tokenizers.kinds import WORD_ALONE

LONGEST = 10_000  # words: gensim would silently drop what follows
WORDS = pre_tokenizers.Split(Regex(WORD_ALONE), "removed", invert=True)
OFTEN = 2000  # sentences between two records of progress


@dataclass(frozen=True)
class TrainingProgress:
    """How much of a stage is done; the total is None if it is not known yet."""

    stage: str
    done: int
    total: int | None = None


Listener = Callable[[TrainingProgress], None]


def ignore(progress: TrainingProgress) -> None:
    """A listener that ignores its records."""


class SentenceFile:
    """Sentences in a file, a line each, with spaces between the words; iterate it as often as you like.

    The listener gets the number of words that were read, in all passes of a stage together.
    """

    def __init__(self, path: Path, listener: Listener = ignore) -> None:
        self.path, self.listener = path, listener
        self.sentences = self.words = 0
        self.start("reading", None)

    def start(self, stage: str, passes: int | None = 1) -> None:
        """Starts a stage of so many passes; if None, how long it takes is not known."""
        self.stage, self.done = stage, 0
        self.total = None if passes is None else passes * self.words

    def report(self, words: int) -> None:
        """Reports more words to the listener."""
        self.done += words
        self.listener(TrainingProgress(self.stage, self.done, self.total))

    def write(self, sentences: Iterable[Sequence[str]]) -> None:
        """Writes the file; a sentence that is too long for gensim is split."""
        with self.path.open("w", encoding="utf-8", newline="\n") as file:
            for sentence in sentences:
                for first in range(0, len(sentence), LONGEST):
                    part = sentence[first : first + LONGEST]
                    file.write(" ".join(part) + "\n")
                    self.sentences += 1
                    self.words += len(part)
                    if self.sentences % OFTEN == 0:
                        self.report(self.words - self.done)

    def __iter__(self) -> Iterator[list[str]]:
        count = 0
        with self.path.open(encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file):
                words = line.split()
                count += len(words)
                yield words
                if number % OFTEN == 0:
                    self.report(count)
                    count = 0
        self.report(count)


def split_words(texts: Iterable[str], config: VectorsConfig) -> Iterator[list[str]]:
    """The words of each text that has any."""
    for text in texts:
        text = text.lower() if config.lowercase else text
        if config.split == "whitespace":
            words = text.split()
        else:
            found = WORDS.pre_tokenize_str(unicodedata.normalize("NFC", text))
            words = [word for word, _ in found]
        if words:
            yield words


def sentences_of(examples: Iterable[Example], with_targets: bool = True) -> Iterator[str]:
    """The lines of examples of any kind; of pairs those of the sources, and of the targets if wanted."""
    for example in examples:
        texts = [example.source, example.target] if isinstance(example, Pair) else [example.text]
        for text in texts if with_targets else texts[:1]:
            yield from text.split("\n")
