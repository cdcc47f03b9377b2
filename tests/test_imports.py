"""Who may import whom: the table of the layout, and a reader of the sources that fails on any other arrow."""

import ast
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parent.parent / "src" / "clearhead"

# --8<-- [start:table]
# Each part may import what its row names, and what those may.
TABLE: dict[str, list[str]] = {
    "errors": [],
    "machine": [],
    "config": ["errors"],
    "storage": ["errors"],
    "examples": ["errors"],
    "corpora": ["config", "storage", "examples"],
    "text": ["corpora"],
    "data": ["text"],
    "layers": ["config"],
    "models": ["layers"],
    "shipped": ["errors"],
    "folder_files": ["storage"],
    "model_folder": ["text", "models", "shipped", "folder_files"],
    "decoding": ["data", "model_folder", "machine"],
    "vector_folder": ["model_folder"],
    "inspection": ["decoding"],
    "exchange": ["decoding"],
    "vectors": ["inspection", "vector_folder"],
    "training": ["inspection", "exchange", "vector_folder"],
    "page": ["inspection"],
    "api": ["training", "vectors", "page"],
    "__init__": ["api", "machine"],
    "serving": ["__init__"],
    "cli": ["serving"],
}
WITHOUT_TORCH = ["errors", "machine", "config", "storage", "examples", "corpora", "text", "folder_files"]
# --8<-- [end:table]


def reach(part: str) -> set[str]:
    """The parts that a part may import, itself among them."""
    return {part}.union(*(reach(other) for other in TABLE[part]))


def forbidden(sources: Path) -> Iterator[str]:
    """One sentence for every import under a source tree that the table does not allow."""
    for file in sorted(sources.rglob("*.py")):
        part = file.relative_to(sources).parts[0].removesuffix(".py")
        where = file.relative_to(sources.parent).as_posix()
        if part not in TABLE:
            yield f"{where}: {part} has no row in the table."
            continue
        for line, name in imports(file, sources.parent):
            other = target(name, sources)
            if other is not None and other not in reach(part):
                yield f"{where}:{line}: {part} may not import {other}."
            if name.split(".")[0] == "torch" and part in WITHOUT_TORCH:
                yield f"{where}:{line}: {part} may not import torch."


def target(name: str, sources: Path) -> str | None:
    """The part of ours that a name such as `clearhead.text.tokenizers.tokenizer` leads to, or nothing."""
    package, *rest = name.split(".")
    if package != sources.name or name == f"{package}.__version__":
        return None
    is_part = rest and (
        rest[0] in TABLE or (sources / rest[0]).exists() or (sources / f"{rest[0]}.py").exists()
    )
    return rest[0] if is_part else "__init__"


def imports(file: Path, root: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything a file imports, also inside functions, relatively or by string."""
    package = file.relative_to(root).parts[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                start = package[: len(package) - level + 1] if level else ()
                base = ".".join([*start, *([module] if module else [])])
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in names)
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__")
            ):
                yield from ((node.lineno, str(a.value)) for a in node.args if isinstance(a, ast.Constant))


def test_every_import_follows_the_table() -> None:
    assert list(forbidden(SOURCES)) == []


def test_the_table_says_what_the_layout_says() -> None:
    assert reach("config") == {"config", "errors"}
    assert reach("examples") == {"examples", "errors"}
    assert reach("models") == {"models", "layers", "config", "errors"}
    below = {"models", "layers", "text", "corpora", "examples", "storage", "config", "errors"}
    assert reach("model_folder") == {"model_folder", "shipped", "folder_files"} | below
    assert "vectors" not in reach("training")
    assert all(not reach(part) & {"serving", "cli"} for part in TABLE if part not in ("serving", "cli"))
    assert reach("cli") == set(TABLE)


@pytest.mark.parametrize(
    ("file", "source", "complaint"),
    [
        (
            "layers/a.py",
            "from clearhead.text import b",
            "clearhead/layers/a.py:1: layers may not import text.",
        ),
        ("layers/a.py", "def f():\n    import clearhead.data.b", ":2: layers may not import data."),
        ("layers/a.py", "from clearhead import text", "layers may not import text."),
        ("layers/a.py", "from .. import models", "layers may not import models."),
        ("layers/a.py", "from ..models.b import c", "layers may not import models."),
        ("text/deep/a.py", "from ...models import b", "text may not import models."),
        ("text/a.py", "import torch.nn as nn", "text may not import torch."),
        ("config/a.py", "def f():\n    from torch import nn", "config may not import torch."),
        ("errors.py", "from torch import nn", "errors may not import torch."),
        ("errors.py", "from .config import a", "errors may not import config."),
        ("training/a.py", "from clearhead.vectors import b", "training may not import vectors."),
        ("training/a.py", "from clearhead.serving import b", "training may not import serving."),
        ("api.py", "from clearhead.cli.main import main", "api may not import cli."),
        ("__init__.py", "from clearhead.cli import main", "__init__ may not import cli."),
        ("models/a.py", "from clearhead import load", "models may not import __init__."),
        (
            "models/a.py",
            "from importlib import import_module\nimport_module('clearhead.data')",
            "import data.",
        ),
        ("helpers/a.py", "", "helpers has no row in the table."),
    ],
)
def test_a_forbidden_arrow_is_found(tmp_path: Path, file: str, source: str, complaint: str) -> None:
    path = tmp_path / "clearhead" / file
    path.parent.mkdir(parents=True)
    path.write_text(source, encoding="utf-8")
    assert complaint in "\n".join(forbidden(tmp_path / "clearhead"))


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("text/a.py", "from .b import c\nfrom ..errors import d\nfrom clearhead.config.settings import e"),
        (
            "models/a.py",
            "import torch\nfrom clearhead.layers.attention import f\nfrom clearhead import __version__",
        ),
        ("cli/a.py", "from clearhead import load\nimport clearhead\nfrom clearhead.serving import app"),
        ("text/a.py", "import torchless"),
    ],
)
def test_an_allowed_arrow_is_left_alone(tmp_path: Path, file: str, source: str) -> None:
    path = tmp_path / "clearhead" / file
    path.parent.mkdir(parents=True)
    path.write_text(source, encoding="utf-8")
    assert list(forbidden(tmp_path / "clearhead")) == []


def test_no_torch_arrives_by_a_detour() -> None:
    """Importing config, errors, text and the command line loads no torch, also not through others."""
    modules = ["clearhead", "clearhead.errors", "clearhead.cli.commands"]
    for part in ("config", "corpora", "text"):
        found = pkgutil.walk_packages([str(SOURCES / part)], f"clearhead.{part}.")
        modules += [f"clearhead.{part}", *(module.name for module in found)]
    code = f"import sys; [__import__(name) for name in {modules}]; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
