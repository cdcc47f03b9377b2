"""Tokenizers for a run: learned from its training examples, or found in the cache where they were before."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from clearhead.config.data import Reading
from clearhead.config.run import RunConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.data.cache import Value, cache_folder, find_or_make, identity, key_of
from clearhead.data.progress import PreparationProgress, ProgressListener
from clearhead.errors import TokenizerError
from clearhead.examples import Conversation, Example, Pair
from clearhead.text.sources.lines import unpacked_bytes
from clearhead.text.sources.read import ExampleReader, read
from clearhead.text.tokenizers.tokenizer import Tokenizer

FILE = "tokenizer.json"
TRAINING_CHARACTERS = 100_000_000  # where there is more text, a tokenizer learns from a sample of this size
NOTIFY_EVERY = 10_000


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizer of the text or the target, and that of the source where it is another."""

    target: Tokenizer
    source: Tokenizer

    def grown(self, config: TokenizerConfig, has_conversations: bool) -> "Tokenizers":
        """The same with the tokens that the settings add, and with markers where the data are conversations.

        A model that knows conversations already, by markers or by a chat template, keeps to what it knows.
        """

        def grow(tokenizer: Tokenizer) -> Tokenizer:
            more = tokenizer.with_added(config.added) if config.added else tokenizer
            needs = has_conversations and not more.markers and more.chat_template is None
            return more.with_markers(config.spellings) if needs else more

        target = grow(self.target)
        return Tokenizers(target, target if self.source is self.target else grow(self.source))


def train_tokenizers(run: RunConfig, reader: ExampleReader, notify: ProgressListener) -> Tokenizers:
    """Learn the tokenizers from the training examples, or find them in the cache."""
    separate = run.kind == "pair" and not run.tokenizer.shared
    target = _train(run, reader, ("target",) if separate else ("source", "target"), notify)
    return Tokenizers(target, _train(run, reader, ("source",), notify) if separate else target)


def _train(
    run: RunConfig, reader: ExampleReader, columns: tuple[str, ...], notify: ProgressListener
) -> Tokenizer:
    description: dict[str, Value] = {
        "what": "tokenizer",
        "settings": run.tokenizer.model_dump(mode="json"),
        "columns": list(columns),
        "source": identity(reader),
    }

    others = unlabelled_texts(run)
    if others is not None:
        description["unlabelled"] = identity(others)

    def make(folder: Path) -> None:
        more = () if others is None else sample(others, columns)
        texts = _watched(chain(sample(reader, columns), more), notify)
        Tokenizer.train(texts, run.tokenizer).save(folder / FILE)

    folder = cache_folder() / "tokenizers" / key_of(description)
    return Tokenizer.load(find_or_make(folder, _loads, make) / FILE)


def unlabelled_texts(run: RunConfig) -> ExampleReader | None:
    """The texts without labels that a run names, if any."""
    each_line = Reading(documents="line")
    return None if run.data.unlabelled is None else read(run.data.unlabelled, "text", reading=each_line)


def _loads(folder: Path) -> bool:
    try:
        Tokenizer.load(folder / FILE)
    except TokenizerError:
        return False
    return True


def sample(reader: ExampleReader, columns: tuple[str, ...]) -> Iterator[str]:
    """The texts of some columns; of a corpus that is too large for training, every so many-th.

    The size of a corpus is judged by its files. Where that fails, the sample ends when it is large enough.
    """
    size = sum(map(unpacked_bytes, reader.paths))
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


def _watched(texts: Iterable[str], notify: ProgressListener) -> Iterator[str]:
    characters = number = 0
    for number, text in enumerate(texts, 1):
        characters += len(text)
        if number % NOTIFY_EVERY == 0:
            notify(PreparationProgress("tokenizer", number, characters))
        yield text
    notify(PreparationProgress("tokenizer", number, characters))
