"""Renders a chat template in a process of its own: requests enter on standard input, texts leave on standard output.

A template is a program by whoever made the model. Jinja's sandbox gives it no attribute that leads out of it and
nothing to change; this process has little memory and little time of the processor for each conversation, after which
the system ends it, and whoever started it does so if it takes too long for another reason. The names that a
template finds here are those that `transformers` offers. This file runs by its path and imports nothing of ours.
"""

import json
import signal
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any, TextIO

from jinja2 import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import CallBlock, Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

LARGEST_TEXT = 1 << 24  # characters of a rendered conversation
MEMORY = 1 << 29  # bytes of the process, where the system can limit them
WORK_SECONDS = 0.1  # of a processor for one conversation, however busy the machine is


class Generation(Extension):
    """The block {% generation %}, which marks answers; its content is rendered as it is."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> Node:
        """Parses the block."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller: Callable[[], str]) -> str:
        return caller()


def reject(message: object) -> None:
    """What a template calls to refuse a conversation."""
    raise TemplateError(str(message)[:1000])


def to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    """A value as JSON, without HTML's escapes."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)


def environment() -> ImmutableSandboxedEnvironment:
    """What a template can use."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    made.filters["tojson"] = to_json
    made.globals["raise_exception"] = reject
    made.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return made


def limit_memory() -> None:
    """Keeps a template from filling the memory of the machine."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, ValueError, OSError):  # a system without such limits
        pass


def limit_time(seconds: float) -> None:
    """Ends this process, by a signal that nothing here handles, when it has worked for so long; 0: no limit."""
    if hasattr(signal, "setitimer"):  # not on Windows
        signal.setitimer(signal.ITIMER_PROF, seconds)


def rendered(template: Any, names: dict[str, Any]) -> str:
    """The text of one conversation."""
    pieces, size = [], 0
    for piece in template.generate(names):
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST_TEXT:
            raise TemplateError(f"it writes more than {LARGEST_TEXT:,} characters")
    return "".join(pieces)


def serve(requests: TextIO, answers: TextIO) -> None:
    """The first line is the template, each later one the names for one conversation; a line of JSON answers it."""
    template = None
    for line in requests:
        limit_time(WORK_SECONDS)
        try:
            request = json.loads(line)
            if template is None:
                template = environment().from_string(request)
                answer = {"text": ""}
            else:
                answer = {"text": rendered(template, request)}
        except MemoryError:
            answer = {"error": "it needs too much memory"}
        except Exception as error:
            answer = {"error": (str(error) or type(error).__name__)[:1000]}
        limit_time(0)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    limit_memory()
    serve(sys.stdin, sys.stdout)
