"""How words change: Spanish and English rules of spelling and inflection.

Dictionary forms enter ("la flor", "jugar", "buy bought"); every form that the grammar uses leaves. Persons
are numbered as in a school grammar: 0 yo, 1 tú, 2 él, 3 nosotros, 4 vosotros, 5 ellos.
"""

from dataclasses import dataclass

VOWELS = "aeiou"
PLAIN = str.maketrans("áéíóú", "aeiou")
Six = tuple[str, str, str, str, str, str]


def six(forms: str) -> Six:
    """The forms of the six persons, written with spaces between them."""
    a, b, c, d, e, f = forms.split()
    return a, b, c, d, e, f


def spanish_plural(word: str) -> str:
    """Lápiz, lápices; estación, estaciones; paraguas, paraguas; of several words the first changes."""
    head, space, rest = word.partition(" ")
    return _plural_of_one(head) + space + rest


def _plural_of_one(word: str) -> str:
    if word.endswith("z"):
        return word[:-1] + "ces"
    if word.endswith("s") and word[-2] not in "áéíóú" and sum(letter in VOWELS for letter in word) > 1:
        return word
    if word[-1] in "aeiouáéó":
        return word + "s"
    if word[-2] in "áéíóú":
        return word[:-2] + word[-2].translate(PLAIN) + word[-1] + "es"
    return word + "es"


def feminine(adjective: str) -> str:
    """Rojo, roja; trabajador, trabajadora; francés, francesa; español, española; grande stays."""
    if adjective.endswith("o"):
        return adjective[:-1] + "a"
    if adjective.endswith("ñol"):
        return adjective + "a"
    if adjective.endswith("dor") or adjective[-2:] in ("és", "án", "ín"):
        return adjective[:-2] + adjective[-2].translate(PLAIN) + adjective[-1] + "a"
    return adjective


def english_plural(word: str) -> str:
    """Box, boxes; city, cities; key, keys."""
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in VOWELS:
        return word[:-1] + "ies"
    return word + "s"


def an(word: str) -> str:
    """The indefinite article before this word, by its sound: an old car, a useful book, a university."""
    return "an" if word[0] in "aeiou" and not word.startswith(("uni", "use", "eu")) else "a"


def comparative(adjective: str) -> str:
    """Taller, lazier, bigger, more expensive."""
    if adjective in LONG_SOUNDING or (_syllables(adjective) > 1 and not adjective.endswith(("y", "quiet"))):
        return "more " + adjective
    if adjective.endswith("y") and adjective[-2] not in VOWELS and adjective != "shy":
        return adjective[:-1] + "ier"
    return _doubled(adjective) + ("r" if adjective.endswith("e") else "er")


LONG_SOUNDING = {"fun", "bored", "tired"}
STRESSED_AT_THE_END = {"forget", "prefer"}


def _syllables(word: str) -> int:
    """Groups of vowels, not counting a silent e."""
    spoken = word.removesuffix("e")
    return sum(
        letter in VOWELS and (k == 0 or spoken[k - 1] not in VOWELS) for k, letter in enumerate(spoken)
    )


def _doubled(word: str) -> str:
    """Double a last consonant after one short vowel: swim, swimm; big, bigg; but visit, clean."""
    ends_short = (
        len(word) > 2 and word[-1] not in "aeiouwxy" and word[-2] in VOWELS and word[-3] not in VOWELS
    )
    return word + word[-1] if ends_short and (_syllables(word) == 1 or word in STRESSED_AT_THE_END) else word


@dataclass(frozen=True, slots=True)
class EnglishVerb:
    """The forms of an English verb; what follows it ("for" in "wait for") stays as it is."""

    base: str
    third: str
    past: str
    participle: str
    ing: str


def english_verb(spec: str) -> EnglishVerb:
    """From "walk", "buy bought" or "eat ate eaten"; a particle follows a plus sign: "get got gotten + up"."""
    words, _, particle = spec.partition(" + ")
    base, *rest = words.split()
    past = rest[0] if rest else _past(base)
    participle = rest[1] if len(rest) > 1 else past
    stem = base[:-1] if base.endswith("e") and not base.endswith(("ee", "oe", "be")) else _doubled(base)
    if base.endswith("ie"):
        stem = base[:-2] + "y"
    third = {"have": "has", "be": "is"}.get(base) or (
        base + "es" if base[-1] == "o" else english_plural(base)
    )
    tail = f" {particle}" if particle else ""
    return EnglishVerb(base + tail, third + tail, past + tail, participle + tail, stem + "ing" + tail)


