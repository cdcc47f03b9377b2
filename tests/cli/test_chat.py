"""`clearhead chat` in a terminal and with a pipe: streaming, commands, Ctrl-C and Ctrl-D."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clearhead import model_folder
from clearhead.config.tokenizer import MARKERS
from clearhead.data.chats import answer_ends
from clearhead.model_folder import Bundle
from tests.commands import Run, runner
from tests.decoding.tiny import language_model, random_model, tokenizer

PATIENCE = 120.0  # seconds; the machine may be busy


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with markers that talks nonsense without end."""
    folder = tmp_path_factory.mktemp("models") / "talks"
    words = tokenizer("byte").with_markers(MARKERS)
    bundle = random_model("decoder", vocabulary=words.size, context=4000)
    model_folder.save(folder, Bundle(bundle.module, words))
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys, "chat")


def test_lines_of_a_pipe_are_messages(run: Run, talker: Path, tmp_path: Path) -> None:
    place = tmp_path / "talk.jsonl"
    lines = f"hello\n\nhow are you?\n/save {place}\n/save {place}\n/reset\n/system Be short.\n//x\n/help\n"
    code, out, err = run(talker, "--seed", 1, "--max-tokens", 4, stdin=lines)
    assert code == 0, err
    said = err.splitlines()
    assert said.count("The answer ended after max_tokens = 4; allow more with --max-tokens.") == 3
    assert said.count(f"Saved 4 messages in {place}.") == 2
    assert said.count("A new conversation.") == 2
    assert "Ctrl-C stops an answer, Ctrl-D leaves." in said
    record = json.loads(place.read_text(encoding="utf-8"))
    assert [one["role"] for one in record["messages"]] == ["user", "assistant"] * 2
    assert [one["content"] for one in record["messages"][::2]] == ["hello", "how are you?"]
    assert record["messages"][1]["content"] in out


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("/sav x", "/sav is not a command. Did you mean save?"),
        ("/save", "/save needs the name of a file."),
        ("/save x", "There is nothing to save yet."),
    ],
)
def test_a_wrong_command_is_an_error(run: Run, line: str, reason: str, talker: Path) -> None:
    code, _, err = run(talker, stdin=line)
    assert code == 1
    assert f"error: {reason}" in err


def test_a_line_that_is_no_text_is_named(run: Run, talker: Path, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"/help\ncaf\xe9\n")
    code, _, err = run(talker, "--input", tmp_path / "x.txt")
    assert code == 1
    assert "error: line 2: it is not UTF-8" in err


def test_a_model_without_conversations_is_refused(run: Run, tmp_path: Path) -> None:
    model_folder.save(tmp_path / "writes", language_model("byte"))
    code, _, err = run(tmp_path / "writes", stdin="hello")
    assert code == 1
    assert "error: This model knows no conversations" in err


IN_TERMINAL = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # where Ctrl-C becomes a signal
from clearhead.cli.main import main
main()
"""


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self.handle, end = pty.openpty()
        command = [sys.executable, "-c", IN_TERMINAL, *arguments]
        environment = os.environ | {"TERM": "dumb"}
        self.process = subprocess.Popen(
            command, stdin=end, stdout=end, stderr=end, env=environment, start_new_session=True
        )
        os.close(end)
        self.shown = ""

    def read(self) -> bool:
        """Take what is shown within a second, and say whether the program is still there."""
        if select.select([self.handle], [], [], 1.0)[0]:
            try:
                self.shown += os.read(self.handle, 1 << 16).decode(errors="replace")
            except OSError:  # the program has ended
                return False
        return True

    def wait_for(self, text: str, after: int = 0) -> int:
        """Where a text ends that is shown after a place."""
        end = time.monotonic() + PATIENCE
        while text not in self.shown[after:]:
            assert time.monotonic() < end, f"no {text!r} in {self.shown[after:]!r}"
            if not self.read():
                break
        assert text in self.shown[after:], self.shown
        return self.shown.index(text, after) + len(text)

    def type(self, text: str) -> None:
        os.write(self.handle, text.encode())

    def interrupt(self, text: str, after: int) -> int:
        """Press Ctrl-C until a text is shown: readline misses a signal between its prompt and its wait for a key."""
        end = time.monotonic() + PATIENCE
        while text not in self.shown[after:] and time.monotonic() < end:
            self.type("\x03")
            time.sleep(1)
            self.read()
        return self.wait_for(text, after)


@pytest.fixture
def terminal(talker: Path) -> Iterator[Terminal]:
    ends = [
        str(id) for id in answer_ends(tokenizer("byte").with_markers(MARKERS))
    ]  # it must not stop by itself
    banned = [word for id in ends for word in ("--banned", id)]
    made = Terminal("chat", str(talker), "--seed", "1", "--max-tokens", "3900", *banned)
    yield made
    made.process.kill()
    made.process.wait()
    os.close(made.handle)


def test_ctrl_c_stops_the_answer_and_not_the_program(terminal: Terminal, tmp_path: Path) -> None:
    at = terminal.wait_for("Ctrl-D leaves.")
    at = terminal.wait_for("> ", at)
    at = terminal.interrupt("Ctrl-D leaves.", at)  # at the prompt
    at = terminal.wait_for("> ", at)
    terminal.type("hello\n")
    at = terminal.wait_for("hello", at)
    terminal.wait_for("\n", at + 4)
    time.sleep(0.5)  # some of the answer
    at = terminal.interrupt("Stopped.", at)
    at = terminal.wait_for("> ", at)
    terminal.type(f"/save {tmp_path / 'x.jsonl'}\n")
    at = terminal.wait_for("Saved 2 messages", at)
    terminal.type("/reset\n")
    at = terminal.wait_for("A new conversation.", at)
    terminal.type("/oops\n")
    at = terminal.wait_for("is not a command", at)
    terminal.wait_for("> ", at)
    terminal.type("\x04")
    assert terminal.process.wait(PATIENCE) == 0
    assert len(json.loads((tmp_path / "x.jsonl").read_text(encoding="utf-8"))["messages"]) == 2
