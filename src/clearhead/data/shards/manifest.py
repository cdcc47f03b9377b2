"""What is known of a folder of shards, its `manifest.json`: the files, and what became of every line and example.

A folder of shards contains

    manifest.json                   format, columns, counts, and for each file its size and SHA-256
    00000.text.ids.npy              the ids of the first shard, one example after the other
    00000.text.borders.npy          where each example begins, and where the last ends
    00000.hashes.npy                8 bytes for each example: of its input, and of all of it
    00000.labels.npy                for texts with a label, the number of each; for those with several, ids and borders

with one pair of ids and borders for each column (text; source and target; text and second; or text and tags, the labels
of its words). The files are plain NumPy
arrays, ids in two bytes where the vocabulary allows it and in four where not.
"""

from pydantic import BaseModel, ConfigDict, Field

from clearhead.text.sources.read import ExampleReader

FORMAT = 2
MANIFEST = "manifest.json"
LABELS = "labels"
TAGS = "tags"  # the column of the labels of words: 0 where no label is read, otherwise a label's number + 1


class Account(BaseModel):
    """The counts of one split; those of texts and tokens are by column."""

    model_config = ConfigDict(extra="forbid")

    names: list[str] = Field(default_factory=list, description="files and corpora that were read")
    ignored: list[str] = Field(default_factory=list, description="files of folders that have no known format")
    lines: int = Field(0, description="lines read")
    read: int = Field(0, description="examples read")
    held_out: int = Field(0, description="examples of the same source that belong to other splits")
    ignored_lines: dict[str, int] = Field(default_factory=dict, description="lines ignored by rule")
    problems: int = Field(0, description="lines that could not be read and were skipped")
    first_problems: list[str] = Field(default_factory=list, description="the first of them")

    guesses: list[str] = Field(default_factory=list, description="what was found out about the files")

    documents: int = Field(0, description="texts that start a document")
    truncated: int = Field(0, description="examples truncated to the longest length allowed")
    divided: int = Field(0, description="examples divided into several of that length")
    dropped: dict[str, int] = Field(default_factory=dict, description="examples omitted, by reason")
    characters: dict[str, int] = Field(default_factory=dict, description="characters read")
    encoded: dict[str, int] = Field(default_factory=dict, description="tokens they became")
    tokens: dict[str, int] = Field(default_factory=dict, description="tokens kept, beginnings and ends aside")
    unknown: dict[str, int] = Field(default_factory=dict, description="unknown tokens among them")

    def add(self, counts: dict[str, int], column: str, amount: int) -> None:
        """Raise one of the counts by column or by reason."""
        if amount:
            counts[column] = counts.get(column, 0) + amount

    def close(self, reader: ExampleReader) -> None:
        """Copy the counts of the reader's latest pass."""
        tally = reader.tally
        self.names, self.ignored = list(reader.names), list(reader.ignored)
        self.lines, self.read, self.held_out = tally.lines, tally.examples, tally.held_out
        self.ignored_lines = dict(tally.ignored)
        self.problems, self.guesses = tally.problems.count, list(tally.guesses)
        self.first_problems = [str(problem) for problem in tally.problems.first]


class FileFacts(BaseModel):
    """What a file of a shard must be."""

    bytes: int
    sha256: str


class ShardFacts(BaseModel):
    """One shard: how many examples, in which files."""

    examples: int
    files: dict[str, FileFacts]


class Manifest(BaseModel):
    """All that is known of a folder; written last, so that a folder without one is incomplete."""

    format: int
    columns: tuple[str, ...]
    labels: tuple[str, ...] | None
    account: Account
    shards: list[ShardFacts]
