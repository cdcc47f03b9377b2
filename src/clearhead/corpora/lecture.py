"""builtin:lecture and builtin:lines: the notes' own sentences, varied, in Spanish and English, for the shipped models.

A seed enters; pairs leave, or the lines of their English sides. Half of them are patterns of the notes' sentences: what
*it* is (the chicken that was too tired, the road that was too wide), what *she* is, which *bank* it is, what order
says (the rich and the happy). Spanish must resolve what English leaves open: *estaba cansado* of the chicken, *era
ancha* of the road. The others are sentences of `builtin:spanish` that need frequent words only. Some come as the
notes write in haste, in small letters and without a full stop. The sentences of `OF_THE_NOTES` are tested, never
trained on.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain, islice
from random import Random

from clearhead.corpora import spanish
from clearhead.corpora.corpus import Corpus, Option, Options
from clearhead.examples import Example, Pair, Text

Both = tuple[str, str]  # Spanish, English

OF_THE_NOTES: dict[str, str] = {
    "Emma odia los juegos pero ella es una gran amiga": "Emma hates games but she is a great friend",
    "El pollo no cruzó la carretera porque estaba demasiado cansado.":
        "The chicken didn't cross the road because it was too tired.",
    "El pollo no cruzó la carretera porque era demasiado ancha.":
        "The chicken didn't cross the road because it was too wide.",
    "Son ricos, pero ¿son felices?": "They are rich, but are they happy?",
    "Son felices, pero ¿son ricos?": "They are happy, but are they rich?",
    "mi perro quería comer": "my dog wanted to eat",
    "los estudiantes abrieron sus libros": "students opened their books",
    "El chico patea la pelota roja.": "The boy kicks the red ball.",
    "John dijo que no tiene hambre.": "John said that he isn't hungry.",
    "Extraño su cálida sonrisa.": "I miss her warm smile.",
    "Este libro fue escrito por Johan.": "This book was written by Johan.",
    "Johan escribió este libro.": "Johan wrote this book.",
    "Tengo un coche.": "I have a car.",
    "Todavía no tengo hambre.": "I'm not hungry yet.",
}  # fmt: skip

WOMEN = ("Emma", "Karin", "Ana", "María", "Lucía", "Laura")
MEN = ("John", "Johan", "Carlos", "Daniel", "Juan", "Diego")
# Spanish noun and its gender, English noun: m and f, as its articles and adjectives are.
ANIMALS = (
    *(("pollo", "m", "chicken"), ("perro", "m", "dog"), ("gato", "m", "cat"), ("caballo", "m", "horse")),
    *(("vaca", "f", "cow"), ("oveja", "f", "sheep"), ("rana", "f", "frog"), ("oso", "m", "bear")),
)
WAYS = (
    *(("carretera", "f", "road"), ("calle", "f", "street"), ("río", "m", "river")),
    *(("puente", "m", "bridge"), ("plaza", "f", "square"), ("campo", "m", "field")),
)
THINGS = (
    *(("coche", "m", "car"), ("libro", "m", "book"), ("pelota", "f", "ball"), ("guitarra", "f", "guitar")),
    *(("mesa", "f", "table"), ("casa", "f", "house"), ("flor", "f", "flower"), ("carta", "f", "letter")),
    *(("canción", "f", "song"), ("bicicleta", "f", "bicycle"), ("gato", "m", "cat"), ("perro", "m", "dog")),
)
PEOPLE = (
    *(("chico", "m", "boy"), ("chica", "f", "girl"), ("hombre", "m", "man"), ("mujer", "f", "woman")),
    *(("profesor", "m", "teacher"), ("estudiante", "m", "student")),
)
MANY_PEOPLE = (
    ("estudiantes", "students"),
    ("profesores", "teachers"),
    ("niños", "children"),
    ("amigos", "friends"),
)
MANY_THINGS = (
    *(("los juegos", "games"), ("los libros", "books"), ("los gatos", "cats"), ("los coches", "cars")),
    *(
        ("las guitarras", "guitars"),
        ("las flores", "flowers"),
        ("las canciones", "songs"),
        ("las cartas", "letters"),
    ),
)
# Adjectives: masculine, feminine, English; how somebody feels (estar), how something is (ser).
FEELINGS = (
    *(("cansado", "cansada", "tired"), ("enfermo", "enferma", "sick"), ("asustado", "asustada", "scared")),
    *(("enfadado", "enfadada", "angry"), ("nervioso", "nerviosa", "nervous")),
)
SIZES = (
    *(("ancho", "ancha", "wide"), ("largo", "larga", "long"), ("oscuro", "oscura", "dark")),
    *(("peligroso", "peligrosa", "dangerous"), ("estrecho", "estrecha", "narrow")),
)
COLOURS = (
    *(("rojo", "roja", "red"), ("verde", "verde", "green"), ("blanco", "blanca", "white")),
    *(
        ("negro", "negra", "black"),
        ("viejo", "vieja", "old"),
        ("nuevo", "nueva", "new"),
        ("azul", "azul", "blue"),
    ),
)
MOODS = (  # singular masculine and feminine, plural, English
    *(("rico", "rica", "ricos", "rich"), ("feliz", "feliz", "felices", "happy")),
    *(("viejo", "vieja", "viejos", "old"), ("joven", "joven", "jóvenes", "young")),
    *(("pobre", "pobre", "pobres", "poor"), ("fuerte", "fuerte", "fuertes", "strong")),
    *(("famoso", "famosa", "famosos", "famous"), ("alto", "alta", "altos", "tall")),
)
GOOD = (("gran", "gran", "great"), ("buen", "buena", "good"), ("mal", "mala", "bad"))
ROLES = (
    *(("amigo", "amiga", "friend"), ("profesor", "profesora", "teacher"), ("cantante", "cantante", "singer")),
    *(("vecino", "vecina", "neighbor"), ("médico", "médica", "doctor")),
)
NEEDS = (("hambre", "hungry"), ("sed", "thirsty"), ("frío", "cold"), ("sueño", "sleepy"), ("calor", "hot"))
DEEDS = (
    *(("patea", "kicks"), ("ve", "sees"), ("compra", "buys"), ("pierde", "loses"), ("encuentra", "finds")),
    ("quiere", "wants"),
)
OPENED = (
    *(("abrieron", "opened"), ("leyeron", "read"), ("cerraron", "closed"), ("perdieron", "lost")),
    ("encontraron", "found"),
)
OWNED = (
    ("libros", "books"),
    ("cartas", "letters"),
    ("casas", "houses"),
    ("ventanas", "windows"),
    ("coches", "cars"),
)
WISHES = (
    *(("comer", "to eat"), ("dormir", "to sleep"), ("jugar", "to play"), ("correr", "to run")),
    *(
        ("beber", "to drink"),
        ("nadar", "to swim"),
        ("agua", "water"),
        ("leche", "milk"),
        ("un amigo", "a friend"),
    ),
    *(("una pelota", "a ball"), ("un libro", "a book")),
)
WANTED = (("quería", "wanted"), ("quiere", "wants"), ("necesitaba", "needed"), ("necesita", "needs"))
MADE = (
    *(("escribió", "escrit", "wrote", "written"), ("encontró", "encontrad", "found", "found")),
    *(("compró", "comprad", "bought", "bought"), ("vendió", "vendid", "sold", "sold")),
)
THESE = (("libro", "m", "book"), ("carta", "f", "letter"), ("canción", "f", "song"), ("poema", "m", "poem"))
CLOTHES = (
    ("suéter", "m", "sweater"),
    ("sombrero", "m", "hat"),
    ("camisa", "f", "shirt"),
    ("chaqueta", "f", "jacket"),
)
THE = {"m": "el", "f": "la"}
A = {"m": "un", "f": "una"}
THIS = {"m": "este", "f": "esta"}


def agreeing(adjective: tuple[str, str, str], gender: str) -> str:
    """The form of an adjective beside a noun of a gender."""
    return adjective[0] if gender == "m" else adjective[1]


def anyone(rng: Random) -> tuple[str, str, str, str]:
    """A name, its gender, and its pronoun in both languages."""
    return (rng.choice(WOMEN), "f", "ella", "she") if rng.randrange(2) else (rng.choice(MEN), "m", "él", "he")


def friend(rng: Random) -> Both:
    """Emma hates games but she is a great friend: what *she* is."""
    name, gender, ella, she = anyone(rng)
    (things, games), good, role = rng.choice(MANY_THINGS), rng.choice(GOOD), rng.choice(ROLES)
    verb, hates = rng.choice((("odia", "hates"), ("prefiere", "prefers"), ("compra", "buys")))
    es = (
        f"{name} {verb} {things} pero {ella} es {A[gender]} {agreeing(good, gender)} {agreeing(role, gender)}"
    )
    return es, f"{name} {hates} {games} but {she} is a {good[2]} {role[2]}"


def crossing(rng: Random) -> Both:
    """The chicken and the road: whether *it* is the one or the other, only the last word says."""
    (animal, own, chicken), (way, its, road) = rng.choice(ANIMALS), rng.choice(WAYS)
    no, cross = rng.choice(
        (("no cruzó", "didn't cross"), ("no encontró", "didn't find"), ("no vio", "didn't see"))
    )
    if rng.randrange(2):
        feeling = rng.choice(FEELINGS)
        why, because = f"estaba demasiado {agreeing(feeling, own)}", feeling[2]
    else:
        size = rng.choice(SIZES)
        why, because = f"era demasiado {agreeing(size, its)}", size[2]
    return (
        f"{THE[own]} {animal} {no} {THE[its]} {way} porque {why}.",
        f"the {chicken} {cross} the {road} because it was too {because}.",
    )


def moods(rng: Random) -> Both:
    """The rich and the happy: two words change places, and with them what is asked."""
    one, other = rng.sample(MOODS, 2)
    match rng.randrange(4):
        case 0:
            _, gender, ella, she = anyone(rng)
            first, second = (agreeing((word[0], word[1], word[3]), gender) for word in (one, other))
            return f"{ella} es {first}, pero ¿es {second}?", f"{she} is {one[3]}, but is {she} {other[3]}?"
        case 1:
            _, gender, ella, she = anyone(rng)
            form = agreeing((one[0], one[1], one[3]), gender)
            return f"¡{ella} es {form}!", f"{she} is {one[3]}!"
        case 2:
            many, students = rng.choice(MANY_PEOPLE)
            return (
                f"los {many} son {one[2]}, pero ¿son {other[2]}?",
                f"the {students} are {one[3]}, but are they {other[3]}?",
            )
        case _:
            return f"son {one[2]}, pero ¿son {other[2]}?", f"they are {one[3]}, but are they {other[3]}?"


def wish(rng: Random) -> Both:
    """My dog wanted … what? The words that may follow."""
    whose, my = rng.choice((("mi", "my"), ("tu", "your"), ("nuestro", "our")))
    who, gender, dog = rng.choice((*ANIMALS, *(one for one in PEOPLE if one[0] != "estudiante")))
    whose = "nuestra" if whose == "nuestro" and gender == "f" else whose
    (verb, wanted), (what, that) = rng.choice(WANTED), rng.choice(WISHES)
    return f"{whose} {who} {verb} {what}.", f"{my} {dog} {wanted} {that}."


def students(rng: Random) -> Both:
    """Students opened their books: the sentence of the loss."""
    (many, people), (verb, opened), (things, books) = (
        rng.choice(MANY_PEOPLE),
        rng.choice(OPENED),
        rng.choice(OWNED),
    )
    return f"los {many} {verb} sus {things}.", f"{people} {opened} their {books}."


def ball(rng: Random) -> Both:
    """The boy kicks the red ball: articles, nouns, and an adjective that changes its place."""
    (who, own, boy), (thing, its, item) = rng.choice((*PEOPLE, *ANIMALS[:4])), rng.choice(THINGS)
    (verb, kicks), colour = rng.choice(DEEDS), rng.choice(COLOURS)
    es = f"{THE[own]} {who} {verb} {THE[its]} {thing} {agreeing(colour, its)}."
    return es, f"the {boy} {kicks} the {colour[2]} {item}."


def hunger(rng: Random) -> Both:
    """John said that he isn't hungry: *he* is John."""
    name, _, _, she = anyone(rng)
    (verb, said), (need, hungry) = (
        rng.choice((("dijo", "said"), ("sabe", "knows"), ("piensa", "thinks"))),
        rng.choice(NEEDS),
    )
    no, isnt = rng.choice((("no ", "isn't"), ("", "is")))
    return f"{name} {verb} que {no}tiene {need}.", f"{name} {said} that {she} {isnt} {hungry}."


