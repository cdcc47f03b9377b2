"""Tokenizers for a run: learned from its training examples, or found in the cache where they were before."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from clearhead.config.run import RunConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.data.cache import Value, cache_folder, key_of, made
from clearhead.data.identity import identity
from clearhead.data.progress import Listener, Progress
from clearhead.errors import TokenizerError
from clearhead.text.examples import Conversation, Example, Pair
from clearhead.text.sources import Reader
from clearhead.text.tokenizer import Tokenizer

FILE = "tokenizer.json"
TRAINING_CHARACTERS = 100_000_000  # where there is more text, a tokenizer learns from a sample of this size
PACKED = 4  # how many times longer a text usually is than its gzip
TOLD_EVERY = 10_000


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizer of the text or the target, and that of the source where it is another."""

    target: Tokenizer
    source: Tokenizer

    def grown(self, config: TokenizerConfig, talks: bool) -> "Tokenizers":
        """The same with the tokens that the settings add, and markers for conversations where there are such."""

        def grow(tokenizer: Tokenizer) -> Tokenizer:
            more = tokenizer.with_added(config.added) if config.added else tokenizer
            return more.with_markers(config.spellings) if talks and not more.markers else more

        target = grow(self.target)
        return Tokenizers(target, target if self.source is self.target else grow(self.source))


def train_tokenizers(run: RunConfig, reader: Reader, tell: Listener) -> Tokenizers:
    """Learn the tokenizers from the training examples, or find them in the cache."""
    separate = run.kind == "pair" and not run.tokenizer.shared
    target = _train(run, reader, ("target",) if separate else ("source", "target"), tell)
    return Tokenizers(target, _train(run, reader, ("source",), tell) if separate else target)


def _train(run: RunConfig, reader: Reader, columns: tuple[str, ...], tell: Listener) -> Tokenizer:
    description: dict[str, Value] = {
        "what": "tokenizer",
        "settings": run.tokenizer.model_dump(mode="json"),
        "columns": list(columns),
        "source": identity(reader),
    }

    def make(folder: Path) -> None:
        texts = _watched(sample(reader, columns), tell)
        Tokenizer.train(texts, run.tokenizer).save(folder / FILE)

    folder = cache_folder() / "tokenizers" / key_of(description)
    return Tokenizer.load(made(folder, _loads, make) / FILE)


def _loads(folder: Path) -> bool:
    try:
        Tokenizer.load(folder / FILE)
    except TokenizerError:
        return False
    return True


def sample(reader: Reader, columns: tuple[str, ...]) -> Iterator[str]:
    """The texts of some columns; of a corpus that is too large for training, every so many-th.

    The size of a corpus is judged by its files. Where that fails, the sample ends when it is large enough.
    """
    size = sum(path.stat().st_size * (PACKED if path.suffix == ".gz" else 1) for path in reader.paths)
    step = max(1, -(-size // TRAINING_CHARACTERS))
    characters = 0
    for example in islice(reader, 0, None, step):
        for text in texts_of(example, columns):
            characters += len(text)
            yield text
        if characters >= TRAINING_CHARACTERS:
            break


def texts_of(example: Example, columns: tuple[str, ...]) -> Iterator[str]:
    """The texts of an example: of a pair the columns that are asked for."""
    if isinstance(example, Conversation):
        yield from (message.content for message in example.messages)
        return
    if not isinstance(example, Pair):
        yield example.text
        return
    if "source" in columns:
        yield example.source
    if "target" in columns:
        yield example.target


def _watched(texts: Iterable[str], tell: Listener) -> Iterator[str]:
    characters = number = 0
    for number, text in enumerate(texts, 1):
        characters += len(text)
        if number % TOLD_EVERY == 0:
            tell(Progress("tokenizer", number, characters))
        yield text
    tell(Progress("tokenizer", number, characters))
