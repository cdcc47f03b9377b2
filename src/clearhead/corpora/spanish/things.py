"""Sentences about things and places: what they are like, where they are, what there is.

Dice enter; clauses leave, or Spanish, English and the mark at the end, still without capitals.
"""

from clearhead.corpora.spanish import adjectives as adj
from clearhead.corpora.spanish import being
from clearhead.corpora.spanish import nouns as n
from clearhead.corpora.spanish.adverbs import SPOTS, at
from clearhead.corpora.spanish.clauses import ALSO, NOT, PLAIN, Clause, Mood
from clearhead.corpora.spanish.inflection import comparative
from clearhead.corpora.spanish.phrases import (
    FEW,
    HE,
    MANY,
    NAMES,
    SEVERAL,
    SOME,
    THAT,
    THE,
    THIS,
    A,
    Determiner,
    Dice,
    Phrase,
    and_,
    joined,
    of,
    relative,
    third,
    urn,
)
from clearhead.corpora.spanish.predicates import OWN, OWNED, Styles, clashes, thing
from clearhead.corpora.spanish.statements import Sentence, told
from clearhead.corpora.spanish.verbs import COSTAR, ESTAR_BE, FUTURE, PAST, PRESENT, SER

ESTAR_WORDS = frozenset(
    one.en
    for one in adj.STATES + adj.OPENINGS + adj.FILLINGS + adj.SERVINGS + adj.MOODS + adj.called("salado")
)
SUBJECT_STYLES: Styles = urn(
    {
        (THE, 0): 4, (THE, 1): 2, (THIS, 0): 3, (THIS, 1): 1, (THAT, 0): 2, (THAT, 1): 1, (OWN, 0): 4,
        (OWN, 1): 1, (OWNED, 0): 4,
    }
)  # fmt: skip
PLACE_STYLES: Styles = ((THE, 0), (THE, 0), (THE, 0), (THIS, 0), (THAT, 0))
NOBODY = Phrase("", "-", HE._replace(own=None))
DESCRIBED = (
    n.READING + n.MAIL + n.CLOTHES + n.VEHICLES + n.FURNITURE + n.TOOLS + n.BELONGINGS + n.TREASURES + n.DOORS
    + n.FILMS + n.SONGS + n.STUDY + n.IDEAS + n.BEASTS + n.FRUITS + n.SNACKS
)  # fmt: skip
SHUT = n.called("puerta ventana")
BOXES = n.called("botella caja") + n.called("bolsa mochila maleta cartera")
UNGRADED = frozenset(one.en for one in adj.COLORS + adj.OPENINGS + adj.FILLINGS) | {"broken", "delicious"}
LOOK_MOODS: tuple[Mood, ...] = urn({PLAIN: 12, NOT: 4, ALSO: 1})


def a_thing(dice: Dice, nouns: tuple[n.Noun, ...], styles: Styles = SUBJECT_STYLES) -> Phrase:
    """Something as a subject, without adjective."""
    return thing(dice, nouns, NOBODY, styles, 0.0)


def looks(dice: Dice) -> Clause:
    """What something is like."""
    which = dice.random()
    if which < 0.6:
        noun = dice.pick(DESCRIBED)
        return described(dice, a_thing(dice, (noun,)), dice.pick(noun.adjectives))
    if which < 0.7:
        place = dice.pick(n.BUILDING + n.ROOMS)
        return described(dice, a_thing(dice, (place,), PLACE_STYLES), dice.pick(place.adjectives))
    if which < 0.78:
        return described(dice, a_thing(dice, n.OPEN_HOURS, PLACE_STYLES), dice.pick(adj.OPENINGS))
    if which < 0.84:
        return described(dice, a_thing(dice, SHUT), dice.pick(adj.OPENINGS))
    if which < 0.9:
        return described(dice, a_thing(dice, BOXES), dice.pick(adj.FILLINGS))
    meal = joined(dice.pick(n.SERVED), dice.pick((THE, THE, THIS, THAT)), 0, None, False)
    return described(dice, meal, dice.pick(adj.SERVINGS))


