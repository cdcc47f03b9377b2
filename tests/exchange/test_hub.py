"""Models of the hub: only by a commit that cannot change, only files that are data, and never the network here."""

import sys
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from clearhead import model_folder
from clearhead.errors import ModelFolderError
from clearhead.exchange.hub import download
from clearhead.exchange.importing import import_model
from tests.exchange.folders import written
from tests.exchange.tiny import pair

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A hub that has one model, laid out as its cache does; what it was asked for is kept."""
    calls: list[Any] = []
    repository = tmp_path / "cache" / "models--someone--tiny"
    snapshot = repository / "snapshots" / COMMIT

    def fetch(name: str, **how: Any) -> str:
        calls.append((name, how))
        if name != "someone/tiny":
            raise OSError("Repository Not Found\nmore lines")
        if not snapshot.exists():
            written("gpt2", snapshot)
            (repository / "blobs").mkdir()
            for number, file in enumerate(sorted(snapshot.iterdir())):
                file.rename(repository / "blobs" / str(number))
                file.symlink_to(f"../../blobs/{number}")
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    return calls


def test_a_commit_is_fetched_and_imported(asked: list[Any], tmp_path: Path) -> None:
    foreign = import_model(f"hub:someone/tiny@{COMMIT}", tmp_path / "ours")
    assert model_folder.load(tmp_path / "ours").config == pair("gpt2").ours.config
    assert foreign.where == f"hub:someone/tiny@{COMMIT}"
    (name, how) = asked[0]
    assert (name, how["revision"]) == ("someone/tiny", COMMIT)
    assert not any(pattern.endswith((".py", ".bin", "*")) for pattern in how["allow_patterns"])
    download(f"hub:someone/tiny@{COMMIT}", allow_pickle=True)
    assert "*.bin" in asked[1][1]["allow_patterns"]


@pytest.mark.parametrize("source", ["hub:someone/tiny", "hub:someone/tiny@main", "hub:someone/tiny@v1.0"])
def test_a_revision_that_can_change_is_refused(source: str, asked: list[Any]) -> None:
    with pytest.raises(
        ModelFolderError, match="a revision that cannot change is required: a commit of 40 digits"
    ):
        download(source)
    assert asked == []


@pytest.mark.parametrize("source", ["hub:", "hub:../x@a", "hub:a/b/c@d", "hub:a b@c"])
def test_what_is_no_name_is_refused(source: str, asked: list[Any]) -> None:
    with pytest.raises(ModelFolderError, match="does not name a model of the hub"):
        download(source)
    assert asked == []


def test_what_the_hub_refuses_is_told(asked: list[Any]) -> None:
    with pytest.raises(ModelFolderError, match=r"cannot be downloaded: Repository Not Found\nCheck the name"):
        download(f"hub:someone/other@{COMMIT}")


def test_without_the_package_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModelFolderError, match=r"needs the package huggingface_hub.*\n.*clearhead\[hub\]"):
        download(f"hub:someone/tiny@{COMMIT}")
