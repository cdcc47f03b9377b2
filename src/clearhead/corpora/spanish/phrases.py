"""Noun phrases: a car, mis tres hermanos, Ana's red car, said in both languages at once.

Nouns and dice enter; `Phrase`s leave, each with the referent that verbs, adjectives and pronouns agree with.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple, TypeVar

from clearhead.corpora.spanish.adjectives import Adjective
from clearhead.corpora.spanish.nouns import (
    COUNTING,
    FAMILY,
    MANY_RELATIVES,
    MEN,
    PEOPLE,
    RELATIVES,
    WOMEN,
    Noun,
)

T = TypeVar("T")


class Dice:
    """Random choices, fast."""

    __slots__ = ("random",)

    def __init__(self, seed: int) -> None:
        self.random = Random(seed).random

    def pick(self, choices: Sequence[T]) -> T:
        """One of these, each as likely as the other."""
        return choices[int(self.random() * len(choices))]

    def chance(self, probability: float) -> bool:
        """True so often."""
        return self.random() < probability


def urn(weights: Mapping[T, int]) -> tuple[T, ...]:
    """A sequence that contains each thing as often as its weight says."""
    return tuple(thing for thing, weight in weights.items() for _ in range(weight))


class Determiner(NamedTuple):
    """An article or what takes its place: four Spanish forms, singular and plural in English."""

    es: tuple[str, str, str, str]
    en: tuple[str, str]


THE = Determiner(("el", "la", "los", "las"), ("the", "the"))
A = Determiner(("un", "una", "", ""), ("a", ""))
BARE = Determiner(("", "", "", ""), ("", ""))
THIS = Determiner(("este", "esta", "estos", "estas"), ("this", "these"))
THAT = Determiner(("ese", "esa", "esos", "esas"), ("that", "those"))
MY = Determiner(("mi", "mi", "mis", "mis"), ("my", "my"))
YOUR = Determiner(("tu", "tu", "tus", "tus"), ("your", "your"))
OUR = Determiner(("nuestro", "nuestra", "nuestros", "nuestras"), ("our", "our"))
HIS = Determiner(("su", "su", "sus", "sus"), ("his", "his"))
HER = Determiner(("su", "su", "sus", "sus"), ("her", "her"))
THEIR = Determiner(("su", "su", "sus", "sus"), ("their", "their"))
ANOTHER = Determiner(("otro", "otra", "otros", "otras"), ("another", "other"))
MANY = Determiner(("mucho", "mucha", "muchos", "muchas"), ("a lot of", "many"))
SOME = Determiner(("", "", "algunos", "algunas"), ("", "some"))
SEVERAL = Determiner(("", "", "varios", "varias"), ("", "several"))
ALL = Determiner(("", "", "todos los", "todas las"), ("", "all the"))
MORE = Determiner(("más", "más", "más", "más"), ("more", "more"))
COUNTS = tuple(Determiner((es, es, es, es), (en, en)) for es, en in COUNTING.items())
FEW = COUNTS[:5]
TWO, THREE = COUNTS[:2]
OWNERS = (MY, YOUR, OUR)


class Referent(NamedTuple):
    """Whom or what a phrase is about, as far as grammar cares.

    `person` and `english_person` choose verb forms, `form` the form of an adjective (-1 where the gender is
    not known); `said` is the pronoun for verb forms that leave the person open; `own` is the possessive of
    this referent.
    """

    person: int
    english_person: int
    form: int
    said: str
    subject: str
    object: str
    possessive: str
    accusative: str
    dative: str
    reflexive: str
    strong: str
    own: Determiner | None


I = Referent(0, 0, -1, "yo", "I", "me", "my", "me", "me", "me", "mí", MY)  # noqa: E741
YOU = Referent(1, 1, -1, "", "you", "you", "your", "te", "te", "te", "ti", YOUR)
HE = Referent(2, 2, 0, "", "he", "him", "his", "lo", "le", "se", "él", HIS)
SHE = Referent(2, 2, 1, "", "she", "her", "her", "la", "le", "se", "ella", HER)
IT_M = HE._replace(subject="it", object="it", possessive="its", own=None)
IT_F = SHE._replace(subject="it", object="it", possessive="its", own=None)
WE = Referent(3, 3, -1, "", "we", "us", "our", "nos", "nos", "nos", "nosotros", OUR)
WE_M = WE._replace(form=2)
YOU_ALL = Referent(4, 4, -1, "", "you all", "you all", "your", "os", "os", "os", "vosotros", None)
THEY_M = Referent(5, 5, 2, "", "they", "them", "their", "los", "les", "se", "ellos", THEIR)
THEY_F = Referent(5, 5, 3, "", "they", "them", "their", "las", "les", "se", "ellas", THEIR)
THINGS = (IT_M, IT_F, THEY_M._replace(own=None), THEY_F._replace(own=None))
HUMANS = (HE, SHE, THEY_M, THEY_F)
PEOPLE_SHE = SHE._replace(english_person=5, subject="they", object="them", possessive="their", own=None)


class Phrase(NamedTuple):
    """A noun phrase or pronoun in both languages; a Spanish subject that goes without saying is empty."""

    es: str
    en: str
    ref: Referent

    def silent(self) -> "Phrase":
        """The same referent again, in a clause that depends on the first: a pronoun in English alone."""
        ref = self.ref
        return Phrase("", "you" if ref is YOU_ALL else ref.subject, ref._replace(said=""))


PRONOUNS = {
    Phrase("", "I", I): 9,
    Phrase("", "you", YOU): 7,
    Phrase("él", "he", HE): 3,
    Phrase("ella", "she", SHE): 3,
    Phrase("", "we", WE): 4,
    Phrase("", "you all", YOU_ALL): 1,
    Phrase("ellos", "they", THEY_M): 2,
}
ANY_PRONOUN = urn(PRONOUNS)
THIRD_PRONOUN = urn({phrase: weight for phrase, weight in PRONOUNS.items() if phrase.ref.form >= 0})
NAMES = tuple(Phrase(name, name, SHE) for name in WOMEN) + tuple(Phrase(name, name, HE) for name in MEN)
PEOPLE_IN_GENERAL = Phrase("la gente", "people", PEOPLE_SHE)


def joined(
    noun: Noun, determiner: Determiner, plural: int, adjective: Adjective | None, humans: bool
) -> Phrase:
    """Determiner, noun and adjective in the order of each language."""
    form = noun.feminine + 2 * plural
    article, the = determiner.es[form], determiner.en[plural]
    es, en = noun.es[plural], noun.en[plural]
    if form == 1 and noun.takes_el and (determiner is THE or determiner is A):
        article = THE.es[0] if determiner is THE else A.es[0]
    if determiner is A:
        the = noun.an if adjective is None else adjective.an
    if adjective is not None:
        es = f"{adjective.es[form]} {es}" if adjective.before else f"{es} {adjective.es[form]}"
        en = f"{adjective.en} {en}"
    if article:
        es, en = f"{article} {es}", f"{the} {en}"
    return Phrase(es, en, (HUMANS if humans else THINGS)[form])


def of(es: str) -> str:
    """De before a phrase, with el in one word."""
    return "d" + es if es.startswith("el ") else "de " + es


def to(es: str) -> str:
    """A before a phrase, with el in one word, and again before the second of two people."""
    if " y " in es or " e " in es:
        first, _, second = es.replace(" e ", " y ").partition(" y ")
        return f"{to(first)} y {to(second)}"
    return "al " + es[3:] if es.startswith("el ") else "a " + es


def genitive(en: str, ref: Referent) -> str:
    """Ana's, my parents', the children's."""
    return en + "'" if ref.person == 5 and en.endswith("s") else en + "'s"