def _past(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in VOWELS:
        return base[:-1] + "ied"
    return _doubled(base) + "ed"


@dataclass(frozen=True, slots=True)
class SpanishVerb:
    """The forms of a Spanish verb; `command` is ¡come!, `forbidden` is ¡no comas!"""

    infinitive: str
    present: Six
    preterite: Six
    imperfect: Six
    future: Six
    gerund: str
    participle: str
    command: str
    forbidden: str


PRESENT = {"ar": six("o as a amos áis an"), "er": six("o es e emos éis en"), "ir": six("o es e imos ís en")}
PRETERITE = {"ar": six("é aste ó amos asteis aron"), "er": six("í iste ió imos isteis ieron")}
PRETERITE_Y = six("í íste yó ímos ísteis yeron")
PRETERITE_STRONG = six("e iste o imos isteis ieron")
IMPERFECT = {"ar": six("aba abas aba ábamos abais aban"), "er": six("ía ías ía íamos íais ían")}
FUTURE = six("é ás á emos éis án")
STRESSED = (0, 1, 2, 5)
VOWEL_STEMS = ("a", "e", "o")
THIRD = (2, 5)


def spanish_verb(
    infinitive: str,
    change: str = "",
    yo: str = "",
    present: str = "",
    preterite: str = "",
    imperfect: str = "",
    future: str = "",
    gerund: str = "",
    participle: str = "",
    command: str = "",
) -> SpanishVerb:
    """Conjugate a verb: its vowel `change` ("o>ue"), and what its class does not determine.

    `preterite` and `future` are a stem ("tuv", "tendr") or six forms, `present` and `imperfect` are six
    forms.
    """
    stem, ending = infinitive[:-2], infinitive[-2:].replace("í", "i")
    group = "ar" if ending == "ar" else "er"
    now = six(present) if present else _present(stem, ending, change)
    if yo:
        now = (yo, *now[1:])
    ahead = future if " " in future else " ".join((future or stem + ending) + end for end in FUTURE)
    weak = _weak(stem, change) if ending == "ir" else stem
    with_y = stem.endswith(VOWEL_STEMS) and group == "er"
    return SpanishVerb(
        infinitive,
        now,
        _preterite(stem, ending, weak, preterite),
        six(imperfect) if imperfect else _each(stem, IMPERFECT[group]),
        six(ahead),
        gerund or (stem + "ando" if group == "ar" else stem + "yendo" if with_y else weak + "iendo"),
        participle or (stem + "ado" if group == "ar" else stem + ("ído" if with_y else "ido")),
        command or now[2],
        _spelled(now[0][:-1], "e" if group == "ar" else "a") + "s",
    )


def _each(stem: str, endings: Six) -> Six:
    return six(" ".join(stem + ending for ending in endings))


def _present(stem: str, ending: str, change: str) -> Six:
    old, _, new = change.partition(">")
    before, _, after = stem.rpartition(old) if change else (stem, "", "")
    strong = before + new + after if change else stem
    forms = [(strong if k in STRESSED else stem) + PRESENT[ending][k] for k in range(6)]
    if ending != "ar" and stem.endswith(("ac", "ec", "oc", "uc")):
        forms[0] = stem[:-1] + "zco"
    return six(" ".join(forms))


def _preterite(stem: str, ending: str, weak: str, given: str) -> Six:
    if " " in given:
        return six(given)
    if given:
        forms = [given + end for end in PRETERITE_STRONG]
        if given.endswith("j"):
            forms[5] = given + "eron"
        return six(" ".join(forms))
    if ending != "ar" and stem.endswith(VOWEL_STEMS):
        return _each(stem, PRETERITE_Y)
    endings = PRETERITE["ar" if ending == "ar" else "er"]
    forms = [(weak if k in THIRD else stem) + endings[k] for k in range(6)]
    if ending == "ar":
        forms[0] = _spelled(stem, "é")
    return six(" ".join(forms))


def _weak(stem: str, change: str) -> str:
    """The stem of pidió and durmió: a changing -ir verb closes its vowel."""
    old = change[:1]
    if not old:
        return stem
    before, _, after = stem.rpartition(old)
    return before + {"e": "i", "o": "u"}[old] + after


def _spelled(stem: str, ending: str) -> str:
    """Keep the sound of the stem before e: buscar, busqué; llegar, llegué; empezar, empecé."""
    if ending in "eé":
        for old, new in (("c", "qu"), ("g", "gu"), ("z", "c")):
            if stem.endswith(old):
                return stem[: -len(old)] + new + ending
    return stem + ending
