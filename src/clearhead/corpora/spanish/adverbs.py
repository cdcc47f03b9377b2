"""Adverbs and phrases of time, place and manner, in both languages, by the tenses that they fit."""

from clearhead.corpora.spanish.nouns import CITIES, COUNTRIES, IN, ON, SEASONS, Noun
from clearhead.corpora.spanish.nouns import PLACES as PLACE_NOUNS
from clearhead.corpora.spanish.phrases import to

Both = tuple[str, str]

DAYS = {
    "lunes": "Monday", "martes": "Tuesday", "miércoles": "Wednesday", "jueves": "Thursday",
    "viernes": "Friday", "sábado": "Saturday", "domingo": "Sunday",
}  # fmt: skip
MONTHS = {
    "enero": "January", "febrero": "February", "marzo": "March", "abril": "April", "mayo": "May",
    "junio": "June", "julio": "July", "agosto": "August", "septiembre": "September", "octubre": "October",
    "noviembre": "November", "diciembre": "December",
}  # fmt: skip
HOURS = {
    "la una": "one", "las dos": "two", "las tres": "three", "las cuatro": "four", "las cinco": "five",
    "las seis": "six", "las siete": "seven", "las ocho": "eight", "las nueve": "nine", "las diez": "ten",
    "las once": "eleven", "las doce": "twelve",
}  # fmt: skip
SPANS = {"semanas": "weeks", "meses": "months", "años": "years"}
SMALL = {"dos": "two", "tres": "three", "cuatro": "four", "cinco": "five", "seis": "six"}


def clock(hour: str, english: str) -> tuple[Both, ...]:
    """An hour, half past it, a quarter past and a quarter to it."""
    return (
        (hour, f"{english} o'clock"),
        (f"{hour} y media", f"half past {english}"),
        (f"{hour} y cuarto", f"a quarter past {english}"),
        (f"{hour} menos cuarto", f"a quarter to {english}"),
    )


def hours(names: str) -> tuple[Both, ...]:
    """At these hours, and at half past them."""
    return tuple(
        (f"a {es}", f"at {en}")
        for name in names.split()
        for es, en in clock(f"las {name}", HOURS[f"las {name}"])[:2]
    )


TIMES_OF_DAY = tuple(time for hour, english in HOURS.items() for time in clock(hour, english))
AT_HOURS = tuple((f"a {es}", f"at {en} o'clock") for es, en in HOURS.items())
ON_DAYS = tuple((f"los {es if es.endswith('s') else es + 's'}", f"on {en}s") for es, en in DAYS.items())
IN_SEASONS = tuple((f"en {noun.es[0]}", f"in the {noun.en[0]}") for noun in SEASONS)
EVERY_DAY, EVERY_WEEK, EVERY_MONTH = (
    ("todos los días", "every day"),
    ("cada semana", "every week"),
    ("cada mes", "every month"),
)
EVERY_MORNING, ON_WEEKENDS = ("cada mañana", "every morning"), ("los fines de semana", "on weekends")
ONCE, TWICE = ("una vez a la semana", "once a week"), ("dos veces al mes", "twice a month")
PARTS_OF_DAY = (
    ("por la mañana", "in the morning"), ("por la tarde", "in the afternoon"), ("por la noche", "at night"),
)  # fmt: skip
YESTERDAY, LAST_NIGHT = ("ayer", "yesterday"), ("anoche", "last night")
YESTERDAY_MORNING = ("ayer por la mañana", "yesterday morning")
DAY_BEFORE_YESTERDAY = ("anteayer", "the day before yesterday")
LAST_SPANS = (
    ("la semana pasada", "last week"), ("el mes pasado", "last month"), ("el año pasado", "last year"),
    ("el verano pasado", "last summer"),
)  # fmt: skip
LAST_DAYS = tuple((f"el {es} pasado", f"last {en}") for es, en in DAYS.items())
DAYS_AGO = tuple((f"hace {n} días", f"{m} days ago") for n, m in SMALL.items())
SPANS_AGO = tuple((f"hace {n} {es}", f"{m} {en} ago") for n, m in SMALL.items() for es, en in SPANS.items())
TOMORROW, TONIGHT, THIS_AFTERNOON = (
    ("mañana", "tomorrow"),
    ("esta noche", "tonight"),
    ("esta tarde", "this afternoon"),
)
TOMORROW_MORNING, IN_A_WHILE = ("mañana por la mañana", "tomorrow morning"), ("pronto", "soon")
DAY_AFTER_TOMORROW = ("pasado mañana", "the day after tomorrow")
NEXT_SPANS = (
    ("la semana que viene", "next week"), ("el mes que viene", "next month"),
    ("el año que viene", "next year"),
)  # fmt: skip
NEXT_DAYS = tuple((f"el próximo {es}", f"next {en}") for es, en in DAYS.items())
WITHIN_DAYS = tuple((f"dentro de {n} días", f"in {m} days") for n, m in SMALL.items())
WITHIN_SPANS = tuple(
    (f"dentro de {n} {es}", f"in {m} {en}") for n, m in SMALL.items() for es, en in SPANS.items()
)
NOW = (("ahora", "now"), ("en este momento", "at the moment"))
WERE_THEN = (YESTERDAY, LAST_NIGHT, DAY_BEFORE_YESTERDAY, *LAST_DAYS)
MANNERS = {"bien": "well", "mal": "badly", "mucho": "a lot", "rápido": "fast", "despacio": "slowly"}

