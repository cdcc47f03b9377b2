"""Sentences with pronouns as objects, which Spanish puts before the verb: me ayuda, lo vendí.

Dice enter; Spanish, English and the mark at the end leave, still without capitals. A pronoun of the third
person for a thing, or for several, has its noun in the same sentence, for "it" and "them" hide the gender.
"""

from typing import NamedTuple

from clearhead.corpora.spanish import events
from clearhead.corpora.spanish import nouns as n
from clearhead.corpora.spanish.clauses import NOT, NOT_YET, PLAIN, Clause, state
from clearhead.corpora.spanish.phrases import (
    HE,
    SHE,
    THE,
    THIS,
    THREE,
    TWO,
    WE,
    YOU,
    YOU_ALL,
    A,
    Dice,
    I,
    Phrase,
    Referent,
    person,
    to,
    urn,
)
from clearhead.corpora.spanish.predicates import (
    OWN,
    OWNED,
    TELLING,
    Styles,
    someone_else,
    stuff,
    thing,
)
from clearhead.corpora.spanish.statements import Sentence, told
from clearhead.corpora.spanish.states import beloved
from clearhead.corpora.spanish.verbs import (
    AMAR,
    CONOCER,
    ENTENDER,
    FUTURE,
    GOING,
    NECESITAR,
    ODIAR,
    PAST,
    PERFECT,
    PODER,
    PRESENT,
    QUERER,
    TENER,
    Verb,
    action,
    actions,
)

# Whom a subject of each person can mean by a pronoun that is not himself.
OBJECTS: tuple[tuple[Referent, ...], ...] = (
    (YOU, YOU, YOU_ALL), (I, I, WE), (I, I, YOU, WE, YOU_ALL), (YOU, YOU, YOU_ALL), (I, I, WE),
    (I, I, YOU, WE, YOU_ALL),
)  # fmt: skip
HIM_OR_HER = (HE, SHE)
ONLY_PEOPLE = actions(
    {"ayudar": "help", "llamar": "call", "invitar": "invite", "saludar": "greet", "abrazar": "hug"}
)
HELPING = ONLY_PEOPLE + actions(
    {
        "esperar": "wait + for", "visitar": "visit", "escuchar": "listen + to", "ver": "see saw seen",
        "buscar": "look + for", "cuidar": "take took taken + care of",
    }
)  # fmt: skip
CARING = (AMAR, CONOCER, ENTENDER, NECESITAR, ODIAR)
RECENT = (PAST, PAST, PAST, FUTURE, GOING, PERFECT)


def helps(dice: Dice) -> Sentence:
    """Someone does something to me, you, us; to him or her."""
    subject = person(dice)
    if dice.chance(0.25):
        other = dice.pick(OBJECTS[subject.ref.person])
        return told(_with(subject, dice.pick(CARING), PRESENT, other, dice))
    if dice.chance(0.3):
        verb, other = dice.pick(ONLY_PEOPLE), dice.pick(HIM_OR_HER)
    else:
        verb, other = dice.pick(HELPING), dice.pick(OBJECTS[subject.ref.person])
    return told(_with(subject, verb, dice.pick(RECENT), other, dice))


def _with(subject: Phrase, verb: Verb, tense: int, other: Referent, dice: Dice) -> Clause:
    es, en = "", f" {other.object}"
    if tense == PAST and (verb.unclear[subject.ref.person] or dice.chance(0.4)):
        time_es, time_en = dice.pick(events.PAST_DAYS)
        es, en = f" {time_es}", f"{en} {time_en}"
    mood = NOT if dice.chance(0.2) else PLAIN
    return Clause(subject, verb, tense, es, en, mood, other.accusative)


