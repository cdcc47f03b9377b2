"""What happens: clauses in the past, the future, the progressive and the perfect, with the time they need.

A subject enters; a `Clause` leaves, with an adverb for the front of the sentence where one was chosen.
"""

from clearhead.corpora.spanish import adverbs as when
from clearhead.corpora.spanish.adverbs import Both
from clearhead.corpora.spanish.clauses import (
    ALREADY,
    ALSO,
    ALWAYS,
    NEVER,
    NOT,
    NOT_YET,
    OFTEN,
    PLAIN,
    RARELY,
    STILL,
    USUALLY,
    Clause,
    Mood,
)
from clearhead.corpora.spanish.deeds import (
    ACTIONS,
    EVENTS,
    MISHAPS,
    PROJECTS,
    ROUTINES,
    SIGHTINGS,
    SPEECH,
    TRAVELS,
    WASHING,
    WORKS,
)
from clearhead.corpora.spanish.phrases import Dice, Phrase, urn
from clearhead.corpora.spanish.predicates import (
    ANY,
    CALM,
    DAY,
    GENERAL,
    HABIT,
    KNOWN,
    LONG,
    NEVER_YET,
    PLANS,
    ROUTINE,
    SOON,
    TELLING,
    Deed,
    Styles,
    VerbFrame,
)
from clearhead.corpora.spanish.verbs import FUTURE, GOING, PAST, PERFECT, PRESENT, PROGRESSIVE, USED

Timed = tuple[Clause, Both | None]  # a clause, and an adverb that opens the sentence

NEUTRAL = (when.EVERY_DAY,) * 3 + (when.ON_WEEKENDS,) * 2 + when.ON_DAYS
OCCASIONAL = (when.EVERY_WEEK, when.EVERY_MONTH, when.ON_WEEKENDS, when.ONCE, when.TWICE)
HABITS = {
    DAY: (NEUTRAL[:4] + OCCASIONAL + when.PARTS_OF_DAY) * 2 + when.ON_DAYS,
    SOON: (when.EVERY_DAY, when.EVERY_DAY, when.EVERY_MORNING, *when.PARTS_OF_DAY),
    ANY: OCCASIONAL + when.ON_DAYS + when.IN_SEASONS,
    LONG: (when.EVERY_WEEK, when.EVERY_MONTH),
    ROUTINE: NEUTRAL,
}
RECENT = (when.YESTERDAY,) * 3 + (when.LAST_NIGHT,) * 2 + (when.YESTERDAY_MORNING, when.DAY_BEFORE_YESTERDAY)
PAST_DAYS = RECENT + when.LAST_DAYS + when.DAYS_AGO
PAST_SPANS = when.LAST_SPANS * 2 + when.SPANS_AGO
PASTS = {
    DAY: PAST_DAYS,
    SOON: RECENT[:-1],
    ANY: PAST_DAYS + PAST_SPANS,
    LONG: PAST_SPANS,
    ROUTINE: (when.YESTERDAY,) * 4 + (when.DAY_BEFORE_YESTERDAY,) + when.LAST_DAYS,
}
IMMINENT = (when.TOMORROW,) * 3 + (when.TONIGHT, when.THIS_AFTERNOON, when.TOMORROW_MORNING, when.IN_A_WHILE)
NEXT_DAYS = (*IMMINENT, when.DAY_AFTER_TOMORROW, *when.NEXT_DAYS, *when.WITHIN_DAYS)
NEXT_SPANS = when.NEXT_SPANS * 2 + when.WITHIN_SPANS
AHEADS = {
    DAY: NEXT_DAYS,
    SOON: IMMINENT,
    ANY: NEXT_DAYS + NEXT_SPANS,
    LONG: NEXT_SPANS,
    ROUTINE: (when.TOMORROW,) * 4 + (when.DAY_AFTER_TOMORROW,) + when.NEXT_DAYS,
}
THIS_WEEK = (("hoy", "today"), ("esta semana", "this week"), ("este mes", "this month"))

SURE: tuple[Mood, ...] = (PLAIN,)
TOLD: tuple[Mood, ...] = urn({PLAIN: 16, NOT: 3, ALSO: 1})
ASKED_FREQUENCY: tuple[Mood, ...] = (ALWAYS, ALWAYS, NEVER, USUALLY)
FREQUENCY: tuple[Mood, ...] = (*ASKED_FREQUENCY, NEVER, OFTEN, RARELY)
GOING_ON: tuple[Mood, ...] = urn({PLAIN: 12, NOT: 2, STILL: 2})

Frames = tuple[VerbFrame, ...]
PAST_FRAMES: Frames = (
    ACTIONS * 2 + TRAVELS * 2 + EVENTS * 2 + MISHAPS * 2 + SIGHTINGS * 2 + ROUTINES + PROJECTS
)
PLAN_FRAMES: Frames = ACTIONS * 2 + TRAVELS * 2 + EVENTS + ROUTINES + PROJECTS
HABIT_FRAMES: Frames = ACTIONS + TRAVELS + ROUTINES + SPEECH * 2
PROGRESS_FRAMES: Frames = ACTIONS * 2 + WASHING + PROJECTS
PERFECT_FRAMES: Frames = WORKS + EVENTS + SIGHTINGS
NEVER_DONE = frozenset(
    [
        "comer",
        "beber",
        "cocinar",
        "leer",
        "conducir",
        "ver",
        "tocar",
        "jugar",
        "visitar",
        "montar",
        "tomar",
        "conocer",
        "ganar",
        "escribir",
        "romper",
    ]
)
NEVER_FRAMES: Frames = tuple(frame for frame in PERFECT_FRAMES if frame.verb.infinitive in NEVER_DONE)
WANTED_FRAMES: Frames = ACTIONS * 2 + TRAVELS * 2 + EVENTS + ROUTINES + SPEECH
LIKED_FRAMES: Frames = ACTIONS + TRAVELS + SPEECH
OWN_THINGS = frozenset(
    ("lavar", "limpiar", "usar", "conducir", "abrir", "cerrar")
)  # habits with what one owns


