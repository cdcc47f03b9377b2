"""Verbs of both languages, tense by tense.

Each tense of the grammar is one Spanish form and one English form. A verb that tells what happened has its
past in the preterite (compré, "I bought") and keeps the imperfect for habits (compraba, "I used to buy"); a
verb that tells how things stood has its past in the imperfect (tenía, "I had"). So no past form has two
readings.
"""

from dataclasses import dataclass

from clearhead.corpora.spanish.inflection import (
    EnglishVerb,
    Six,
    SpanishVerb,
    english_verb,
    six,
    spanish_verb,
)

PRESENT, PROGRESSIVE, PAST, USED, FUTURE, GOING, PERFECT, WAS = range(8)
THIRD_SINGULAR = 2


@dataclass(frozen=True, slots=True)
class Group:
    """How English says a verb with one subject: auxiliary and rest, plain, denied and asked.

    Each part brings the space before it, but for `asks`, which may open a sentence.
    """

    aux: str
    main: str
    denies: str
    denied: str
    asks: str
    asked: str


SixGroups = tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of the grammar: `es[tense][person]` and `en[tense][person]`.

    `opaque` has the tenses in which yo and él share a form, so that yo must be said; `unclear[person]` is
    true where the past looks like the present in one of the languages, so that an adverb must tell the
    time.
    """

    es: tuple[Six, ...]
    en: tuple[SixGroups, ...]
    infinitive: str
    base: str
    ing: str
    command: str
    forbidden: str
    opaque: frozenset[int]
    unclear: tuple[bool, ...]


ESTAR = spanish_verb(
    "estar", present="estoy estás está estamos estáis están", preterite="estuv", imperfect=""
)
HABER = six("he has ha hemos habéis han")
IR = spanish_verb(
    "ir", present="voy vas va vamos vais van", preterite="fui fuiste fue fuimos fuisteis fueron",
    imperfect="iba ibas iba íbamos ibais iban", gerund="yendo",
)  # fmt: skip


def spanish_tenses(verb: SpanishVerb, is_state: bool) -> tuple[Six, ...]:
    """The forms of every tense, with estar, ir a and haber before the forms that need them."""
    return (
        verb.present,
        _before(ESTAR.present, verb.gerund),
        verb.imperfect if is_state else verb.preterite,
        verb.imperfect,
        verb.future,
        _before(IR.present, "a " + verb.infinitive),
        _before(HABER, verb.participle),
        _before(ESTAR.imperfect, verb.gerund),
    )


def _before(auxiliary: Six, rest: str) -> Six:
    a, b, c, d, e, f = (f"{form} {rest}" for form in auxiliary)
    return a, b, c, d, e, f


AM = ("am", "are", "is", "are", "are", "are")
WERE = ("was", "were", "was", "were", "were", "were")


def english_tenses(verb: EnglishVerb) -> tuple[SixGroups, ...]:
    """The groups of every tense of an ordinary verb, with do-support."""
    past = _group("", verb.past, "did", verb.base)
    used = _group("", f"used to {verb.base}", "did", f"use to {verb.base}")
    return (
        tuple(_simple(verb, person) for person in range(6)),
        tuple(_with(AM[person], verb.ing) for person in range(6)),
        (past,) * 6,
        (used,) * 6,
        (_with("will", verb.base),) * 6,
        tuple(_with(AM[person], f"going to {verb.base}") for person in range(6)),
        tuple(_with("has" if person == THIRD_SINGULAR else "have", verb.participle) for person in range(6)),
        tuple(_with(WERE[person], verb.ing) for person in range(6)),
    )


def english_be(rest: str = "") -> tuple[SixGroups, ...]:
    """The groups of "be", or of "be" with a fixed word after it: "is wearing"."""
    ahead = "wear" if rest == "wearing" else "be"
    return (
        tuple(_with(AM[person], rest) for person in range(6)),
        (),
        tuple(_with(WERE[person], rest) for person in range(6)),
        (),
        (_with("will", ahead),) * 6,
        tuple(_with(AM[person], f"going to {ahead}") for person in range(6)),
        tuple(_with("has" if person == THIRD_SINGULAR else "have", "been") for person in range(6)),
        (),
    )


def english_modal(now: str, before: str, ahead: str) -> tuple[SixGroups, ...]:
    """The groups of can, could, will be able to."""
    return ((_with(now, ""),) * 6, (), (_with(before, ""),) * 6, (), (_with("will", ahead),) * 6, (), (), ())


def _simple(verb: EnglishVerb, person: int) -> Group:
    if person == THIRD_SINGULAR:
        return _group("", verb.third, "does", verb.base)
    return _group("", verb.base, "do", verb.base)


DENIED = {"am": "am not", "will": "won't", "can": "can't", "must": "mustn't"}


def _with(auxiliary: str, rest: str) -> Group:
    return _group(auxiliary, rest, auxiliary, rest)


def _group(auxiliary: str, main: str, support: str, rest: str) -> Group:
    no = DENIED.get(support, support + "n't")
    return Group(_spaced(auxiliary), _spaced(main), " " + no, _spaced(rest), support, _spaced(rest))


def _spaced(word: str) -> str:
    return f" {word}" if word else ""


LEXICON: list[Verb] = []  # all that were made


def _verb(spanish: SpanishVerb, english: tuple[SixGroups, ...], base: str, ing: str, is_state: bool) -> Verb:
    es = spanish_tenses(spanish, is_state)
    opaque = frozenset(tense for tense, forms in enumerate(es) if forms[0] == forms[THIRD_SINGULAR])
    unclear = tuple(
        es[PRESENT][k] == es[PAST][k] or english[PRESENT][k].main == english[PAST][k].main != ""
        for k in range(6)
    )
    made = Verb(
        es, english, spanish.infinitive, base, ing, spanish.command, spanish.forbidden, opaque, unclear
    )
    LEXICON.append(made)
    return made


IRREGULAR = {
    verb.infinitive: verb
    for verb in (
        ESTAR,
        IR,
        spanish_verb("ser", present="soy eres es somos sois son", imperfect="era eras era éramos erais eran",
                     preterite="fui fuiste fue fuimos fuisteis fueron", gerund="siendo", participle="sido"),
        spanish_verb("tener", "e>ie", yo="tengo", preterite="tuv", future="tendr", command="ten"),
        spanish_verb("querer", "e>ie", preterite="quis", future="querr"),
        spanish_verb("poder", "o>ue", preterite="pud", future="podr", gerund="pudiendo"),
        spanish_verb("saber", yo="sé", preterite="sup", future="sabr"),
        spanish_verb("hacer", yo="hago", preterite="hice hiciste hizo hicimos hicisteis hicieron",
                     future="har", participle="hecho", command="haz"),
        spanish_verb("decir", "e>i", yo="digo", preterite="dij", future="dir", participle="dicho",
                     command="di"),
        spanish_verb("venir", "e>ie", yo="vengo", preterite="vin", future="vendr", command="ven",
                     gerund="viniendo"),
        spanish_verb("salir", yo="salgo", future="saldr", command="sal"),
        spanish_verb("poner", yo="pongo", preterite="pus", future="pondr", participle="puesto",
                     command="pon"),
        spanish_verb("traer", yo="traigo", preterite="traj"),
        spanish_verb("conducir", preterite="conduj"),
        spanish_verb("dar", present="doy das da damos dais dan",
                     preterite="di diste dio dimos disteis dieron"),
        spanish_verb("ver", present="veo ves ve vemos veis ven",
                     preterite="vi viste vio vimos visteis vieron",
                     imperfect="veía veías veía veíamos veíais veían", participle="visto"),
        spanish_verb("construir", present="construyo construyes construye construimos construís construyen",
                     preterite="construí construiste construyó construimos construisteis construyeron",
                     gerund="construyendo"),
        spanish_verb("jugar", "u>ue"),
        spanish_verb("escribir", participle="escrito"),
        spanish_verb("abrir", participle="abierto"),
        spanish_verb("romper", participle="roto"),
        spanish_verb("volver", "o>ue", participle="vuelto"),
        spanish_verb("enviar", present="envío envías envía enviamos enviáis envían"),
    )
}  # fmt: skip
CHANGES = {
    "e>ie": "cerrar empezar pensar entender perder preferir calentar despertar sentar",
    "o>ue": "encontrar recordar dormir mostrar costar acostar contar doler",
    "e>i": "pedir servir vestir repetir",
}
CHANGE_OF = {verb: change for change, verbs in CHANGES.items() for verb in verbs.split()}


def conjugated(infinitive: str) -> SpanishVerb:
    """The forms of any verb of the lexicon."""
    return IRREGULAR.get(infinitive) or spanish_verb(infinitive, CHANGE_OF.get(infinitive, ""))


def action(spanish: str, english: str) -> Verb:
    """A verb for what happens: preterite for the past."""
    forms = english_verb(english)
    return _verb(conjugated(spanish), english_tenses(forms), forms.base, forms.ing, is_state=False)


def actions(table: dict[str, str]) -> tuple[Verb, ...]:
    """The verbs of a table of Spanish and English."""
    return tuple(action(spanish, english) for spanish, english in table.items())


def state(spanish: str, english: str) -> Verb:
    """A verb for how things are: imperfect for the past."""
    forms = english_verb(english)
    return _verb(conjugated(spanish), english_tenses(forms), forms.base, forms.ing, is_state=True)


def being(spanish: str) -> Verb:
    """A Spanish verb that English says with "be"."""
    return _verb(conjugated(spanish), english_be(), "be", "being", is_state=True)


SER, ESTAR_BE, TENER_BE = being("ser"), being("estar"), being("tener")
TENER, QUERER, NECESITAR = state("tener", "have had"), state("querer", "want"), state("necesitar", "need")
CONOCER, SABER, AMAR = (
    state("conocer", "know knew known"),
    state("saber", "know knew known"),
    state("querer", "love"),
)
PREFERIR, ODIAR = state("preferir", "prefer"), state("odiar", "hate")
ENTENDER, RECORDAR = state("entender", "understand understood"), state("recordar", "remember")
VIVIR, COSTAR, FEEL_LIKE = (
    state("vivir", "live"),
    state("costar", "cost cost"),
    state("tener", "feel felt + like"),
)
WEAR = _verb(conjugated("llevar"), english_be("wearing"), "wear", "wearing", is_state=True)
PODER = _verb(
    conjugated("poder"), english_modal("can", "could", "be able to"), "be able to", "", is_state=True
)
DEBER = _verb(conjugated("deber"), english_modal("must", "must", "have to"), "must", "", is_state=True)
THINK, BELIEVE, SAY = state("pensar", "think thought"), state("creer", "believe"), action("decir", "say said")
