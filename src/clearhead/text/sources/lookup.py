"""From what a recipe names to the parts of a source; a wrong name is an error before anything is read."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from clearhead import corpora as builtin
from clearhead.config.data import Files, Reading, Source, is_path
from clearhead.corpora.corpus import Corpus
from clearhead.errors import DataError, suggest
from clearhead.examples import Kind, Split
from clearhead.text.sources.files import find_files
from clearhead.text.sources.formats import check_fit, format_of
from clearhead.text.sources.lines import File
from clearhead.text.sources.parts import AlignedPart, BuiltinPart, FilePart, HubPart, SourcePart
from clearhead.text.sources.scan import Schema, check_columns


@dataclass(frozen=True)
class PartFinder:
    """Turns a source into its parts."""

    kind: Kind
    reading: Reading
    split: Split
    ignored: list[str]

    def find(self, source: Source) -> list[SourcePart]:
        """The parts of a source, in their order; what else folders contain is added to `ignored`."""
        if isinstance(source, dict):
            return self._classes(source)
        if isinstance(source, str):
            return self._one(source, Schema.of(self.kind, self.reading))
        plain = [item for item in source if isinstance(item, str) and self._is_plain(item)]
        if self.kind == "pair" and len(plain) == len(source) == 2:
            return self._aligned(plain[0], plain[1])
        return [part for item in source for part in self._item(item)]

    def _item(self, item: str | tuple[str, str]) -> list[SourcePart]:
        return (
            self._one(item, Schema.of(self.kind, self.reading))
            if isinstance(item, str)
            else self._aligned(*item)
        )

    def _one(self, source: str, schema: Schema) -> list[SourcePart]:
        if source.startswith("builtin:"):
            return [self._builtin(source.removeprefix("builtin:"), schema)]
        if source.startswith("hub:"):
            name, _, split = source.removeprefix("hub:").partition("@")
            check_columns(source, schema, self.reading)
            return [HubPart(name, split or self.split, schema)]
        files = find_files(source, self.ignored, needs_columns=len(schema.fields) > 1)
        return [self._file(file, schema) for file in files]

    def _file(self, file: File, schema: Schema) -> SourcePart:
        stated = self.reading.format or ("tsv" if file.is_pipe and len(schema.fields) > 1 else None)
        format = format_of(file.name, stated)
        check_fit(file.name, format, schema, self.reading)
        return FilePart(file, format, schema)

    def _classes(self, table: dict[str, Files]) -> list[SourcePart]:
        if self.kind != "labelled":
            raise DataError(
                f"A table of labels ({', '.join(table)}) fits only task = 'classify'.\n"
                "Give a file or a list of files."
            )
        return [
            part
            for label, files in table.items()
            for file in ((files,) if isinstance(files, str) else files)
            for part in self._one(file, Schema.of("labelled", self.reading, label))
        ]

    def _is_plain(self, item: str) -> bool:
        is_file = is_path(item) and not Path(item).is_dir()
        return is_file and format_of(item, self.reading.format) == "txt"

    def _aligned(self, source: str, target: str) -> list[SourcePart]:
        if self.kind != "pair":
            raise DataError(
                f"{source} and {target} are given as aligned files, but this task does not learn from pairs.\n"
                "Give them as a plain list of files."
            )
        left, right = find_files(source, self.ignored), find_files(target, self.ignored)
        is_one = len(left) == len(right) == 1
        if not is_one and [_stem(file) for file in left] != [_stem(file) for file in right]:
            raise DataError(
                f"{source} matches {len(left)} files and {target} matches {len(right)}, "
                "and their names do not pair up.\n"
                'List the pairs themselves: [["a.es", "a.en"], ["b.es", "b.en"]].'
            )
        return [AlignedPart(one, other) for one, other in zip(left, right, strict=True)]

    def _builtin(self, written: str, schema: Schema) -> SourcePart:
        name, _, split = written.partition("@")
        if name not in builtin.CORPORA:
            raise DataError(f"There is no built-in corpus {name!r}. {suggest(name, builtin.CORPORA)}")
        corpus = builtin.CORPORA[name]
        fits = ("text", "labelled") if self.kind == "text" else (self.kind,)
        if schema.label is not None or corpus.kind not in fits:
            others = ", ".join(
                sorted(known for known, other in builtin.CORPORA.items() if other.kind in fits)
            )
            raise DataError(
                f"builtin:{name} contains examples of the kind {corpus.kind}, but this task needs {self.kind}.\n"
                f"Built-in corpora of this kind: {others or 'none'}."
            )
        if self.kind == "labelled":
            check_corpus(corpus, schema)
        part = BuiltinPart(corpus, self.kind, cast(Split, split or self.split))
        part.stream(self.reading)
        return part


def check_corpus(corpus: Corpus, schema: Schema) -> None:
    """Rejects a corpus whose labels are about something else than what is asked for."""
    stated = {"labels": (schema.labels, corpus.labels), "texts": (schema.texts, corpus.texts)}
    for key, (asked, own) in stated.items():
        if asked != own:
            raise DataError(
                f"builtin:{corpus.name} has {key} = {own!r}, but data.{key} = {asked!r} is asked for.\n"
                f"Set data.{key} = {own!r}, or choose another corpus."
            )


def _stem(file: File) -> str:
    return file.path.name.partition(".")[0]