def clause(subject: Phrase, deed: Deed, tense: int, mood: Mood = PLAIN, adverb: Both | None = None) -> Clause:
    """A deed of this subject, with a final adverb."""
    es, en = (f"{deed.es} {adverb[0]}", f"{deed.en} {adverb[1]}") if adverb else (deed.es, deed.en)
    return Clause(subject, deed.verb, tense, es, en, mood, deed.clitic)


def placed(dice: Dice, told: Clause, times: tuple[Both, ...], often: float, front: bool) -> Timed:
    """The clause, perhaps with a time, which comes at the end or at the front in both languages."""
    if not dice.chance(often):
        return told, None
    time = dice.pick(times)
    if front and dice.chance(0.3):
        return told, time
    return told._replace(es=f"{told.es} {time[0]}", en=f"{told.en} {time[1]}"), None


def past(
    dice: Dice,
    subject: Phrase,
    front: bool = False,
    moods: tuple[Mood, ...] = TOLD,
    frames: Frames = PAST_FRAMES,
) -> Timed:
    """What happened. Where the verb itself leaves the tense open, a time is given."""
    frame, mood = dice.pick(frames), dice.pick(moods)
    deed = frame.deed(dice, subject, CALM if mood.denies else TELLING)
    often = 1.0 if frame.verb.unclear[subject.ref.person] else 0.5
    return placed(dice, clause(subject, deed, PAST, mood), PASTS[frame.span], often, front)


def plan(dice: Dice, subject: Phrase, front: bool = False, moods: tuple[Mood, ...] = TOLD) -> Timed:
    """What will happen, or what someone is going to do."""
    frame, mood = dice.pick(PLAN_FRAMES), dice.pick(moods)
    deed = frame.deed(dice, subject, KNOWN if mood.denies else PLANS)
    tense = FUTURE if dice.chance(0.5) else GOING
    return placed(dice, clause(subject, deed, tense, mood), AHEADS[frame.span], 0.6, front)


def habitual(dice: Dice, subject: Phrase, frame: VerbFrame) -> Deed:
    """A deed that is done again and again: with one's own things, or with things in general."""
    return frame.deed(dice, subject, HABIT if frame.verb.infinitive in OWN_THINGS else GENERAL)


def habit(dice: Dice, subject: Phrase, front: bool = False, moods: tuple[Mood, ...] = FREQUENCY) -> Timed:
    """What someone does again and again."""
    frame = dice.pick(HABIT_FRAMES)
    deed = habitual(dice, subject, frame)
    if dice.chance(0.4):
        return clause(subject, deed, PRESENT, dice.pick(moods)), None
    if front and dice.chance(0.1):
        return clause(subject, deed, PRESENT), ("a veces", "sometimes")
    if dice.chance(0.12):
        return placed(dice, clause(subject, deed, PRESENT, NOT), NEUTRAL, 1.0, False)
    return placed(dice, clause(subject, deed, PRESENT), HABITS[frame.span], 1.0, front)


def used_to(dice: Dice, subject: Phrase, front: bool = False) -> Timed:
    """What someone used to do."""
    frame = dice.pick(HABIT_FRAMES)
    return placed(dice, clause(subject, habitual(dice, subject, frame), USED), HABITS[frame.span], 1.0, front)


def progress(
    dice: Dice, subject: Phrase, tense: int = PROGRESSIVE, moods: tuple[Mood, ...] = GOING_ON
) -> Clause:
    """What is going on, or was going on."""
    mood = dice.pick(moods)
    now = dice.pick(when.NOW) if tense == PROGRESSIVE and mood is PLAIN and dice.chance(0.15) else None
    return clause(subject, dice.pick(PROGRESS_FRAMES).deed(dice, subject, CALM), tense, mood, now)


def perfect(dice: Dice, subject: Phrase) -> Clause:
    """What someone has already done, has not done yet, has never done, or has done this week."""
    mood = dice.pick((ALREADY, NOT_YET, NEVER, PLAIN))
    never = mood is NEVER
    deed = dice.pick(NEVER_FRAMES if never else PERFECT_FRAMES).deed(
        dice, subject, NEVER_YET if never else KNOWN
    )
    return clause(subject, deed, PERFECT, mood, dice.pick(THIS_WEEK) if mood is PLAIN else None)


def doing(
    dice: Dice, subject: Phrase, styles: Styles = PLANS, frames: Frames = WANTED_FRAMES
) -> tuple[str, str, str]:
    """A deed without a tense: comprar pan, "buy bread", "buying bread"."""
    deed = dice.pick(frames).deed(dice, subject, styles)
    return f"{deed.verb.infinitive}{deed.clitic}{deed.es}", deed.verb.base + deed.en, deed.verb.ing + deed.en
