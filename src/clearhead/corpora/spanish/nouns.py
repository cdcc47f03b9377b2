"""Nouns of the grammar by what can be done with them, so that nobody eats a table.

A table says the Spanish noun with its article, which shows the gender, and the English noun. No word of
either side stands for two words of the other.
"""

from dataclasses import dataclass, replace

from clearhead.corpora.spanish import adjectives as adj
from clearhead.corpora.spanish.adjectives import (
    AGES,
    BUILDINGS,
    COLORS,
    CONTENT,
    LOOKS,
    PRICES,
    SIZES,
    STATES,
    TASKS,
    THINGS,
    Adjective,
)
from clearhead.corpora.spanish.inflection import an, english_plural, spanish_plural

ENGLISH_PLURALS = {
    "man": "men", "woman": "women", "child": "children", "police officer": "police officers", "mouse": "mice",
    "tomato": "tomatoes", "potato": "potatoes", "scarf": "scarves", "knife": "knives", "foot": "feet",
    "tooth": "teeth", "stomach": "stomachs", "father": "parents", "grandfather": "grandparents",
}  # fmt: skip
SPANISH_PLURALS = {"examen": "exámenes", "jersey": "jerséis"}
EL_BEFORE_FEMININE = {"agua", "aula", "águila", "hacha"}  # a stressed a asks for el and un


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun of both languages, singular and plural, with the adjectives that may describe it."""

    es: tuple[str, str]
    en: tuple[str, str]
    feminine: bool
    takes_el: bool
    an: str
    adjectives: tuple[Adjective, ...]


def noun(spanish: str, english: str, adjectives: tuple[Adjective, ...] = ()) -> Noun:
    """From a Spanish noun with its article and an English noun without."""
    article, _, word = spanish.partition(" ")
    plural = SPANISH_PLURALS.get(word) or spanish_plural(word)
    several = ENGLISH_PLURALS.get(english) or english_plural(english)
    if article in ("los", "las"):
        plural, several = word, english
    takes_el = word.partition(" ")[0] in EL_BEFORE_FEMININE
    is_feminine = article in ("la", "las") or takes_el
    return Noun((word, plural), (english, several), is_feminine, takes_el, an(english), adjectives)


LEXICON: dict[str, Noun] = {}


def nouns(adjectives: tuple[Adjective, ...], table: dict[str, str]) -> tuple[Noun, ...]:
    """The nouns of a table, all with the same adjectives, which are kept to be called by name."""
    made = tuple(noun(spanish, english, adjectives) for spanish, english in table.items())
    for one in made:
        LEXICON.setdefault(one.es[0], one)
    return made


def called(names: str) -> tuple[Noun, ...]:
    """Nouns of the tables by their Spanish names."""
    return tuple(LEXICON[name] for name in names.split())


# People

PEOPLE = nouns(
    adj.PEOPLE,
    {
        "el hombre": "man", "la mujer": "woman", "el chico": "boy", "la chica": "girl", "el niño": "child",
        "el profesor": "teacher", "el médico": "doctor", "el estudiante": "student", "el camarero": "waiter",
        "la camarera": "waitress", "el actor": "actor", "la actriz": "actress", "el rey": "king",
        "la reina": "queen", "el príncipe": "prince", "la princesa": "princess", "el cantante": "singer",
        "el escritor": "writer", "el abogado": "lawyer", "el ingeniero": "engineer", "el pintor": "painter",
        "el granjero": "farmer", "la enfermera": "nurse", "la bailarina": "dancer",
        "el policía": "police officer",
    },
)  # fmt: skip
FAMILY = nouns(
    (),
    {
        "el padre": "father", "la madre": "mother", "el hermano": "brother", "la hermana": "sister",
        "el hijo": "son", "la hija": "daughter", "el abuelo": "grandfather", "la abuela": "grandmother",
        "el tío": "uncle", "la tía": "aunt", "el primo": "cousin", "el amigo": "friend",
        "el vecino": "neighbor", "el jefe": "boss", "el sobrino": "nephew", "la sobrina": "niece",
    },
)  # fmt: skip
NEAR = called("padre madre hermano hermana hijo hija abuelo abuela tío tía primo amigo")
RELATIVES = called("padre hermano hermana hijo hija abuelo primo amigo vecino")  # also in the plural
PEERS = called("hermano hermana primo amigo")
MANY_RELATIVES = called("hermano hermana hijo hija primo amigo")  # also in numbers

# Each profession with its feminine, for "Ana es abogada"; the second table does not change.
PROFESSIONS = {
    ("profesor", "profesora"): "teacher", ("médico", "médica"): "doctor", ("abogado", "abogada"): "lawyer",
    ("enfermero", "enfermera"): "nurse", ("cocinero", "cocinera"): "cook",
    ("escritor", "escritora"): "writer", ("ingeniero", "ingeniera"): "engineer",
    ("pintor", "pintora"): "painter", ("granjero", "granjera"): "farmer",
    ("carpintero", "carpintera"): "carpenter",
}  # fmt: skip
SHARED_PROFESSIONS = {
    "periodista": "journalist", "dentista": "dentist", "artista": "artist", "estudiante": "student",
    "cantante": "singer", "policía": "police officer", "taxista": "taxi driver", "pianista": "pianist",
}  # fmt: skip

# Animals

PETS = nouns(
    adj.ANIMALS,
    {
        "el perro": "dog", "el gato": "cat", "el caballo": "horse", "el pájaro": "bird",
        "el conejo": "rabbit", "la tortuga": "turtle", "el burro": "donkey",
    },
)  # fmt: skip
FARM = nouns(adj.ANIMALS, {"la vaca": "cow", "el cerdo": "pig", "la gallina": "hen", "el pato": "duck"})
WILD = nouns(
    adj.ANIMALS,
    {
        "el león": "lion", "el elefante": "elephant", "el mono": "monkey", "el oso": "bear",
        "el águila": "eagle", "el zorro": "fox", "el ratón": "mouse", "la rana": "frog",
        "la serpiente": "snake", "la araña": "spider",
    },
)  # fmt: skip
BEASTS = PETS + FARM + WILD

# Food and drink

FRUITS = nouns(
    SIZES + PRICES + adj.called("dulce"),
    {
        "la manzana": "apple", "la naranja": "orange", "el plátano": "banana", "la pera": "pear",
        "el melón": "melon", "la fresa": "strawberry", "el limón": "lemon", "el tomate": "tomato",
    },
)  # fmt: skip
SNACKS = nouns(
    SIZES + PRICES,
    {
        "la patata": "potato", "la zanahoria": "carrot", "la cebolla": "onion",
        "la galleta": "cookie", "el bocadillo": "sandwich", "el pastel": "cake",
        "la hamburguesa": "hamburger",
    },
)  # fmt: skip
EGGS = nouns(SIZES + adj.called("blanco"), {"el huevo": "egg"})
DISHES = nouns(
    PRICES + adj.called("picante salado"),
    {
        "la carne": "meat", "el pescado": "fish", "el arroz": "rice", "la sopa": "soup",
        "el pollo": "chicken", "la pasta": "pasta", "la ensalada": "salad",
    },
)  # fmt: skip
GROCERIES = nouns(
    PRICES,
    {
        "el pan": "bread", "el queso": "cheese", "la mantequilla": "butter", "el chocolate": "chocolate",
        "la miel": "honey", "el azúcar": "sugar", "la sal": "salt", "el jamón": "ham", "la fruta": "fruit",
    },
)  # fmt: skip
DRINKS = nouns(
    PRICES,
    {
        "el agua": "water", "la leche": "milk", "el café": "coffee", "el té": "tea", "el vino": "wine",
        "la cerveza": "beer", "el zumo de naranja": "orange juice", "la limonada": "lemonade",
    },
)  # fmt: skip
COOKED = called("carne pescado arroz sopa pollo pasta")
EDIBLE = DISHES + called("pan queso chocolate jamón fruta")
SERVED = called("sopa arroz carne pescado pollo pasta café té leche")

# Things

BOOKS = nouns(CONTENT + AGES, {"el libro": "book", "la revista": "magazine", "la novela": "novel"})
READING = BOOKS + nouns(CONTENT + AGES, {"el poema": "poem", "el cuento": "story", "el artículo": "article"})
WRITTEN = tuple(
    replace(one, adjectives=adj.called("interesante largo divertido"))
    for one in called("libro novela poema cuento artículo")
)
MAIL = nouns(adj.called("largo"), {"la carta": "letter", "el mensaje": "message", "la postal": "postcard"})
CLOTHES = nouns(
    THINGS + adj.called("limpio sucio elegante"),
    {
        "la camisa": "shirt", "el vestido": "dress", "la chaqueta": "jacket", "el abrigo": "coat",
        "el sombrero": "hat", "la falda": "skirt", "la camiseta": "T-shirt", "la bufanda": "scarf",
        "la corbata": "tie", "la gorra": "cap", "el jersey": "sweater", "el traje": "suit",
    },
)  # fmt: skip
PAIRS = nouns(
    THINGS + adj.called("limpio sucio"),
    {
        "los zapatos": "shoes", "las botas": "boots", "los guantes": "gloves", "los calcetines": "socks",
        "los pantalones": "pants", "las gafas": "glasses",
    },
)  # fmt: skip
VEHICLES = nouns(
    THINGS + adj.called("limpio sucio"),
    {
        "el coche": "car",
        "la bicicleta": "bicycle",
        "la moto": "motorcycle",
        "el camión": "truck",
        "el barco": "boat",
    },
)
FURNITURE = nouns(
    THINGS + adj.called("pesado"),
    {
        "la mesa": "table", "la silla": "chair", "la cama": "bed", "la lámpara": "lamp",
        "el espejo": "mirror", "el sofá": "sofa", "la alfombra": "rug", "el escritorio": "desk",
        "el armario": "closet",
    },
)  # fmt: skip
TOOLS = nouns(
    THINGS + STATES,
    {
        "el ordenador": "computer", "la cámara": "camera", "el móvil": "cell phone", "el reloj": "watch",
        "la guitarra": "guitar", "el juguete": "toy", "la taza": "cup", "el plato": "plate",
        "el paraguas": "umbrella",
    },
)  # fmt: skip
BELONGINGS = nouns(
    SIZES + AGES + COLORS,
    {
        "la llave": "key", "la cartera": "wallet", "la mochila": "backpack", "la maleta": "suitcase",
        "la bolsa": "bag", "el anillo": "ring", "el bolígrafo": "pen", "el lápiz": "pencil",
        "el cuaderno": "notebook", "la muñeca": "doll", "el mapa": "map",
        "la cuchara": "spoon", "el tenedor": "fork", "el cuchillo": "knife", "el hacha": "axe",
    },
)  # fmt: skip
TREASURES = nouns(
    LOOKS + SIZES + PRICES,
    {
        "la flor": "flower", "la planta": "plant", "la vela": "candle", "el cuadro": "painting",
        "la foto": "photo", "el collar": "necklace", "el regalo": "gift", "la botella": "bottle",
        "la caja": "box",
    },
)  # fmt: skip
DOORS = nouns(SIZES + COLORS + AGES, {"la puerta": "door", "la ventana": "window", "la pared": "wall"})
FILMS = nouns(
    CONTENT + AGES, {"la película": "movie", "el programa": "show", "el documental": "documentary"}
) + nouns(adj.called("interesante aburrido largo divertido"), {"el partido": "match"})
SONGS = nouns(AGES + adj.called("interesante largo divertido famoso bonito"), {"la canción": "song"})
INSTRUMENTS = nouns(
    (), {"la guitarra": "guitar", "el piano": "piano", "el violín": "violin", "la flauta": "flute",
         "la trompeta": "trumpet", "el tambor": "drum"}
)  # fmt: skip
STUDY = nouns(
    TASKS,
    {
        "la pregunta": "question", "la respuesta": "answer", "el problema": "problem", "la lección": "lesson",
        "el ejercicio": "exercise", "el examen": "exam",
    },
)  # fmt: skip
IDEAS = nouns(adj.called("importante útil interesante"), {"la idea": "idea"})
BODY = nouns(
    (),
    {
        "la cabeza": "head", "la espalda": "back", "el estómago": "stomach", "la garganta": "throat",
        "el brazo": "arm", "la pierna": "leg", "la rodilla": "knee", "la mano": "hand", "el pie": "foot",
        "el ojo": "eye", "el diente": "tooth",
    },
)  # fmt: skip

OPENABLE = called("puerta ventana caja botella maleta mochila bolsa")
CLOSABLE = called("puerta ventana maleta mochila bolsa")
LAUNDRY = called("camisa vestido chaqueta abrigo falda camiseta bufanda jersey")
WASHABLE = LAUNDRY + called("taza plato cuchara tenedor cuchillo coche bicicleta moto camión")
CLEANABLE = called("ventana mesa espejo armario alfombra escritorio sofá coche moto camión barco")
BREAKABLE = called("taza plato reloj cámara juguete paraguas ordenador móvil botella")
PAINTABLE = called("puerta ventana pared mesa silla cama armario escritorio")
CARRIED = BELONGINGS + called("cámara móvil reloj paraguas flor foto regalo")
GOODS = CLOTHES + VEHICLES + FURNITURE + TOOLS + BELONGINGS + TREASURES + BOOKS
MASSES = EDIBLE + DRINKS + called("mantequilla miel azúcar sal")
COUNTED_FOOD = FRUITS + SNACKS

# Places: the English preposition of being there belongs to the noun.

BUILDING = nouns(
    BUILDINGS,
    {
        "el museo": "museum", "la biblioteca": "library", "el restaurante": "restaurant",
        "la iglesia": "church", "el mercado": "market", "el hotel": "hotel", "el teatro": "theater",
        "el castillo": "castle", "la calle": "street", "el pueblo": "village", "la ciudad": "city",
        "el puente": "bridge",
    },
) + nouns(
    SIZES + LOOKS + adj.called("tranquilo famoso"),
    {"el parque": "park", "la plaza": "square", "el jardín": "garden", "la isla": "island"},
)  # fmt: skip
ROOMS = nouns(
    SIZES + LOOKS + AGES,
    {
        "la cocina": "kitchen", "el dormitorio": "bedroom", "el baño": "bathroom", "el garaje": "garage",
        "el aula": "classroom", "la casa": "house", "la granja": "farm",
    },
)  # fmt: skip
SERVICES = nouns(
    SIZES,
    {
        "la tienda": "store", "el hospital": "hospital", "la oficina": "office", "la estación": "station",
        "el aeropuerto": "airport", "el banco": "bank", "el cine": "movie theater",
        "la universidad": "university", "la farmacia": "pharmacy", "la panadería": "bakery",
        "la piscina": "pool", "la fábrica": "factory", "la playa": "beach", "el lago": "lake",
        "el río": "river", "el bosque": "forest", "el mar": "sea", "el zoo": "zoo",
        "la cafetería": "cafeteria",
    },
)  # fmt: skip
PLACES = BUILDING + ROOMS + SERVICES
OPEN_HOURS = called(
    "museo biblioteca restaurante mercado teatro castillo tienda banco farmacia panadería piscina cafetería"
)
IN = frozenset(
    (
        "park", "castle", "garden", "village", "city", "kitchen", "bedroom", "bathroom", "garage",
        "classroom", "house", "forest", "square", "street", "sea", "river", "pool",
    )
)  # fmt: skip
ON = frozenset(("bridge", "island", "farm"))

# Words without an article in English

LANGUAGES = {
    "español": "Spanish", "inglés": "English", "francés": "French", "alemán": "German", "italiano": "Italian",
    "portugués": "Portuguese", "chino": "Chinese", "japonés": "Japanese", "ruso": "Russian",
    "árabe": "Arabic", "griego": "Greek", "sueco": "Swedish",
}  # fmt: skip
SUBJECTS = nouns(
    (),
    {
        "la historia": "history", "las matemáticas": "math", "la música": "music", "el arte": "art",
        "la química": "chemistry", "la física": "physics", "la geografía": "geography",
        "la medicina": "medicine",
    },
)  # fmt: skip
SPORTS = nouns(
    (),
    {
        "el fútbol": "soccer", "el tenis": "tennis", "el baloncesto": "basketball", "el ajedrez": "chess",
        "el golf": "golf", "el voleibol": "volleyball",
    },
)  # fmt: skip
SEASONS = nouns(
    (), {"la primavera": "spring", "el verano": "summer", "el otoño": "fall", "el invierno": "winter"}
)
NATURE_WORDS = nouns(
    (), {"la lluvia": "rain", "la nieve": "snow", "el ruido": "noise", "el silencio": "silence"}
)
COUNTRIES = {
    "España": "Spain", "Francia": "France", "Italia": "Italy", "Alemania": "Germany", "Inglaterra": "England",
    "Portugal": "Portugal", "México": "Mexico", "Japón": "Japan", "China": "China", "Brasil": "Brazil",
    "Suecia": "Sweden", "Canadá": "Canada", "Grecia": "Greece", "Rusia": "Russia",
}  # fmt: skip
CITIES = {
    "Madrid": "Madrid", "Barcelona": "Barcelona", "Sevilla": "Seville", "Londres": "London", "París": "Paris",
    "Roma": "Rome", "Berlín": "Berlin", "Nueva York": "New York", "Lisboa": "Lisbon", "Moscú": "Moscow",
    "Atenas": "Athens", "Estocolmo": "Stockholm",
}  # fmt: skip
WOMEN = ("Ana", "Elena", "Laura", "Marta", "Carmen", "Julia", "Clara", "Irene", "Olga", "Emma")
MEN = ("Pedro", "Juan", "Luis", "Carlos", "Pablo", "David", "Jorge", "Diego", "Hugo", "Daniel")

COUNTING = {
    "dos": "two", "tres": "three", "cuatro": "four", "cinco": "five", "seis": "six", "siete": "seven",
    "ocho": "eight", "nueve": "nine", "diez": "ten", "once": "eleven", "doce": "twelve",
}  # fmt: skip
TEENS = {
    "trece": "thirteen", "catorce": "fourteen", "quince": "fifteen", "dieciséis": "sixteen",
    "dieciocho": "eighteen",
}  # fmt: skip
TENS = {
    "veinte": "twenty", "veinticinco": "twenty-five", "treinta": "thirty", "cuarenta": "forty",
    "cincuenta": "fifty", "sesenta": "sixty", "setenta": "seventy", "ochenta": "eighty", "noventa": "ninety",
}  # fmt: skip
HUNDRED = {"cien": "one hundred"}
