"""What a caller gives, checked: texts, ids and paths enter; they leave in one form, or an error says what is wrong."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from clearhead.errors import InputError

Item = TypeVar("Item")


def is_pair(texts: object) -> bool:
    """Whether a value is a pair of texts: a tuple, since a list is several."""
    return isinstance(texts, tuple) and len(texts) == 2 and all(isinstance(text, str) for text in texts)


def prepare_each(texts: Any, prepare: Callable[[Any], Item]) -> list[Item]:
    """Prepares a single text, or each of a list, of which some may be pairs; an error says which of a list it means."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Sequence):
        return [prepare(check_text(texts))]
    items = []
    for place, text in enumerate(texts):
        try:
            items.append(prepare(text if is_pair(text) else check_text(text)))
        except InputError as error:
            raise InputError(f"text {place} of the list: {error}") from None
    return items


def check_text(text: object) -> str:
    """The text itself; rejects anything else."""
    if not isinstance(text, str):
        raise InputError(f"A text is a str, not a {type(text).__name__}.\nGive a text, or a list of texts.")
    return text


def rows_of(ids: object) -> tuple[list[list[int]], bool]:
    """Ids as rows, and whether they are a single one: a list or tensor (n), or several of them."""
    if isinstance(ids, Tensor):
        if ids.is_floating_point() or ids.ndim not in (1, 2):
            raise InputError(
                f"ids have shape {tuple(ids.shape)} and type {ids.dtype}, but are whole numbers (n) or (b, n)."
            )
        ids = ids.tolist()
    is_list = isinstance(ids, Sequence) and not isinstance(ids, str | bytes)
    items: list[Any] = list(ids) if is_list and isinstance(ids, Sequence) else []
    is_single = not any(isinstance(item, Sequence | Tensor) for item in items)
    rows = [items] if is_single else [item.tolist() if isinstance(item, Tensor) else item for item in items]
    for row in rows:
        if not isinstance(row, list | tuple) or not row or any(type(id) is not int for id in row):
            raise InputError(
                f"ids = {ids!r:.80} is not a list of whole numbers.\nGive at least one id, such as "
                "model.tokenizer.encode(text), or a list of such lists."
            )
    return [list(row) for row in rows], is_single


def check_path(path: object) -> Path:
    """A path; rejects anything else."""
    if not isinstance(path, str | PathLike) or not str(path):
        raise InputError(f"A path is a str or a Path, not {path!r:.80}.\nName a folder.")
    return Path(path)
