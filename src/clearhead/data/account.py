"""What became of a source on its way into shards: read, passed over, cut, dropped. Nothing is lost untold."""

from pydantic import BaseModel, ConfigDict, Field

from clearhead.text.sources import Reader


class Account(BaseModel):
    """The counts of one split; those of texts and tokens are by column."""

    model_config = ConfigDict(extra="forbid")

    names: list[str] = Field(default_factory=list, description="files and corpora that were read")
    ignored: list[str] = Field(default_factory=list, description="files of folders that have no known format")
    lines: int = Field(0, description="lines read")
    read: int = Field(0, description="examples read")
    held_out: int = Field(0, description="examples of the same source that belong to other splits")
    passed: dict[str, int] = Field(default_factory=dict, description="lines passed over by rule")
    problems: int = Field(0, description="lines that could not be read and were skipped")
    first_problems: list[str] = Field(default_factory=list, description="the first of them")

    documents: int = Field(0, description="texts that begin a document")
    truncated: int = Field(0, description="examples cut to the longest length that is allowed")
    divided: int = Field(0, description="examples divided into several of that length")
    dropped: dict[str, int] = Field(default_factory=dict, description="examples left out, by reason")
    characters: dict[str, int] = Field(default_factory=dict, description="characters read")
    encoded: dict[str, int] = Field(default_factory=dict, description="tokens they became")
    tokens: dict[str, int] = Field(default_factory=dict, description="tokens kept, beginnings and ends aside")
    unknown: dict[str, int] = Field(default_factory=dict, description="unknown tokens among them")

    def add(self, counts: dict[str, int], column: str, amount: int) -> None:
        """Raise one of the counts by column or by reason."""
        if amount:
            counts[column] = counts.get(column, 0) + amount

    def close(self, reader: Reader) -> None:
        """Take over what the reader met."""
        tally = reader.tally
        self.names, self.ignored = list(reader.names), list(reader.ignored)
        self.lines, self.read, self.held_out = tally.lines, tally.examples, tally.held_out
        self.passed = dict(tally.passed)
        self.problems = tally.problems.count
        self.first_problems = [str(problem) for problem in tally.problems.first]