def smile(rng: Random) -> Both:
    """A warm smile and warm milk: one word, two meanings."""
    if rng.randrange(2):
        verb, miss = rng.choice((("extraño", "miss"), ("recuerdo", "remember"), ("quiero", "want")))
        return f"{verb} su cálida sonrisa.", f"I {miss} her warm smile."
    name, _, _, _ = anyone(rng)
    what, milk = rng.choice((("leche caliente", "warm milk"), ("agua caliente", "warm water")))
    return f"{name} bebe {what}.", f"{name} drinks {milk}."


def bank(rng: Random) -> Both:
    """The bank of the river, and the bank with the accounts."""
    name, _, _, _ = anyone(rng)
    if rng.randrange(2):
        verb, went = rng.choice((("fue a", "went to"), ("duerme en", "sleeps at"), ("espera en", "waits at")))
        return f"{name} {verb} la orilla del río.", f"{name} {went} the bank of the river."
    verb, opened = rng.choice((("abrió", "opened"), ("cerró", "closed"), ("tiene", "has")))
    return f"{name} {verb} una cuenta en el banco.", f"{name} {opened} an account at the bank."


def writing(rng: Random) -> Both:
    """Johan wrote this book, and this book was written by Johan: two orders, one meaning."""
    name, _, _, _ = anyone(rng)
    (noun, gender, book), (wrote, written, did, done) = rng.choice(THESE), rng.choice(MADE)
    if rng.randrange(2):
        return f"{name} {wrote} {THIS[gender]} {noun}.", f"{name} {did} this {book}."
    ending = "o" if gender == "m" else "a"
    return f"{THIS[gender]} {noun} fue {written}{ending} por {name}.", f"this {book} was {done} by {name}."


