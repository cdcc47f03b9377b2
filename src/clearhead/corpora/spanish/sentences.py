"""All sentences of the grammar, each kind as often as its weight says, with capitals and punctuation.

Dice enter; one Spanish and one English sentence leave.
"""

from collections.abc import Callable

from clearhead.corpora.spanish import (
    being,
    compound,
    events,
    experience,
    pronouns,
    questions,
    states,
    subordinate,
    things,
    wh_questions,
    world,
)
from clearhead.corpora.spanish.phrases import NAMES, Dice, Phrase, person, relative, third, urn
from clearhead.corpora.spanish.statements import Sentence, anyone, command, nothing, told, told_at

Kind = Callable[[Dice], Sentence]


def acquaintance(dice: Dice) -> Phrase:
    """Someone who may have any profession."""
    phrase = person(dice) if dice.chance(0.5) else relative(dice) if dice.chance(0.5) else dice.pick(NAMES)
    return phrase if not phrase.es.startswith(("el ", "la ", "es", "los ", "las ")) else dice.pick(NAMES)


KINDS: dict[Kind, int] = {
    lambda dice: told_at(events.past(dice, person(dice), front=True)): 14,
    lambda dice: told_at(events.plan(dice, person(dice), front=True)): 10,
    lambda dice: told_at(events.habit(dice, person(dice), front=True)): 9,
    lambda dice: told_at(events.used_to(dice, person(dice), front=True)): 3,
    lambda dice: told(events.progress(dice, person(dice))): 7,
    lambda dice: told(events.perfect(dice, person(dice))): 6,
    lambda dice: told(states.has(dice, person(dice))): 7,
    lambda dice: told(states.wants(dice, person(dice))): 4,
    lambda dice: told(states.lives(dice, person(dice))): 3,
    lambda dice: told(states.knows(dice, person(dice))): 4,
    lambda dice: told(states.loves(dice, person(dice))): 2,
    lambda dice: told(states.wears(dice, person(dice))): 3,
    lambda dice: told(states.prefers(dice, person(dice))): 3,
    lambda dice: told(states.feels(dice, person(dice))): 7,
    lambda dice: told(states.aged(dice, person(dice))): 2,
    lambda dice: told(being.mood_of(dice, person(dice))): 5,
    lambda dice: told(being.character_of(dice, third(dice))): 4,
    lambda dice: told(being.works_as(dice, acquaintance(dice))): 3,
    lambda dice: told(being.comes_from(dice, person(dice))): 3,
    lambda dice: told(being.is_at(dice, person(dice))): 4,
    lambda dice: told(states.must_do(dice, person(dice))): 10,
    anyone: 3,
    nothing: 2,
    command: 5,
    lambda dice: told(things.looks(dice)): 8,
    lambda dice: told(things.costs(dice)): 2,
    lambda dice: told(things.lies(dice)): 5,
    things.exists: 5,
    things.identifies: 3,
    things.exclaims: 2,
    things.compares: 4,
    world.weather_report: 2,
    world.date: 2,
    experience.liking: 8,
    experience.wish: 3,
    experience.pain: 2,
    pronouns.helps: 6,
    pronouns.gives: 6,
    pronouns.buys_and_sells: 5,
    pronouns.wants_not: 2,
    pronouns.meets: 2,
    pronouns.visits_always: 2,
    questions.asks_state: 14,
    questions.asks_event: 12,
    questions.asks_choice: 2,
    wh_questions.asks_what: 4,
    wh_questions.asks_how_many: 3,
    wh_questions.asks_whom: 3,
    wh_questions.asks_who: 3,
    wh_questions.asks_when: 6,
    wh_questions.asks_about_thing: 3,
    wh_questions.asks_about_person: 4,
    subordinate.because: 7,
    subordinate.because_it: 3,
    subordinate.when_it_happened: 5,
    subordinate.if_: 5,
    subordinate.whenever: 4,
    subordinate.that: 7,
    subordinate.whether: 2,
    subordinate.while_: 3,
    subordinate.who_did: 4,
    subordinate.which_was: 4,
    compound.in_order_to: 4,
    compound.before_after: 3,
    compound.and_another: 6,
    compound.but_not: 4,
    compound.two_adjectives: 2,
}
ALL = urn(KINDS)
OPENINGS = {".": "", "?": "¿", "!": "¡"}


def sentence(dice: Dice) -> tuple[str, str]:
    """One sentence in Spanish and in English."""
    es, en, mark = dice.pick(ALL)(dice)
    return f"{OPENINGS[mark]}{es[0].upper()}{es[1:]}{mark}", f"{en[0].upper()}{en[1:]}{mark}"