def described(dice: Dice, subject: Phrase, adjective: adj.Adjective) -> Clause:
    """Something and its adjective, with ser or estar as the adjective asks."""
    verb = ESTAR_BE if adjective.en in ESTAR_WORDS else SER
    mood, tense = dice.pick(LOOK_MOODS), PRESENT if dice.chance(0.75) else PAST
    if adjective.en in UNGRADED:
        es, en = f" {adjective.es[subject.ref.form]}", f" {adjective.en}"
        return Clause(subject, verb, tense, es, en, mood, "", True)
    return being.described(dice, subject, verb, adjective, mood, tense)


AMOUNTS = tuple((n.COUNTING | n.TEENS | n.TENS | n.HUNDRED).items())


def costs(dice: Dice) -> Clause:
    """What something costs."""
    es, en = dice.pick(AMOUNTS)
    subject = a_thing(dice, n.GOODS)
    return Clause(
        subject, COSTAR, PRESENT, f" {es} euros", f" {en} euros", dice.pick((PLAIN, PLAIN, PLAIN, NOT))
    )


THINGS_AT: Styles = urn({(THE, 0): 4, (THE, 1): 3, (OWN, 0): 4, (OWN, 1): 2, (OWNED, 0): 3})
RELATIONS = (
    ("al lado", "next to"), ("cerca", "near"), ("lejos", "far from"), ("enfrente", "across from"),
    ("detrás", "behind"), ("delante", "in front of"),
)  # fmt: skip
LANDMARKS = n.called(
    "parque museo biblioteca restaurante iglesia mercado hotel teatro castillo plaza tienda hospital oficina"
    " estación banco cine universidad farmacia panadería piscina fábrica playa"
)


def lies(dice: Dice) -> Clause:
    """Where something or some place is."""
    mood = dice.pick((PLAIN, PLAIN, PLAIN, NOT))
    if dice.chance(0.6):
        es, en = dice.pick(SPOTS)
        tense = PRESENT if dice.chance(0.6) else PAST
        return Clause(
            a_thing(dice, n.CARRIED + n.BOOKS, THINGS_AT), ESTAR_BE, tense, f" {es}", f" {en}", mood
        )
    first, second = _two(dice, LANDMARKS)
    subject, other = joined(first, THE, 0, None, False), joined(second, THE, 0, None, False)
    if dice.chance(0.2):
        third_one = dice.pick([place for place in LANDMARKS if place is not first and place is not second])
        last = joined(third_one, THE, 0, None, False)
        es, en = f"entre {and_(other.es, last.es)}", f"between {other.en} and {last.en}"
    else:
        es, en = dice.pick(RELATIONS)
        es, en = f"{es} {of(other.es)}", f"{en} {other.en}"
    return Clause(subject, ESTAR_BE, PRESENT, f" {es}", f" {en}", mood)


def _two(dice: Dice, nouns: tuple[n.Noun, ...]) -> tuple[n.Noun, n.Noun]:
    first, second = dice.pick(nouns), dice.pick(nouns)
    while second is first:
        second = dice.pick(nouns)
    return first, second


SEEN: tuple[Determiner, ...] = urn({A: 6, MANY: 2, SOME: 1, SEVERAL: 1}) + FEW
HAY = {PRESENT: ("hay", "is", "are"), PAST: ("había", "was", "were"), FUTURE: ("habrá", "will be", "will be")}
YARDS = at("parque plaza jardín playa granja calle mercado restaurante tienda estación escuela hotel")


def exists(dice: Dice, asked: bool = False) -> Sentence:
    """There is, there was, there will be; asked: is there?"""
    form, is_, are = HAY[dice.pick((PRESENT, PRESENT, PAST, FUTURE))]
    nouns, places = (n.PEOPLE + n.PETS, YARDS) if dice.chance(0.5) else (n.CARRIED + n.BOOKS, SPOTS)
    noun, (where, there) = dice.pick(nouns), dice.pick(places)
    if not asked and dice.chance(0.2):
        return f"no {form} {noun.es[1]} {where}", f"there {are} no {noun.en[1]} {there}", "."
    determiner = dice.pick((A, MANY)) if asked else dice.pick(SEEN)
    plural = int(determiner is not A)
    adjective = dice.pick(noun.adjectives) if noun.adjectives and dice.chance(0.2) else None
    phrase = joined(noun, determiner, plural, adjective, False)
    aux, _, rest = (are if plural else is_).partition(" ")
    be = f" {rest}" if rest else ""
    if asked:
        return f"{form} {phrase.es} {where}", f"{aux} there{be} {phrase.en} {there}", "?"
    return f"{form} {phrase.es} {where}", f"there {aux}{be} {phrase.en} {there}", "."


