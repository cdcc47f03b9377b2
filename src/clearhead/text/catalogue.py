"""Translation catalogues: the `.po` files of gettext, whose entries pair a text with its translation.

Entries that are not translated, fuzzy or obsolete are passed over and counted. Of an entry with plural forms,
the singular goes with the first form and the plural with the last. A catalogue is read whole, so its size has
a bound.
"""

import re
from collections.abc import Iterator

import polib

from clearhead.text.scan import Numbered, Row, Scan

MAX_CHARACTERS = 64_000_000
COLUMNS = ("msgid", "msgstr")
LINE = re.compile(r'(#.*|((msgctxt|msgid|msgid_plural|msgstr|msgstr\[\d+\])\s*)?"([^"\\]|\\.)*"|)\Z')
ADVICE = "`msgfmt --check` shows what is wrong with a catalogue; `msgconv -t UTF-8` converts it."


def read_po(scan: Scan) -> Iterator[Numbered]:
    """The translated entries of a catalogue."""
    return scan.examples(scan.checked(_rows(scan)))


def _rows(scan: Scan) -> Iterator[Row]:
    for entry in _entries(scan):
        if reason := _reason_against(entry):
            scan.pass_over(reason)
            continue
        for record in _records(scan, entry):
            if row := scan.pick(entry.linenum - 1, record, scan.columns or COLUMNS):
                yield row


def _entries(scan: Scan) -> list[polib.POEntry]:
    text = _whole(scan)
    if text is None:
        return []
    try:
        # A newline before and after, so that the library never takes the text for the path of a file.
        return list(polib.pofile(f"\n{text}\n"))
    except (OSError, ValueError, IndexError) as error:
        found = re.search(r"\(line (\d+)\)", str(error))
        scan.problem(int(found[1]) - 1 if found else 0, f"is not a catalogue: {error}", ADVICE)
        return []


def _whole(scan: Scan) -> str | None:
    problems = scan.tally.problems.count
    lines, size = [], 0
    for number, line in scan.lines():
        if not LINE.match(line.strip()):  # which the library would take for an empty text, or leave out
            scan.problem(number, "is no line of a catalogue", ADVICE)
        lines.append(line)
        size += len(line)
        if size > MAX_CHARACTERS:
            scan.problem(
                0, f"is longer than the {MAX_CHARACTERS} characters that are read of a catalogue", "Cut it."
            )
            return None
    if scan.tally.problems.count > problems:
        scan.problem(0, "is left out, because some of its lines cannot be read", ADVICE)
        return None
    return "".join(lines)


def _reason_against(entry: polib.POEntry) -> str | None:
    if entry.obsolete:
        return "obsolete entry"
    if entry.fuzzy:
        return "fuzzy entry"
    return None if entry.translated() else "untranslated entry"


def _records(scan: Scan, entry: polib.POEntry) -> Iterator[dict[str, str]]:
    if not entry.msgid_plural:
        yield {"msgid": entry.msgid, "msgstr": entry.msgstr}
        return
    forms = [entry.msgstr_plural[number] for number in sorted(entry.msgstr_plural)]
    if len(forms) > 1:
        yield {"msgid": entry.msgid, "msgstr": forms[0]}
    yield {"msgid": entry.msgid_plural, "msgstr": forms[-1]}
    for _ in forms[1:-1]:
        scan.pass_over("plural form between the first and the last")
