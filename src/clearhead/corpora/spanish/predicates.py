"""How a verb is completed: with the objects, places and companions that make sense with them.

A subject enters; a `Deed` leaves: a verb with its complement in both languages. `deeds` lists the verbs.
"""

from collections.abc import Callable
from typing import NamedTuple

from clearhead.corpora.spanish import nouns as n
from clearhead.corpora.spanish.adverbs import MANNERS, SPOTS, Both
from clearhead.corpora.spanish.nouns import Noun
from clearhead.corpora.spanish.phrases import (
    ALL,
    ANOTHER,
    BARE,
    COUNTS,
    MANY,
    MORE,
    NAMES,
    OWNERS,
    SEVERAL,
    SOME,
    THAT,
    THE,
    THIS,
    YOU,
    A,
    Determiner,
    Dice,
    I,
    Phrase,
    character,
    joined,
    owned,
    somebody,
    to,
    urn,
)
from clearhead.corpora.spanish.verbs import Verb

COUNT, OWN, OWNED = "count", "own", "owned"  # three apples; my apple; Ana's apple
Style = tuple[Determiner | str, int]  # what comes before a noun, and whether the noun is plural
Styles = tuple[Style, ...]

# How things are told: with all there is, when something happened;
TELLING: Styles = urn(
    {
        (A, 0): 9, (THE, 0): 6, (THE, 1): 3, (THIS, 0): 2, (THAT, 0): 1, (THIS, 1): 1, (THAT, 1): 1,
        (COUNT, 1): 4, (OWN, 0): 4, (OWN, 1): 2, (OWNED, 0): 3, (OWNED, 1): 1, (ANOTHER, 0): 1, (SOME, 1): 1,
        (SEVERAL, 1): 1, (MANY, 1): 1, (ALL, 1): 1,
    }
)  # fmt: skip
# without numbers, when it is denied, asked or still going on;
CALM: Styles = urn(
    {
        (A, 0): 5, (THE, 0): 4, (THE, 1): 2, (THIS, 0): 2, (THAT, 0): 1, (THIS, 1): 1, (OWN, 0): 3,
        (OWNED, 0): 2,
    }
)  # fmt: skip
# what is planned, what is known already, what has never been;
PLANS: Styles = urn(
    {(A, 0): 8, (THE, 0): 5, (THE, 1): 2, (THIS, 0): 2, (COUNT, 1): 3, (OWN, 0): 3, (OWNED, 0): 2}
)
KNOWN: Styles = urn(
    {(THE, 0): 4, (THE, 1): 3, (THIS, 0): 2, (THAT, 1): 1, (OWN, 0): 2, (OWN, 1): 2, (OWNED, 0): 3}
)
NEVER_YET: Styles = urn({(A, 0): 6, (THIS, 0): 2, (OWNED, 0): 1})
# things in general, and one's own things, for habits;
GENERAL: Styles = ((BARE, 1),)
HABIT: Styles = urn({(THE, 0): 2, (OWN, 0): 4, (BARE, 1): 1, (OWN, 1): 1})
# what belongs to nobody, and what one may have.
PUBLIC_CALM: Styles = urn({(A, 0): 6, (THE, 0): 5, (THE, 1): 2, (THIS, 0): 2, (THAT, 0): 2})
PUBLIC: Styles = (*PUBLIC_CALM, (COUNT, 1), (SEVERAL, 1), (MANY, 1))
HAVING: Styles = urn(
    {(A, 0): 8, (COUNT, 1): 4, (MANY, 1): 2, (ANOTHER, 0): 1, (OWN, 0): 2, (OWN, 1): 1, (OWNED, 0): 1}
)
MASS_TELLING = urn({BARE: 5, THE: 4, MANY: 1, MORE: 1})
MASS_CALM = urn({BARE: 3, THE: 2})
PAIR_STYLES = urn({THE: 3, THIS: 2, THAT: 1, BARE: 3, OWN: 3})


class Deed(NamedTuple):
    """A verb with what follows it."""

    verb: Verb
    es: str = ""
    en: str = ""
    clitic: str = ""


Make = Callable[[Dice, Phrase, Styles], Both]
DAY, SOON, ANY, LONG, ROUTINE = range(5)


class VerbFrame(NamedTuple):
    """A verb, what may follow it, and the span in which its times are counted."""

    verb: Verb
    make: Make
    span: int = DAY
    is_reflexive: bool = False

    def deed(self, dice: Dice, subject: Phrase, styles: Styles) -> Deed:
        """This verb with a complement for this subject."""
        es, en = self.make(dice, subject, styles)
        return Deed(self.verb, es, en, subject.ref.reflexive if self.is_reflexive else "")


def possessive(dice: Dice, subject: Phrase) -> Determiner:
    """Mostly the subject's own; su only ever means the subject's."""
    own = subject.ref.own
    return own if own is not None and dice.chance(0.6) else dice.pick(OWNERS)


def clashes(subject: Phrase, other: Phrase) -> bool:
    """Whether someone would meet himself: Ana and Ana's book."""
    return any(
        (len(mine) > 3 or mine[:1].isupper()) and mine != "I" and (mine in other.en or yours in mine)
        for mine in subject.en.split(" and ")
        for yours in other.en.split(" and ")
    )


