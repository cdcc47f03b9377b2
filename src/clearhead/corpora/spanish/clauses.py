"""A clause as statement or question: the same content in the word order of both languages.

A `Clause` enters; a Spanish and an English string leave, without capital and full stop. English contracts
pronouns with "be" and every negation, always, so that no clause has two spellings.
"""

from typing import NamedTuple

from clearhead.corpora.spanish.phrases import Phrase
from clearhead.corpora.spanish.verbs import GOING, PRESENT, Verb

Both = tuple[str, str]


class Mood(NamedTuple):
    """What is said of the truth or frequency of a clause: Spanish before the verb, English around it."""

    es: str
    denies: bool
    en: str
    tail: str


PLAIN = Mood("", False, "", "")
NOT = Mood("no ", True, "", "")
NOT_YET = Mood("todavía no ", True, "", " yet")
NO_LONGER = Mood("ya no ", True, "", " anymore")
STILL = Mood("todavía ", False, " still", "")
ALREADY = Mood("ya ", False, " already", "")
NEITHER = Mood("tampoco ", True, "", " either")
ALSO = Mood("también ", False, " also", "")
ONLY = Mood("solo ", False, " only", "")
ALWAYS = Mood("siempre ", False, " always", "")
NEVER = Mood("nunca ", False, " never", "")
USUALLY = Mood("normalmente ", False, " usually", "")
OFTEN = Mood("a menudo ", False, " often", "")
RARELY = Mood("casi nunca ", False, " almost never", "")

BE_CONTRACTIONS = {
    "I": "I'm",
    "you": "you're",
    "he": "he's",
    "she": "she's",
    "it": "it's",
    "we": "we're",
    "they": "they're",
}
CONTRACTIONS = {
    (pronoun, f" {be}{no}"): short + (" not" if no else "")
    for pronoun, short in BE_CONTRACTIONS.items()
    for be in ("am", "is", "are")
    for no in ("", "n't", " not")
}


class Clause(NamedTuple):
    """Who does what, when and whether; `es` and `en` follow the verb, with the space before them."""

    subject: Phrase
    verb: Verb
    tense: int = PRESENT
    es: str = ""
    en: str = ""
    mood: Mood = PLAIN
    clitic: str = ""
    describes: bool = False  # the complement is an adjective, which a question puts before a noun


def spanish_group(clause: Clause) -> str:
    """The Spanish verb with what leans on it: no lo he leído, voy a comprarlo."""
    form = clause.verb.es[clause.tense][clause.subject.ref.person]
    if not clause.clitic:
        return clause.mood.es + form
    if clause.tense == GOING:
        return f"{clause.mood.es}{form}{clause.clitic}"
    return f"{clause.mood.es}{clause.clitic} {form}"


def spoken(clause: Clause) -> str:
    """The Spanish subject as far as it must be said: yo only where the verb leaves it open."""
    subject = clause.subject
    return subject.es or (subject.ref.said if clause.tense in clause.verb.opaque else "")


def state(clause: Clause) -> Both:
    """The clause as a statement."""
    subject, verb, tense, es, en, mood = clause[:6]
    who = spoken(clause)
    group = verb.en[tense][subject.ref.english_person]
    aux, main = (group.denies, group.denied) if mood.denies else (group.aux, group.main)
    start = CONTRACTIONS.get((subject.en, aux)) or subject.en + aux
    spanish = f"{who} {spanish_group(clause)}{es}" if who else spanish_group(clause) + es
    return spanish, f"{start}{mood.en}{main}{en}{mood.tail}"


def ask(clause: Clause) -> Both:
    """The clause as a question that yes or no answers, without its marks."""
    subject, verb, tense, es, en, mood = clause[:6]
    who = spoken(clause)
    group = verb.en[tense][subject.ref.english_person]
    aux = group.denies[1:] if mood.denies else group.asks
    who = f" {who}" if who else ""
    after = es + who if clause.describes else who + es
    return spanish_group(clause) + after, f"{aux} {subject.en}{mood.en}{group.asked}{en}{mood.tail}"