def and_(first: str, second: str) -> str:
    """Two Spanish phrases with y, or e before the sound of i."""
    return f"{first} {'e' if _sounds_like(second, 'i') else 'y'} {second}"


def or_(first: str, second: str) -> str:
    """Two Spanish phrases with o, or u before the sound of o."""
    return f"{first} {'u' if _sounds_like(second, 'o') else 'o'} {second}"


def _sounds_like(word: str, vowel: str) -> bool:
    start = word[:3].lower().translate(str.maketrans("íó", "io"))
    bare = start.removeprefix("h")
    return bare.startswith(vowel) and not (start.startswith("hi") and start[2:] in ("e", "a", "o"))


def owned(dice: Dice, noun: Noun, plural: int, humans: bool = False) -> Phrase:
    """Ana's car, el coche de mi hermano: the owner comes before the noun in English, after it in Spanish."""
    owner = dice.pick(NAMES) if dice.chance(0.6) else relative(dice, deep=False)
    adjective = dice.pick(noun.adjectives) if noun.adjectives and dice.chance(0.15) else None
    phrase = joined(noun, THE, plural, adjective, humans)
    en = f"{genitive(owner.en, owner.ref)}{phrase.en[3:]}"
    return Phrase(f"{phrase.es} {of(owner.es)}", en, phrase.ref)


