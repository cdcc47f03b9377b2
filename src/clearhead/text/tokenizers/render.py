"""A chat template becomes text: a template and messages enter, what the model reads leaves, or an `InputError`.

The template is run by `sandbox.py` in another process, which is started at the first conversation, asked again for
each, and killed if it takes too long.
"""

import json
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock, Timer
from typing import Any

from clearhead.errors import InputError

SECONDS = 5.0  # for one conversation, also beside other programs; `sandbox.py` limits what it may work
LARGEST_TEMPLATE = 1 << 18  # characters
LARGEST_ANSWER = 1 << 28  # bytes of a line of JSON, in which a character may take twelve
SANDBOX = Path(__file__).with_name("sandbox.py")


class Renderer:
    """Renders one template."""

    def __init__(self, template: str) -> None:
        if len(template) > LARGEST_TEMPLATE:
            raise InputError(
                f"The model's chat template has {len(template):,} characters; the limit is {LARGEST_TEMPLATE:,}.\n"
                "Correct chat_template.jinja in the model folder."
            )
        self.template = template
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()

    def render(self, messages: Sequence[Mapping[str, str]], asks: bool, names: Mapping[str, Any]) -> str:
        """The text of a conversation; `asks` ends it where the answer starts."""
        given = {"messages": list(messages), "add_generation_prompt": asks, **names}
        with self._lock:
            if self._process is None:
                self._process = self._start()
                self._ask(self.template)
            return self._ask(given)

    def _start(self) -> "subprocess.Popen[bytes]":
        # A session of its own: Ctrl-C in the terminal is not meant for it.
        process = subprocess.Popen(
            [sys.executable, "-I", str(SANDBOX)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        weakref.finalize(self, end, process)
        return process

    def _ask(self, request: object) -> str:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        timer = Timer(SECONDS, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline(LARGEST_ANSWER)
        except BrokenPipeError:
            line = b""
        except BaseException:  # such as Ctrl-C between question and answer
            self._drop()
            raise
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):
            self._drop()
            raise refused("it took too long, or its process was killed")
        answer = json.loads(line)
        if "error" in answer:
            if request is self.template:
                self._drop()
            raise refused(str(answer["error"]))
        return str(answer["text"])

    def _drop(self) -> None:
        """Ends the process; the next conversation starts another."""
        assert self._process is not None
        end(self._process)
        self._process = None


def end(process: "subprocess.Popen[bytes]") -> None:
    """Ends the process of a renderer."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # a question that was never read
                pipe.close()


def refused(reason: str) -> InputError:
    """The error of a template that gives no text."""
    return InputError(
        f"The model's chat template fails: {reason.rstrip('.')}.\n"
        "Change the conversation if it is the reason, or correct chat_template.jinja in the model folder."
    )


@lru_cache(maxsize=4)
def renderer_of(template: str) -> Renderer:
    """The renderer of a template, shared by all tokenizers that have it."""
    return Renderer(template)
