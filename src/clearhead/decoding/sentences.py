"""A text becomes its sentences, with the white space after each: joined they are the text again.

A sentence ends at . ! ? or … before white space, unless a small letter follows; at the full stops of Chinese and
Japanese; and at a blank line. A full stop after an initial, an ordinal of up to two digits, a word with a full stop
inside (z.B., U.S.) or a known abbreviation ends nothing. Doubtful ends are no ends, so that sentences stay whole:
"It costs 5 dollars etc. Then he left." is one.
"""

import re

ENDS = re.compile(  # possessive, and only from the start of a run of marks: linear in the length of any text
    r"""(?<![.!?…])(?P<mark>[.!?…]++)["'»”’)\]]*+(?P<space>\s++)"""
    r"""|(?<![。！？])[。！？]++[」』”’）]*+(?P<none>\s*+)"""
    r"""|(?P<blank>\n[ \t\r]*+\n\s*+)"""
)
OPENING = "\"'«“‘„([¿¡"
WRITTEN_SHORT = """
abb abs al allg apr approx apt art aug ave bsp bzw ca capt cf cia co col corp dec dept dr ed eds etc ev evtl feb fig fr
gen geb ggf gov hon hr hrsg inc inkl jan jr jul jun lt ltd mar max min mlle mme mr mrs ms mt no nov nr oct okt op p pp
prof pág rev resp s sec sen sep sept sgr sgt sig sr sra srta st str tel ud uds univ usw vgl vol vs zzgl
"""
ABBREVIATIONS = frozenset(WRITTEN_SHORT.split())


def split_sentences(text: str) -> list[tuple[str, str]]:
    """The sentences of a text, each with the white space after it."""
    found, start = [], 0
    for end in ENDS.finditer(text):
        space = next(part for part in (end["space"], end["none"], end["blank"]) if part is not None)
        if end.end() < len(text) and not is_end(text, end):
            continue
        sentence = text[start : end.end() - len(space)]
        found.append((sentence, space))
        start = end.end()
    rest = text[start:]
    return [*found, (rest, "")] if rest else found


def is_end(text: str, end: re.Match[str]) -> bool:
    """Whether a sentence ends at a mark, by the word before it and the letter after it."""
    if end["mark"] is None or re.search(r"\n\s*\n", end["space"]):
        return True
    if text[end.end() : end.end() + 4].lstrip(OPENING)[:1].islower():
        return False
    words = re.findall(r"\S+\Z", text[max(0, end.start() - 40) : end.start()])
    word = words[0].lstrip(OPENING) if words else ""
    if end["mark"] != ".":
        return True
    is_ordinal = word.isdecimal() and len(word) <= 2
    is_initial = len(word) == 1 and word.isalpha()
    return not (is_ordinal or is_initial or "." in word or word.lower() in ABBREVIATIONS)
