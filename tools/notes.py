"""The rows of the lecture notes: `docs/notes.toml` enters, `Row` objects leave.

A row names the code that does it by file and symbol (`src/clearhead/layers/attention.py:Attention.forward`);
the line is looked up in the file's syntax tree, so that it never goes stale, and a symbol that is gone is an
error.
"""

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "docs" / "notes.toml"


class NotesError(Exception):
    """A row, or a reference to one, that does not hold together."""


@dataclass(frozen=True)
class Row:
    """One row of the notes: what it says, and where the code does it."""

    id: str
    title: str
    says: str
    formula: str
    code: tuple[str, ...]
    proven: bool


def read_rows(path: Path = ROWS) -> dict[str, Row]:
    """All rows by id, in the order of the notes."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return {id: read_row(id, table) for id, table in tables.items()}


def read_row(id: str, table: dict[str, Any]) -> Row:
    """One row from its table; `code` and `proven` may be omitted from a row that nothing implements yet."""
    fields: dict[str, Any] = {"formula": "", "proven": False, **table, "code": tuple(table.get("code", ()))}
    try:
        return Row(id=id, **fields)
    except TypeError as error:
        raise NotesError(f"{id} in docs/notes.toml: {error}.") from None


def find_line(reference: str, root: Path = ROOT) -> int:
    """The line on which `path/to/file.py:Class.method` is defined."""
    file, _, symbol = reference.partition(":")
    if not (root / file).is_file():
        raise NotesError(f"{reference}: there is no file {file}.")
    node: ast.AST = ast.parse((root / file).read_text(encoding="utf-8"))
    for name in symbol.split("."):
        found = [child for child in ast.iter_child_nodes(node) if name in names_of(child)]
        if not found:
            raise NotesError(f"{reference}: {file} defines no {symbol}.")
        node = found[-1]
    assert isinstance(node, ast.stmt)
    return node.lineno


def names_of(node: ast.AST) -> set[str]:
    """The names that a statement defines: a function, a class, or the targets of an assignment."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()
