"""The public names: all there, and loaded when they are first used."""

import subprocess
import sys

import pytest
import yaml

import clearhead
from clearhead import api
from tests.pages import ROOT


def test_every_public_name_is_there() -> None:
    assert dir(clearhead) == sorted(clearhead.__all__)
    assert all(getattr(clearhead, name) is not None for name in clearhead.__all__)
    assert (clearhead.load, clearhead.Model) == (api.load, api.Model)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'clearhead' has no attribute 'lode'"):
        clearhead.lode  # noqa: B018


def test_importing_the_package_loads_no_torch() -> None:
    code = (
        "import sys, clearhead; dir(clearhead); sys.exit('torch' in sys.modules or 'pydantic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation.keys() >= {"cff-version", "message", "title", "authors"}  # what the format asks for
    assert (citation["version"], citation["license"]) == (clearhead.__version__, "Apache-2.0")
