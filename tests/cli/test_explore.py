"""`clearhead explore`: where it listens, what it says, and that it answers."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any
from unittest.mock import Mock
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPCookieProcessor, build_opener, urlopen

import pytest
from starlette.testclient import TestClient

from clearhead.api import Model
from clearhead.cli.explore import explore, opened_in_browser, read_model
from clearhead.cli.listening import HOST, listen
from clearhead.errors import InputError
from clearhead.exchange.exporting import export_model
from tests.cli.said import without_stages
from tests.decoding.tiny import language_model

START = "from clearhead.cli.main import main; main()"
ENDLESS = """
import time
from clearhead.page.service.service import ExplorerService
ExplorerService.run_pass = lambda service, request: time.sleep(600)
"""  # a pass that takes longer than anybody waits


def test_a_port_that_is_taken_is_an_error_when_it_was_asked_for() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            InputError, match=rf"Port {port} of 127\.0\.0\.1 cannot be used: .*\nChoose another"
        ):
            listen(port)


def test_it_listens_on_this_machine_only() -> None:
    with listen(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


def test_the_token_is_not_on_the_command_line_of_the_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: Queue[str] = Queue()
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(webbrowser, "open", opened.put)
    with opened_in_browser("http://127.0.0.1:1/?token=secret"):
        address = opened.get(timeout=30)
        (file,) = tmp_path.iterdir()
        assert address == file.as_uri()
        assert "url=http://127.0.0.1:1/?token=secret" in file.read_text()
        assert file.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == []


def test_a_home_folder_that_is_missing_leaves_the_address_to_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "missing")
    with opened_in_browser("http://127.0.0.1:1/?token=secret"):
        pass
    assert capsys.readouterr().err == "The browser could not be opened. Open the address yourself.\n"


@contextmanager
def explored(tmp_path: Path, before: str = "") -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A running command, and the address that it prints."""
    Model(language_model("word")).save(tmp_path / "run" / "best")
    arguments = ["explore", str(tmp_path / "run"), "--port", "0", "--no-open"]
    with subprocess.Popen(
        [sys.executable, "-c", before + START, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as run:
        try:
            assert run.stdout is not None
            yield run, run.stdout.readline().strip()
        finally:
            run.kill()


def sent(address: str, request: str, headers: str = "", content: str = "") -> socket.socket:
    """A connection that has sent a request with the token."""
    parts = urlsplit(address)
    connection = socket.create_connection((parts.hostname, parts.port), timeout=30)
    token = parts.query.removeprefix("token=")
    lines = [f"{request} HTTP/1.1", f"host: {parts.netloc}", f"authorization: Bearer {token}", headers]
    connection.sendall(("\r\n".join([line for line in lines if line]) + f"\r\n\r\n{content}").encode())
    return connection


def posted(address: str, content: str, length: int) -> socket.socket:
    """A connection that has sent some of a question about a text."""
    headers = f"content-type: application/json\r\ncontent-length: {length}"
    return sent(address, "POST /api/passes", headers, content)


@pytest.mark.slow
def test_it_serves_the_page_until_it_is_ended(tmp_path: Path) -> None:
    """Clients that leave are no reason to log."""
    with explored(tmp_path) as (run, address):
        assert address.startswith("http://127.0.0.1:")
        base, _, token = address.partition("?token=")
        assert len(token) >= 32
        with pytest.raises(HTTPError, match="403"):
            urlopen(f"{base}api/model")
        browser = build_opener(HTTPCookieProcessor())
        with browser.open(address) as answer:
            assert answer.url == base
            assert b"clearhead" in answer.read()
        with browser.open(f"{base}api/model") as answer:
            assert json.load(answer)["name"] == "run"
        for _ in range(5):
            posted(address, '{"text"', 4000).close()  # in the middle of a request
            posted(address, '{"text": "a"}', 13).close()  # before the answer
            with sent(address, "GET /page/main.js") as connection:  # in the middle of it
                connection.recv(10)
            sent(address, "nonsense").close()
        with sent(address, "GET /api/model") as connection:
            assert connection.recv(12) == b"HTTP/1.1 200"
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
    assert run.returncode == 130
    assert (
        without_stages(said)
        == "Only this machine can reach it, with this token. Press Ctrl-C to stop.\n\nStopped.\n"
    )


@pytest.mark.slow
def test_it_stops_at_once_whatever_is_running_and_queued(tmp_path: Path) -> None:
    """By SIGTERM; SIGINT is the way above."""
    with explored(tmp_path, ENDLESS) as (run, address):
        asked = [posted(address, '{"text": "a"}', 13) for _ in range(100)]
        time.sleep(1)
        start = time.monotonic()
        run.send_signal(signal.SIGTERM)
        _, said = run.communicate(timeout=60)
        assert time.monotonic() - start < 20  # two seconds, and what a busy machine adds
    for connection in asked:
        connection.close()
    assert run.returncode == 130
    assert without_stages(said).splitlines()[1:] == ["", "Stopped."]


def test_others_need_a_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="lets other machines in, but there is no key"):
        explore(tmp_path, host="0.0.0.0")
    key = "a-key-of-the-tests-0123456789"
    monkeypatch.setenv("CLEARHEAD_KEYS", key)
    Model(language_model("word")).save(tmp_path / "mine")
    apps: list[Any] = []
    monkeypatch.setattr(
        "clearhead.serving.sockets.server_for", lambda app: Mock(run=lambda sockets: apps.append(app))
    )
    monkeypatch.setattr("signal.signal", lambda *given: None)
    explore(tmp_path / "mine", port=0, no_open=True, host="0.0.0.0", allowed_host=["models.example"])
    link = capsys.readouterr().out.strip()
    client = TestClient(apps[0], base_url=link.partition("/?")[0])
    assert client.get("/api/model").status_code == 401
    assert client.get("/api/model", headers={"authorization": f"Bearer {key}"}).status_code == 200
    assert client.get(
        "/api/model", headers={"authorization": f"Bearer {key}", "host": "models.example"}
    ).is_success
    assert client.get(link).status_code == 200
    assert client.get("/api/model").status_code == 200


def test_foreign_models_and_those_of_the_package_are_opened_directly(tmp_path: Path) -> None:
    own = Model(language_model("byte", tied=False))
    own.save(tmp_path / "own")
    export_model(tmp_path / "own", tmp_path / "theirs")
    loaded, name, _ = read_model(tmp_path / "theirs")
    assert name == "theirs"
    ids = own.generator.prompt("my dog").ids
    assert loaded.generator.prompt("my dog").ids == ids
    shipped, name, again = read_model(Path("builtin:language-model"))
    assert (name, again) == ("language-model", "builtin:language-model")
    assert not shipped.translates
