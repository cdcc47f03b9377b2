"""A mkdocs hook: settings, docstrings and commands enter, the pages of the reference leave.

Nothing on them is written twice: a setting's type, bounds, default and meaning come from `config/`, a signature and
its meaning from the source, an option from what `--help` prints.
"""

import ast
import inspect
import json
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from importlib import import_module
from textwrap import dedent
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import clearhead
from clearhead import errors
from clearhead.api.figures import Figure
from clearhead.api.model import Model, TextTrace
from clearhead.cli.commands import app
from clearhead.config.overrides import groups_of
from clearhead.config.run import RunConfig
from clearhead.config.serving import ServingConfig
from clearhead.config.settings import Settings
from clearhead.config.vectors import VectorsConfig
from clearhead.decoding.engine import Token
from clearhead.decoding.generate import Generation, Piece
from clearhead.decoding.read import Classification, SeveralLabels, Tagging
from clearhead.decoding.spans import Span
from clearhead.inspection.markup import Markup, joined, tag
from tools.notes import ROOT

SETTINGS = """# Settings

A recipe is a TOML file with these tables; `clearhead train` takes each setting as an option too, such as
`--training.learning_rate 3e-4`. TOML has no null: where a setting may be empty, write `"none"`. Settings that cannot
work together are rejected, with the reason.
"""
PYTHON = """# Python

`import clearhead` gives a model in one object. The rest of the library is modules that can be used one by one; those
that the examples of these pages import are at the end.
"""
COMMANDS = """# Commands

What `clearhead COMMAND --help` prints. Results go to stdout, progress to stderr; the exit code is 0 if all is done, 1
after an error that you can fix, and 2 for a command that is misspelt.
"""
OPTIONS_OF: dict[str, type[Settings]] = {
    "clearhead serve": ServingConfig,
    "clearhead vectors train": VectorsConfig,
}
RESULTS = (Generation, Piece, Token, Classification, SeveralLabels, Tagging, Span, TextTrace, Figure)
TYPES = {"integer": "whole number", "number": "number", "boolean": "true or false", "string": "text"}
BOUNDS = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
ENDLESS = 1 << 24  # a bound from here on only catches mistakes
OTHER_MEMBERS = (property, cached_property, classmethod, staticmethod)
IMPORT = re.compile(r"^from (clearhead[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    pages = {"settings": settings_page, "python": python_page, "commands": commands_page}
    for name, page in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=page()))
    return files


# Settings.


def settings_page() -> str:
    """Every setting of a recipe, and those of two commands that read none."""
    parts = [SETTINGS, str(rows_of(RunConfig, RunConfig.model_fields))]
    for key, field in RunConfig.model_fields.items():
        if tables := groups_of(field):
            meaning = (field.description or "").capitalize()
            parts += [f"## `[{key}]`", f"{meaning}.", *table_sections(tables)]
    for command, group in OPTIONS_OF.items():
        parts += [f"## `{command}`", f"{inspect.getdoc(group)} Each is an option of the command."]
        parts.append(rows_of(group, group.model_fields, "--"))
    return "\n\n".join(parts)


def table_sections(tables: list[type[Settings]]) -> Iterator[str]:
    """One table, or what several have in common and then what each has of its own; and the tables inside them."""
    first = tables[0]
    shared = {key for key in first.model_fields if all(key in table.model_fields for table in tables)}
    yield rows_of(first, shared)
    for table in tables if len(tables) > 1 else ():
        own = [key for key in table.model_fields if key not in shared or differs(key, table, first)]
        yield f"### `family = {json.dumps(table.model_fields['family'].default)}`"
        yield inspect.getdoc(table) or ""
        yield rows_of(table, own)
    for table in tables:
        for inner in (inner for field in table.model_fields.values() for inner in groups_of(field)):
            yield f"### `[{inner.section}]`\n\n{inspect.getdoc(inner)}"
            yield rows_of(inner, inner.model_fields)


def differs(key: str, table: type[Settings], first: type[Settings]) -> bool:
    """Whether a family has another default of a setting than the first family has."""
    return key != "family" and table.model_fields[key].default != first.model_fields[key].default


def rows_of(group: type[Settings], keys: Iterable[str], prefix: str = "") -> Markup:
    """A table of settings: name, type, default, meaning."""
    schema, chosen = group.model_json_schema()["properties"], set(keys)
    rows = [
        (
            tag(
                "code",
                prefix + key.replace("_", "-") if prefix else group.name(key),
                style="white-space: nowrap",
            ),
            kind_of(schema[key]),
            "required" if field.is_required() else default_of(field.get_default(call_default_factory=True)),
            plain(field.description or ""),
        )
        for key, field in group.model_fields.items()
        if key in chosen
    ]
    return table(("setting", "type", "default", "meaning"), rows)


def default_of(value: Any) -> Markup | str:
    """A default as a recipe has it; that of a table is in the table."""
    return "" if isinstance(value, Settings) else tag("code", json.dumps("none" if value is None else value))


def kind_of(schema: dict[str, Any]) -> Markup:
    """The type of a setting in words, from its JSON schema."""
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return joined(*separated(dict.fromkeys(map(kind_of, choices)), " or "))
    if "enum" in schema:
        return joined(*separated([tag("code", json.dumps(value)) for value in schema["enum"]], ", "))
    if "$ref" in schema:
        return Markup("table")
    match schema["type"]:
        case "null":
            return tag("code", '"none"')
        case "array":
            items = schema.get("items") or schema["prefixItems"][0]
            return joined("list of ", kind_of(items))
        case "object":
            return joined("table of ", kind_of(schema["additionalProperties"]))
    bounds = [
        f"{sign} {schema[key]:g}" for key, sign in BOUNDS.items() if abs(schema.get(key, ENDLESS)) < ENDLESS
    ]
    return joined(TYPES[schema["type"]], f" {', '.join(bounds)}" if bounds else None)


