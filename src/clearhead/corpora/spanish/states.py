"""How things are with someone: what people have, want, know, feel, are and must do, where they live.

A subject enters; a `Clause` leaves, which `state` turns into a statement and `ask` into a question.
"""

from clearhead.corpora.spanish import adverbs as when
from clearhead.corpora.spanish import nouns as n
from clearhead.corpora.spanish.clauses import (
    ALREADY,
    ALSO,
    NEITHER,
    NO_LONGER,
    NOT,
    NOT_YET,
    ONLY,
    PLAIN,
    STILL,
    Clause,
    Mood,
)
from clearhead.corpora.spanish.deeds import SKILLS
from clearhead.corpora.spanish.events import doing
from clearhead.corpora.spanish.phrases import (
    ANOTHER,
    BARE,
    HUMANS,
    MORE,
    NAMES,
    OWNERS,
    THAT,
    THE,
    THIS,
    A,
    Dice,
    Phrase,
    joined,
    relatives,
    to,
    urn,
)
from clearhead.corpora.spanish.predicates import (
    CALM,
    COUNT,
    GENERAL,
    HAVING,
    KNOWN,
    OWN,
    OWNED,
    PLANS,
    Styles,
    a_stranger,
    clashes,
    pair,
    possessive,
    someone_else,
    thing,
)
from clearhead.corpora.spanish.verbs import (
    AMAR,
    CONOCER,
    DEBER,
    ENTENDER,
    FEEL_LIKE,
    FUTURE,
    NECESITAR,
    ODIAR,
    PAST,
    PODER,
    PREFERIR,
    PRESENT,
    QUERER,
    RECORDAR,
    SABER,
    TENER,
    TENER_BE,
    VIVIR,
    WEAR,
    Verb,
)

LASTING: tuple[Mood, ...] = urn({PLAIN: 12, NOT: 3, NOT_YET: 1, NO_LONGER: 1, STILL: 1, ALSO: 1, NEITHER: 1})
WANTING: tuple[Mood, ...] = (*LASTING, ONLY)
STANDING: tuple[Mood, ...] = urn({PLAIN: 12, NOT: 4, ALSO: 1, NEITHER: 1})
CHILDREN = ("boy", "boys", "girl", "girls", "child", "children", "son", "sons", "daughter", "daughters")
HAD = (("tiempo", "time"), ("dinero", "money"), ("trabajo", "work"))
NEEDED = (*HAD, ("ayuda", "help"))
THOUGHTS = n.IDEAS + n.called("pregunta problema examen")
OWNED_THINGS = n.VEHICLES + n.TOOLS + n.CLOTHES + n.BELONGINGS + n.BOOKS + n.PETS + n.PETS
STATE_TENSES = urn({PRESENT: 7, PAST: 3})
HAVE_TENSES = urn({PRESENT: 7, PAST: 2, FUTURE: 1})


def has(dice: Dice, subject: Phrase, moods: tuple[Mood, ...] = LASTING) -> Clause:
    """What or whom someone has."""
    mood = dice.pick(moods)
    which = dice.random()
    if which < 0.15 and (mood is PLAIN or mood is ALSO):
        is_child = subject.en.endswith(CHILDREN)
        phrase = relatives(dice, n.PEERS) if is_child else relatives(dice)
    elif which < 0.25:
        es, en = dice.pick(HAD)
        much = dice.chance(0.4)
        phrase = Phrase(f"mucho {es}" if much else es, f"a lot of {en}" if much else en, subject.ref)
    elif which < 0.35 and not mood.denies:
        phrase = thing(dice, THOUGHTS, subject, ((A, 0), (ANOTHER, 0)))
    else:
        styles: Styles = ((A, 0), (A, 0), (A, 0), (OWN, 0)) if mood.denies else HAVING
        phrase = thing(dice, OWNED_THINGS, subject, styles)
    steady = mood is NO_LONGER or mood is STILL or phrase.ref in HUMANS
    tense = PRESENT if steady else dice.pick(HAVE_TENSES)
    return Clause(subject, TENER, tense, " " + phrase.es, " " + phrase.en, mood)


WANTED: Styles = ((A, 0), (A, 0), (COUNT, 1), (THIS, 0), (THAT, 0))


def wants(dice: Dice, subject: Phrase, moods: tuple[Mood, ...] = WANTING) -> Clause:
    """What someone wants or needs."""
    mood = dice.pick(moods)
    verb = QUERER if dice.chance(0.6) else NECESITAR
    which = dice.random()
    if which < 0.3:
        determiner = MORE if dice.chance(0.25) else BARE
        phrase = joined(dice.pick(n.DRINKS + n.EDIBLE), determiner, 0, None, False)
    elif which < 0.4:
        phrase = pair(dice, n.PAIRS, subject, GENERAL)
    elif which < 0.5 and verb is NECESITAR:
        es, en = dice.pick(NEEDED)
        phrase = Phrase(es, en, subject.ref)
    else:
        phrase = thing(dice, n.GOODS + n.COUNTED_FOOD, subject, CALM if mood.denies else WANTED)
    return Clause(subject, verb, dice.pick(STATE_TENSES), " " + phrase.es, " " + phrase.en, mood)


