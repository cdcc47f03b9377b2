"""`clearhead serve` as a process: what it prints, that it answers, and that it ends when its answers are given."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from clearhead.api import Model
from clearhead.cli.listening import check_address, read_keys
from clearhead.config.serving import ServingConfig
from clearhead.errors import InputError
from clearhead.serving.server.process import open_service
from tests.commands import COMMAND
from tests.decoding.tiny import language_model

KEY = "a-key-of-the-tests-0123456789"
TOKENS = 600  # more than are written before a signal arrives


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder."""
    place = tmp_path_factory.mktemp("served")
    Model(language_model(context=None)).save(place / "mine" / "best")
    (place / "keys").write_text(f"# of the tests\n{KEY}\n")
    return place


@pytest.fixture
def process(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    given = ["serve", str(folder / "mine"), "--port", "0", "--key-file", str(folder / "keys")]
    with subprocess.Popen(
        [*COMMAND, *given], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        yield run
        run.kill()


def test_it_answers_drains_and_ends(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    address, _, token = process.stdout.readline().strip().partition("?token=")
    assert token
    body = {
        "model": "mine",
        "prompt": "my secret",
        "max_tokens": TOKENS,
        "logit_bias": {"2": -100},
        "stream": True,
    }
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    with urlopen(
        Request(f"{address}v1/completions", json.dumps(body).encode(), headers), timeout=60
    ) as answer:
        first = answer.readline()
        process.send_signal(signal.SIGTERM)
        events = (first + answer.read()).decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    assert len(events) > TOKENS
    with pytest.raises(OSError, match=r".*"):
        socket.create_connection(("127.0.0.1", int(address.split(":")[2].strip("/"))), timeout=5)
    out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert lines[-1]["route"] == "/v1/completions"
    assert lines[-1]["written"] == TOKENS
    assert not any(word in said for word in ("secret", KEY, token))


HUNG = """
import threading, time
from clearhead.cli.main import main
from clearhead.serving.server import process
from clearhead.serving.server.service import Service

process.GIVEN_UP_AFTER = 8  # seconds, in place of 30
start = Service.start

def start_and_hang_later(service):
    start(service)
    threading.Timer(1.0, service.worker.call, [lambda: time.sleep(1000)]).start()

Service.start = start_and_hang_later
main()
"""


def status(address: str) -> int:
    """The status of an answer."""
    try:
        with urlopen(address, timeout=5) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


@pytest.mark.slow
def test_a_hang_turns_readiness_false_within_seconds_and_ends_the_process(folder: Path) -> None:
    command = [sys.executable, "-c", HUNG, "serve", str(folder / "mine"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        address = run.stdout.readline().strip()
        began = time.monotonic()
        while status(f"{address}health/ready") == 200:
            time.sleep(0.05)
        assert status(f"{address}health/ready") == 503
        assert time.monotonic() - began < 1.0 + 5.0
        assert status(f"{address}health/live") == 200
        assert run.wait(60) == 1
        assert run.stderr is not None
        assert "the decode thread hangs or is dead" in run.stderr.read()


def test_an_address_that_others_reach_needs_a_key() -> None:
    check_address("127.0.0.1", [])
    check_address("0.0.0.0", [KEY])
    with pytest.raises(InputError, match=r"lets other machines in, but there is no key\.\nName a file"):
        check_address("0.0.0.0", [])
    with pytest.raises(InputError, match="is not an IPv4 address"):
        check_address("here", [])


def test_keys_come_from_a_file_and_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARHEAD_KEYS", "one,two three")
    assert read_keys(folder / "keys") == ["one", "two", "three", KEY]
    (folder / "empty").write_text("# nothing\n")
    with pytest.raises(InputError, match="contains no key"):
        read_keys(folder / "empty")
    with pytest.raises(InputError, match="cannot be read"):
        read_keys(folder / "missing")


def test_models_have_names_of_their_own(folder: Path) -> None:
    path = os.fspath(folder / "mine")
    assert list(open_service([path, f"other={path}"], ServingConfig()).models) == ["mine", "other"]
    for given, message in (
        ([path, path], "is the name of two models"),
        ([f"a b={path}"], "cannot be the name"),
    ):
        with pytest.raises(InputError, match=message):
            open_service(given, ServingConfig())
