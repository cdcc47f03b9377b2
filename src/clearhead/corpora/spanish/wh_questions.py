"""Questions with a question word: what, which, how many, who, whom, when, where, why, and some fixed ones.

Dice enter; Spanish, English and "?" leave, still without capitals and ¿.
"""

from clearhead.corpora.spanish import being, events, states
from clearhead.corpora.spanish import nouns as n
from clearhead.corpora.spanish.clauses import NOT, PLAIN, Clause, ask, state
from clearhead.corpora.spanish.deeds import EVENTS, MISHAPS, PROJECTS, ROUTINES, TRAVELS, WORKS
from clearhead.corpora.spanish.phrases import HE, THAT, THE, THIS, Dice, Phrase, urn
from clearhead.corpora.spanish.predicates import CALM, KNOWN, OWN, OWNED, Styles, thing
from clearhead.corpora.spanish.questions import DOUBTS, YOU_ASKED, asked
from clearhead.corpora.spanish.statements import Sentence
from clearhead.corpora.spanish.verbs import (
    COSTAR,
    ESTAR_BE,
    FUTURE,
    GOING,
    NECESITAR,
    PAST,
    PREFERIR,
    PRESENT,
    PROGRESSIVE,
    QUERER,
    SER,
    TENER,
    TENER_BE,
    VIVIR,
    Verb,
    actions,
)

BUY, SELL, READ, WRITE = actions(
    {"comprar": "buy bought", "vender": "sell sold", "leer": "read read", "escribir": "write wrote written"}
)
OTHER_VERBS = actions(
    {
        "comer": "eat ate eaten", "beber": "drink drank drunk", "hacer": "do did done",
        "buscar": "look + for", "cocinar": "cook", "estudiar": "study", "limpiar": "clean",
        "traer": "bring brought",
    }
)  # fmt: skip
WHAT_VERBS = (BUY, SELL, READ, WRITE, *OTHER_VERBS)
WHOM_VERBS = actions(
    {
        "ayudar": "help", "llamar": "call", "visitar": "visit", "invitar": "invite", "ver": "see saw seen",
        "buscar": "look + for", "esperar": "wait + for", "conocer": "meet met",
    }
)  # fmt: skip
WITH_VERBS = actions(
    {
        "bailar": "dance", "trabajar": "work", "hablar": "talk", "estudiar": "study", "jugar": "play",
        "viajar": "travel traveled", "cenar": "have had + dinner",
    }
)  # fmt: skip
OPEN_TENSES = (PAST, PAST, PROGRESSIVE, GOING, FUTURE)
AT_ONCE = (PAST, PAST, GOING, FUTURE)


def without_object(dice: Dice, verb: Verb, tenses: tuple[int, ...] = OPEN_TENSES) -> Clause:
    """A verb without its object, with a time where the tense would stay open."""
    subject, tense = asked(dice), dice.pick(tenses)
    clause = Clause(subject, verb, tense)
    often = 0.0 if tense != PAST else 1.0 if verb.unclear[subject.ref.person] else 0.4
    return events.placed(dice, clause, events.PAST_DAYS, often, False)[0]


WHICH = (
    (n.READING, (READ, WRITE)), (n.CLOTHES + n.VEHICLES + n.FURNITURE + n.BOOKS, (BUY, SELL)),
    (n.FILMS, actions({"ver": "watch"})),
)  # fmt: skip


def asks_what(dice: Dice) -> Sentence:
    """What, or which of them."""
    if dice.chance(0.6):
        es, en = ask(without_object(dice, dice.pick(WHAT_VERBS)))
        return f"qué {es}", f"what {en}", "?"
    nouns, verbs = dice.pick(WHICH)
    noun, plural = dice.pick(nouns), int(dice.chance(0.3))
    preferred = dice.chance(0.25)
    es, en = ask(Clause(asked(dice), PREFERIR) if preferred else without_object(dice, dice.pick(verbs)))
    return f"qué {noun.es[plural]} {es}", f"which {noun.en[plural]} {en}", "?"


COUNTABLE = n.GOODS + n.COUNTED_FOOD + n.PETS
HOLDING: tuple[Verb, ...] = (TENER, QUERER, NECESITAR)


def asks_how_many(dice: Dice) -> Sentence:
    """How many, with the gender of what is counted."""
    noun = dice.pick(COUNTABLE)
    if dice.chance(0.5):
        clause = Clause(asked(dice), dice.pick(HOLDING), PRESENT if dice.chance(0.8) else PAST)
    else:
        clause = without_object(dice, dice.pick((BUY, SELL)), AT_ONCE)
    es, en = ask(clause)
    return f"cuánt{'a' if noun.feminine else 'o'}s {noun.es[1]} {es}", f"how many {noun.en[1]} {en}", "?"


