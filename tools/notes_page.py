"""A mkdocs hook: rows, sources and marked tests enter, the page *The notes, in code* leaves.

Every source file that a row or a test points to becomes a page with numbered lines, so that a link leads to
the very line, also where the site is read from a folder. A symbol that is gone stops the build.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel

from tools.notes import ROOT, Row, find_line, read_rows
from tools.notes_table import Proof, find_tests

HEAD = """# The notes, in code

Every row of the lecture notes: what it says, the formula, the line that does it and the test that proves it.
`make notes` runs these tests. A row without code is not built yet. Formulas use the letters of the code: `n`
tokens, `d` their width, `h` heads, `d_k` the width of a head, `X` one token a row.
"""
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page, and the sources that it links to."""
    rows = read_rows()
    proofs = find_tests()
    files.append(File.generated(config, "notes.md", content=page(rows.values(), proofs)))
    references = {reference for row in rows.values() for reference in row.code} | {
        as_reference(p) for p in proofs
    }
    for path in sorted({reference.partition(":")[0] for reference in references}):
        listing = File.generated(
            config, source_page(path), content=source(path), inclusion=InclusionLevel.NOT_IN_NAV
        )
        files.append(listing)
    return files


def page(rows: Iterable[Row], proofs: list[Proof]) -> str:
    """The whole page as Markdown."""
    return "\n".join([HEAD, *(section(row, [p for p in proofs if row.id in p.rows]) for row in rows)])


def section(row: Row, proofs: list[Proof]) -> str:
    """One row: its title, what it says, its formula, its code and its tests."""
    lines = [f"## {row.id}: {row.title}", "", row.says, ""]
    if row.formula:
        lines += ["```text", row.formula, "```", ""]
    lines += [f"- code: {', '.join(map(link, row.code)) or 'not yet'}"]
    lines += [f"- proven by: {', '.join(links_to_tests(proofs)) or 'nothing yet'}", ""]
    return "\n".join(lines)


def links_to_tests(proofs: Iterable[Proof]) -> Iterator[str]:
    """One link for each test, however many parameters it runs with."""
    for reference in sorted({as_reference(proof) for proof in proofs}):
        yield link(reference)


def as_reference(proof: Proof) -> str:
    """`tests/a.py::TestB::test_c[1]` as `tests/a.py:TestB.test_c`."""
    file, _, name = proof.name.partition("::")
    return f"{file}:{name.replace('::', '.')}"


def link(reference: str) -> str:
    """A Markdown link from the page to the line of a symbol."""
    path, _, symbol = reference.partition(":")
    return f'[`{symbol}`]({source_page(path)}#__codelineno-0-{find_line(reference)}){{ title="{path}" }}'


def source_page(path: str) -> str:
    """Where the site keeps a source file."""
    return f"source/{Path(path).with_suffix('').as_posix()}.md"


def source(path: str) -> str:
    """A source file as a page with numbered lines; a fence or a snippet's mark inside it stays as it is.

    A search skips it, or listings would come before the pages that explain a word.
    """
    text = (ROOT / path).read_text(encoding="utf-8").rstrip().replace("--8<--", ";--8<--")
    return f'{UNSEARCHED}# {path}\n\n``````{{ .python linenums="1" }}\n{text}\n``````\n'
