"""Sentences that put two things side by side: and, but, in order to, before, after.

Dice enter; Spanish, English and the mark at the end leave, still without capitals.
"""

from clearhead.corpora.spanish import adjectives as adj
from clearhead.corpora.spanish import adverbs as when
from clearhead.corpora.spanish import being, events, states
from clearhead.corpora.spanish import nouns as n
from clearhead.corpora.spanish.adverbs import Both
from clearhead.corpora.spanish.clauses import ALWAYS, NEVER, NOT, PLAIN, USUALLY, Clause, state
from clearhead.corpora.spanish.deeds import ACTIONS, EVENTS, MISHAPS, WASHING, WORKS
from clearhead.corpora.spanish.events import SURE
from clearhead.corpora.spanish.experience import likes_in_general
from clearhead.corpora.spanish.phrases import Dice, Phrase, and_, explicit, person
from clearhead.corpora.spanish.predicates import CALM, PLANS, TELLING, Make, a_person, objects
from clearhead.corpora.spanish.statements import Sentence
from clearhead.corpora.spanish.subordinate import BUYING, another, reason
from clearhead.corpora.spanish.things import a_thing
from clearhead.corpora.spanish.verbs import (
    FUTURE,
    GOING,
    PAST,
    PRESENT,
    PROGRESSIVE,
    QUERER,
    SER,
    TENER,
    action,
)

PARALLEL = (states.has, states.lives, being.is_at, being.mood_of, states.wears, states.wants)


def and_another(dice: Dice) -> Sentence:
    """Two people, side by side: Ana tiene un perro y Pedro tiene un gato."""
    subject = explicit(dice, person(dice))
    other = explicit(dice, another(dice, subject))
    which = dice.random()
    if which < 0.45:
        first, second = both_do(dice, subject, other)
    elif which < 0.6:
        first, second = likes_in_general(dice, subject), likes_in_general(dice, other)
    else:
        fact = dice.pick(PARALLEL)
        told = fact(dice, subject, SURE)
        first, second = state(told), state(fact(dice, other, SURE)._replace(tense=told.tense))
    if dice.chance(0.4):
        return f"{first[0]}, pero {second[0]}", f"{first[1]}, but {second[1]}", "."
    return and_(first[0], second[0]), f"{first[1]} and {second[1]}", "."


def both_do(dice: Dice, subject: Phrase, other: Phrase) -> tuple[Both, Both]:
    """The same kind of deed by two people: Ana compró pan y Pedro compró leche."""
    if dice.chance(0.3):
        tense, frame, styles = PROGRESSIVE, dice.pick(ACTIONS), CALM
    else:
        tense, frame, styles = PAST, dice.pick(WORKS + EVENTS + MISHAPS), TELLING
    first = events.clause(subject, frame.deed(dice, subject, styles), tense)
    second = events.clause(other, frame.deed(dice, other, styles), tense)
    if first.en == second.en or not first.en or not second.en or first.es.endswith(("conmigo", "contigo")):
        return both_do(dice, subject, other)
    if tense == PAST:
        often = 1.0 if frame.verb.unclear[subject.ref.person] or frame.verb.unclear[other.ref.person] else 0.3
        second, _ = events.placed(dice, second, events.PASTS[frame.span], often, False)
    return state(first), state(second)


def but_not(dice: Dice) -> Sentence:
    """What someone wants, and what prevents it: quiero comprar un coche, pero no tengo dinero."""
    subject, tense = person(dice), PRESENT if dice.chance(0.6) else PAST
    if dice.chance(0.25):
        es, en, _ = events.doing(dice, subject, PLANS, BUYING)
        second = state(Clause(subject.silent(), TENER, tense, " dinero", " money", NOT))
    else:
        es, en, _ = events.doing(dice, subject)
        second = reason(dice, subject.silent(), tense, True)
    first = state(Clause(subject, QUERER, tense, f" {es}", f" to {en}"))
    return f"{first[0]}, pero {second[0]}", f"{first[1]}, but {second[1]}", "."


CONTRASTS = tuple(
    adj.called(both)
    for both in (
        "bonito caro", "feo barato", "viejo bonito", "nuevo barato", "barato bonito", "pequeño caro",
    )
)  # fmt: skip
HARMONIES = tuple(
    adj.called(both)
    for both in ("bonito barato", "feo caro", "viejo feo", "nuevo caro", "grande caro", "pequeño barato")
)