ABODES = n.called("pueblo ciudad isla castillo") + n.called("casa granja")
INSIDE = {"isla": "on", "granja": "on"}


def lives(dice: Dice, subject: Phrase, moods: tuple[Mood, ...] = LASTING) -> Clause:
    """Where or with whom someone lives."""
    which = dice.random()
    if which < 0.65:
        es, en = dice.pick(when.IN_TOWNS)
    elif which < 0.85:
        noun = dice.pick(ABODES)
        phrase = joined(noun, A, 0, dice.pick(noun.adjectives) if dice.chance(0.8) else None, False)
        es, en = f"en {phrase.es}", f"{INSIDE.get(noun.es[0], 'in')} {phrase.en}"
    else:
        other = someone_else(dice, subject)
        es, en = f"con {other.es}", f"with {other.en}"
    return Clause(subject, VIVIR, dice.pick(STATE_TENSES), " " + es, " " + en, dice.pick(moods))


TOWNS = tuple((n.CITIES | n.COUNTRIES).items())
SUBJECTS: Styles = ((THE, 0), (THE, 1), (THIS, 0), (THAT, 0), (OWNED, 0))
ACQUAINTED: tuple[Mood, ...] = urn({PLAIN: 6, NOT: 3, NOT_YET: 1, ALSO: 1})


def knows(dice: Dice, subject: Phrase, moods: tuple[Mood, ...] = ACQUAINTED) -> Clause:
    """Whom or which place someone knows, what someone understands or remembers."""
    which = dice.random()
    if which < 0.4:
        verb, (es, en) = CONOCER, a_stranger(dice, subject, CALM)
    elif which < 0.55:
        place, english = dice.pick(TOWNS)
        verb, es, en = CONOCER, f" {place}", f" {english}"
    else:
        verb = ENTENDER if dice.chance(0.6) else RECORDAR
        phrase = thing(dice, n.STUDY + n.IDEAS, subject, SUBJECTS, 0.1)
        es, en = " " + phrase.es, " " + phrase.en
    return Clause(subject, verb, dice.pick(STATE_TENSES), es, en, dice.pick(moods))


LOVING: tuple[Mood, ...] = urn({PLAIN: 8, NOT: 1, NO_LONGER: 1, STILL: 1, ALSO: 1})


def loves(dice: Dice, subject: Phrase, moods: tuple[Mood, ...] = LOVING) -> Clause:
    """Whom someone loves."""
    phrase = beloved(dice, subject)
    return Clause(subject, AMAR, PRESENT, f" {to(phrase.es)}", f" {phrase.en}", dice.pick(moods))


def beloved(dice: Dice, subject: Phrase) -> Phrase:
    """Someone near the subject."""
    if dice.chance(0.3):
        phrase = dice.pick(NAMES)
    elif dice.chance(0.3):
        phrase = joined(dice.pick(n.MANY_RELATIVES), possessive(dice, subject), 1, None, True)
    else:
        phrase = joined(dice.pick(n.NEAR), possessive(dice, subject), 0, None, True)
    while clashes(subject, phrase):
        phrase = dice.pick(NAMES)
    return phrase


def wears(dice: Dice, subject: Phrase, moods: tuple[Mood, ...] = STANDING) -> Clause:
    """What someone is wearing: the present in Spanish, the progressive in English."""
    if subject.ref.person > 2 or dice.chance(0.3):
        noun = dice.pick(n.PAIRS + n.CLOTHES if subject.ref.person > 2 else n.PAIRS)
        phrase = joined(noun, BARE, 1, dice.pick(noun.adjectives) if dice.chance(0.6) else None, False)
    else:
        styles: Styles = ((A, 0), (A, 0), (A, 0), (THIS, 0), (OWN, 0))
        phrase = thing(dice, n.CLOTHES, subject, styles, 0.6)
    return Clause(subject, WEAR, dice.pick(STATE_TENSES), " " + phrase.es, " " + phrase.en, dice.pick(moods))


PLEASURES = "libro revista novela poema película flor planta"
GENERICS = (
    tuple((one, 0) for one in n.EDIBLE + n.DRINKS + n.SPORTS + n.SUBJECTS + n.SEASONS + n.NATURE_WORDS)
    + tuple((one, 1) for one in n.COUNTED_FOOD + n.BEASTS + n.EGGS + n.called(PLEASURES))
)  # fmt: skip


def generic(dice: Dice) -> tuple[Phrase, int]:
    """Something in general: the article in Spanish, none in English. Also the number of the Spanish verb."""
    noun, plural = dice.pick(GENERICS)
    if noun.es[0].endswith("áticas"):
        return Phrase("las matemáticas", "math", joined(noun, THE, 1, None, False).ref), 1
    phrase = joined(noun, THE, plural, None, False)
    return Phrase(phrase.es, phrase.en[4:], phrase.ref), plural