def asks_whom(dice: Dice) -> Sentence:
    """Whom, and with whom: English leaves its "with" behind, before the time."""
    if dice.chance(0.6):
        es, en = ask(without_object(dice, dice.pick(WHOM_VERBS), AT_ONCE))
        return f"a quién {es}", f"who {en}", "?"
    if dice.chance(0.2):
        clause = Clause(asked(dice), VIVIR, PRESENT if dice.chance(0.8) else PAST)
    else:
        clause = without_object(dice, dice.pick(WITH_VERBS))
    es, en = ask(clause._replace(en=f" with{clause.en}"))
    return f"con quién {es}", f"who {en}", "?"


WHO = Phrase("quién", "who", HE._replace(own=None))


def asks_who(dice: Dice) -> Sentence:
    """Who did it: the one question without "do"."""
    tense = dice.pick((PAST, PAST, PAST, FUTURE, GOING, PROGRESSIVE))
    deed = dice.pick(WORKS + EVENTS + MISHAPS + TRAVELS if tense == PAST else WORKS).deed(dice, WHO, CALM)
    return (*state(events.clause(WHO, deed, tense)), "?")


WHY_STATES = (being.mood_of, being.is_at, states.must_do)
CIRCUMSTANCES = (("cuándo", "when"), ("dónde", "where"), ("por qué", "why"), ("por qué", "why"))
WHEN_FRAMES = WORKS + TRAVELS + PROJECTS
WHERE_FRAMES = tuple(
    frame
    for frame in WORKS + EVENTS
    if frame.verb.infinitive in ("comprar", "encontrar", "vender") or frame.verb.base in ("see", "meet")
)


def asks_when(dice: Dice) -> Sentence:
    """When, where or why something happens; where the tense would stay open, another is asked."""
    word, english = dice.pick(CIRCUMSTANCES)
    if english == "why" and dice.chance(0.5):
        es, en = ask(dice.pick(WHY_STATES)(dice, asked(dice), DOUBTS))
        return f"{word} {es}", f"{english} {en}", "?"
    frame = dice.pick(WHERE_FRAMES if english == "where" else WHEN_FRAMES)
    subject, tense = asked(dice), dice.pick((PAST, PAST, PAST, GOING, FUTURE))
    if tense == PAST and frame.verb.unclear[subject.ref.person]:
        tense = GOING
    mood = NOT if english == "why" and dice.chance(0.3) else PLAIN
    es, en = ask(events.clause(subject, frame.deed(dice, subject, KNOWN), tense, mood))
    return f"{word} {es}", f"{english} {en}", "?"


PLACED: Styles = urn({(THE, 0): 3, (THE, 1): 2, (OWN, 0): 3, (OWN, 1): 1, (OWNED, 0): 2})
PRICED: Styles = ((THE, 0), (THE, 1), (THIS, 0), (THIS, 1), (THAT, 0), (OWNED, 0))
CLOCKED = ("levantar", "acostar", "despertar", "duchar")
COLORED = n.CLOTHES + n.VEHICLES + n.FURNITURE + n.TOOLS
LOST = n.CARRIED + n.BOOKS + n.PETS
TIMED = tuple(frame.verb for frame in ROUTINES if frame.verb.infinitive in CLOCKED)
SMALL_TALK = (("qué hora es", "what time is it", "?"), ("cómo te llamas", "what's your name", "?"))


def asks_about_thing(dice: Dice) -> Sentence:
    """Where something is, what it costs, what color it has."""
    which, tense = dice.random(), PRESENT if dice.chance(0.75) else PAST
    if which < 0.4:
        es, en = ask(Clause(thing(dice, LOST, YOU_ASKED, PLACED, 0.1), ESTAR_BE, tense))
        return f"dónde {es}", f"where {en}", "?"
    if which < 0.7:
        es, en = ask(Clause(thing(dice, n.GOODS, YOU_ASKED, PRICED), COSTAR))
        return f"cuánto {es}", f"how much {en}", "?"
    es, en = ask(Clause(thing(dice, COLORED, YOU_ASKED, PLACED, 0.0), SER, tense))
    return f"de qué color {es}", f"what color {en}", "?"


def asks_about_person(dice: Dice) -> Sentence:
    """Where someone is, lives or comes from, how old, how, and at what time."""
    subject, which = asked(dice), dice.random()
    if which < 0.35:
        es, en = ask(Clause(subject, dice.pick((ESTAR_BE, VIVIR)), PRESENT if dice.chance(0.75) else PAST))
        return f"dónde {es}", f"where {en}", "?"
    if which < 0.5:
        es, en = ask(Clause(subject, TENER_BE))
        return f"cuántos años {es}", f"how old {en}", "?"
    if which < 0.65:
        es, en = ask(Clause(subject, SER))
        return f"de dónde {es}", f"where {en} from", "?"
    if which < 0.75:
        es, en = ask(Clause(subject, ESTAR_BE))
        return f"cómo {es}", f"how {en}", "?"
    if which < 0.97:
        verb, tense = dice.pick(TIMED), dice.pick((PRESENT, FUTURE, GOING))
        es, en = ask(Clause(subject, verb, tense, "", "", PLAIN, subject.ref.reflexive))
        return f"a qué hora {es}", f"what time {en}", "?"
    return dice.pick(SMALL_TALK)
