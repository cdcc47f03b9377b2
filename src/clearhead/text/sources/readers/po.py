"""Translation catalogues: the `.po` files of gettext, whose entries pair a text with its translation.

Entries that are not translated, fuzzy or obsolete are ignored and counted. Of an entry with plural forms,
the singular goes with the first form and the plural with the last. A catalogue is read whole, so its size has
a bound.
"""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import polib

from clearhead.examples import Example
from clearhead.text.sources.scan import Row, Scan

MAX_CHARACTERS = 64_000_000
COLUMNS = ("msgid", "msgstr")
LINE = re.compile(r'(#.*|((msgctxt|msgid|msgid_plural|msgstr|msgstr\[\d+\])\s*)?"([^"\\\r]|\\.)*"|)\Z')
CHECK = "`msgfmt --check` shows what is wrong with a .po file; `msgconv -t UTF-8` converts it."


def read_po(scan: Scan) -> Iterator[Example]:
    """The translated entries of a catalogue."""
    return scan.examples(scan.checked(_entry_rows(scan)))


def _entry_rows(scan: Scan) -> Iterator[Row]:
    for entry in _entries(scan):
        if reason := _reason_against(entry):
            scan.ignore(reason)
            continue
        for record in _entry_records(scan, entry):
            if row := scan.pick(entry.linenum, record, scan.columns or COLUMNS):
                yield row


def _entries(scan: Scan) -> list[polib.POEntry]:
    # The library splits a text that it is given at U+2028 and the like, but a file only at its line ends.
    with tempfile.TemporaryDirectory(prefix="clearhead-") as folder:
        copy = Path(folder, "checked.po")
        if not _copy(scan, copy):
            return []
        try:
            return list(polib.pofile(str(copy), encoding="utf-8"))
        except (OSError, ValueError, IndexError) as error:
            found = re.search(r"\(line (\d+)\)(.*)", str(error))
            number, reason = (int(found[1]), found[2]) if found else (0, f": {error}")
            scan.problem(number, f"is out of place in a .po file{reason}", CHECK)
            return []


def _copy(scan: Scan, copy: Path) -> bool:
    """Copy a catalogue line by line, and say whether every line is valid."""
    problems, size = scan.tally.problems.count, 0
    with copy.open("w", encoding="utf-8", newline="") as target:
        for number, line in scan.lines():
            if not LINE.match(line.strip()):  # which the library would take for an empty text, or skip
                scan.problem(number, "is not a valid line of a .po file", CHECK)
            size += len(line)
            if size > MAX_CHARACTERS:
                fault = f"is longer than {MAX_CHARACTERS} characters, the limit for a .po file"
                scan.problem(0, fault, "Split it into several.")
                return False
            target.write(line)
    if scan.tally.problems.count > problems:
        scan.problem(0, "is skipped, because some of its lines cannot be read", CHECK)
        return False
    return True


def _reason_against(entry: polib.POEntry) -> str | None:
    if entry.obsolete:
        return "obsolete entry"
    if entry.fuzzy:
        return "fuzzy entry"
    return None if entry.translated() else "untranslated entry"


def _entry_records(scan: Scan, entry: polib.POEntry) -> Iterator[dict[str, str]]:
    if not entry.msgid_plural:
        yield {"msgid": entry.msgid, "msgstr": entry.msgstr}
        return
    forms = [entry.msgstr_plural[number] for number in sorted(entry.msgstr_plural)]
    if len(forms) > 1:
        yield {"msgid": entry.msgid, "msgstr": forms[0]}
    yield {"msgid": entry.msgid_plural, "msgstr": forms[-1]}
    for _ in forms[1:-1]:
        scan.ignore("plural form between the first and the last")
