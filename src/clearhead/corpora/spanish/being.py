"""What someone or something is: ser and estar with adjectives, professions, origins and places.

A subject enters; a `Clause` leaves, which `state` turns into a statement and `ask` into a question.
"""

from clearhead.corpora.spanish import adjectives as adj
from clearhead.corpora.spanish import adverbs as when
from clearhead.corpora.spanish import nouns as n
from clearhead.corpora.spanish.clauses import PLAIN, Clause, Mood
from clearhead.corpora.spanish.inflection import an, english_plural, spanish_plural
from clearhead.corpora.spanish.phrases import A, Dice, Phrase, urn
from clearhead.corpora.spanish.states import LASTING, STANDING, STATE_TENSES, TOWNS
from clearhead.corpora.spanish.verbs import ESTAR_BE, FUTURE, PAST, PRESENT, SER, Verb

DEGREES = urn({("", ""): 20, ("muy ", "very "): 8, ("bastante ", "quite "): 2})
STRONG_DEGREES = DEGREES + (("demasiado ", "too "),) * 2
CALM_DEGREES = urn({("", ""): 10, ("muy ", "very "): 1})
STEADY_MOODS = tuple(one for one in adj.MOODS if one.is_invariable)
STEADY_CHARACTERS = tuple(one for one in adj.PEOPLE if one.is_invariable)
ABSOLUTE = frozenset(("ready", "in love"))
OVERDONE = frozenset(  # of which there can be too much
    [
        "expensive",
        "big",
        "small",
        "old",
        "long",
        "heavy",
        "difficult",
        "easy",
        "dirty",
        "hot",
        "cold",
        "tired",
        "sad",
        "sick",
        "nervous",
        "busy",
        "drunk",
        "worried",
        "young",
        "shy",
        "lazy",
        "serious",
        "short",
        "tall",
        "boring",
        "spicy",
        "salty",
        "sweet",
        "narrow",
        "poor",
        "optimistic",
    ]
)


def described(
    dice: Dice, subject: Phrase, verb: Verb, adjective: adj.Adjective, mood: Mood, tense: int
) -> Clause:
    """Be and an adjective, with or without a degree."""
    degrees = CALM_DEGREES if mood.denies else STRONG_DEGREES if adjective.en in OVERDONE else DEGREES
    more, very = ("", "") if adjective.en in ABSOLUTE else dice.pick(degrees)
    form = subject.ref.form if subject.ref.form >= 0 else 0 if subject.ref.person < 3 else 2
    return Clause(
        subject, verb, tense, f" {more}{adjective.es[form]}", f" {very}{adjective.en}", mood, "", True
    )


def mood_of(dice: Dice, subject: Phrase, moods: tuple[Mood, ...] = LASTING) -> Clause:
    """How someone is now: estar. Without a known gender only words that show none."""
    adjective = dice.pick(adj.MOODS if subject.ref.form >= 0 else STEADY_MOODS)
    return described(dice, subject, ESTAR_BE, adjective, dice.pick(moods), dice.pick(STATE_TENSES))


def bad_mood_of(dice: Dice, subject: Phrase, tense: int) -> Clause:
    """How someone is who would rather do nothing."""
    adjective = dice.pick(adj.BAD_MOODS if subject.ref.form >= 0 else adj.called("triste"))
    return described(dice, subject, ESTAR_BE, adjective, PLAIN, tense)


def character_of(dice: Dice, subject: Phrase, moods: tuple[Mood, ...] = STANDING) -> Clause:
    """What someone is like: ser."""
    adjective = dice.pick(adj.PEOPLE if subject.ref.form >= 0 else STEADY_CHARACTERS)
    tense = PRESENT if dice.chance(0.8) else PAST
    return described(dice, subject, SER, adjective, dice.pick(moods), tense)


JOBS = tuple((men, women, en) for (men, women), en in n.PROFESSIONS.items())
SHARED_JOBS = tuple((es, es, en) for es, en in n.SHARED_PROFESSIONS.items())


def works_as(dice: Dice, subject: Phrase, moods: tuple[Mood, ...] = STANDING) -> Clause:
    """Someone's profession: no article in Spanish, but for a good or bad one."""
    ref = subject.ref
    man, woman, en = dice.pick(JOBS + SHARED_JOBS if ref.form >= 0 else SHARED_JOBS)
    es = woman if ref.form in (1, 3) else man
    if ref.english_person > 2:
        es, en = spanish_plural(es), english_plural(en)
    good = dice.pick(adj.GOOD) if ref.form >= 0 and dice.chance(0.25) else None
    if good:
        article = A.es[ref.form]
        es, en = f"{good.es[ref.form]} {es}", f"{good.en} {en}"
        es, en = (f"{article} {es}", f"a {en}") if article else (es, en)
    elif ref.english_person <= 2:
        en = f"{an(en)} {en}"
    tense = dice.pick((PRESENT, PRESENT, PRESENT, PAST, FUTURE))
    return Clause(subject, SER, tense, f" {es}", f" {en}", dice.pick(moods), "", True)


def comes_from(dice: Dice, subject: Phrase, moods: tuple[Mood, ...] = STANDING) -> Clause:
    """Where someone is from, as a country or as an adjective."""
    if subject.ref.form >= 0 and dice.chance(0.5):
        return described_plainly(subject, dice.pick(adj.NATIONS), dice.pick(moods))
    es, en = dice.pick(TOWNS)
    return Clause(subject, SER, PRESENT, f" de {es}", f" from {en}", dice.pick(moods), "", True)


def described_plainly(subject: Phrase, adjective: adj.Adjective, mood: Mood) -> Clause:
    """Be and an adjective that has no degree."""
    return Clause(
        subject, SER, PRESENT, " " + adjective.es[subject.ref.form], " " + adjective.en, mood, "", True
    )


def is_at(dice: Dice, subject: Phrase, moods: tuple[Mood, ...] = LASTING) -> Clause:
    """Where someone is."""
    es, en = dice.pick(when.EVERYWHERE) if dice.chance(0.8) else dice.pick(when.IN_TOWNS)
    tense, mood = dice.pick(STATE_TENSES), dice.pick(moods)
    time = dice.pick(when.WERE_THEN) if tense == PAST and dice.chance(0.4) else None
    es, en = (f"{es} {time[0]}", f"{en} {time[1]}") if time and mood is PLAIN else (es, en)
    return Clause(subject, ESTAR_BE, tense, " " + es, " " + en, mood)