def prefers(dice: Dice, subject: Phrase, moods: tuple[Mood, ...] = STANDING) -> Clause:
    """What someone prefers or hates in general."""
    phrase, _ = generic(dice)
    if dice.chance(0.5):
        return Clause(subject, PREFERIR, dice.pick(STATE_TENSES), f" {phrase.es}", f" {phrase.en}")
    return Clause(subject, ODIAR, dice.pick(STATE_TENSES), f" {phrase.es}", f" {phrase.en}", dice.pick(moods))


FEELINGS = (
    ("hambre", "mucha hambre", "hungry"), ("sed", "mucha sed", "thirsty"), ("frío", "mucho frío", "cold"),
    ("calor", "mucho calor", "hot"), ("sueño", "mucho sueño", "sleepy"), ("miedo", "mucho miedo", "scared"),
)  # fmt: skip
FEARS = n.called("perro gato caballo") + n.called("araña serpiente ratón león oso")


def feels(dice: Dice, subject: Phrase, moods: tuple[Mood, ...] = LASTING) -> Clause:
    """The idioms of tener: hungry, cold, in a hurry, scared of spiders, right, lucky."""
    which, mood = dice.random(), dice.pick(moods)
    if which < 0.7:
        es, much, en = dice.pick(FEELINGS)
        if not mood.denies and dice.chance(0.25):
            es, en = much, f"very {en}"
    elif which < 0.8:
        es, en = "prisa", "in a hurry"
    elif which < 0.88:
        noun = dice.pick(FEARS)
        es, en = f"miedo a {'las' if noun.feminine else 'los'} {noun.es[1]}", f"scared of {noun.en[1]}"
    else:
        es, en = dice.pick((("razón", "right"), ("suerte", "lucky"), ("cuidado", "careful")))
        mood = dice.pick((PLAIN, PLAIN, NOT))
    return Clause(
        subject, TENER_BE, dice.pick(STATE_TENSES), f" {es}", f" {en}", mood, "", not 0.8 <= which < 0.88
    )


CHILDHOOD = tuple((n.COUNTING | n.TEENS).items())
AGES = tuple((n.COUNTING | n.TEENS | n.TENS).items())
AGE_MOODS: tuple[Mood, ...] = (PLAIN, PLAIN, PLAIN, NOT, ALREADY, NOT_YET)
YOUNG = n.called("hijo hija sobrino sobrina hermano hermana primo")


def aged(dice: Dice, subject: Phrase, moods: tuple[Mood, ...] = AGE_MOODS) -> Clause:
    """How old someone is."""
    if subject.es and subject not in NAMES:
        subject = joined(dice.pick(YOUNG), dice.pick(OWNERS), 0, None, True)
        es, en = dice.pick(CHILDHOOD)
    else:
        es, en = dice.pick(AGES)
    return Clause(subject, TENER_BE, PRESENT, f" {es} años", f" {en} years old", dice.pick(moods))


# Verbs with an infinitive

OFTEN_NOW = (PRESENT, PRESENT, PRESENT, PAST)
LINKS: tuple[tuple[Verb, str, str, tuple[int, ...]], ...] = (
    (QUERER, "", " to", OFTEN_NOW),
    (QUERER, "", " to", OFTEN_NOW),
    (PODER, "", "", (PRESENT, PRESENT, PAST, FUTURE)),
    (PODER, "", "", (PRESENT, PRESENT, PAST, FUTURE)),
    (TENER, " que", " to", (PRESENT, PRESENT, PAST, FUTURE)),
    (TENER, " que", " to", (PRESENT, PRESENT, PAST, FUTURE)),
    (NECESITAR, "", " to", OFTEN_NOW),
    (PREFERIR, "", " to", (PRESENT,)),
    (DEBER, "", "", (PRESENT,)),
)


def must_do(dice: Dice, subject: Phrase, moods: tuple[Mood, ...] = STANDING) -> Clause:
    """What someone wants to, can, must, has to, needs to, knows how to or feels like doing."""
    which, mood = dice.random(), dice.pick(moods)
    if which < 0.1:
        es, en = dice.pick(SKILLS)
        return Clause(subject, SABER, dice.pick(STATE_TENSES), f" {es}", f" how to {en}", mood)
    es, en, ing = doing(dice, subject, KNOWN if mood.denies else PLANS)
    if which < 0.2:
        return Clause(subject, FEEL_LIKE, dice.pick(STATE_TENSES), f" ganas de {es}", f" {ing}", mood)
    verb, link, to_, tenses = dice.pick(LINKS)
    mood = PLAIN if verb is PREFERIR else mood
    return Clause(subject, verb, dice.pick(tenses), f"{link} {es}", f"{to_} {en}", mood)
