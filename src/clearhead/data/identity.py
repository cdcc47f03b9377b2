"""What a reader will give, told by contents and settings, not by the names of files: keys of the cache."""

import sys
from functools import cache
from hashlib import sha256
from pathlib import Path

from clearhead.config.data import Reading
from clearhead.data.cache import Value, content_of
from clearhead.text.parts import AlignedPart, BuiltinPart, FilePart, HubPart, Part
from clearhead.text.sources import Reader


def identity(reader: Reader) -> dict[str, Value]:
    """What a reader will give, told by contents and settings, not by the names of files."""
    return {
        "parts": [_part_identity(part) for part in reader.parts],
        "reading": reader.reading.model_dump(mode="json", include=set(Reading.model_fields)),
        "side": reader.side,
        "shares": dict(reader.shares),
        "code": code(),
    }


def _part_identity(part: Part) -> dict[str, Value]:
    contents: list[Value] = [content_of(path) for path in part.paths]
    match part:
        case FilePart(_, form, want):
            return {"file": contents, "format": form, "kind": want.kind, "label": want.label}
        case AlignedPart():
            return {"aligned": contents}
        case BuiltinPart(corpus, kind, split):
            return {"builtin": corpus.name, "kind": kind, "split": split, "python": sys.version}
        case HubPart(dataset, split_name, want):
            return {"hub": dataset, "split": split_name, "kind": want.kind}
    raise AssertionError(f"{type(part).__name__} has no identity")


@cache
def code() -> str:
    """A checksum of the code that reads, makes and encodes text: other code may give other tokens."""
    digest = sha256()
    package = Path(__file__).parent.parent
    for path in sorted([*package.glob("text/**/*.py"), *package.glob("data/*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()
