"""Sentences with a clause inside: because, when, if, whenever, while, that, whether, who, which.

Dice enter; Spanish, English and the mark at the end leave, still without capitals. The subject of a second
clause goes without saying in Spanish when it is the first one; English has a pronoun for it.
"""

from clearhead.corpora.spanish import adjectives as adj
from clearhead.corpora.spanish import being, events, states
from clearhead.corpora.spanish import nouns as n
from clearhead.corpora.spanish.adverbs import Both
from clearhead.corpora.spanish.clauses import ALWAYS, NEVER, NOT, PLAIN, Clause, Mood, state
from clearhead.corpora.spanish.deeds import ACTIONS, EVENTS, MISHAPS, ROUTINES, TRAVELS, WORKS
from clearhead.corpora.spanish.events import SURE
from clearhead.corpora.spanish.phrases import (
    ANY_PRONOUN,
    NAMES,
    THAT,
    THE,
    THIS,
    Dice,
    Phrase,
    explicit,
    joined,
    person,
    relative,
    somebody,
)
from clearhead.corpora.spanish.predicates import ANY, DAY, KNOWN, PLANS, Styles, VerbFrame, clashes, thing
from clearhead.corpora.spanish.statements import Sentence
from clearhead.corpora.spanish.things import described
from clearhead.corpora.spanish.verbs import (
    BELIEVE,
    DEBER,
    FUTURE,
    PAST,
    PODER,
    PRESENT,
    PROGRESSIVE,
    QUERER,
    SABER,
    SAY,
    SER,
    TENER,
    TENER_BE,
    THINK,
    WAS,
    Verb,
    action,
)
from clearhead.corpora.spanish.world import weather

MAYBE: tuple[Mood, ...] = (PLAIN, PLAIN, NOT)
SPEAKERS = tuple(dict.fromkeys(phrase for phrase in ANY_PRONOUN if phrase.ref.person < 2))


def elsewhere(dice: Dice, first: Both, other: Phrase) -> Phrase:
    """The other, unless "with me" or "with you" has just placed him at the side of the first."""
    return dice.pick(NAMES) if other.ref.person < 2 and first[0].endswith(("conmigo", "contigo")) else other


def another(dice: Dice, subject: Phrase) -> Phrase:
    """A second subject, with nothing of its own, so that su stays with the first."""
    if subject.ref.person in (2, 5) and dice.chance(0.3):
        return dice.pick(SPEAKERS)
    if subject.en in ("he", "she"):
        phrase = dice.pick([name for name in NAMES if name.ref.form != subject.ref.form])
    elif dice.chance(0.6):
        phrase = dice.pick(NAMES)
    else:
        phrase = relative(dice, deep=False)
    while clashes(subject, phrase):
        phrase = dice.pick(NAMES)
    return phrase._replace(ref=phrase.ref._replace(own=None))


HINDRANCES = (
    ("frío", "cold"),
    ("calor", "hot"),
    ("sueño", "sleepy"),
    ("miedo", "scared"),
    ("prisa", "in a hurry"),
)
DUTIES = (("trabajar", "work"), ("estudiar", "study"), ("cocinar", "cook"), ("esperar", "wait"))


def reason(dice: Dice, subject: Phrase, tense: int, hinders: bool) -> Both:
    """A state of the subject, now or then, that explains why something was done, or what hindered it."""
    which = dice.random()
    if not hinders:
        es, _, en = dice.pick(states.FEELINGS)
        feeling = Clause(subject, TENER_BE, tense, f" {es}", f" {en}")
        return state(feeling if which < 0.5 else being.mood_of(dice, subject, SURE)._replace(tense=tense))
    if which < 0.4:
        es, en = dice.pick(HINDRANCES)
        return state(Clause(subject, TENER_BE, tense, f" {es}", f" {en}"))
    if which < 0.7:
        return state(being.bad_mood_of(dice, subject, tense))
    if which < 0.85:
        return state(Clause(subject, TENER, tense, " tiempo", " time", NOT))
    es, en = dice.pick(DUTIES)
    return state(Clause(subject, TENER, tense, f" que {es}", f" to {en}"))


