"""Likes and pains, in which the Spanish subject is the thing and English begins with the person.

Dice enter; Spanish, English and the mark at the end leave, still without capitals.
"""

from clearhead.corpora.spanish import events, states
from clearhead.corpora.spanish import nouns as n
from clearhead.corpora.spanish.adverbs import Both
from clearhead.corpora.spanish.clauses import ALSO, NO_LONGER, NOT, PLAIN, STILL, Mood
from clearhead.corpora.spanish.phrases import (
    STRONG,
    THAT,
    THE,
    THIS,
    Dice,
    Phrase,
    genitive,
    joined,
    person,
    to,
)
from clearhead.corpora.spanish.predicates import GENERAL, OWN, OWNED, Styles, thing
from clearhead.corpora.spanish.statements import Sentence
from clearhead.corpora.spanish.verbs import PAST, PRESENT, state

LIKE, LOVE = state("gustar", "like"), state("encantar", "love")
LIKED_STYLES: Styles = ((THIS, 0), (THIS, 1), (THAT, 0), (OWNED, 0), (OWN, 0))
LIKED = n.GOODS + n.FILMS + n.SONGS


def liker(dice: Dice) -> Phrase:
    """Someone who may like something; "Ana and I" would need more words in Spanish."""
    who = person(dice)
    while who.en.endswith(" and I"):
        who = person(dice)
    return who


def to_whom(who: Phrase, before: str) -> str:
    """A Ana no le, me, nos."""
    return f"{to(who.es)} {before}{who.ref.dative}" if who.es else before + who.ref.dative


def liked(dice: Dice, who: Phrase) -> tuple[str, str, int]:
    """What may be liked: things in general, one thing, a deed; also the person of the Spanish verb."""
    which = dice.random()
    if which < 0.5:
        phrase, plural = states.generic(dice)
        return phrase.es, phrase.en, 5 if plural else 2
    if which < 0.75:
        phrase = thing(dice, LIKED, who, LIKED_STYLES)
        return phrase.es, phrase.en, phrase.ref.person
    es, en, _ = events.doing(dice, who, GENERAL, events.LIKED_FRAMES)
    return es, f"to {en}", 2


def likes(dice: Dice, who: Phrase, asked: bool = False) -> Both:
    """What someone likes or loves, as a statement or a question."""
    verb = LIKE if dice.chance(0.75) else LOVE
    mood: Mood = NOT if verb is LIKE and dice.chance(0.25) else PLAIN if asked or dice.chance(0.9) else ALSO
    tense = PRESENT if dice.chance(0.8) else PAST
    es, en, number = liked(dice, who)
    group = verb.en[tense][who.ref.english_person]
    spanish = f"{to_whom(who, mood.es)} {verb.es[tense][number]} {es}"
    if asked:
        return spanish, f"{group.denies[1:] if mood.denies else group.asks} {who.en}{group.asked} {en}"
    if mood.denies:
        return spanish, f"{who.en}{group.denies}{group.denied} {en}"
    return spanish, f"{who.en}{mood.en}{group.main} {en}"


def likes_in_general(dice: Dice, who: Phrase) -> Both:
    """A mí me gusta el té: the person is said, for another likes something else."""
    phrase, plural = states.generic(dice)
    who = who._replace(es=STRONG.get(who.ref, who.es))
    likes_it = LIKE.en[PRESENT][who.ref.english_person].main
    return (
        f"{to_whom(who, '')} {LIKE.es[PRESENT][5 if plural else 2]} {phrase.es}",
        f"{who.en}{likes_it} {phrase.en}",
    )


def liking(dice: Dice) -> Sentence:
    """Someone likes something."""
    es, en = likes(dice, liker(dice))
    return es, en, "."


def wish(dice: Dice) -> Sentence:
    """What someone would like to do."""
    who = liker(dice)
    es, en, _ = events.doing(dice, who)
    before, would = ("no ", "wouldn't") if dice.chance(0.15) else ("", "would")
    return f"{to_whom(who, before)} gustaría {es}", f"{who.en} {would} like to {en}", "."


PAIRED = frozenset(("arm", "leg", "knee", "hand", "foot", "eye", "tooth"))
PAIN_MOODS = (PLAIN, PLAIN, PLAIN, NOT, STILL, NO_LONGER)


def pain(dice: Dice) -> Sentence:
    """What hurts: me duele la cabeza, "my head hurts"."""
    who = liker(dice)
    while who.ref.person > 2:
        who = liker(dice)
    noun, mood = dice.pick(n.BODY), dice.pick(PAIN_MOODS)
    plural = int(noun.en[0] in PAIRED and dice.chance(0.6))
    owner = who.ref.possessive if who.en == who.ref.subject else genitive(who.en, who.ref)
    told, denied = ("hurt", "don't hurt") if plural else ("hurts", "doesn't hurt")
    hurts = denied if mood.denies else told
    part = joined(noun, THE, plural, None, False)
    es = f"{to_whom(who, mood.es)} {'duelen' if plural else 'duele'} {part.es}"
    return es, f"{owner} {noun.en[plural]}{mood.en} {hurts}{mood.tail}", "."
