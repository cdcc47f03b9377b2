"""`clearhead explore`: where it listens, what it says, and that it answers."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from clearhead.api import Model
from clearhead.cli.explore import HOST, listen
from clearhead.errors import InputError
from tests.decoding.tiny import language_model


def test_a_port_that_is_taken_is_an_error_when_it_was_asked_for() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            InputError, match=rf"Port {port} of 127\.0\.0\.1 cannot be used: .*\nName another"
        ):
            listen(port)


def test_it_listens_on_this_machine_only() -> None:
    with listen(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


@pytest.mark.slow
def test_it_serves_the_page_until_it_is_ended(tmp_path: Path) -> None:
    Model(language_model("word")).save(tmp_path / "run" / "best")
    start = "from clearhead.cli.main import main; main()"
    command = [sys.executable, "-c", start, "explore", str(tmp_path / "run"), "--port", "0", "--no-open"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as run:
        assert run.stdout is not None
        address = run.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        with urlopen(f"{address}api/model") as answer:
            assert json.load(answer)["name"] == "run"
        with urlopen(address) as answer:
            assert b"clearhead" in answer.read()
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=30)
    assert "Only this machine can reach it." in said
    assert "Traceback" not in said