INTENDED = tuple(
    frame
    for frame in ACTIONS + TRAVELS + EVENTS + ROUTINES
    if frame.verb.infinitive not in ("recibir", "ganar", "encontrar")
)


def because(dice: Dice) -> Sentence:
    """Because of oneself, of another, or of the weather."""
    subject, hinders = person(dice), dice.chance(0.5)
    moods: tuple[Mood, ...] = (NOT,) if hinders else SURE
    which = dice.random()
    if which < 0.5:
        first = events.past(dice, subject, moods=moods, frames=INTENDED)[0]
    elif which < 0.7:
        first = events.progress(dice, subject, moods=moods)
    else:
        es, en, _ = events.doing(dice, subject, KNOWN if hinders else PLANS)
        verb, to_ = (PODER, "") if hinders and dice.chance(0.5) else (QUERER, " to")
        first = Clause(subject, verb, dice.pick((PRESENT, PAST)), f" {es}", f"{to_} {en}", moods[0])
    tense = PAST if first.tense == PAST else PRESENT
    which = dice.random()
    if which < 0.7:
        second = reason(dice, subject.silent(), tense, hinders)
    elif which < 0.85:
        second = weather(dice, tense)
    else:
        second = state(being.bad_mood_of(dice, another(dice, subject), tense))
    es, en = state(first)
    return f"{es} porque {second[0]}", f"{en} because {second[1]}", "."


BUY = action("comprar", "buy bought")
VERY = (("", ""), ("muy ", "very "))
TOO = (*VERY, ("demasiado ", "too "))
POINTED: Styles = ((THE, 0), (THE, 0), (THE, 1), (THIS, 0), (THAT, 0))


def because_it(dice: Dice) -> Sentence:
    """Because of the thing itself: no compré el coche porque era caro."""
    subject = person(dice)
    bought = thing(dice, n.GOODS, subject, POINTED, 0.1)
    refused = dice.chance(0.7)
    expensive, cheap = adj.PRICES
    adjective = expensive if refused else cheap
    more, very = dice.pick(TOO if refused else VERY)
    first = state(Clause(subject, BUY, PAST, f" {bought.es}", f" {bought.en}", NOT if refused else PLAIN))
    es, en = f" {more}{adjective.es[bought.ref.form]}", f" {very}{adjective.en}"
    second = state(Clause(bought.silent(), SER, PAST, es, en))
    return f"{first[0]} porque {second[0]}", f"{first[1]} because {second[1]}", "."


ARRIVALS = (
    (
        action("llegar", "arrive"),
        (("", ""), (" al hotel", " at the hotel"), (" a la fiesta", " at the party")),
    ),
    (action("llamar", "call"), (("", ""),)),
    (action("entrar", "come came come + in"), (("", ""),)),
    (action("volver", "come came come + back"), (("", ""), (" a casa", " home"))),
)
HAPPENINGS = (("empezó a llover", "it started to rain"), ("sonó el teléfono", "the phone rang"))


def when_it_happened(dice: Dice) -> Sentence:
    """What was going on when something happened."""
    subject = person(dice)
    if dice.chance(0.75):
        first = state(events.progress(dice, subject, WAS, SURE))
    else:
        es, _, en = dice.pick(states.FEELINGS)
        first = state(Clause(subject, TENER_BE, PAST, f" {es}", f" {en}"))
    if dice.chance(0.15):
        second = dice.pick(HAPPENINGS)
    else:
        verb, places = dice.pick(ARRIVALS)
        es, en = dice.pick(places)
        second = state(Clause(elsewhere(dice, first, another(dice, subject)), verb, PAST, es, en))
    if dice.chance(0.5):
        return f"cuando {second[0]}, {first[0]}", f"when {second[1]}, {first[1]}", "."
    return f"{first[0]} cuando {second[0]}", f"{first[1]} when {second[1]}", "."


IF_WEATHER = (
    ("llueve", "it rains"), ("nieva", "it snows"), ("hace sol", "it's sunny"), ("hace frío", "it's cold"),
    ("hace calor", "it's hot"), ("hace viento", "it's windy"),
)  # fmt: skip