HOME_AT, HOME_TO = ("en casa", "at home"), ("a casa", "home")
SCHOOL_AT, SCHOOL_TO = ("en la escuela", "at school"), ("a la escuela", "to school")


def _there(noun: Noun) -> str:
    word = noun.en[0]
    return f"{'in' if word in IN else 'on' if word in ON else 'at'} the {word}"


def _with_article(noun: Noun) -> str:
    return f"{'la' if noun.feminine and not noun.takes_el else 'el'} {noun.es[0]}"


AT = {noun.es[0]: (f"en {_with_article(noun)}", _there(noun)) for noun in PLACE_NOUNS}
TO = {noun.es[0]: (to(_with_article(noun)), f"to the {noun.en[0]}") for noun in PLACE_NOUNS}
IN_TOWNS = tuple((f"en {es}", f"in {en}") for es, en in (CITIES | COUNTRIES).items())
TO_TOWNS = tuple((f"a {es}", f"to {en}") for es, en in (CITIES | COUNTRIES).items())


def at(names: str) -> tuple[Both, ...]:
    """Being at these places, by their Spanish names; casa and escuela go without an English article."""
    known = AT | {"casa": HOME_AT, "escuela": SCHOOL_AT}
    return tuple(known[name] for name in names.split())


SPOTS = (
    ("en la mesa", "on the table"), ("en la silla", "on the chair"), ("en la cama", "on the bed"),
    ("en el sofá", "on the sofa"), ("en el escritorio", "on the desk"), ("en el armario", "in the closet"),
    ("en la caja", "in the box"), ("debajo de la cama", "under the bed"),
    ("debajo de la mesa", "under the table"), ("detrás del sofá", "behind the sofa"),
    ("detrás de la puerta", "behind the door"), ("al lado del espejo", "next to the mirror"),
    ("al lado de la lámpara", "next to the lamp"), ("delante del armario", "in front of the closet"),
    ("en la cocina", "in the kitchen"), ("en el coche", "in the car"),
    ("cerca de la ventana", "near the window"), ("entre la mesa y el sofá", "between the table and the sofa"),
    ("encima del armario", "on top of the closet"),
)  # fmt: skip
EVERYWHERE = (
    tuple(AT[name] for name in AT if name not in ("casa", "puente", "calle", "mar", "río"))
    + (
        HOME_AT,
        SCHOOL_AT,
        ("aquí", "here"),
        ("allí", "there"),
    )
    * 3
)
GOALS = (
    tuple(TO[name] for name in TO if name not in ("casa", "baño", "dormitorio", "calle", "cocina"))
    + (
        HOME_TO,
        SCHOOL_TO,
    )
    * 3
)