def relative(dice: Dice, deep: bool = True) -> Phrase:
    """Someone's relative or friend: my sister, tus abuelos, Ana's brother."""
    if deep and dice.chance(0.25):
        name = dice.pick(NAMES)
        noun = dice.pick(FAMILY)
        phrase = joined(noun, THE, 0, None, True)
        return Phrase(f"{phrase.es} de {name.es}", f"{name.en}'s{phrase.en[3:]}", phrase.ref)
    if dice.chance(0.25):
        return joined(dice.pick(RELATIVES), dice.pick(OWNERS), 1, None, True)
    return joined(dice.pick(FAMILY), dice.pick(OWNERS), 0, None, True)


PERSON_STYLES = urn({(THE, 0): 8, (THE, 1): 4, (THIS, 0): 2, (THAT, 0): 2, (THIS, 1): 1, (THAT, 1): 1})


def character(dice: Dice) -> Phrase:
    """Someone by what he or she is: the doctor, esas chicas, the young queen."""
    noun = dice.pick(PEOPLE)
    determiner, plural = dice.pick(PERSON_STYLES)
    adjective = dice.pick(noun.adjectives) if dice.chance(0.2) else None
    return joined(noun, determiner, plural, adjective, True)


def somebody(dice: Dice) -> Phrase:
    """Someone who is neither "I" nor "you", named or described."""
    which = dice.random()
    if which < 0.4:
        return dice.pick(NAMES)
    if which < 0.7:
        return relative(dice)
    if which < 0.92:
        return character(dice)
    return couple(dice)


def couple(dice: Dice) -> Phrase:
    """Two people: Ana and Pedro, mi madre e Irene."""
    first = dice.pick(NAMES) if dice.chance(0.5) else joined(dice.pick(FAMILY), MY, 0, None, True)
    second = dice.pick(NAMES)
    while second.en == first.en:
        second = dice.pick(NAMES)
    ref = THEY_F if first.ref.form == second.ref.form == 1 else THEY_M
    return Phrase(and_(first.es, second.es), f"{first.en} and {second.en}", ref)


def and_me(dice: Dice) -> Phrase:
    """Someone and I."""
    other = dice.pick(NAMES) if dice.chance(0.5) else joined(dice.pick(FAMILY), MY, 0, None, True)
    return Phrase(f"{other.es} y yo", f"{other.en} and I", WE_M if other.ref.form == 0 else WE)


SAID = {I: "yo", YOU: "tú"}
STRONG = {I: "mí", YOU: "ti"}


def explicit(dice: Dice, phrase: Phrase) -> Phrase:
    """The phrase with its pronoun said, as a contrast asks; who would need a gender gives way to a name."""
    if phrase.es and phrase.ref.person != 3:
        return phrase
    said = SAID.get(phrase.ref)
    return Phrase(said, phrase.en, phrase.ref) if said else dice.pick(NAMES)


def person(dice: Dice) -> Phrase:
    """Anyone, as the subject of a sentence."""
    which = dice.random()
    if which < 0.5:
        return dice.pick(ANY_PRONOUN)
    if which < 0.53:
        return and_me(dice)
    return somebody(dice)


def third(dice: Dice) -> Phrase:
    """Anyone whose gender is known."""
    return dice.pick(THIRD_PRONOUN) if dice.chance(0.25) else somebody(dice)


def relatives(dice: Dice, nouns: tuple[Noun, ...] = MANY_RELATIVES) -> Phrase:
    """A number of relatives, for "I have two sisters"."""
    noun = dice.pick(nouns)
    determiner = A if dice.chance(0.4) else dice.pick(FEW) if dice.chance(0.7) else MANY
    return joined(noun, determiner, 0 if determiner is A else 1, None, True)