BUYING = tuple(frame for frame in WORKS if frame.verb.infinitive == "comprar")
TRAVELLING = tuple(frame for frame in TRAVELS if frame.verb.infinitive in ("ir", "viajar", "salir"))
DAILY = tuple(frame for frame in ACTIONS if frame.span == DAY)


def doing_with(*infinitives: str) -> tuple[VerbFrame, ...]:
    """The deeds of these verbs."""
    return tuple(frame for frame in ACTIONS if frame.verb.infinitive in infinitives)


# What may be true of someone, and what is done then.
OCCASIONS: tuple[tuple[Verb, str, str, tuple[VerbFrame, ...]], ...] = (
    (TENER, "tiempo", "time", ACTIONS + TRAVELLING),
    (TENER, "tiempo", "time", ACTIONS + TRAVELLING),
    (TENER, "dinero", "money", BUYING * 2 + TRAVELLING),
    (TENER_BE, "hambre", "hungry", doing_with("comer", "cocinar")),
    (TENER_BE, "sed", "thirsty", doing_with("beber")),
    (TENER_BE, "frío", "cold", doing_with("correr", "bailar", "cocinar")),
    (TENER_BE, "calor", "hot", doing_with("beber", "nadar", "descansar")),
    (TENER_BE, "sueño", "sleepy", doing_with("dormir", "descansar")),
    (TENER_BE, "miedo", "scared", doing_with("llamar", "cantar", "buscar")),
)


def conditional(dice: Dice, word: str, english: str, tense: int) -> Sentence:
    """A condition before or after what depends on it; whoever is named second goes unsaid in Spanish."""
    subject = person(dice)
    weather_decides = dice.chance(0.35)
    verb, es, en, frames = dice.pick(OCCASIONS)
    frame = dice.pick(DAILY if weather_decides else frames)
    deed = events.habitual(dice, subject, frame) if tense == PRESENT else frame.deed(dice, subject, PLANS)
    mood = dice.pick((PLAIN, PLAIN, ALWAYS, NEVER)) if weather_decides and tense == PRESENT else PLAIN
    then = events.clause(subject, deed, tense, mood)
    if weather_decides:
        given, second, before = dice.pick(IF_WEATHER), state(then), dice.chance(0.5)
    elif before := dice.chance(0.5):
        given = state(Clause(subject, verb, PRESENT, f" {es}", f" {en}"))
        second = state(then._replace(subject=subject.silent()))
    else:
        given = state(Clause(subject.silent(), verb, PRESENT, f" {es}", f" {en}"))
        second = state(then)
    if before:
        return f"{word} {given[0]}, {second[0]}", f"{english} {given[1]}, {second[1]}", "."
    return f"{second[0]} {word} {given[0]}", f"{second[1]} {english} {given[1]}", "."


def if_(dice: Dice) -> Sentence:
    """If: the present, then the future."""
    return conditional(dice, "si", "if", FUTURE)


def whenever(dice: Dice) -> Sentence:
    """When, again and again: cuando tengo hambre, como fruta."""
    return conditional(dice, "cuando", "when", PRESENT)


SAID = (
    being.mood_of, being.is_at, states.has, states.feels, states.lives, states.must_do, states.wants,
)  # fmt: skip
OPINIONS: tuple[Verb, ...] = (THINK, BELIEVE, BELIEVE, SAY, SAY, SABER)


def thought(dice: Dice, subject: Phrase, moods: tuple[Mood, ...] = MAYBE) -> Clause:
    """Something to think, say or wonder about someone."""
    which = dice.random()
    if which < 0.2:
        return events.past(dice, subject, moods=moods)[0]
    if which < 0.4:
        return events.plan(dice, subject, moods=moods)[0]
    return dice.pick(SAID)(dice, subject, moods)


RESOLUTIONS = (
    (PODER, "", "", FUTURE), (TENER, " que", " to", PRESENT), (TENER, " que", " to", FUTURE),
    (DEBER, "", "", PRESENT),
)  # fmt: skip


