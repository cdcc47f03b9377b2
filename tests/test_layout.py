"""The size of files, and names that mean one thing: what keeps the tree easy to find one's way in."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

from tests.test_imports import imports

SOURCES = Path(__file__).resolve().parent.parent / "src" / "clearhead"
MOST_LINES = 400
EVERYWHERE = {"log"}  # every module may have its own logger


def modules() -> list[Path]:
    """Every module, but for the corpora, which are mostly words."""
    files = sorted(SOURCES.rglob("*.py"))
    return [file for file in files if "corpora" not in file.relative_to(SOURCES).parts]


def names_of(file: Path) -> Iterator[str]:
    """The functions, classes and constants that a module defines for others to use."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (
                    part.id for one in targets for part in ast.walk(one) if isinstance(part, ast.Name)
                )
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def test_no_file_is_too_long_to_read() -> None:
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in modules()}
    assert {file: lines for file, lines in lengths.items() if lines > MOST_LINES} == {}


def test_a_name_means_one_thing_inside_a_folder() -> None:
    found: dict[tuple[Path, str], list[str]] = defaultdict(list)
    for file in modules():
        for name in set(names_of(file)) - EVERYWHERE:
            if file.parent != SOURCES and not name.startswith(
                "_"
            ):  # at the top every file is a room of its own
                found[file.parent, name].append(file.name)
    twice = [
        f"{folder.relative_to(SOURCES)}/: {name} in {', '.join(files)}"
        for (folder, name), files in sorted(found.items())
        if len(files) > 1
    ]
    assert twice == []


def test_every_folder_says_what_enters_and_what_leaves() -> None:
    inits = [file for file in modules() if file.name == "__init__.py"]
    silent = [
        str(file.relative_to(SOURCES))
        for file in inits
        if ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) is None
    ]
    assert silent == []


def test_no_module_imports_itself_through_others() -> None:
    """Imports inside functions and for types alone count too."""
    known = {name_of(file): file for file in modules()}
    graph = {
        name: {
            target
            for _, imported in imports(file, SOURCES.parent)
            for target in (imported, imported.rpartition(".")[0])
            if target in known and target not in (name, "clearhead")
        }
        for name, file in known.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


def name_of(file: Path) -> str:
    """The name under which a module is imported."""
    parts = file.relative_to(SOURCES.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