ADMIRED = (
    n.VEHICLES
    + n.CLOTHES
    + n.PETS
    + n.FURNITURE
    + n.called("flor planta vela cuadro foto collar")
    + n.FILMS
    + n.SONGS
    + n.READING
    + n.BUILDING
)
LANDMARK_KINDS = n.called("parque museo biblioteca restaurante iglesia mercado hotel teatro")
RIVALS = (n.VEHICLES, n.CLOTHES, n.FURNITURE, n.TOOLS, n.READING, n.FILMS, LANDMARK_KINDS, n.BELONGINGS)


def exclaims(dice: Dice) -> Sentence:
    """¡Qué casa tan bonita! What a pretty house!"""
    noun = dice.pick(ADMIRED)
    adjective = dice.pick(noun.adjectives)
    while adjective.en in UNGRADED or adjective.en == "new":
        adjective = dice.pick(noun.adjectives)
    if dice.chance(0.3):
        form = noun.feminine + 2
        return f"qué {noun.es[1]} tan {adjective.es[form]}", f"what {adjective.en} {noun.en[1]}", "!"
    es, en = adjective.es[int(noun.feminine)], f"what {adjective.an} {adjective.en} {noun.en[0]}"
    return f"qué {noun.es[0]} tan {es}", en, "!"


IDENTIFIED = n.CARRIED + n.CLOTHES + n.VEHICLES + n.FURNITURE + n.PETS + n.READING
PRAISED = n.READING + n.FILMS + n.SONGS + n.called("restaurante hotel museo")


def identifies(dice: Dice) -> Sentence:
    """Esta es mi hermana, "This is my sister"; es un buen libro, "It's a good book"."""
    if dice.chance(0.25):
        phrase = joined(dice.pick(PRAISED), A, 0, dice.pick(adj.GOOD), False)
        return f"es {phrase.es}", f"it's {phrase.en}", "."
    phrase = relative(dice) if dice.chance(0.4) else a_thing(dice, IDENTIFIED, WHOSE)
    plural, form = int(phrase.ref.person == 5), phrase.ref.form
    determiner = dice.pick((THIS, THAT))
    no, isnt = ("no ", "n't") if dice.chance(0.2) else ("", "")
    be, is_ = ("son", "are") if plural else ("es", "is")
    return (
        f"{determiner.es[form]} {no}{be} {phrase.es}",
        f"{determiner.en[plural]} {is_}{isnt} {phrase.en}",
        ".",
    )


WHOSE: Styles = ((OWN, 0), (OWN, 1), (OWNED, 0), (OWNED, 1))
THAN = (("yo", "me"), ("tú", "you"))
COMPARED_PEOPLE = tuple(one for one in adj.PEOPLE if one.en not in ("famous",))


def compares(dice: Dice) -> Sentence:
    """More, as much: Ana es más alta que Pedro, "Ana is taller than Pedro"."""
    if dice.chance(0.6):
        subject, adjective = third(dice), dice.pick(COMPARED_PEOPLE)
        es, en = _rival(dice, subject)
    else:
        first, second = _two(dice, dice.pick(RIVALS))
        subject, other = joined(first, THE, 0, None, False), joined(second, THE, 0, None, False)
        es, en = other.es, other.en
        adjective = dice.pick(first.adjectives)
        while adjective.en in UNGRADED or adjective in adj.SIZES:
            adjective = dice.pick(first.adjectives)
    verb = ESTAR_BE if adjective.en in ESTAR_WORDS else SER
    word = adjective.es[subject.ref.form]
    if dice.chance(0.3):
        es, en = f" tan {word} como {es}", f" as {adjective.en} as {en}"
    else:
        es, en = f" más {word} que {es}", f" {comparative(adjective.en)} than {en}"
    return told(Clause(subject, verb, PRESENT, es, en, dice.pick((PLAIN, PLAIN, PLAIN, NOT))))


def _rival(dice: Dice, subject: Phrase) -> tuple[str, str]:
    if dice.chance(0.25):
        es, en = dice.pick(THAN)
        return es, en
    other = dice.pick(NAMES) if dice.chance(0.5) else relative(dice)
    while clashes(subject, other):
        other = dice.pick(NAMES)
    return other.es, other.en