def resolution(dice: Dice, subject: Phrase) -> Clause:
    """What someone may think of himself: that he must, will have to, will be able to."""
    (verb, que, to, tense), (es, en, _) = dice.pick(RESOLUTIONS), events.doing(dice, subject)
    return Clause(subject, verb, tense, f"{que} {es}", f"{to} {en}")


def that(dice: Dice) -> Sentence:
    """What someone says, said, thinks, believes or knows of himself or another."""
    subject, verb = person(dice), dice.pick(OPINIONS)
    of_oneself = dice.chance(0.4)
    other = subject.silent() if of_oneself else another(dice, subject)
    if verb is SAY and dice.chance(0.6):
        first = state(Clause(subject, SAY, PAST))
        told = dice.pick(SAID)(dice, other, MAYBE)
        while told.verb is DEBER:
            told = states.must_do(dice, other, MAYBE)
        second = state(told._replace(tense=PAST))
    else:
        first = state(Clause(subject, verb, PRESENT))
        second = state(resolution(dice, other) if of_oneself and verb is not SAY else thought(dice, other))
    return f"{first[0]} que {second[0]}", f"{first[1]} that {second[1]}", "."


WONDERING = (("no sé", "I don't know"), ("no sabemos", "we don't know"), ("quiero saber", "I want to know"))


def whether(dice: Dice) -> Sentence:
    """What someone does not know."""
    (es, en), subject = dice.pick(WONDERING), somebody(dice)
    second = state(thought(dice, subject._replace(ref=subject.ref._replace(own=None)), SURE))
    return f"{es} si {second[0]}", f"{en} if {second[1]}", "."


def while_(dice: Dice) -> Sentence:
    """Two things that go on at once."""
    subject = person(dice)
    tense = PROGRESSIVE if dice.chance(0.4) else WAS
    first = state(events.progress(dice, subject, tense, SURE))
    other = elsewhere(dice, first, explicit(dice, another(dice, subject)))
    second = state(events.progress(dice, other, tense, SURE))
    return f"{first[0]} mientras {second[0]}", f"{first[1]} while {second[1]}", "."


WHO_FRAMES = WORKS + EVENTS + MISHAPS + TRAVELS


def who_did(dice: Dice) -> Sentence:
    """A person by a deed: la chica que compró el coche es alta."""
    head = joined(dice.pick(n.PEOPLE), THE, int(dice.chance(0.25)), None, True)
    unsaid = head._replace(es="", en="", ref=head.ref._replace(own=None))
    es, en = state(events.past(dice, unsaid, moods=SURE, frames=WHO_FRAMES)[0])
    whole = head._replace(es=f"{head.es} que {es}", en=f"{head.en} who{en}")
    about = being.character_of if dice.chance(0.5) else being.mood_of
    return (*state(about(dice, whole, MAYBE)._replace(tense=PRESENT)), ".")


OBJECT_DEEDS = (
    (BUY, n.CLOTHES + n.VEHICLES + n.FURNITURE + n.TOOLS),
    (action("leer", "read read"), n.READING),
    (action("escribir", "write wrote written"), n.WRITTEN),
    (action("vender", "sell sold"), n.VEHICLES + n.FURNITURE),
    (action("encontrar", "find found"), n.BELONGINGS),
    (action("perder", "lose lost"), n.BELONGINGS),
    (action("ver", "watch"), n.FILMS),
    (action("reparar", "repair"), n.VEHICLES),
)


def which_was(dice: Dice) -> Sentence:
    """A thing by a deed: el libro que leí ayer es interesante."""
    subject, (verb, nouns) = person(dice), dice.pick(OBJECT_DEEDS)
    noun = dice.pick(nouns)
    head = joined(noun, THE, int(dice.chance(0.3)), None, False)
    often = 1.0 if verb.unclear[subject.ref.person] else 0.5
    did, _ = events.placed(dice, Clause(subject, verb, PAST), events.PASTS[ANY], often, False)
    es, en = state(did)
    whole = head._replace(es=f"{head.es} que {es}", en=f"{head.en} that {en}")
    return (*state(described(dice, whole, dice.pick(noun.adjectives))), ".")