def thing(
    dice: Dice, nouns: tuple[Noun, ...], subject: Phrase, styles: Styles, described: float = 0.25
) -> Phrase:
    """A phrase for one of these nouns, in one of these styles."""
    noun = dice.pick(nouns)
    style, plural = dice.pick(styles)
    if style is OWNED:
        phrase = owned(dice, noun, plural)
        while clashes(subject, phrase):
            phrase = owned(dice, noun, plural)
        return phrase
    if style is COUNT:
        determiner = dice.pick(COUNTS)
    elif style is OWN:
        determiner = possessive(dice, subject)
    else:
        assert isinstance(style, Determiner)
        determiner = style
    adjective = dice.pick(noun.adjectives) if noun.adjectives and dice.chance(described) else None
    return joined(noun, determiner, plural, adjective, False)


def stuff(dice: Dice, nouns: tuple[Noun, ...], styles: Styles) -> Phrase:
    """A phrase for something that is not counted: bread, el agua, a lot of milk."""
    noun = dice.pick(nouns)
    if styles is KNOWN:
        determiner = THE
    elif styles is GENERAL or styles is HABIT or styles is NEVER_YET:
        determiner = BARE
    else:
        determiner = dice.pick(MASS_TELLING if styles is TELLING else MASS_CALM)
    return joined(noun, determiner, 0, None, False)


def objects(counted: tuple[Noun, ...], masses: tuple[Noun, ...] = (), pairs: tuple[Noun, ...] = ()) -> Make:
    """Any of these things as an object."""
    total = len(counted) + len(masses) + len(pairs)
    share_of_masses, share_of_pairs = len(masses) / total, len(pairs) / total

    def make(dice: Dice, subject: Phrase, styles: Styles) -> Both:
        which = dice.random()
        if which < share_of_masses:
            phrase = stuff(dice, masses, styles)
        elif which < share_of_masses + share_of_pairs:
            phrase = pair(dice, pairs, subject, styles)
        else:
            phrase = thing(dice, counted, subject, styles)
        return " " + phrase.es, " " + phrase.en

    return make


def sights(nouns: tuple[Noun, ...]) -> Make:
    """Any of these things, which belong to nobody in particular."""

    def make(dice: Dice, subject: Phrase, styles: Styles) -> Both:
        fitting = GENERAL if styles is GENERAL else PUBLIC if styles is TELLING else PUBLIC_CALM
        phrase = thing(dice, nouns, subject, fitting)
        return " " + phrase.es, " " + phrase.en

    return make


def pair(dice: Dice, pairs: tuple[Noun, ...], subject: Phrase, styles: Styles) -> Phrase:
    """Something of which there are two: the gloves, mis zapatos."""
    style = BARE if styles is GENERAL else dice.pick(PAIR_STYLES)
    determiner = style if isinstance(style, Determiner) else possessive(dice, subject)
    noun = dice.pick(pairs)
    return joined(noun, determiner, 1, dice.pick(noun.adjectives) if dice.chance(0.25) else None, False)


def someone_else(dice: Dice, subject: Phrase) -> Phrase:
    """A person who is not the subject, often of the subject's own family."""
    own = subject.ref.own
    if own is not None and dice.chance(0.25):
        plural = dice.chance(0.3)
        return joined(dice.pick(n.RELATIVES if plural else n.FAMILY), own, int(plural), None, True)
    phrase = somebody(dice)
    while clashes(subject, phrase):
        phrase = somebody(dice)
    return phrase


def a_person(dice: Dice, subject: Phrase, styles: Styles) -> Both:
    """Someone as an object, with the personal a."""
    phrase = someone_else(dice, subject)
    return " " + to(phrase.es), " " + phrase.en


def a_stranger(dice: Dice, subject: Phrase, styles: Styles) -> Both:
    """Someone as an object who may have been unknown until now."""
    phrase = dice.pick(NAMES) if dice.chance(0.5) else character(dice)
    while clashes(subject, phrase):
        phrase = character(dice)
    return " " + to(phrase.es), " " + phrase.en


def company(dice: Dice, subject: Phrase) -> Both:
    """With whom."""
    if dice.chance(0.25) and subject.ref.person not in (I.person, 3):
        return " conmigo", " with me"
    if dice.chance(0.2) and subject.ref.person not in (YOU.person, 4):
        return " contigo", " with you"
    phrase = someone_else(dice, subject)
    return " con " + phrase.es, " with " + phrase.en


def activity(places: tuple[Both, ...], manners: str = "", together: bool = True) -> Make:
    """Where, how or with whom something is done, or nothing of that."""
    ways = tuple((manner, MANNERS[manner]) for manner in manners.split())

    def make(dice: Dice, subject: Phrase, styles: Styles) -> Both:
        which = dice.random()
        if which < 0.45 and places:
            es, en = dice.pick(places)
        elif which < 0.65 and ways and (styles is TELLING or styles is GENERAL or styles is HABIT):
            es, en = dice.pick(ways)
        elif which < 0.85 and together:
            return company(dice, subject)
        else:
            return "", ""
        return " " + es, " " + en

    return make


def among(choices: tuple[Both, ...]) -> Make:
    """One of these complements."""
    spaced = tuple((" " + es if es else "", " " + en if en else "") for es, en in choices)

    def make(dice: Dice, subject: Phrase, styles: Styles) -> Both:
        return dice.pick(spaced)

    return make


def left_behind(dice: Dice, subject: Phrase, styles: Styles) -> Both:
    """Something, and where it was left."""
    phrase = thing(dice, n.CARRIED, subject, KNOWN, 0.1)
    es, en = dice.pick(SPOTS)
    return f" {phrase.es} {es}", f" {phrase.en} {en}"


def of_the_body(spanish: str, english: str, several: str) -> Make:
    """La cara, which English gives to its owner: my face, our faces."""

    def make(dice: Dice, subject: Phrase, styles: Styles) -> Both:
        word = several if subject.ref.english_person > 2 else english
        return f" {spanish}", f" {subject.ref.possessive} {word}"

    return make
