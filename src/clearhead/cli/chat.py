"""`clearhead chat`: a conversation in the terminal, or with the lines of a file or of standard input.

Messages enter; answers are printed as they are written. Everything else goes to standard error. Ctrl-C stops an answer
and not the program; Ctrl-D leaves.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.options import Int8, ModelFolder, System, with_decoding
from clearhead.cli.stages import load_pytorch
from clearhead.cli.terminal import for_stream, is_terminal
from clearhead.config.decoding import DecodingConfig
from clearhead.errors import InputError, suggest
from clearhead.examples import ANSWER, Message

if TYPE_CHECKING:
    from clearhead.decoding.generate import Generator

PROMPT = "> "
LONGEST = 512  # tokens of an answer, if nothing is said
HELP = """\
/system TEXT   start a new conversation with this system message; without TEXT, with none
/reset         start a new conversation
/save FILE     write the conversation as a line of JSON, which `clearhead train language-model FILE` reads
/help          this list
//…            a message that starts with /
Ctrl-C stops an answer, Ctrl-D leaves."""
ENDINGS = {
    "length": "The answer ended after max_tokens = {max_tokens}; allow more with --max-tokens.",
    "context": "The answer ended where the model's context was full.",
    "time": "The answer ended after {seconds} seconds.",
}


@with_decoding
def chat(
    model: ModelFolder,
    settings: DecodingConfig,
    system: System = None,
    input: Annotated[
        Path | None,
        typer.Option("--input", metavar="FILE", help="File with one message per line; - for standard input."),
    ] = None,
    int8: Int8 = False,
) -> None:
    """Hold a conversation with a model."""
    load_pytorch(f"Reading {model}")
    from clearhead.api import load
    from clearhead.data.chats import check_chat

    loaded = load(model, int8=int8)
    check_chat(loaded.tokenizer)
    if "max_tokens" not in settings.model_fields_set:
        settings = settings.replace(max_tokens=LONGEST)
    dialogue = Dialogue(loaded.generator, settings, system)
    is_live = input is None and is_terminal(sys.stdin)
    if is_live:
        say("Write a message; /help lists the commands, Ctrl-D leaves.")
    for line in typed() if is_live else lines_in(input):
        try:
            dialogue.take(line)
        except InputError as error:
            say(f"error: {error}")
            if not is_live:
                raise typer.Exit(1) from None


@dataclass
class Dialogue:
    """A conversation so far."""

    generator: "Generator"
    settings: DecodingConfig
    system: str | None = None
    messages: list[Message] = field(default_factory=list)
    dropped: int = 0  # of the oldest messages, which the model no longer reads
    saved: Path | None = None  # which may be overwritten

    def take(self, line: str) -> None:
        """Does what a line asks for: a command, or a message to answer."""
        if not line.startswith("/") or line.startswith("//"):
            if line.strip():
                self.answer(line[1:] if line.startswith("//") else line)
            return
        name, _, rest = line[1:].partition(" ")
        commands: dict[str, Callable[[str], None]] = {
            "reset": self.reset,
            "system": self.instruct,
            "save": self.save,
            "help": lambda text: say(HELP),
        }
        if name not in commands:
            raise InputError(f"/{name} is not a command. {suggest(name, commands)}\nList them with /help.")
        commands[name](rest.strip())

    @property
    def everything(self) -> list[Message]:
        """The messages, with that of the system first."""
        return [*([] if self.system is None else [Message("system", self.system)]), *self.messages]

    def answer(self, text: str) -> None:
        """Prints the answer to a message as it is written; what came before Ctrl-C belongs to the conversation."""
        from clearhead.decoding.chat import dropped_note, next_turn

        turn = next_turn(self.generator, [*self.everything, Message("user", text)], self.settings)
        if turn.dropped > self.dropped:
            say(dropped_note(self.generator, turn.dropped))
        self.dropped = turn.dropped
        written = ""
        reason: str | None = None
        try:
            for piece in self.generator.stream(turn.prompt, self.settings):
                print(for_stream(piece.text, sys.stdout), end="", flush=True)
                written, reason = written + piece.text, piece.reason
        except KeyboardInterrupt:
            reason = "interrupted"
        print(flush=True)
        if reason == "interrupted":
            say("Stopped.")
        elif reason in ENDINGS:
            say(ENDINGS[reason].format(**self.settings.model_dump()))
        self.messages += [Message("user", text), Message(ANSWER, written)]

    def reset(self, text: str = "") -> None:
        """Starts anew; what the system says stays."""
        self.messages, self.dropped = [], 0
        say("A new conversation.")

    def instruct(self, text: str) -> None:
        """Sets what the system says."""
        self.system = text or None
        self.reset()

    def save(self, name: str) -> None:
        """Writes the conversation."""
        if not name:
            raise InputError("/save needs the name of a file.\nSuch as: /save chat.jsonl")
        if not self.messages:
            raise InputError("There is nothing to save yet.\nWrite a message first.")
        path = Path(name).expanduser()
        if path.exists() and path != self.saved:
            raise InputError(f"{path} already exists.\nName another file.")
        record = {"messages": [{"role": one.role, "content": one.content} for one in self.everything]}
        try:
            path.write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(
                f"{path} cannot be written: {error.strerror}.\nName a file in an existing folder."
            ) from None
        self.saved = path
        say(f"Saved {len(record['messages'])} messages in {path}.")


def typed() -> Iterator[str]:
    """The lines of a terminal, which can be edited and called back; Ctrl-C at the prompt clears the line."""
    with suppress(ImportError):  # a system without it
        import readline  # noqa: F401  `input` edits lines by it
    while True:
        try:
            line = input(PROMPT)
        except EOFError:
            print(file=sys.stderr)
            return
        except KeyboardInterrupt:
            print(file=sys.stderr)
            say("Ctrl-D leaves.")
            continue
        yield line


def lines_in(path: Path | None) -> Iterator[str]:
    """The lines of a file or of standard input."""
    from clearhead.cli.job import decoded, lines_of, opened

    with opened(path) as file:
        for number, line in enumerate(lines_of(file), 1):
            try:
                yield decoded(line)
            except InputError as error:
                raise InputError(f"line {number}: {error}") from None


def say(text: str) -> None:
    """Prints what is not part of the conversation."""
    print(for_stream(text, sys.stderr), file=sys.stderr, flush=True)
