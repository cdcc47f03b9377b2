"""Questions that yes or no answers, and choices. Spanish moves the subject, English brings in "do".

Dice enter; Spanish, English and "?" leave, still without capitals and ¿.
"""

from clearhead.corpora.spanish import adjectives as adj
from clearhead.corpora.spanish import being, events, states
from clearhead.corpora.spanish import nouns as n
from clearhead.corpora.spanish.clauses import ALREADY, NOT, PLAIN, STILL, Clause, Mood, ask
from clearhead.corpora.spanish.deeds import EVENTS, MISHAPS, SIGHTINGS, WORKS
from clearhead.corpora.spanish.events import SURE
from clearhead.corpora.spanish.experience import likes
from clearhead.corpora.spanish.inflection import comparative
from clearhead.corpora.spanish.phrases import (
    HE,
    NAMES,
    SHE,
    THE,
    THEY_M,
    WE,
    YOU,
    YOU_ALL,
    Dice,
    Phrase,
    joined,
    or_,
    relative,
    urn,
)
from clearhead.corpora.spanish.predicates import KNOWN
from clearhead.corpora.spanish.statements import Sentence
from clearhead.corpora.spanish.things import exists, lies, looks
from clearhead.corpora.spanish.verbs import PAST, PERFECT, PRESENT, QUERER

YOU_ASKED = Phrase("", "you", YOU)
ASKED = urn(
    {
        YOU_ASKED: 16, Phrase("", "you all", YOU_ALL): 2, Phrase("él", "he", HE): 2,
        Phrase("ella", "she", SHE): 2, Phrase("ellos", "they", THEY_M): 1, Phrase("", "we", WE): 1,
    }
)  # fmt: skip
DOUBTS: tuple[Mood, ...] = urn({PLAIN: 6, NOT: 1})
STATE_DOUBTS: tuple[Mood, ...] = urn({PLAIN: 6, NOT: 1, STILL: 1})


def asked(dice: Dice) -> Phrase:
    """Whom a question is about: mostly you, or someone with a short name."""
    which = dice.random()
    if which < 0.55:
        return dice.pick(ASKED)
    if which < 0.8:
        return dice.pick(NAMES)
    if which < 0.9:
        return joined(dice.pick(n.PEOPLE), THE, 0, None, True)
    return relative(dice, deep=False)


def question(clause: Clause) -> Sentence:
    """A clause as a question."""
    es, en = ask(clause)
    return es, en, "?"


STATES = (
    (states.has, STATE_DOUBTS), (states.wants, DOUBTS), (states.lives, STATE_DOUBTS), (states.knows, DOUBTS),
    (states.wears, DOUBTS), (states.feels, STATE_DOUBTS), (being.mood_of, STATE_DOUBTS),
    (being.is_at, STATE_DOUBTS), (states.must_do, DOUBTS), (states.prefers, SURE),
    (being.comes_from, DOUBTS), (being.character_of, DOUBTS), (states.feels, STATE_DOUBTS),
    (states.must_do, DOUBTS),
)  # fmt: skip


def asks_state(dice: Dice) -> Sentence:
    """Whether things are so."""
    which = dice.random()
    if which < 0.12:
        return question(looks(dice))
    if which < 0.18:
        return question(lies(dice))
    if which < 0.25:
        return exists(dice, asked=True)
    if which < 0.35:
        es, en = likes(dice, asked(dice), asked=True)
        return es, en, "?"
    fact, moods = dice.pick(STATES)
    return question(fact(dice, asked(dice), moods))


def asks_event(dice: Dice) -> Sentence:
    """Whether something happened, happens or will happen."""
    subject = asked(dice)
    which = dice.random()
    if which < 0.4:
        return question(events.past(dice, subject, moods=DOUBTS)[0])
    if which < 0.6:
        return question(events.plan(dice, subject, moods=DOUBTS)[0])
    if which < 0.75:
        return question(events.progress(dice, subject, moods=SURE))
    if which < 0.88:
        deed = dice.pick(WORKS + EVENTS + SIGHTINGS + MISHAPS).deed(dice, subject, KNOWN)
        return question(events.clause(subject, deed, PERFECT, dice.pick((PLAIN, ALREADY))))
    return question(events.habit(dice, subject, moods=events.ASKED_FREQUENCY)[0])


OFFERS = tuple((one.es[0], one.en[0]) for one in n.DRINKS + n.EDIBLE) + tuple(
    (one.es[1], one.en[1]) for one in n.FRUITS + n.SNACKS + n.EGGS
)


def asks_choice(dice: Dice) -> Sentence:
    """Tea or coffee? Pedro or Olga? Before the sound of o, o becomes u."""
    if dice.chance(0.4):
        first, second = dice.pick(NAMES), dice.pick(NAMES)
        while second is first:
            second = dice.pick(NAMES)
        return _older(dice, first, second)
    offer, other = dice.pick(OFFERS), dice.pick(OFFERS)
    while other is offer:
        other = dice.pick(OFFERS)
    es, en = f" {or_(offer[0], other[0])}", f" {offer[1]} or {other[1]}"
    return question(Clause(asked(dice), QUERER, PRESENT if dice.chance(0.8) else PAST, es, en))


def _older(dice: Dice, first: Phrase, second: Phrase) -> Sentence:
    adjective = dice.pick(adj.PEOPLE)
    word = adjective.es[1 if first.ref.form == second.ref.form == 1 else 0]
    es = f"quién es más {word}, {or_(first.es, second.es)}"
    return es, f"who is {comparative(adjective.en)}, {first.en} or {second.en}", "?"
