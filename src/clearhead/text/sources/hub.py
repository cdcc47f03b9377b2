"""Datasets of the hub, `hub:NAME`, through the package `datasets` where it is installed: rows in a stream.

No code of a dataset is ever run. Named classes give their names, not their numbers.
"""

import inspect
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from clearhead.errors import DataError
from clearhead.examples import Example
from clearhead.text.sources.scan import Row, Scan

if TYPE_CHECKING:
    from datasets import IterableDataset


def read_hub(scan: Scan, name: str, split: str) -> Iterator[Example]:
    """The examples of one split of a dataset; `NAME:CONFIG` names one of its configurations."""
    return scan.records(_dataset_rows(scan, name, split))


def _dataset_rows(scan: Scan, name: str, split: str) -> Iterator[Row]:
    dataset = _open(name, split)
    names = _class_names(dataset)
    number = 0
    try:
        for record in dataset:
            number += 1
            scan.tally.lines += 1
            if row := scan.row_of(number, _named(record, names)):
                yield row
    except (OSError, ValueError, RuntimeError) as error:
        scan.problem(
            number + 1, f"cannot be read from here on ({_first_line(error)})", "Check the connection."
        )


def _open(name: str, split: str) -> "IterableDataset":
    path, _, config = name.partition(":")
    datasets = _import_datasets(name)
    # Versions that could run a dataset's own code have a switch for it; later ones have neither.
    has_switch = "trust_remote_code" in inspect.signature(datasets.load_dataset).parameters
    safety: dict[str, Any] = {"trust_remote_code": False} if has_switch else {}
    try:
        return datasets.load_dataset(path, config or None, split=split, streaming=True, **safety)
    except Exception as error:  # whatever a dataset, the network or the package comes up with
        raise DataError(
            f"hub:{name}, split {split}, cannot be opened: {_first_line(error)}\n"
            "Write hub:NAME, hub:NAME:CONFIGURATION or hub:NAME@SPLIT as on its page, "
            "and check the connection."
        ) from error


def _import_datasets(name: str) -> ModuleType:
    try:
        import datasets
    except ImportError:
        raise DataError(
            f"hub:{name} needs the package datasets, which is not installed.\n"
            "Install it (pip install 'clearhead[hub]'), or download the dataset's files and name those."
        ) from None
    return datasets


def _class_names(dataset: "IterableDataset") -> dict[str, list[str]]:
    features: Mapping[str, Any] = dataset.features or {}
    return {column: feature.names for column, feature in features.items() if hasattr(feature, "names")}


def _named(record: dict[str, object], names: dict[str, list[str]]) -> dict[str, object]:
    """The record with the names of its classes; an unknown class, -1 by convention, has none."""
    named = {}
    for column, known in names.items():
        value = record.get(column)
        if isinstance(value, int):
            named[column] = known[value] if 0 <= value < len(known) else None
    return record | named


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
