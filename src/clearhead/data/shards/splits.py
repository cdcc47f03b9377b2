"""One split of the data becomes shards: read, encoded, written, checked; or found in the cache."""

from pathlib import Path

from clearhead.data.cache import Value, cache_folder, find_or_make, identity, key_of
from clearhead.data.progress import PreparationProgress, ProgressListener
from clearhead.data.shards.encoding import Chunk, ExampleEncoder, Rules, Side
from clearhead.data.shards.manifest import FORMAT
from clearhead.data.shards.reading import Shards
from clearhead.data.shards.writing import ShardWriter
from clearhead.errors import DataError
from clearhead.examples import Split
from clearhead.text.sources.read import ExampleReader

SHARD_TOKENS = 1 << 24  # what is held in memory before it is written
VERIFIED_BYTES = 1 << 30  # shards of up to this size, a second's work, are checked by content at each use


def prepare_split(
    reader: ExampleReader, split: Split, sides: tuple[Side, ...], rules: Rules, notify: ProgressListener
) -> Shards:
    """The shards of one split, made or found in the cache."""
    description: dict[str, Value] = {
        "what": "shards",
        "format": FORMAT,
        "source": identity(reader),
        "sides": [_side_identity(side) for side in sides],
        "rules": [
            rules.limit,
            rules.too_long,
            rules.packed,
            rules.has_conversations,
            rules.joined,
            rules.labels,
        ],
    }

    def make(folder: Path) -> None:
        write_split(folder, reader, split, sides, rules, notify)

    return Shards.open(find_or_make(cache_folder() / "shards" / key_of(description), is_usable, make))


def _side_identity(side: Side) -> dict[str, Value]:
    before, after = list(side.frame.before), list(side.frame.after)
    return {"name": side.name, "tokenizer": side.tokenizer.digest, "before": [*before], "after": [*after]}


def write_split(
    folder: Path,
    reader: ExampleReader,
    split: Split,
    sides: tuple[Side, ...],
    rules: Rules,
    notify: ProgressListener,
) -> None:
    """Read, encode and write one split into a folder."""
    encoding = ExampleEncoder(sides, rules)
    vocabulary = max(side.ids for side in sides)
    writer = ShardWriter(folder, tuple(side.name for side in sides), vocabulary, SHARD_TOKENS)
    examples = characters = 0

    def note(chunk: Chunk) -> None:
        nonlocal examples, characters
        examples += len(chunk.starts)
        characters += chunk.characters
        notify(PreparationProgress(split, examples, characters))

    for encoded in encoding.encode(reader, note):
        writer.add(encoded)
    encoding.account.close(reader)
    writer.finish(encoding.account, encoding.labels or None)


def is_usable(folder: Path) -> bool:
    """Whether prepared shards can be used: undamaged by size, and by content where that is quick."""
    try:
        shards = Shards.open(folder)
        if shards.bytes <= VERIFIED_BYTES:
            shards.verify()
    except DataError:
        return False
    return True
