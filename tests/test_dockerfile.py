"""The Dockerfile, where no image can be built: what it copies exists, and its RUN lines work in a fresh folder."""

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from clearhead.api import Model
from tests.decoding.tiny import language_model
from tests.pages import ROOT

KEY = "a-key-of-the-tests-0123456789"


def lines(word: str) -> list[str]:
    """What follows an instruction, for each time that it occurs."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    return re.findall(rf"^{word} (.*)$", text, re.MULTILINE)


def copied() -> list[tuple[str, str]]:
    """What is copied, and to where in the image."""
    return [(name, given[-1]) for line in lines("COPY") if (given := line.split()) for name in given[:-1]]


def test_what_it_copies_exists_and_it_does_not_run_as_root() -> None:
    kept = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    assert {name for name, _ in copied()} == kept
    assert all((ROOT / name).exists() for name in kept)
    (user,) = lines("USER")
    assert user.split(":")[0] != "0"
    torch = next(
        line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch==")
    )
    assert any(torch in line for line in lines("RUN"))


@pytest.mark.prove
def test_its_run_lines_give_a_server(tmp_path: Path) -> None:
    """As in the image, but in a folder; pip takes packages from where set-up has taken them."""
    for name, to in copied():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / to, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tmp_path / to)
    hidden = ("PYTHONPATH", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    for line in lines("RUN"):
        done = subprocess.run(line, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    Model(language_model()).save(tmp_path / "mine")
    (entry,) = lines("ENTRYPOINT")
    program, *options = json.loads(entry)
    options[options.index("--port") + 1] = "0"
    command = [str(tmp_path / program), *options, str(tmp_path / "mine")]
    environment |= {"CLEARHEAD_KEYS": KEY, "CLEARHEAD_CACHE": str(tmp_path / "cache")}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        address = run.stdout.readline().partition("?")[0]
        assert answer(f"{address}health/live") == {"status": "live"}
        assert answer(f"{address}v1/models")["data"][0]["id"] == "mine"
        run.terminate()
        assert run.wait(60) == 0


def answer(address: str) -> dict[str, Any]:
    """The JSON at an address."""
    for _ in range(100):
        try:
            with urlopen(Request(address, headers={"authorization": f"Bearer {KEY}"}), timeout=30) as found:
                return dict(json.load(found))
        except URLError:
            time.sleep(0.1)
    raise AssertionError(address)
