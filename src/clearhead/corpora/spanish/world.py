"""Sentences about the weather, the time and the calendar.

Dice enter; Spanish, English and the mark at the end leave, still without capitals.
"""

from clearhead.corpora.spanish import adverbs as when
from clearhead.corpora.spanish.adverbs import Both
from clearhead.corpora.spanish.phrases import Dice, genitive, of, somebody
from clearhead.corpora.spanish.statements import Sentence
from clearhead.corpora.spanish.verbs import FUTURE, PAST, PRESENT

WEATHER = {
    PRESENT: (
        ("hace frío", "cold"), ("hace calor", "hot"), ("hace sol", "sunny"), ("hace viento", "windy"),
        ("está lloviendo", "raining"), ("está nevando", "snowing"),
    ),
    PAST: (
        ("hacía frío", "cold"), ("hacía calor", "hot"), ("hacía sol", "sunny"), ("hacía viento", "windy"),
        ("estaba lloviendo", "raining"), ("estaba nevando", "snowing"),
    ),
    FUTURE: (
        ("hará frío", "be cold"), ("hará calor", "be hot"), ("hará sol", "be sunny"),
        ("hará viento", "be windy"), ("lloverá", "rain"), ("nevará", "snow"),
    ),
}  # fmt: skip
IT_IS = {PRESENT: ("it's", "it's not"), PAST: ("it was", "it wasn't"), FUTURE: ("it will", "it won't")}
WHEN = {
    PRESENT: (("hoy", "today"), ("ahora", "now")),
    PAST: (when.YESTERDAY, when.DAY_BEFORE_YESTERDAY),
    FUTURE: (when.TOMORROW, when.DAY_AFTER_TOMORROW),
}
SOMEWHERE = (("", ""), *((f" {es}", f" {en}") for es, en in (*when.IN_TOWNS, ("aquí", "here"))))


def weather(dice: Dice, tense: int, denied: float = 0.0) -> Both:
    """What the weather is, was or will be like, or what it is not."""
    es, en = dice.pick(WEATHER[tense])
    it_is, it_is_not = IT_IS[tense]
    return (f"no {es}", f"{it_is_not} {en}") if dice.chance(denied) else (es, f"{it_is} {en}")


def weather_report(dice: Dice) -> Sentence:
    """The weather, somewhere, sometime."""
    tense = dice.pick((PRESENT, PAST, FUTURE))
    es, en = weather(dice, tense, 0.2)
    where, there = dice.pick(SOMEWHERE)
    day, in_english = dice.pick(WHEN[tense])
    if dice.chance(0.5):
        return f"{day} {es}{where}", f"{in_english} {en}{there}", "."
    return f"{es}{where} {day}", f"{en}{there} {in_english}", "."


DAYS, MONTHS = tuple(when.DAYS.items()), tuple(when.MONTHS.items())
CALENDAR = (("hoy es", "today is"), ("mañana es", "tomorrow is"), ("ayer fue", "yesterday was"))


def date(dice: Dice) -> Sentence:
    """The time, the day of the week, a birthday."""
    which = dice.random()
    if which < 0.4:
        es, en = dice.pick(when.TIMES_OF_DAY)
        be = "es" if es.startswith("la una") else "son"
        if dice.chance(0.3):
            return f"ya {be} {es}", f"it's already {en}", "."
        return f"{be} {es}", f"it's {en}", "."
    if which < 0.6:
        (es, en), (be, is_) = dice.pick(DAYS), dice.pick(CALENDAR)
        return f"{be} {es}", f"{is_} {en}", "."
    (es, en), who = dice.pick(MONTHS), somebody(dice)
    while who.ref.person == 5:
        who = somebody(dice)
    return f"el cumpleaños {of(who.es)} es en {es}", f"{genitive(who.en, who.ref)} birthday is in {en}", "."