# Python.


def python_page() -> str:
    """The public names with signatures and docstrings."""
    public = {name: getattr(clearhead, name) for name in clearhead.__all__}
    functions = [
        described(name, "clearhead", part) for name, part in public.items() if inspect.isfunction(part)
    ]
    results = [described(result.__name__, result.__module__, result) for result in RESULTS]
    parts = [
        PYTHON,
        "## clearhead",
        *functions,
        "## clearhead.Model",
        *class_parts("clearhead.Model", Model, 3),
    ]
    parts += ["## What a model returns", *results, "## Errors", f"```text\n{inspect.getdoc(errors)}\n```"]
    parts += ["## Parts", "Functions and classes that the examples of these pages import."]
    for module, names in sorted(imported_names().items()):
        inside = vars(import_module(module))
        chosen = {name: inside[name] for name in sorted(names & set(inside)) if is_part(inside[name])}
        parts += [f"### {module}"] if chosen else []
        parts += [described(name, module, part, 4) for name, part in chosen.items()]
    return "\n\n".join(parts)


def imported_names() -> dict[str, set[str]]:
    """What the examples of the pages and of the README import, by module."""
    found: dict[str, set[str]] = {}
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        if page.stem != "how-to-add":  # whose examples import what they add
            for module, names in IMPORT.findall(page.read_text(encoding="utf-8")):
                found.setdefault(module, set()).update(re.findall(r"\w+", names))
    return found


def is_part(part: object) -> bool:
    """Whether it is a function or a class that has no other place: settings, errors and the package's names have."""
    if isinstance(part, type):
        return not issubclass(part, Settings | Exception | Model)
    return inspect.isfunction(part) and part is not getattr(clearhead, part.__name__, None)


def described(name: str, place: str, part: Any, level: int = 3) -> str:
    """A function, a class or a property under a heading of its own."""
    heading = f"{'#' * level} {name} {{ #{place}.{name} }}"
    if isinstance(part, type):
        return "\n\n".join([heading, *class_parts(f"{place}.{name}", part, level + 1)])
    return "\n\n".join([heading, signature(part), inspect.getdoc(part) or ""])


def class_parts(place: str, kind: type, level: int) -> Iterator[str]:
    """What a class is, its fields as the source has them, and its public members."""
    yield inspect.getdoc(kind) or ""
    tree, lines = parsed(kind)
    if fields := [node for node in tree.body if isinstance(node, ast.AnnAssign)]:
        yield code(lines[fields[0].lineno - 1 : fields[-1].end_lineno])
    for name, member in vars(kind).items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, OTHER_MEMBERS)):
            yield described(name, place, member, level)


def signature(part: Any) -> str:
    """The first lines of a function as the source has them; of a property its name and type."""
    is_property = isinstance(part, property | cached_property)
    function = getattr(part, "fget", None) or getattr(part, "func", None) or part
    tree, lines = parsed(function)
    if is_property:
        return code([f"{tree.name}: {ast.unparse(tree.returns)}"])
    return code(lines[tree.lineno - 1 : tree.body[0].lineno - 1])


def parsed(part: Any) -> tuple[Any, list[str]]:
    """The syntax tree and the lines of a function or a class."""
    source = dedent(inspect.getsource(part))
    return ast.parse(source).body[0], source.splitlines()


def code(lines: Iterable[str]) -> str:
    """Lines of Python as a block."""
    return "```python\n" + dedent("\n".join(lines)).rstrip(":") + "\n```"


# Commands.


def commands_page() -> str:
    """Every command with its arguments and options."""
    return "\n\n".join([COMMANDS, *command_sections(typer.main.get_command(app), "clearhead", None)])


def command_sections(command: Any, name: str, above: Any) -> Iterator[str]:
    """A command, and those below it."""
    context = command.context_class(command, info_name=name, parent=above)
    below = getattr(command, "commands", {})
    if above:
        yield f"## {context.command_path}"
        yield f"```text\n{command.get_usage(context)}\n```"
        yield command.help or ""
    panels: dict[str | None, list[tuple[Markup | str, ...]]] = {}
    for parameter in command.params:
        if record := parameter.get_help_record(context):  # none if it is hidden
            panel = getattr(parameter, "rich_help_panel", None)
            panels.setdefault(panel, []).append((tag("code", record[0]), plain(record[1])))
    for panel, rows in panels.items():
        yield table((panel or "Arguments and options", "meaning"), rows)
    for word, inner in below.items():
        yield from command_sections(inner, word, context)


# Tables, in HTML: Markdown would read what a cell contains.


def table(head: Iterable[str], rows: Iterable[Iterable[Markup | str]]) -> Markup:
    """A table with a row of heads."""
    return tag(
        "table",
        tag("thead", tag("tr", [tag("th", name) for name in head])),
        tag("tbody", [tag("tr", [tag("td", cell) for cell in row]) for row in rows]),
    )


def plain(text: str) -> Markup:
    """A text in which only `code` has a meaning."""
    parts = text.split("`")
    return joined(*(tag("code", part) if i % 2 else part for i, part in enumerate(parts)))


def separated(parts: Iterable[Markup], by: str) -> Iterator[str]:
    """Parts with something between them."""
    for i, part in enumerate(parts):
        if i:
            yield by
        yield part
