"""One split of the data becomes shards: read, encoded, written, checked; or found in the cache."""

from pathlib import Path

from clearhead.data.cache import Value, cache_folder, key_of, made
from clearhead.data.encoding import Chunk, Encoding, Rules, Side
from clearhead.data.identity import identity
from clearhead.data.progress import Listener, Progress
from clearhead.data.shards import FORMAT, Shards, Writer
from clearhead.errors import DataError
from clearhead.text.examples import Split
from clearhead.text.sources import Reader

SHARD_TOKENS = 1 << 24  # what is held in memory before it is written
VERIFIED_BYTES = 1 << 30  # shards of up to this size, a second's work, are checked by content at each use


def prepare_split(
    reader: Reader, split: Split, sides: tuple[Side, ...], rules: Rules, tell: Listener
) -> Shards:
    """The shards of one split, made or found in the cache."""
    description: dict[str, Value] = {
        "what": "shards",
        "format": FORMAT,
        "source": identity(reader),
        "sides": [_side_identity(side) for side in sides],
        "rules": [rules.limit, rules.too_long, rules.packed, rules.talks],
    }

    def make(folder: Path) -> None:
        write_split(folder, reader, split, sides, rules, tell)

    return Shards.open(made(cache_folder() / "shards" / key_of(description), is_whole, make))


def _side_identity(side: Side) -> dict[str, Value]:
    before, after = list(side.frame.before), list(side.frame.after)
    return {"name": side.name, "tokenizer": side.tokenizer.digest, "before": [*before], "after": [*after]}


def write_split(
    folder: Path, reader: Reader, split: Split, sides: tuple[Side, ...], rules: Rules, tell: Listener
) -> None:
    """Read, encode and write one split into a folder."""
    encoding = Encoding(sides, rules)
    vocabulary = max(side.tokenizer.size for side in sides)
    writer = Writer(folder, tuple(side.name for side in sides), vocabulary, SHARD_TOKENS)
    examples = characters = 0

    def note(chunk: Chunk) -> None:
        nonlocal examples, characters
        examples += len(chunk.starts)
        characters += chunk.characters
        tell(Progress(split, examples, characters))

    for encoded in encoding.encode(reader, note):
        writer.add(encoded)
    encoding.account.close(reader)
    writer.finish(encoding.account, encoding.labels or None)


def is_whole(folder: Path) -> bool:
    """Whether prepared shards can be used: whole by size, and by content where that is quick."""
    try:
        shards = Shards.open(folder)
        if shards.bytes <= VERIFIED_BYTES:
            shards.verify()
    except DataError:
        return False
    return True