def owner(rng: Random) -> Both:
    """Karin's guitar, and the sweater that still fits: words that belong together, near and far."""
    name, _, _, _ = anyone(rng)
    (thing, gender, item), colour = rng.choice(THINGS), rng.choice(COLOURS)
    if rng.randrange(3):
        es = f"{THE[gender]} {thing} de {name} es {agreeing(colour, gender)}."
        return es, f"{name}'s {item} is {colour[2]}."
    cloth, gender, sweater = rng.choice(CLOTHES)
    es = f"{THE[gender]} {cloth} que {name} encontró en el fondo del armario todavía es {agreeing(colour, gender)}."
    return es, f"the {sweater} that {name} found in the back of the closet is still {colour[2]}."


def having(rng: Random) -> Both:
    """I have a car, and I'm not hungry yet."""
    thing, gender, item = rng.choice(THINGS)
    need, hungry = rng.choice(NEEDS)
    match rng.randrange(4):
        case 0:
            return f"tengo {A[gender]} {thing}.", f"I have a {item}."
        case 1:
            return f"no tengo {A[gender]} {thing}.", f"I don't have a {item}."
        case 2:
            return f"todavía no tengo {need}.", f"I'm not {hungry} yet."
        case _:
            return f"tengo {need}.", f"I'm {hungry}."


