"""What a built-in corpus is: a seeded stream of examples, cut into splits that share no example.

A seed and options enter; examples leave, each once. The split of an example is a hash of its key (the content
that a test must not share with training), so it depends on no seed, no count and no option.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Literal

from clearhead.config.labels import LabelKind
from clearhead.errors import ConfigError, DataError, suggest
from clearhead.examples import Example, Kind, Split

Value = str | int
Options = Mapping[str, Value]

SPLITS: tuple[Split, ...] = ("train", "validation", "test")
BUCKETS = 20  # one for the test, one for validation, the others for training
PATIENCE = 200_000  # examples in a row that bring nothing new before a stream counts as used up


@dataclass(frozen=True, slots=True)
class Option:
    """A setting of a corpus: the values it may take (a tuple or a range), the default, and the meaning."""

    name: str
    values: Collection[Value]
    default: Value
    meaning: str


Span = tuple[int, int]  # the first character of a word, and the one after its last


@dataclass(frozen=True, slots=True)
class Tag:
    """What a word is: a noun, a verb, a date."""

    name: str
    place: Span


@dataclass(frozen=True, slots=True)
class Relation:
    """Two words that belong together, such as *it* and what it stands for: one that looks, and one to look at."""

    name: str
    word: Span
    other: Span


@dataclass(frozen=True, slots=True)
class Labels:
    """What a corpus knows of a text that it has made."""

    tags: tuple[Tag, ...] = ()
    relations: tuple[Relation, ...] = ()


@dataclass(frozen=True, slots=True)
class Corpus:
    """A corpus that the package makes itself.

    `make(seed, options)` streams (key, example), endlessly or not; keys in `pinned` are always in the test.
    `word_labels` names the words of a text, if the corpus can.
    """

    name: str
    kind: Kind
    description: str
    make: Callable[[int, Options], Iterator[tuple[str, Example]]]
    counts: Mapping[Split, int]
    options: tuple[Option, ...] = ()
    pinned: frozenset[str] = frozenset()
    labels: LabelKind = "one"  # what is labelled, and how many texts at once, if it is of the kind labelled
    texts: Literal[1, 2] = 1
    word_labels: Callable[[str], Labels] | None = None

    def examples(
        self, split: Split, seed: int = 1, count: int | None = None, **options: Value
    ) -> Iterator[Example]:
        """The first `count` distinct examples of a split in the order of this seed."""
        if split not in SPLITS:
            raise ConfigError(f"builtin:{self.name} has no split {split!r}. {suggest(split, SPLITS)}")
        if count is not None and count < 0:
            raise ConfigError(f"builtin:{self.name}: count = {count}. Ask for 0 examples or more.")
        wanted = self.counts[split] if count is None else count
        return islice(self._distinct(split, seed, self._checked(options)), wanted)

    def split_of(self, key: str) -> Split:
        """Where an example with this key belongs, whatever the seed."""
        if key in self.pinned:
            return "test"
        bucket = int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) % BUCKETS
        return "test" if bucket == 0 else "validation" if bucket == 1 else "train"

    def _distinct(self, split: Split, seed: int, options: Options) -> Iterator[Example]:
        seen: set[bytes] = set()
        idle = 0
        for key, example in self.make(seed, options):
            idle += 1
            if self.split_of(key) == split:
                digest = blake2b(repr(example).encode(), digest_size=8).digest()
                if digest not in seen:
                    seen.add(digest)
                    idle = 0
                    yield example
            if idle > PATIENCE:
                raise DataError(
                    f"builtin:{self.name} has only about {len(seen)} distinct examples for {split} "
                    f"with these options. Ask for at most that many."
                )

    def _checked(self, given: Options) -> Options:
        known = {option.name: option for option in self.options}
        for name, value in given.items():
            if name not in known:
                raise ConfigError(f"builtin:{self.name} has no option {name!r}. {suggest(name, known)}")
            if value not in known[name].values:
                choice = _choice(value, known[name].values)
                raise ConfigError(f"builtin:{self.name}: {name} = {value!r}. {choice}")
        return {name: given.get(name, option.default) for name, option in known.items()}


def _choice(value: Value, values: Collection[Value]) -> str:
    if isinstance(values, range):
        return f"Use a whole number from {values.start} to {values[-1]}."
    return suggest(str(value), [str(known) for known in values])
