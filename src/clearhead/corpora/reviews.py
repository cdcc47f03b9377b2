"""Positive, negative and neutral sentences about films, food, teachers, telephones and more (N30).

A seed enters; sentences leave, each with one of three labels. The label is chosen first and the grammar then
says it, so it is never in doubt, but no single word decides it:

- a negation turns its word around: *not bad at all* is positive, *not very good* negative;
- of two clauses that disagree, the one after *but*, or the one without *although*, decides;
- what was expected, said or compared with says nothing by itself: *I have seen better films* is negative;
- *neither gripping nor boring*, open questions and what a film is about are neutral, whatever their words.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal

from clearhead.corpora.corpus import Corpus, Options
from clearhead.examples import Example, Labelled

Label = Literal["positive", "negative", "neutral"]
Sign = Literal["positive", "negative"]
Words = tuple[str, ...]

LABELS: tuple[Label, ...] = ("positive", "negative", "neutral")
OPPOSITE: dict[Sign, Sign] = {"positive": "negative", "negative": "positive"}


def _words(text: str) -> Words:
    return tuple(text.split())


@dataclass(frozen=True, slots=True)
class Domain:
    """Something people review: its kinds, its parts, what one does with it, and how it can be."""

    things: Words
    parts: Words
    many: Words  # parts in the plural
    tail: str  # whose it is, or where
    did: str  # the past tense and the participle
    done: str
    positive: Words
    negative: Words
    facts: Words


@dataclass(frozen=True, slots=True)
class Topic:
    """What a clause is about, the verb that agrees with it, and the graded words that fit it."""

    name: str
    was: str
    graded: dict[Sign, Words]


DOMAINS = (
    Domain(
        things=_words("film movie documentary comedy thriller"),
        parts=_words("plot acting music ending dialogue"),
        many=_words("songs jokes costumes stunts characters"),
        tail="by {name}",
        did="watched",
        done="seen",
        positive=_words("gripping funny moving clever original"),
        negative=_words("boring tedious dull pointless predictable"),
        facts=("the {thing} lasts two hours.", "the {thing} was made in {place} by {name}."),
    ),
    Domain(
        things=_words("book novel story biography fairytale"),
        parts=_words("plot style ending translation introduction"),
        many=_words("characters drawings dialogues chapters poems"),
        tail="by {name}",
        did="read",
        done="read",
        positive=_words("gripping thrilling touching witty original"),
        negative=_words("boring tedious dull shallow predictable"),
        facts=("the {thing} has three hundred pages.", "{name} wrote the {thing} in {place}."),
    ),
    Domain(
        things=_words("soup pizza curry salad stew"),
        parts=_words("sauce smell seasoning bread cheese"),
        many=_words("vegetables herbs mushrooms potatoes beans"),
        tail="by {name}",
        did="ordered",
        done="eaten",
        positive=_words("tasty fresh satisfying appetising flavourful"),
        negative=_words("bland greasy tasteless watery unappetising"),
        facts=("the {thing} is served with rice.", "{name} cooks the {thing} for an hour."),
    ),
    Domain(
        things=_words("teacher lecturer tutor trainer professor"),
        parts=_words("voice humour homework pace handwriting"),
        many=_words("explanations examples slides exercises lessons"),
        tail="from {place}",
        did="met",
        done="had",
        positive=_words("patient fair friendly helpful inspiring"),
        negative=_words("impatient unfair rude unhelpful boring"),
        facts=("the {thing} comes from {place}.", "{name} has the same {thing} on {day}."),
    ),
    Domain(
        things=_words("phone laptop camera tablet radio"),
        parts=_words("screen battery sound case manual"),
        many=_words("buttons speakers menus cables colours"),
        tail="from {place}",
        did="bought",
        done="owned",
        positive=_words("fast reliable sturdy handy practical"),
        negative=_words("slow unreliable flimsy clumsy impractical"),
        facts=("the {thing} weighs two hundred grams.", "the {thing} was sent from {place} to {name}."),
    ),
    Domain(
        things=_words("hotel hostel campsite cottage apartment"),
        parts=_words("breakfast view pool service garden"),
        many=_words("rooms beds towels curtains stairs"),
        tail="in {place}",
        did="booked",
        done="tried",
        positive=_words("clean quiet comfortable cosy charming"),
        negative=_words("dirty noisy uncomfortable shabby gloomy"),
        facts=("the {thing} is near the station.", "the {thing} in {place} belongs to {name}."),
    ),
    Domain(
        things=_words("video lecture talk podcast course"),
        parts=_words("sound introduction pace script structure"),
        many=_words("examples slides jokes explanations pictures"),
        tail="by {name}",
        did="followed",
        done="followed",
        positive=_words("clear useful lively inspiring entertaining"),
        negative=_words("confusing useless lifeless tiring boring"),
        facts=("the {thing} takes twenty minutes.", "{name} recorded the {thing} in {place}."),
    ),
    Domain(
        things=_words("concert show musical opera play"),
        parts=_words("sound lighting stage orchestra music"),
        many=_words("singers dancers songs seats costumes"),
        tail="in {place}",
        did="saw",
        done="seen",
        positive=_words("lively moving thrilling impressive funny"),
        negative=_words("tedious dull boring tiring lifeless"),
        facts=("the {thing} starts at eight.", "{name} goes to the {thing} in {place}."),
    ),
)

GRADED: dict[Sign, Words] = {
    "positive": ("good", "nice", "impressive"),
    "negative": ("bad", "poor", "disappointing"),
}
STRONG: dict[Sign, Words] = {
    "positive": _words("great wonderful excellent brilliant superb fantastic delightful lovely"),
    "negative": _words("terrible awful horrible dreadful miserable pathetic lousy hopeless"),
}
MILD: dict[Sign, Words] = {
    "positive": ("fine", "decent", "likeable"),
    "negative": ("mediocre", "forgettable", "second-rate"),
}
MIDDLING = _words("average ordinary okay middling unremarkable standard")
BETTER: dict[Sign, str] = {"positive": "better", "negative": "worse"}
FELT: dict[Sign, Words] = {
    "positive": ("loved", "liked", "enjoyed", "adored", "could not get enough of"),
    "negative": ("hated", "disliked", "despised", "detested", "could not stand"),
}
FEEL: dict[Sign, Words] = {"positive": ("like", "enjoy", "love"), "negative": ("hate", "dislike", "despise")}
TOUCHED: dict[Sign, Words] = {
    "positive": ("impressed me", "delighted me", "pleased me", "won me over"),
    "negative": ("disappointed me", "annoyed me", "let me down", "put me off"),
}
TOUCH: dict[Sign, Words] = {
    "positive": ("impress me", "delight me", "please me", "win me over"),
    "negative": ("disappoint me", "annoy me", "let me down", "put me off"),
}
NAMES = _words("Lennart Karin Johan Emma Oskar Maria Peter Sara David Nina Lars Julia Felix Clara Hugo Anna")
PLACES = _words("Gothenburg Madrid Lisbon Berlin Oslo Naples Krakow Dublin")
DAYS = _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
FAMILY = _words("sister brother mother father neighbour cousin friend aunt")
WORKS = _words("film movie documentary comedy book novel story fairytale lecture podcast opera play")
HEROES = _words("doctor detective dancer farmer pilot queen painter sailor")
SECRETS = _words("secret summer winter journey idea childhood plan war")


def article(phrase: str) -> str:
    """The phrase with *a* or *an* before it."""
    return f"{'an' if phrase[0] in 'aeiou' and not phrase.startswith('use') else 'a'} {phrase}"


def plural(noun: str) -> str:
    """The regular plural of a noun."""
    return f"{noun[:-1]}ies" if noun[-1] == "y" and noun[-2] not in "aeiou" else f"{noun}s"


def capital(phrase: str) -> str:
    """The phrase with a capital at its start."""
    return phrase[0].upper() + phrase[1:]


def either(rng: Random) -> Sign:
    """Praise or blame, by the toss of a coin."""
    return rng.choice(("positive", "negative"))


def own(domain: Domain, sign: Sign) -> Words:
    """The words of praise, or of blame, for this kind of thing."""
    return domain.positive if sign == "positive" else domain.negative


def topics(rng: Random, domain: Domain, count: int) -> list[Topic]:
    """Different things to talk about in one review: the thing itself, a part of it, some parts."""
    return rng.sample(
        [
            Topic(f"the {rng.choice(domain.things)}", "was", {sign: own(domain, sign) for sign in OPPOSITE}),
            Topic(f"the {rng.choice(domain.parts)}", "was", GRADED),
            Topic(f"the {rng.choice(domain.many)}", "were", GRADED),
        ],
        count,
    )


def claim(rng: Random, topic: Topic, sign: Sign) -> str:
    """A clause that says it straight: *the plot was really good*, *I loved the plot*."""
    match rng.randrange(5):
        case 0:
            return f"I {rng.choice(FELT[sign])} {topic.name}"
        case 1:
            return f"{topic.name} {rng.choice(TOUCHED[sign])}"
        case 2:
            degree = rng.choice(("", "", "absolutely ", "truly ", "simply "))
            return f"{topic.name} {topic.was} {degree}{rng.choice(STRONG[sign])}"
        case 3:
            return f"{topic.name} {topic.was} {rng.choice(MILD[sign])}"
        case _:
            degree = rng.choice(("", "", "really ", "very ", "so ", "quite "))
            return f"{topic.name} {topic.was} {degree}{rng.choice(topic.graded[sign])}"


def denial(rng: Random, topic: Topic, sign: Sign) -> str:
    """A clause that says it by denying the opposite: *the jokes were not bad at all*."""
    wrong = OPPOSITE[sign]
    stress = rng.choice(("", " at all", " for a moment"))
    match rng.randrange(4):
        case 0:
            return f"I did not {rng.choice(FEEL[wrong])} {topic.name}{stress}"
        case 1:
            return f"{topic.name} did not {rng.choice(TOUCH[wrong])}{stress}"
        case 2:
            return f"{topic.name} {topic.was} not {rng.choice(topic.graded[wrong])}{stress}"
        case _:
            denying = rng.choice(("not at all", "anything but", "far from", "never", "in no way"))
            return f"{topic.name} {topic.was} {denying} {rng.choice(topic.graded[wrong])}"


def clause(rng: Random, topic: Topic, sign: Sign) -> str:
    """A claim, or the denial of its opposite."""
    return claim(rng, topic, sign) if rng.random() < 0.6 else denial(rng, topic, sign)


def plain(rng: Random, domain: Domain, sign: Sign) -> str:
    """One claim."""
    (topic,) = topics(rng, domain, 1)
    return f"{claim(rng, topic, sign)}."


def negated(rng: Random, domain: Domain, sign: Sign) -> str:
    """One denial."""
    (topic,) = topics(rng, domain, 1)
    return f"{denial(rng, topic, sign)}."


def agreement(rng: Random, domain: Domain, sign: Sign) -> str:
    """Two clauses that say the same of two topics."""
    first, second = (clause(rng, topic, sign) for topic in topics(rng, domain, 2))
    return f"{first} and {second}."


def contrast(rng: Random, domain: Domain, sign: Sign) -> str:
    """Two clauses that disagree: the one after *but*, or the one without *although*, decides."""
    one, other = topics(rng, domain, 2)
    loser, winner = clause(rng, one, OPPOSITE[sign]), clause(rng, other, sign)
    form = rng.choice(("{0}, but {1}.", "although {0}, {1}.", "{1}, although {0}.", "{1}, even though {0}."))
    return form.format(loser, winner)


def hearsay(rng: Random, domain: Domain, sign: Sign) -> str:
    """What somebody expected or said, and whether it was so."""
    who, thing, wrong = rng.choice(FAMILY), rng.choice(domain.things), OPPOSITE[sign]
    match rng.randrange(5):
        case 0:
            return f"my {who} said that the {thing} was {rng.choice(own(domain, wrong))}, and that was wrong."
        case 1:
            return f"my {who} said that the {thing} was {rng.choice(own(domain, sign))}, and that was right."
        case 2:
            expected = article(f"{rng.choice(GRADED[wrong])} {thing}")
            return f"I expected {expected} and got {article(rng.choice(GRADED[sign]))} one."
        case 3:
            return f"nobody can tell me that the {thing} was {rng.choice(own(domain, wrong))}."
        case _:
            return f"it is not true that the {thing} was {rng.choice(own(domain, wrong))}."


def comparison(rng: Random, domain: Domain, sign: Sign) -> str:
    """The thing beside all others: *I have seen better films* is no praise."""
    thing = rng.choice(domain.things)
    rarely = rng.choice(("never", "rarely", "hardly ever"))
    match rng.randrange(4):
        case 0:
            return f"I have {rarely} {domain.done} a {BETTER[sign]} {thing}."
        case 1:
            often = rng.choice(("", "often ", "certainly ", "always "))
            return f"I have {often}{domain.done} {BETTER[OPPOSITE[sign]]} {plural(thing)}."
        case 2:
            return f"I have {rarely} {domain.done} {article(thing)} this {rng.choice(own(domain, sign))}."
        case _:
            return f"no other {thing} was ever so {rng.choice(own(domain, sign))}."


def headline(rng: Random, domain: Domain, sign: Sign) -> str:
    """A few words without a verb: *Terrible video by Lennart*."""
    thing = f"{rng.choice(domain.things)} {filled(rng, domain, domain.tail)}"
    wrong = OPPOSITE[sign]
    match rng.randrange(4):
        case 0:
            return f"{rng.choice(STRONG[sign])} {thing}"
        case 1:
            return f"not {article(rng.choice(GRADED[wrong]))} {thing}"
        case 2:
            return f"another {rng.choice(own(domain, sign))} {thing}"
        case _:
            return f"anything but {article(rng.choice(own(domain, wrong)))} {thing}"


def filled(rng: Random, domain: Domain, form: str) -> str:
    """A form of the domain with its gaps filled."""
    gaps = {"thing": domain.things, "name": NAMES, "place": PLACES, "day": DAYS}
    return form.format(**{gap: rng.choice(words) for gap, words in gaps.items()})


def fact(rng: Random, domain: Domain) -> str:
    """Something that is so, without a judgement."""
    visit = f"I {domain.did} the {{thing}} on {{day}} with my {rng.choice(FAMILY)}."
    return filled(rng, domain, rng.choice((*domain.facts, visit, visit)))


def middling(rng: Random, domain: Domain) -> str:
    """A judgement that is neither praise nor blame."""
    (topic,) = topics(rng, domain, 1)
    ending = rng.choice((".", ", nothing more and nothing less.", ", that is all."))
    return f"{topic.name} {topic.was} {rng.choice(MIDDLING)}{ending}"


def neither(rng: Random, domain: Domain) -> str:
    """Praise and blame that cancel each other: *neither gripping nor boring*."""
    first = either(rng)
    second = OPPOSITE[first]
    if rng.random() < 0.3:
        halves = [rng.choice(GRADED[sign] + STRONG[sign]) for sign in (first, second)]
        return f"half of the {rng.choice(domain.many)} were {halves[0]} and the other half were {halves[1]}."
    (topic,) = topics(rng, domain, 1)
    return (
        f"{topic.name} {topic.was} neither {rng.choice(topic.graded[first])} "
        f"nor {rng.choice(topic.graded[second])}."
    )


def content(rng: Random, _: Domain) -> str:
    """What a work is about, in words that would be praise or blame elsewhere."""
    hero, secret = (f"{rng.choice(STRONG[either(rng)])} {rng.choice(what)}" for what in (HEROES, SECRETS))
    return f"the {rng.choice(WORKS)} is about {article(hero)} and {article(secret)}."


def question(rng: Random, domain: Domain) -> str:
    """Something that is asked or still open."""
    (topic,) = topics(rng, domain, 1)
    asking = rng.choice(("my {} asked me", "my {} wants to know", "I cannot remember", "I do not know yet"))
    sign = either(rng)
    judgement = rng.choice(topic.graded[sign] + STRONG[sign])
    return f"{asking.format(rng.choice(FAMILY))} whether {topic.name} {topic.was} {judgement}."


OPINIONS = {plain: 34, negated: 14, agreement: 14, contrast: 12, hearsay: 8, comparison: 8, headline: 10}
REMARKS = {fact: 25, middling: 20, neither: 20, content: 15, question: 20}
NOTES = Labelled("Terrible video by Lennart", "negative")


def draw(rng: Random) -> Labelled:
    """One review; each of the three labels is as likely as the others."""
    label, domain = rng.choice(LABELS), rng.choice(DOMAINS)
    if label == "neutral":
        (remark,) = rng.choices(list(REMARKS), list(REMARKS.values()))
        return Labelled(capital(remark(rng, domain)), label)
    (opinion,) = rng.choices(list(OPINIONS), list(OPINIONS.values()))
    return Labelled(capital(opinion(rng, domain, label)), label)


def make(seed: int, options: Options) -> Iterator[tuple[str, Example]]:
    """The sentence of the notes, then reviews without end."""
    yield NOTES.text, NOTES
    rng = Random(f"reviews {seed}")
    while True:
        review = draw(rng)
        yield review.text, review


CORPUS = Corpus(
    name="reviews",
    kind="labelled",
    description="positive, negative and neutral sentences in which no single word decides",
    make=make,
    counts={"train": 20_000, "validation": 1_000, "test": 1_000},
    pinned=frozenset({NOTES.text}),
)
