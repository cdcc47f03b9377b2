"""Sentences from which word vectors learn gender, capitals and the two kinds of bank (N3 to N6).

A seed enters; sentences leave. Words in like contexts get like vectors: *king* and *queen* share thrones and
crowns, *king* and *man* beards and *his*; *Paris* and *France* share baguettes, *Paris* and *Rome* a mayor. The
two kinds of likeness add up, so that king - man + woman comes near queen and Paris - France + Italy near Rome;
`ANALOGIES` lists all that should hold. *Bank* and *warm* each occur in two sorts of sentences that have
little in common, which one vector a word cannot distinguish.
"""

from collections.abc import Iterator
from itertools import permutations
from random import Random

from clearhead.corpora.corpus import Corpus, Options
from clearhead.examples import Example, Text

Words = tuple[str, ...]

# a man's word, the woman's, and what both of them do
COUPLES: tuple[tuple[str, str, Words], ...] = (
    ("man", "woman", ("walked to work", "crossed the street", "read the newspaper", "waited for the bus")),
    ("king", "queen", ("sat on the throne", "wore the crown", "ruled the kingdom", "opened the parliament")),
    ("prince", "princess", ("danced a waltz", "inherited the castle", "rode a white pony", "left the court")),
    ("boy", "girl", ("went to school", "played with toys", "climbed the fence", "lost a tooth")),
    ("father", "mother", ("woke the children", "cooked for the family", "packed the lunch", "tucked in the baby")),
    ("son", "daughter", ("obeyed the parents", "was born at dawn", "left the nest", "did the homework")),
    ("brother", "sister", ("envied the twins", "teased the siblings", "kept the diary", "shared the bunk bed")),
    ("uncle", "aunt", ("came for Christmas", "brought presents", "sent a postcard", "spoiled the cousins")),
    ("husband", "wife", ("planned the wedding", "lost the ring", "paid for the divorce", "planned the honeymoon")),
    ("grandfather", "grandmother", ("told old tales", "grew roses", "napped in a rocker", "knitted socks")),
    ("waiter", "waitress", ("carried the tray", "brought the menu", "poured the wine", "cleared the tables")),
    ("actor", "actress", ("learned the role", "stood on the stage", "rehearsed the scene", "met the critics")),
    ("wizard", "witch", ("cast a spell", "stirred the potion", "lifted the wand", "studied magic")),
    ("monk", "nun", ("prayed in the chapel", "lit the candles", "sang the psalms", "copied the scriptures")),
)  # fmt: skip
HIS: Words = ("stroked his beard", "shaved his chin", "twirled his moustache", "straightened his necktie")
HER: Words = ("smoothed her skirt", "put on her earrings", "mended her dress", "admired her necklace")
HE: Words = ("he was a {}", "people called him a {}", "he saw himself as a {}")
SHE: Words = ("she was a {}", "people called her a {}", "she saw herself as a {}")
MOODS: Words = ("happy", "tired", "quiet", "proud", "kind", "angry", "clever", "hungry")

# a country, its capital, its language, a dish, a name
COUNTRIES: tuple[Words, ...] = (
    ("France", "Paris", "French", "baguettes", "Pierre"),
    ("Italy", "Rome", "Italian", "spaghetti", "Giovanni"),
    ("Spain", "Madrid", "Spanish", "paella", "Carlos"),
    ("Germany", "Berlin", "German", "sausages", "Hans"),
    ("Portugal", "Lisbon", "Portuguese", "sardines", "Joaquim"),
    ("Sweden", "Stockholm", "Swedish", "meatballs", "Lennart"),
    ("Norway", "Oslo", "Norwegian", "salmon", "Sigrid"),
    ("Denmark", "Copenhagen", "Danish", "pastries", "Rasmus"),
    ("Finland", "Helsinki", "Finnish", "porridge", "Aino"),
    ("Poland", "Warsaw", "Polish", "pierogi", "Kasia"),
    ("Hungary", "Budapest", "Hungarian", "goulash", "Zoltan"),
    ("Greece", "Athens", "Greek", "moussaka", "Nikos"),
    ("Turkey", "Ankara", "Turkish", "baklava", "Mehmet"),
    ("Japan", "Tokyo", "Japanese", "sushi", "Haruto"),
    ("China", "Beijing", "Chinese", "dumplings", "Ming"),
    ("Russia", "Moscow", "Russian", "borscht", "Ivan"),
)
OF_BOTH: Words = (
    "{name} spoke {language} in {where}",
    "{name} cooked {dish} in {where}",
    "people in {where} sang {language} songs",
    "the cooks of {where} served {dish} to {name}",
    "visitors to {where} tasted {dish}",
    "we heard {language} in {where}",
)
OF_CITY: Words = (
    "the mayor of {where} opened the museum",
    "the streets of {where} were crowded",
    "we took the metro across {where}",
    "the suburbs of {where} grew",
    "they met on a square in {where}",
)
OF_COUNTRY: Words = (
    "the army of {where} guarded the border",
    "the coast of {where} was stormy",
    "farmers all over {where} harvested wheat",
    "the provinces of {where} voted",
    "they crossed the mountains of {where}",
)

