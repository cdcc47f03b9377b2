"""Folders as Hugging Face writes them, made from the tiny models, and safetensors files made to mislead."""

import json
import struct
from pathlib import Path
from typing import Any

from tests.exchange.tiny import pair


def written(name: str, folder: Path, **how: Any) -> Path:
    """The folder of a tiny model."""
    pair(name).theirs.save_pretrained(folder, **how)
    return folder


def change(path: Path, **values: Any) -> None:
    """Changes keys of a JSON file; None takes one away."""
    table = json.loads(path.read_text(encoding="utf-8")) | values
    kept = {key: value for key, value in table.items() if value is not None}
    path.write_text(json.dumps(kept), encoding="utf-8")


def safetensors(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A file with this header, whether it is true or not."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(begin: int, end: int, shape: list[int], dtype: str = "F32") -> dict[str, Any]:
    """A tensor of a header."""
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