def two_adjectives(dice: Dice) -> Sentence:
    """La casa es bonita pero cara."""
    subject = a_thing(dice, n.CLOTHES + n.VEHICLES + n.FURNITURE + n.TOOLS)
    form = subject.ref.form
    if dice.chance(0.5):
        (first, second), link, english = dice.pick(CONTRASTS), "pero", "but"
    else:
        (first, second), link, english = dice.pick(HARMONIES), "y", "and"
    es, en = f" {first.es[form]} {link} {second.es[form]}", f" {first.en} {english} {second.en}"
    return (*state(Clause(subject, SER, PRESENT if dice.chance(0.7) else PAST, es, en)), ".")


def nothing_more(dice: Dice, subject: Phrase, styles: object) -> Both:
    """No object."""
    return "", ""


FOOD, THINGS = objects(n.COUNTED_FOOD, n.MASSES), objects(n.CLOTHES + n.TOOLS + n.BOOKS)
PURPOSES: dict[str, tuple[tuple[str, str, Make], ...]] = {
    "mercado": (("comprar", "buy", FOOD),),
    "tienda": (("comprar", "buy", FOOD), ("comprar", "buy", THINGS)),
    "panadería": (
        ("comprar pan", "buy bread", nothing_more),
        ("comprar un pastel", "buy a cake", nothing_more),
    ),
    "biblioteca": (("estudiar", "study", nothing_more), ("leer", "read", objects(n.READING))),
    "parque": (("correr", "run", nothing_more), ("jugar al fútbol", "play soccer", nothing_more)),
    "playa": (("nadar", "swim", nothing_more), ("descansar", "rest", nothing_more)),
    "piscina": (("nadar", "swim", nothing_more),),
    "restaurante": (("cenar", "have dinner", nothing_more), ("comer", "eat", objects((), n.DISHES))),
    "cocina": (
        ("cocinar", "cook", objects((), n.COOKED)),
        ("preparar la cena", "prepare dinner", nothing_more),
    ),
    "hospital": (("visitar", "visit", a_person), ("ver", "see", a_person)),
    "estación": (("tomar el tren", "take the train", nothing_more), ("esperar", "wait for", a_person)),
    "cafetería": (("beber", "drink", objects((), n.DRINKS)), ("desayunar", "have breakfast", nothing_more)),
    "universidad": (("estudiar historia", "study history", nothing_more), ("ver", "see", a_person)),
    "cine": (("ver una película", "watch a movie", nothing_more),),
}
WHERE_TO = tuple(PURPOSES)
GO = action("ir", "go went gone")


def in_order_to(dice: Dice) -> Sentence:
    """Going somewhere to do something: fui al mercado para comprar pan."""
    subject, place = person(dice), dice.pick(WHERE_TO)
    es, en, make = dice.pick(PURPOSES[place])
    what, object_ = make(dice, subject, PLANS)
    where, there = when.TO[place]
    tense = dice.pick((PAST, PAST, FUTURE, GOING))
    return (
        *state(Clause(subject, GO, tense, f" {where} para {es}{what}", f" {there} to {en}{object_}")),
        ".",
    )


# The Spanish infinitive without its pronoun, the English -ing form, whether it is reflexive.
AROUND = (
    ("comer", "eating", False), ("cenar", "having dinner", False), ("desayunar", "having breakfast", False),
    ("trabajar", "working", False), ("estudiar", "studying", False), ("duchar", "taking a shower", True),
    ("acostar", "going to bed", True), ("salir", "going out", False), ("correr", "running", False),
    ("nadar", "swimming", False), ("cocinar", "cooking", False),
)  # fmt: skip
CHORES = tuple(
    frame
    for frame in WORKS
    if frame.verb.infinitive
    in ("leer", "escribir", "lavar", "limpiar", "escuchar", "tocar", "llamar", "beber")
)


def before_after(dice: Dice) -> Sentence:
    """One thing before or after another: me lavo las manos antes de comer."""
    subject, (es, en, is_reflexive) = person(dice), dice.pick(AROUND)
    es += subject.ref.reflexive if is_reflexive else ""
    order, english = dice.pick((("antes de", "before"), ("después de", "after")))
    frame = dice.pick(CHORES + WASHING * 3)
    if dice.chance(0.5):
        mood = dice.pick((PLAIN, ALWAYS, NEVER, USUALLY))
        first = events.clause(subject, events.habitual(dice, subject, frame), PRESENT, mood)
    else:
        first = events.clause(subject, frame.deed(dice, subject, CALM), dice.pick((FUTURE, GOING)))
    told = state(first)
    return f"{told[0]} {order} {es}", f"{told[1]} {english} {en}", "."
