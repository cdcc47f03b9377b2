"""Adjectives of the grammar: which nouns they fit, and whether Spanish says them with *ser* or *estar*.

No Spanish adjective here has two English words and no English one has two Spanish words, but for
*aburrido*, which is "boring" with ser (things) and "bored" with estar (people): that is what the two verbs
are for.
"""

from dataclasses import dataclass

from clearhead.corpora.spanish.inflection import an, feminine, spanish_plural

IRREGULAR_PLURALS = {"joven": "jóvenes"}


@dataclass(frozen=True, slots=True)
class Adjective:
    """The Spanish forms (masculine, feminine, and their plurals), the English ones, and the place."""

    es: tuple[str, str, str, str]
    en: str
    an: str
    before: bool = False

    @property
    def is_invariable(self) -> bool:
        """Whether it says nothing of gender, so that "I" and "you" can be its subject."""
        return self.es[0] == self.es[1]


def adjective(spanish: str, english: str) -> Adjective:
    """The forms of an adjective that follows its noun."""
    woman = feminine(spanish)
    men = IRREGULAR_PLURALS.get(spanish) or spanish_plural(spanish)
    women = men if woman == spanish else spanish_plural(woman)
    return Adjective((spanish, woman, men, women), english, an(english))


LEXICON: dict[str, Adjective] = {}


def adjectives(table: dict[str, str]) -> tuple[Adjective, ...]:
    """The adjectives of a table of Spanish and English words, which are kept to be called by name."""
    made = tuple(adjective(spanish, english) for spanish, english in table.items())
    for one in made:
        LEXICON.setdefault(one.es[0], one)
    return made


def called(names: str) -> tuple[Adjective, ...]:
    """Adjectives of the tables by their Spanish names."""
    return tuple(LEXICON[name] for name in names.split())


COLORS = adjectives(
    {
        "rojo": "red", "azul": "blue", "verde": "green", "amarillo": "yellow", "negro": "black",
        "blanco": "white", "gris": "gray", "marrón": "brown",
    }
)  # fmt: skip
LOOKS = adjectives({"bonito": "pretty", "feo": "ugly"})
SIZES = adjectives({"grande": "big", "pequeño": "small"})
AGES = adjectives({"nuevo": "new", "viejo": "old"})
PRICES = adjectives({"caro": "expensive", "barato": "cheap"})
WEIGHTS = adjectives({"pesado": "heavy", "ligero": "light"})
STYLES = adjectives({"moderno": "modern", "elegante": "elegant"})
PLACES = adjectives({"antiguo": "ancient", "moderno": "modern", "tranquilo": "quiet", "famoso": "famous"})
CONTENT = adjectives(
    {
        "interesante": "interesting",
        "aburrido": "boring",
        "largo": "long",
        "divertido": "fun",
        "famoso": "famous",
    }
)
TASKS = adjectives({"difícil": "difficult", "fácil": "easy", "importante": "important", "útil": "useful"})
TASTES = adjectives({"dulce": "sweet", "picante": "spicy", "salado": "salty"})

BODIES = adjectives({"alto": "tall", "bajo": "short", "joven": "young", "viejo": "old"})
CHARACTERS = adjectives(
    {
        "inteligente": "intelligent", "amable": "kind", "simpático": "nice", "valiente": "brave",
        "tímido": "shy", "serio": "serious", "perezoso": "lazy", "trabajador": "hardworking",
        "optimista": "optimistic", "puntual": "punctual", "fuerte": "strong", "rico": "rich", "pobre": "poor",
        "famoso": "famous", "paciente": "patient", "responsable": "responsible",
    }
)  # fmt: skip
NATIONS = adjectives(
    {
        "español": "Spanish", "inglés": "English", "francés": "French", "alemán": "German",
        "italiano": "Italian", "portugués": "Portuguese", "chino": "Chinese", "japonés": "Japanese",
        "ruso": "Russian", "griego": "Greek", "sueco": "Swedish", "mexicano": "Mexican",
        "canadiense": "Canadian", "estadounidense": "American",
    }
)  # fmt: skip
GOOD = (
    Adjective(("buen", "buena", "buenos", "buenas"), "good", "a", before=True),
    Adjective(("mal", "mala", "malos", "malas"), "bad", "a", before=True),
)

# With estar: how someone or something is now.
MOODS = adjectives(
    {
        "cansado": "tired", "enfermo": "sick", "triste": "sad", "feliz": "happy", "enfadado": "angry",
        "ocupado": "busy", "nervioso": "nervous", "preocupado": "worried", "aburrido": "bored",
        "listo": "ready", "borracho": "drunk", "enamorado": "in love",
    }
)  # fmt: skip
BAD_MOODS = tuple(one for one in MOODS if one.en not in ("happy", "ready", "in love"))
STATES = adjectives({"limpio": "clean", "sucio": "dirty", "roto": "broken"})
OPENINGS = adjectives({"abierto": "open", "cerrado": "closed"})
FILLINGS = adjectives({"vacío": "empty", "lleno": "full"})
SERVINGS = adjectives({"caliente": "hot", "frío": "cold", "delicioso": "delicious"})

THINGS = COLORS + LOOKS + SIZES + AGES + PRICES
PEOPLE = BODIES + CHARACTERS
ANIMALS = called("negro blanco gris marrón joven viejo") + SIZES + LOOKS
BUILDINGS = SIZES + LOOKS + PLACES