PATTERNS: tuple[Callable[[Random], Both], ...] = (
    *(friend, crossing, moods, wish, students, ball, hunger, smile, bank, writing, owner, having),
)  # fmt: skip

WORDS = re.compile(r"\w+(?:['’-]\w+)*")
SAMPLE, FREQUENT, LONGEST = (
    8000,
    24,
    11,
)  # sentences counted; how often a word occurs in them; words of a sentence


@cache
def frequent_words() -> frozenset[str]:
    """The words that are frequent in both languages of `builtin:spanish`."""
    counts = Counter(
        word for both in islice(spanish.pairs(1), SAMPLE) for text in both for word in WORDS.findall(text)
    )
    return frozenset(word for word, count in counts.items() if count >= FREQUENT)


def plain_sentences(seed: int) -> Iterator[Both]:
    """The short sentences of `builtin:spanish` that need frequent words only."""
    known = frequent_words()
    for both in spanish.pairs(seed):
        words = [WORDS.findall(text) for text in both]
        if all(len(side) <= LONGEST and known.issuperset(side) for side in words):
            yield both


def capital(text: str) -> str:
    """A sentence with a capital, after an opening mark too."""
    return re.sub(r"^([¿¡]?)(\w)", lambda found: found[1] + found[2].upper(), text)


def hasty(text: str) -> str:
    """In small letters, without the full stop, as in *my dog wanted …*; it also decides the split of both forms."""
    return text.lower().removesuffix(".")


def sentences(seed: int) -> Iterator[Both]:
    """An endless stream of (Spanish, English), with repetitions."""
    rng, plain = Random(f"lecture {seed}"), plain_sentences(seed)
    while True:
        es, en = rng.choice(PATTERNS)(rng) if rng.randrange(2) else next(plain)
        if rng.randrange(4):
            yield capital(es), capital(en)
        else:
            yield hasty(es), hasty(en)


def make(seed: int, options: Options) -> Iterator[tuple[str, Example]]:
    """The notes' sentences, then the stream, in the directions asked for."""
    rng = Random(f"direction {seed}")
    for number, (es, en) in enumerate(chain(OF_THE_NOTES.items(), sentences(seed))):
        is_turned = options["direction"] == "en-es" or (
            options["direction"] == "both"
            and (number % 2 if number < len(OF_THE_NOTES) else rng.randrange(2))
        )
        yield hasty(es), Pair(en, es) if is_turned else Pair(es, en)


def make_lines(seed: int, options: Options) -> Iterator[tuple[str, Example]]:
    """The English sides, each by itself."""
    return ((hasty(es), Text(en)) for es, en in chain(OF_THE_NOTES.items(), sentences(seed)))


PINNED = frozenset(map(hasty, OF_THE_NOTES))
CORPUS = Corpus(
    name="lecture",
    kind="pair",
    description="the sentences of the lecture notes, varied, among short Spanish and English ones",
    make=make,
    counts={"train": 120_000, "validation": 1000, "test": 1000},
    options=(Option("direction", ("both", "es-en", "en-es"), "both", "from which language into which"),),
    pinned=PINNED,
)
LINES = Corpus(
    name="lines",
    kind="text",
    description="the English sides of builtin:lecture, for a language model",
    make=make_lines,
    counts={"train": 60_000, "validation": 1000, "test": 1000},
    pinned=PINNED,
)
