"""An output file that a killed command continues: which lines are done, and of what they are the results.

Beside the output a record is kept, OUT.clearhead.json: the command, its settings, a digest of the model, and digests
of the input that was read and of the output that was written. It is replaced before each group of lines, so that
whenever the command is killed the lines of the output say how much of the last group is done. What differs in any of
these is refused: its lines would be mixed with those of another model, input or setting.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clearhead.decoding.lines import Faults, truncate
from clearhead.errors import InputError
from clearhead.model_folder import CARD, find
from clearhead.storage import checksum, write_atomically

ENDING = ".clearhead.json"
LARGEST_RECORD = 1 << 20  # bytes
BLOCK = 1 << 20
Count = Annotated[int, Field(ge=0, le=1 << 53)]
ADVICE = "Start again with --overwrite, or name another file."


def digest_of_model(folder: Path) -> str:
    """A digest of all files of a model folder but its card."""
    digest = sha256()
    for path in sorted(find(folder).iterdir()):
        if path.is_file() and path.name != CARD and not path.name.startswith("."):
            digest.update(f"{path.name} {checksum(path)}\n".encode())
    return digest.hexdigest()


class Record(BaseModel):
    """What is known of an output file when a group of lines is started."""

    model_config = ConfigDict(strict=True, extra="forbid")
    origin: dict[str, Any]  # how the lines were made
    lines: Count  # of the input, before the group
    answers: Count  # lines of the output, for those
    size: Count  # bytes of these
    output: str  # digest of these
    read: Count  # lines of the input, with the group
    input: str  # digest of these
    faults: Count  # lines with an error, before the group
    first_faults: list[tuple[Count, str]]


class Continuation:
    """The record of one output file; `origin` says how its lines are made."""

    def __init__(self, output: Path, origin: Mapping[str, Any], faults: Faults[Any]) -> None:
        self.output, self.path = output, output.with_name(output.name + ENDING)
        self.origin, self.faults = json.loads(json.dumps(origin)), faults
        self.lines = self.answers = self.size = 0  # of the input and output, before the current group; bytes
        self.input, self.written, self.before = sha256(), sha256(), sha256()
        self.group: Sequence[bytes] = ()
        self.done = 0  # lines of the output that belong to the current group

    def resume(self, lines: Iterator[bytes]) -> list[bytes]:
        """Takes from the input what was read; gives the group to be done again, of which `done` results exist."""
        if not self.output.is_file() or self.output.stat().st_size == 0:
            return []
        record = self.read_record()
        self.check_origin(record.origin)
        end = self.check_output(record)
        group = self.take(lines, record)
        self.lines, self.answers = record.lines, record.answers
        if self.done > len(group):
            raise InputError(f"{self.output} has more lines than were written into it.\n{ADVICE}")
        self.faults.count, self.faults.first = record.faults, record.first_faults
        truncate(self.output, end)
        return group

    def read_record(self) -> "Record":
        """The record, if there is one."""
        if not self.path.is_file():
            raise InputError(
                f"{self.output} already exists, and without {self.path.name} beside it nothing says what it contains.\n"
                f"{ADVICE}"
            )
        try:
            with self.path.open("rb") as file:
                record = Record.model_validate_json(file.read(LARGEST_RECORD))
        except ValidationError:
            raise InputError(
                f"{self.path} is damaged, so {self.output} cannot be continued.\n{ADVICE}"
            ) from None
        return record

    def check_origin(self, before: Mapping[str, Any]) -> None:
        """Rejects lines that were made in another way."""
        if before == self.origin:
            return
        names = [*self.origin, *(name for name in before if name not in self.origin)]
        changed = [name for name in names if before.get(name) != self.origin.get(name)]
        parts = ["with another model, or with this one before it changed"] if "model" in changed else []
        for name in changed:
            then, now = (json.dumps(origin.get(name)) for origin in (before, self.origin))
            parts += [f"with {name.replace('_', '-')} = {then}, not {now}"] if name != "model" else []
        raise InputError(f"{self.output} was written {'; '.join(parts)}.\n{ADVICE}")

    def check_output(self, record: Record) -> int:
        """Rejects an output that was changed since; where its complete lines end."""
        with self.output.open("rb") as file:
            left = self.size = record.size
            count = 0
            while left and (block := file.read(min(left, BLOCK))):
                self.written.update(block)
                count += block.count(b"\n")
                left -= len(block)
            if left or count != record.answers or self.written.hexdigest() != record.output:
                raise InputError(f"{self.output} was changed since it was written.\n{ADVICE}")
            end = self.size
            while block := file.read(BLOCK):  # not by lines, of which one could be as long as the file
                self.done += block.count(b"\n")
                end = file.tell() - len(block) + block.rfind(b"\n") + 1 if b"\n" in block else end
        return end

    def take(self, lines: Iterator[bytes], record: Record) -> list[bytes]:
        """Takes the lines that were read, and gives those of the last group; rejects others."""
        for line in islice(lines, record.lines):
            self.input.update(line + b"\n")
        group = list(islice(lines, record.read - record.lines))
        digest = self.input.copy()
        for line in group:
            digest.update(line + b"\n")
        if digest.hexdigest() != record.input:
            raise InputError(
                f"{self.output} was written for another input: its first {record.read} lines are not those of "
                f"this one.\n{ADVICE}"
            )
        return group

    def groups(self, groups: Iterator[list[bytes]]) -> Iterator[list[bytes]]:
        """The same groups; before each a record is written."""
        for group in groups:
            self.start(group)
            yield group
        self.start([])

    def start(self, group: Sequence[bytes]) -> None:
        """Writes the record before a group is done, when all before it is."""
        self.lines += len(self.group)
        if self.group:
            self.follow_output()
        self.before, self.group = self.input.copy(), group
        for line in group:
            self.input.update(line + b"\n")
        record = Record(
            origin=self.origin,
            lines=self.lines,
            answers=self.answers,
            size=self.size,
            output=self.written.hexdigest(),
            read=self.lines + len(group),
            input=self.input.hexdigest(),
            faults=self.faults.count,
            first_faults=self.faults.first,
        )
        write_atomically(self.path, record.model_dump_json(indent=1) + "\n", is_durable=False)

    def follow_output(self) -> None:
        """Counts and digests what was written since the last record."""
        with self.output.open("rb") as file:
            file.seek(self.size)
            while block := file.read(BLOCK):
                self.written.update(block)
                self.answers += block.count(b"\n")
                self.size += len(block)

    def stop(self) -> None:
        """The group ends where it stopped at an error, so that the line with the error may be repaired."""
        already = self.answers
        self.follow_output()
        done = self.group[: self.answers - already]
        self.lines, self.input, self.group = self.lines + len(done), self.before, ()
        for line in done:
            self.input.update(line + b"\n")
        self.start([])