TRANSFERS = (
    (action("dar", "give gave given"), n.BELONGINGS + n.TREASURES + n.BOOKS + n.SNACKS),
    (action("enviar", "send sent"), n.MAIL + n.called("foto collar regalo")),
    (action("mostrar", "show showed shown"), n.called("cuadro foto collar") + n.CLOTHES + n.READING),
    (action("prestar", "lend lent"), n.BELONGINGS + n.BOOKS + n.CLOTHES + n.called("coche bicicleta moto")),
    (action("escribir", "write wrote written"), n.MAIL),
    (action("traer", "bring brought"), n.SNACKS + n.BELONGINGS + n.called("flor planta")),
    (action("leer", "read read"), n.MAIL + n.called("cuento")),
)
GIFTS: Styles = urn({(A, 0): 5, (THE, 0): 2, (THE, 1): 1, (TWO, 1): 1, (THREE, 1): 1, (OWN, 0): 2})


def gives(dice: Dice) -> Sentence:
    """Someone gives something to someone: le dio un libro a Ana, me dio un libro."""
    subject, (verb, nouns) = person(dice), dice.pick(TRANSFERS)
    tense = dice.pick(RECENT)
    gift = thing(dice, nouns, subject, GIFTS, 0.15)
    if dice.chance(0.5):
        other = dice.pick(OBJECTS[subject.ref.person])
        es, en = f" {gift.es}", f" {other.object} {gift.en}"
    else:
        receiver = someone_else(dice, subject)
        other = receiver.ref
        es, en = f" {gift.es} {to(receiver.es)}", f" {gift.en} to {receiver.en}"
    if tense == PAST and (verb.unclear[subject.ref.person] or dice.chance(0.4)):
        time_es, time_en = dice.pick(events.PAST_DAYS)
        es, en = f"{es} {time_es}", f"{en} {time_en}"
    return told(Clause(subject, verb, tense, es, en, NOT if dice.chance(0.15) else PLAIN, other.dative))


class Story(NamedTuple):
    """Two deeds with one thing: bought and sold, lost and found."""

    first: Verb
    second: Verb
    nouns: tuple[n.Noun, ...]
    turn: str = "but"
    masses: bool = False


BUY, SELL, READ = action("comprar", "buy bought"), action("vender", "sell sold"), action("leer", "read read")
LOSE, FIND, SEND = (
    action("perder", "lose lost"),
    action("encontrar", "find found"),
    action("enviar", "send sent"),
)
WRITE, RECEIVE = action("escribir", "write wrote written"), action("recibir", "receive")
COOK, EAT, USE = action("cocinar", "cook"), action("comer", "eat ate eaten"), action("usar", "use")
REPAIR, BREAK, WASH = (
    action("reparar", "repair"),
    action("romper", "break broke broken"),
    action("lavar", "wash"),
)
SEE, GREET, CALL = action("ver", "see saw seen"), action("saludar", "greet"), action("llamar", "call")
STORIES = (
    Story(BUY, SELL, n.GOODS),
    Story(LOSE, FIND, n.CARRIED),
    Story(FIND, LOSE, n.CARRIED),
    Story(BUY, LOSE, n.CARRIED),
    Story(WRITE, SEND, n.MAIL, "and"),
    Story(BUY, READ, n.BOOKS, "and"),
    Story(RECEIVE, READ, n.MAIL, "and"),
    Story(COOK, EAT, n.COOKED, "and", True),
    Story(BREAK, REPAIR, n.called("reloj cámara juguete ordenador móvil"), "but"),
    Story(BUY, WASH, n.LAUNDRY, "and"),
)
NOT_DONE = tuple(
    Story(first, second, nouns)
    for first, second, nouns in (
        (BUY, USE, n.called("ordenador cámara móvil taza plato paraguas")),
        (BUY, READ, n.BOOKS),
        (WRITE, SEND, n.MAIL),
        (RECEIVE, READ, n.MAIL),
        (LOSE, FIND, n.CARRIED),
        (BREAK, REPAIR, n.called("reloj cámara juguete ordenador móvil")),
    )
)
KEPT = (
    (TENER, READ, n.READING), (TENER, SELL, n.VEHICLES + n.FURNITURE), (NECESITAR, BUY, n.GOODS),
    (QUERER, BUY, n.GOODS), (TENER, USE, n.called("ordenador cámara móvil")),
)  # fmt: skip
STORY_STYLES: Styles = urn(
    {(A, 0): 6, (THE, 0): 2, (THE, 1): 2, (TWO, 1): 1, (THREE, 1): 1, (THIS, 0): 1, (OWNED, 0): 1}
)


