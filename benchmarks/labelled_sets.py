"""Labelled texts for benchmarks: real data, two built-in corpora, and three sets made from public text on this machine.

reviews      sentences of movie reviews (MR), positive or negative
promoters    E. coli promoters and other sequences of 81 letters
packages     the one-line descriptions of Debian's packages (`apt-cache dumpavail`), by section: the 25 sections with
             the most packages, at most 400 of each
functions    the functions of Python's standard library, as written, by package: those with 60 or more, at most 200
licences     paragraphs of /usr/share/common-licenses, by family; what occurs in two families is omitted
builtin-…    the built-in reviews, and DNA at its default difficulty
"""

import ast
import gzip
import random
import re
import subprocess
import sysconfig
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from harness import SHARED_DATA

from clearhead.corpora import dna, reviews
from clearhead.examples import Labelled

MOST_SECTIONS, MOST_PACKAGES = 25, 400
FEWEST_FUNCTIONS, MOST_FUNCTIONS, LONGEST_FUNCTION = 60, 200, 4000
LICENCES = Path("/usr/share/common-licenses")
SEED = 1


def movie_reviews() -> list[Labelled]:
    """Sentences of movie reviews."""
    files = {"positive": "rt-polarity.pos.gz", "negative": "rt-polarity.neg.gz"}
    return [
        Labelled(line, label) for label, name in files.items() for line in lines_of(SHARED_DATA / "mr" / name)
    ]


def promoters() -> list[Labelled]:
    """Promoters of E. coli, and other sequences."""
    files = {"promoter": "Ecoli_prom.fa.gz", "other": "Ecoli_non_prom.fa.gz"}
    found = []
    for label, name in files.items():
        text = gzip.decompress((SHARED_DATA / "dna-ecoli" / name).read_bytes()).decode()
        records = (record.partition("\n")[2] for record in text.split(">")[1:])
        found += [Labelled("".join(record.split()).upper(), label) for record in records]
    return found


def packages() -> list[Labelled]:
    """Descriptions of Debian's packages, by section."""
    dump = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    texts: dict[str, str] = {}
    for record in dump.split("\n\n"):
        fields = dict(re.findall(r"^(Section|Description): (.+)$", record, re.M))
        if len(fields) == 2:
            texts.setdefault(fields["Description"].strip(), fields["Section"].rpartition("/")[2])
    by_section: dict[str, list[str]] = defaultdict(list)
    for text, section in sorted(texts.items()):
        by_section[section].append(text)
    largest = sorted(by_section, key=lambda section: (-len(by_section[section]), section))[:MOST_SECTIONS]
    return [
        Labelled(text, section) for section in largest for text in some(by_section[section], MOST_PACKAGES)
    ]


def functions() -> list[Labelled]:
    """Functions of Python's standard library, by package."""
    library = Path(sysconfig.get_path("stdlib"))
    by_package: dict[str, set[str]] = defaultdict(set)
    for path in sorted(library.glob("*/**/*.py")):
        package = path.relative_to(library).parts[0]
        if package in ("site-packages", "dist-packages", "test", "__pycache__") or "tests" in path.parts:
            continue
        source = path.read_text(encoding="utf-8", errors="replace")
        try:
            tree = ast.parse(source)
        except SyntaxError:  # of lib2to3's own tests
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                text = ast.get_source_segment(source, node) or ""
                by_package[package] |= {text} if 40 <= len(text) <= LONGEST_FUNCTION else set()
    counts = Counter(text for texts in by_package.values() for text in texts)
    alone = {
        package: sorted(text for text in texts if counts[text] == 1)
        for package, texts in sorted(by_package.items())
    }
    return [
        Labelled(text, package)
        for package, texts in alone.items()
        if len(texts) >= FEWEST_FUNCTIONS
        for text in some(texts, MOST_FUNCTIONS)
    ]


def licences() -> list[Labelled]:
    """Paragraphs of licences, by family."""
    by_family: dict[str, set[str]] = defaultdict(set)
    for path in sorted(LICENCES.iterdir()):
        paragraphs = re.split(r"\n\s*\n", path.read_text(encoding="utf-8"))
        texts = (" ".join(paragraph.split()) for paragraph in paragraphs)
        by_family[re.sub(r"-[\d.]+$", "", path.name)] |= {text for text in texts if len(text) >= 60}
    counts = Counter(text for texts in by_family.values() for text in texts)
    return [
        Labelled(text, family)
        for family, texts in sorted(by_family.items())
        for text in sorted(texts)
        if counts[text] == 1 and len(texts) >= 20
    ]


def builtin_reviews() -> list[Labelled]:
    """The built-in reviews: all parts."""
    return builtin(reviews.CORPUS.examples(part, SEED) for part in ("train", "validation", "test"))


def builtin_dna() -> list[Labelled]:
    """The built-in DNA at its default difficulty: all parts."""
    return builtin(dna.CORPUS.examples(part, SEED) for part in ("train", "validation", "test"))


def builtin(parts: Iterable[Iterable[object]]) -> list[Labelled]:
    """The labelled examples of some parts."""
    return [example for part in parts for example in part if isinstance(example, Labelled)]


def some(texts: list[str], most: int) -> list[str]:
    """At most so many, drawn by a fixed seed."""
    return texts if len(texts) <= most else sorted(random.Random(SEED).sample(texts, most))


def lines_of(path: Path) -> list[str]:
    """The lines of a packed file that are not empty."""
    text = gzip.decompress(path.read_bytes()).decode("utf-8")
    return [line.strip() for line in text.split("\n") if line.strip()]


SETS: dict[str, Callable[[], list[Labelled]]] = {
    "reviews": movie_reviews,
    "promoters": promoters,
    "packages": packages,
    "functions": functions,
    "licences": licences,
    "builtin-reviews": builtin_reviews,
    "builtin-dna": builtin_dna,
}
