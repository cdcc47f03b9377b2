"""The standard library's source of the running interpreter: real text on every machine, with no network.

A seed enters; one document per file leaves, in the order of that seed. Files that are blank or not UTF-8 are
skipped, and so is whatever pip added. A file's split depends on its path (`json/decoder.py`), so that it stays
there from one version of Python to the next; of files with the same content only the first by path is kept.
"""

import sysconfig
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from random import Random

from clearhead.corpora.corpus import SPLITS, Corpus, Option, Options
from clearhead.errors import DataError
from clearhead.examples import Example, Text

FOREIGN = {"site-packages", "dist-packages", "__pycache__"}
TESTS = {"test", "tests", "idle_test"}
ALL = 1_000_000  # more than the files of any standard library


def library() -> Path:
    """The folder of the standard library."""
    return Path(sysconfig.get_path("stdlib"))


def files(root: Path, with_tests: bool) -> list[Path]:
    """The source files under a folder, sorted by their path from there."""
    skipped = FOREIGN if with_tests else FOREIGN | TESTS
    found = [path.relative_to(root) for path in root.rglob("*.py")]
    return sorted((path for path in found if not skipped & set(path.parts)), key=Path.as_posix)


@lru_cache(maxsize=1)  # the three splits are mostly read one after the other
def documents(root: Path, with_tests: bool) -> Mapping[str, str]:
    """The text of each readable file by its path, without blank files and repetitions."""
    paths: dict[str, str] = {}
    for path in files(root, with_tests):
        try:
            text = (root / path).read_text(encoding="utf-8")
        except (UnicodeDecodeError, OSError):
            continue
        if text.strip():
            paths.setdefault(text, path.as_posix())
    return {path: text for text, path in paths.items()}


def make(seed: int, options: Options) -> Iterator[tuple[str, Example]]:
    """Every document once, shuffled."""
    texts = documents(library(), options["tests"] == "yes")
    if not texts:
        raise DataError(
            f"builtin:python found no source files in {library()}.\n"
            "This interpreter comes without the source of its library. Use one that has it, or your own text."
        )
    paths = list(texts)
    Random(f"python {seed}").shuffle(paths)
    for path in paths:
        yield path, Text(texts[path])


CORPUS = Corpus(
    name="python",
    kind="text",
    description="the standard library's source of the running interpreter, a document per file",
    make=make,
    counts=dict.fromkeys(SPLITS, ALL),
    options=(Option("tests", ("no", "yes"), "no", "whether the library's own tests are included"),),
)