def buys_and_sells(dice: Dice) -> Sentence:
    """Two deeds with one thing: compré un coche, pero lo vendí ayer."""
    subject = person(dice)
    if dice.chance(0.4):
        story = dice.pick(NOT_DONE)
        bought = thing(dice, story.nouns, subject, STORY_STYLES)
        again = Clause(subject.silent(), story.second, PERFECT, "", f" {bought.ref.object}", NOT_YET)
    else:
        story = dice.pick(STORIES)
        bought = thing(dice, story.nouns, subject, STORY_STYLES)
        if story.masses:
            bought = stuff(dice, story.nouns, TELLING)
        es, en = dice.pick(events.PAST_DAYS)
        again = Clause(subject.silent(), story.second, PAST, f" {es}", f" {bought.ref.object} {en}")
    first = state(Clause(subject, story.first, PAST, f" {bought.es}", f" {bought.en}"))
    again = again._replace(clitic=bought.ref.accusative)
    return _together(first, state(again), story.turn)


def _together(first: tuple[str, str], second: tuple[str, str], turn: str) -> Sentence:
    if turn == "and":
        return f"{first[0]} y {second[0]}", f"{first[1]} and {second[1]}", "."
    return f"{first[0]}, pero {second[0]}", f"{first[1]}, but {second[1]}", "."


def wants_not(dice: Dice) -> Sentence:
    """Something one has but does not want to use: tengo el libro, pero no quiero leerlo."""
    subject, (first, second, nouns) = person(dice), dice.pick(KEPT)
    styles: Styles = ((A, 0), (A, 0), (THIS, 0))
    kept = thing(dice, nouns, subject, styles)
    verb, to_ = (QUERER, " to") if first is TENER and dice.chance(0.5) else (PODER, "")
    es, en = f" {second.infinitive}{kept.ref.accusative}", f"{to_} {second.base} {kept.ref.object}"
    again = Clause(subject.silent(), verb, PRESENT, es, en, NOT)
    said = state(Clause(subject, first, PRESENT, f" {kept.es}", f" {kept.en}"))
    return _together(said, state(again), "but")


MEETINGS = ((SEE, GREET), (SEE, CALL))


def meets(dice: Dice) -> Sentence:
    """Two deeds with one person: vi a Ana y la saludé, "I saw Ana and greeted her"."""
    subject = person(dice)
    first, second = dice.pick(MEETINGS)
    other = someone_else(dice, subject)
    es, en = state(Clause(subject, first, PAST, f" {to(other.es)}", f" {other.en}"))
    then = second.es[PAST][subject.ref.person]
    did = second.en[PAST][subject.ref.english_person].main
    return f"{es} y {other.ref.accusative} {then}", f"{en} and{did} {other.ref.object}", "."


VISITING = actions({"ayudar": "help", "llamar": "call", "visitar": "visit"})


def visits_always(dice: Dice) -> Sentence:
    """Someone dear, and what is done for them: quiero a mis abuelas y las visito los domingos."""
    subject = person(dice)
    other = beloved(dice, subject)
    es, en = state(Clause(subject, AMAR, PRESENT, f" {to(other.es)}", f" {other.en}"))
    deed = dice.pick(VISITING)
    time_es, time_en = dice.pick(events.NEUTRAL)
    then = Clause(subject.silent(), deed, PRESENT, f" {time_es}", f" {other.ref.object} {time_en}")
    then = then._replace(clitic=other.ref.accusative)
    return _together((es, en), state(then), "and")
