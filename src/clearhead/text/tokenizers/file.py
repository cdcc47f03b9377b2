"""`tokenizer.json` on disk and in memory: read within bounds, checked, guarded, written completely or not at all.

A path enters and the text of the file leaves; text enters and a tokenizer of the `tokenizers` library leaves.
Whatever is missing, damaged or hostile becomes a `TokenizerError`; nothing in the file is executed.
"""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Library

from clearhead.errors import ClearheadError, TokenizerError
from clearhead.storage import write_atomically
from clearhead.text.tokenizers.roles import Document

NAME, CHAT_TEMPLATE = "tokenizer.json", "chat_template.jinja"
LARGEST_FILE = 128 << 20  # bytes; the largest in common use has a quarter of it
LARGEST_GAP = 100_000  # ids without a token, which would still cost rows of the embedding
FIRST_TEXT = "A sample, 12 words…"


def read_text(path: str | Path) -> str:
    """The text of a tokenizer file; of a folder, its `tokenizer.json`."""
    place = Path(path)
    place = place / NAME if place.is_dir() else place
    try:
        if not place.is_file():
            raise TokenizerError(
                f"{place} is not a file. A tokenizer is read from a {NAME}, or from its folder."
            )
        with place.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise TokenizerError(f"{place} is larger than {LARGEST_FILE >> 20} MB, so it is not a tokenizer.")
        return content.decode("utf-8")
    except OSError as error:
        raise TokenizerError(f"{place} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{place} is not UTF-8 at byte {error.start}, so it is not a {NAME}.") from None


def read_chat_template(path: str | Path) -> str | None:
    """The chat template beside a `tokenizer.json`, if there is one."""
    place = Path(path)
    place = place if place.is_dir() else place.parent
    is_own = Path(path).is_dir() or Path(path).name == NAME
    return read_text(place / CHAT_TEMPLATE) if is_own and (place / CHAT_TEMPLATE).exists() else None


def write_text(path: str | Path, text: str) -> None:
    """Writes a tokenizer file, completely or not at all."""
    place = Path(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, text)
    except OSError as error:
        raise TokenizerError(f"{place} cannot be written: {error.strerror}.") from None


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turns whatever the library raises, its panics too, into a `TokenizerError` that says what was tried."""
    try:
        yield
    except ClearheadError:
        raise
    except BaseException as error:
        # A Rust panic is not an Exception, so that it stops a program; here it is one damaged file or text.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise TokenizerError(f"{what}: {error}.") from error


def parse(text: str, where: str) -> tuple[Library, Document]:
    """The library's tokenizer for the text of a file, and the text as JSON, once both are sound."""
    with explained(f"{where} is not a {NAME} of the tokenizers library"):
        library = Library.from_str(text)
        document: Document = json.loads(text)
    # A file may ask to truncate long texts and to pad short ones. Both are decided where batches are made.
    library.no_truncation()
    library.no_padding()
    # Some files know only their own words, and may reject the sample; but none may panic.
    with explained(f"{where} loads, but fails at its first text"), suppress(Exception):
        library.decode(library.encode(FIRST_TEXT, add_special_tokens=False).ids)
    vocabulary = library.get_vocab()
    size = max(vocabulary.values(), default=-1) + 1
    if not vocabulary or size > len(vocabulary) + LARGEST_GAP:
        raise TokenizerError(
            f"{where} has {len(vocabulary)} tokens, but ids up to {size - 1}.\nThe ids of a tokenizer are rows of an "
            "embedding, almost all of which should be used."
        )
    return library, document


def guard(document: Document, spellings: set[str]) -> tuple[Library, dict[str, str]]:
    """The same tokenizer, with these special tokens out of reach of any text; and their new spellings.

    They get spellings that nobody can guess, wherever a model or a list of added tokens could meet them in a
    text. So `</s>` in what a user wrote is three or four characters, never the end of the sequence.
    """
    secret = {spelling: f"<{secrets.token_hex(16)}>" for spelling in spellings}
    model = document["model"]
    changes: dict[str, Any] = {}
    if isinstance(model["vocab"], dict):
        changes["vocab"] = {secret.get(piece, piece): number for piece, number in model["vocab"].items()}
    else:
        changes["vocab"] = [[secret.get(piece, piece), score] for piece, score in model["vocab"]]
    if model.get("unk_token") in secret:
        changes["unk_token"] = secret[model["unk_token"]]
    if model.get("merges"):
        pairs = (merge.split(" ", 1) if isinstance(merge, str) else merge for merge in model["merges"])
        changes["merges"] = [[a, b] for a, b in pairs if secret.keys().isdisjoint((a, b, a + b))]
    added = [
        token | {"content": secret.get(token["content"], token["content"])}
        for token in document.get("added_tokens") or []
    ]
    guarded = document | {
        "model": model | changes,
        "added_tokens": added,
        "truncation": None,
        "padding": None,
    }
    return Library.from_str(json.dumps(guarded)), secret
