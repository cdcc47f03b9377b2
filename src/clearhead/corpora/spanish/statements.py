"""Sentences of one clause about people: what they did, do and have; nobody and nothing; commands.

Dice enter; Spanish, English and the mark at the end leave, still without capitals.
"""

from clearhead.corpora.spanish import events
from clearhead.corpora.spanish.clauses import NOT, PLAIN, Clause, state
from clearhead.corpora.spanish.deeds import ACTIONS, EVENTS
from clearhead.corpora.spanish.events import Timed
from clearhead.corpora.spanish.phrases import (
    HE,
    MY,
    OUR,
    PEOPLE_IN_GENERAL,
    THE,
    THEY_M,
    THIS,
    YOU,
    Dice,
    Phrase,
    person,
    urn,
)
from clearhead.corpora.spanish.predicates import COUNT, OWNED, Styles
from clearhead.corpora.spanish.verbs import FUTURE, PAST, actions

Sentence = tuple[str, str, str]


def told(clause: Clause) -> Sentence:
    """A clause as a sentence."""
    es, en = state(clause)
    return es, en, "."


def told_at(happened: Timed) -> Sentence:
    """A clause with its time as a sentence."""
    clause, front = happened
    es, en = state(clause)
    return (f"{front[0]} {es}", f"{front[1]} {en}", ".") if front else (es, en, ".")


ANYONE = (
    Phrase("alguien", "someone", HE._replace(own=None)),
    Phrase("nadie", "nobody", HE._replace(own=None)),
    Phrase("todos", "everyone", THEY_M._replace(english_person=2, own=None)),
    PEOPLE_IN_GENERAL,
)


def anyone(dice: Dice) -> Sentence:
    """What someone, nobody, everyone or people did or will do."""
    subject = dice.pick(ANYONE)
    if dice.chance(0.7):
        return told_at(events.past(dice, subject, moods=(PLAIN,)))
    return told_at(events.plan(dice, subject, moods=(PLAIN,)))


NOTHING_VERBS = actions(
    {
        "comer": "eat ate eaten", "beber": "drink drank drunk", "comprar": "buy bought",
        "vender": "sell sold", "encontrar": "find found", "perder": "lose lost", "traer": "bring brought",
        "hacer": "do did done", "ver": "see saw seen",
    }
)  # fmt: skip


def nothing(dice: Dice) -> Sentence:
    """Nothing and something: no comí nada, "I didn't eat anything"."""
    subject, verb = person(dice), dice.pick(NOTHING_VERBS)
    tense = PAST if dice.chance(0.7) else FUTURE
    mood, es, en = (PLAIN, "algo", "something") if dice.chance(0.35) else (NOT, "nada", "anything")
    if tense == PAST and (verb.unclear[subject.ref.person] or dice.chance(0.3)):
        time_es, time_en = dice.pick(events.PAST_DAYS)
        es, en = f"{es} {time_es}", f"{en} {time_en}"
    return told(Clause(subject, verb, tense, f" {es}", f" {en}", mood))


# What may be asked of someone, by the Spanish infinitive.
ORDERED = frozenset(
    [
        "abrir",
        "cerrar",
        "comprar",
        "leer",
        "comer",
        "beber",
        "lavar",
        "limpiar",
        "escribir",
        "esperar",
        "ayudar",
        "llamar",
        "visitar",
        "usar",
        "vender",
        "escuchar",
        "cortar",
        "preparar",
        "enviar",
        "buscar",
        "invitar",
        "traer",
        "pintar",
        "reparar",
        "cuidar",
        "cocinar",
    ]
)
ORDERS = tuple(frame for frame in ACTIONS + EVENTS if frame.verb.infinitive in ORDERED)
ORDER_STYLES: Styles = urn(
    {
        (THE, 0): 4,
        (THE, 1): 3,
        (THIS, 0): 2,
        (THIS, 1): 1,
        (MY, 0): 2,
        (OUR, 0): 1,
        (OWNED, 0): 2,
        (COUNT, 1): 1,
    }
)
ADDRESSED = Phrase("", "you", YOU)
CALLS = (
    ("ayúdame", "help me"), ("espérame", "wait for me"), ("llámame", "call me"),
    ("escúchame", "listen to me"), ("ayúdanos", "help us"), ("espéranos", "wait for us"),
    ("llámame mañana", "call me tomorrow"), ("ven aquí", "come here"), ("ten cuidado", "be careful"),
    ("sal de aquí", "get out of here"), ("ven conmigo", "come with me"),
)  # fmt: skip


def command(dice: Dice) -> Sentence:
    """¡Abre la ventana! ¡No abras la puerta! Por favor, cierra la maleta."""
    if dice.chance(0.06):
        es, en = dice.pick(CALLS)
        forbidden = False
    else:
        deed = dice.pick(ORDERS).deed(dice, ADDRESSED, ORDER_STYLES)
        forbidden = dice.chance(0.3)
        es = f"no {deed.verb.forbidden}{deed.es}" if forbidden else deed.verb.command + deed.es
        en = f"don't {deed.verb.base}{deed.en}" if forbidden else deed.verb.base + deed.en
    if dice.chance(0.4):
        return f"por favor, {es}", f"please {en}", "."
    return es, en, "!"
