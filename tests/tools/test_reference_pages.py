"""The reference: nothing that a user may set, call or type is missing from it, and everything has a meaning."""

import re
from collections.abc import Iterator
from html import unescape

import pytest

import clearhead
from clearhead.cli import commands
from clearhead.cli.vectors import app as vectors
from clearhead.config.settings import Settings
from tests.commands import runner
from tools.reference_pages import commands_page, python_page, settings_page


def below(group: type[Settings]) -> Iterator[type[Settings]]:
    for kind in group.__subclasses__():
        yield kind
        yield from below(kind)


def cells(page: str) -> list[list[str]]:
    """The text of each row of the tables."""
    rows = re.findall(r"<tr>(<td>.*?)</tr>", page)
    return [[unescape(re.sub("<.*?>", "", cell)) for cell in row.split("</td>")[:-1]] for row in rows]


def test_no_setting_is_missing() -> None:
    rows = cells(settings_page())
    groups = [group for group in below(Settings) if group.__module__.startswith("clearhead.config.")]
    as_options = ("VectorsConfig", "ServingConfig")
    names = {
        f"--{key.replace('_', '-')}" if group.__name__ in as_options else group.name(key)
        for group in groups
        for key in group.model_fields
    }
    assert {row[0] for row in rows} == names
    assert [row for row in rows if not row[1] or not row[3]] == []
    shown = {row[0]: row[1:3] for row in rows}
    assert shown["model.d"] == ["whole number > 0, ≤ 131072", "256"]
    assert shown["training.clip"] == ['number > 0 or "none"', "1.0"]
    assert shown["data.train"][1] == "required"
    assert ["model.encoder_blocks", "whole number ≥ 1, ≤ 1024", "1"] in [row[:3] for row in rows]  # recurrent


def test_no_public_name_is_missing_and_each_is_described() -> None:
    page = python_page()
    anchors = re.findall(r"\{ #(\S+) \}\n\n(.*?)(?=\n\n##|\Z)", page, re.DOTALL)
    members = [name for name in vars(clearhead.Model) if not name.startswith("_")]
    names = {name for name in clearhead.__all__ if name not in ("Model", "__version__")}
    wanted = {f"clearhead.{name}" for name in names} | {f"clearhead.Model.{name}" for name in members}
    described = {place: re.sub("```.*?```", "", text, flags=re.DOTALL).strip() for place, text in anchors}
    assert wanted <= set(described)
    assert [place for place, text in described.items() if not text] == []
    assert (
        "def load(path: str | Path, dtype: torch.dtype | str = torch.float32, int8: bool = False) -> Model"
        in page
    )


def test_no_command_or_option_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    page, run = commands_page(), runner(capsys)
    own = {f"clearhead {command.__name__.rstrip('_')}" for command in commands.COMMANDS}
    own |= {f"clearhead vectors {command.__name__.rstrip('_')}" for command in vectors.COMMANDS}
    titles = re.findall(r"^## (.*)$", page, re.MULTILINE)
    assert set(titles) == own | {"clearhead vectors"}
    sections = dict(zip(titles, re.split(r"^## .*$", page, flags=re.MULTILINE)[1:], strict=True))
    for command in ("train", "generate", "serve"):
        helped = set(re.findall(r"^\W*(--[a-z][\w-]*)", run(command, "--help")[1], re.MULTILINE)) - {"--help"}
        assert helped
        assert helped <= set(re.findall(r"--[\w-]+", sections[f"clearhead {command}"]))
    assert [row for row in cells(page) if not all(row)] == []