RIVER: Words = (
    "{who} went to the {bank} of the river",
    "{who} fished from the muddy {bank}",
    "{who} rowed the boat to the {bank}",
    "ducks slept on the {bank} of the stream",
    "reeds grew along the {bank} of the river",
    "{who} swam from the boat to the {bank}",
)
MONEY: Words = (
    "{who} opened an account at the {bank}",
    "{who} asked the {bank} for a loan",
    "the {bank} raised the interest on the loan",
    "{who} trusted the {bank} with the savings",
    "the {bank} counted the money and the cheques",
    "{who} paid the debt to the {bank}",
)
SMILE: Words = (
    "{who} missed the {warm} smile of the teacher",
    "{who} thanked the neighbours for the {warm} welcome",
    "the teacher had a {warm} smile and a gentle voice",
    "the nurse spoke {warm} words in a gentle voice",
)
OVEN: Words = (
    "{who} drank {warm} milk from the kettle",
    "the soup on the stove was still {warm}",
    "{who} washed the dishes in {warm} water",
    "{who} took the {warm} bread out of the oven",
)
SENSES = (
    (RIVER, ("bank", "shore")),
    (MONEY, ("bank", "broker")),
    (SMILE, ("warm", "kind")),
    (OVEN, ("warm", "hot")),
)
WHO: Words = ("I", "we", "they", "she", "he", "the children", "the neighbours", "my friends")
WHEN: Words = (
    *("yesterday", "on Monday", "on Friday", "last night", "one morning", "in spring", "in winter", "at noon"),
    *("after lunch", "before dinner", "long ago", "once more", "as always", "every year", "that day", "again"),
)  # fmt: skip


def couple(rng: Random) -> str:
    """What a man or a woman of one sort does: something of the sort, or something of the gender."""
    male, female, deeds = rng.choice(COUPLES)
    word, own, name = rng.choice(((male, HIS, HE), (female, HER, SHE)))
    match rng.randrange(5):
        case 0:
            return rng.choice(name).format(f"{rng.choice(MOODS)} {word}")
        case 1 | 2:
            return f"the {rng.choice(MOODS)} {word} {rng.choice(own)}"
        case _:
            return f"the {rng.choice(MOODS)} {word} {rng.choice(deeds)}"


def capital(rng: Random) -> str:
    """Something of a land and its capital alike, of capitals, of lands, or of the two together."""
    country, city, language, dish, name = rng.choice(COUNTRIES)
    where, own = rng.choice(((country, OF_COUNTRY), (city, OF_CITY)))
    match rng.randrange(8):
        case 0:
            return f"{city} was the capital of {country}"
        case 1 | 2 | 3:
            return rng.choice(own).format(where=where)
        case _:
            return rng.choice(OF_BOTH).format(where=where, language=language, dish=dish, name=name)


def sense(rng: Random) -> str:
    """One sense of a word with two, said by this word or by another that has only this sense."""
    forms, words = rng.choice(SENSES)
    word = rng.choice(words)
    return rng.choice(forms).format(who=rng.choice(WHO), bank=word, warm=word)


def draw(rng: Random) -> Text:
    """One sentence, at some time or other."""
    (topic,) = rng.choices((couple, capital, sense), (4, 4, 2))
    said, when = topic(rng), rng.choice(WHEN)
    text = rng.choice((f"{when} {said}.", f"{said} {when}.", f"{said}."))
    return Text(text[0].upper() + text[1:])


def analogies() -> list[tuple[str, str, str, str]]:
    """All (a, b, c, d) for which a - b + c should come near d."""
    people = [(male, female) for male, female, _ in COUPLES]
    places = [(city, country) for country, city, *_ in COUNTRIES]
    listed = []
    for (one, own), (other, others) in permutations(people, 2):
        listed += [(one, other, others, own), (own, others, other, one)]
    for (city, country), (other, others) in permutations(places, 2):
        listed += [(city, country, others, other), (country, city, other, others)]
    return listed


ANALOGIES = tuple(analogies())


def make(seed: int, options: Options) -> Iterator[tuple[str, Example]]:
    """Sentences without end."""
    rng = Random(f"words {seed}")
    while True:
        example = draw(rng)
        yield example.text, example


CORPUS = Corpus(
    name="words",
    kind="text",
    description="sentences about gender, capitals, and words with two senses such as bank",
    make=make,
    counts={"train": 20_000, "validation": 1_000, "test": 1_000},
)
