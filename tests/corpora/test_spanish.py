"""builtin:spanish: one translation for each sentence, both ways; agreement; the notes' sentences held out."""

import re
from collections.abc import Iterable
from functools import cache
from itertools import islice, pairwise
from pathlib import Path

import pytest

from clearhead.corpora.spanish import (
    CORPUS,
    OF_THE_NOTES,
    adjectives,
    adverbs,
    clauses,
    deeds,
    nouns,
    pairs,
    states,
)
from clearhead.corpora.spanish.inflection import an, comparative, english_verb, spanish_plural
from clearhead.corpora.spanish.phrases import ANY_PRONOUN, Dice, Phrase
from clearhead.corpora.spanish.predicates import VerbFrame
from clearhead.corpora.spanish.statements import told
from clearhead.corpora.spanish.verbs import conjugated
from clearhead.errors import ConfigError
from clearhead.examples import Pair, Split

SOME = 40_000
WORD = re.compile(r"[\w'-]+")


@cache
def sample(count: int = SOME, seed: int = 11) -> tuple[tuple[str, str], ...]:
    """Spanish and English sentences."""
    return tuple(islice(pairs(seed), count))


def drawn(split: Split, seed: int = 1, count: int = 500, direction: str = "es-en") -> list[Pair]:
    """Pairs of a split."""
    return [
        pair for pair in CORPUS.examples(split, seed, count, direction=direction) if isinstance(pair, Pair)
    ]


def one_to_one(table: Iterable[tuple[str, str]]) -> bool:
    """Whether no word of either side has two partners."""
    both = set(table)
    return len({es for es, _ in both}) == len(both) == len({en for _, en in both})


# One right translation


def assert_bijection(stream: Iterable[tuple[str, str]]) -> None:
    """No sentence of either language has two translations."""
    english: dict[str, str] = {}
    spanish: dict[str, str] = {}
    for es, en in stream:
        assert english.setdefault(es, en) == en, f"{es!r} is {en!r} and {english[es]!r}"
        assert spanish.setdefault(en, es) == es, f"{en!r} is {es!r} and {spanish[en]!r}"


def test_every_sentence_has_one_translation_in_each_direction() -> None:
    assert_bijection(sample())


@pytest.mark.slow
def test_three_hundred_thousand_pairs_are_one_to_one_and_mostly_different() -> None:
    many = [pair for seed in (1, 2, 3) for pair in islice(pairs(seed), 100_000)]
    assert_bijection(many)
    assert len(set(many)) > 0.8 * len(many)


def test_no_noun_or_adjective_of_one_language_stands_for_two_of_the_other() -> None:
    assert one_to_one((noun.es[0], noun.en[0]) for noun in nouns.LEXICON.values())
    assert one_to_one((noun.es[1], noun.en[1]) for noun in nouns.LEXICON.values())
    assert one_to_one((word.es[0], word.en) for word in adjectives.LEXICON.values())
    bored = [word.en for word in adjectives.MOODS if word.es[0] == "aburrido"]
    assert bored == ["bored"]  # with estar; with ser it is "boring", of things
    assert adjectives.LEXICON["aburrido"].en == "boring"
    assert one_to_one((word.es[0], word.en) for word in adjectives.MOODS)


def test_no_english_plural_is_a_singular_too() -> None:
    counted = [noun for noun in nouns.LEXICON.values() if noun.en[0] != noun.en[1]]
    assert not {noun.en[0] for noun in counted} & {noun.en[1] for noun in counted}


# One verb that is two in the other language: what follows it tells them apart.
TOLD_APART_BY_THE_OBJECT = {
    ("hacer", "do"), ("hacer", "make"), ("ver", "see"), ("ver", "watch"), ("hablar", "talk"),
    ("hablar", "speak"), ("dormir", "sleep"), ("dormir", "fall asleep"), ("tocar", "play"), ("jugar", "play"),
}  # fmt: skip


def test_a_verb_with_two_meanings_is_known_to_have_them() -> None:
    groups = [
        value
        for value in vars(deeds).values()
        if isinstance(value, tuple) and isinstance(value[0], VerbFrame)
    ]
    frames = [frame for group in groups for frame in group]
    meanings = {(frame.verb.infinitive, frame.verb.base) for frame in frames}
    assert one_to_one(meanings - TOLD_APART_BY_THE_OBJECT)
    assert meanings > TOLD_APART_BY_THE_OBJECT


def test_moods_times_and_places_are_one_to_one() -> None:
    moods = [mood for mood in vars(clauses).values() if isinstance(mood, clauses.Mood)]
    assert len({mood.es for mood in moods}) == len(moods) == len({mood[1:] for mood in moods})
    tables = [value for value in vars(adverbs).values() if isinstance(value, tuple) and value]
    phrases = {entry for table in tables for entry in (table if isinstance(table[0], tuple) else (table,))}
    pairs_of_text = {
        entry for entry in phrases if len(entry) == 2 and all(isinstance(side, str) for side in entry)
    }
    assert len(pairs_of_text) > 200
    assert one_to_one(pairs_of_text)


# Splits


@pytest.mark.parametrize("direction", ["es-en", "en-es"])
def test_what_is_tested_is_never_trained_on_whatever_the_seeds(direction: str) -> None:
    train = {side for pair in drawn("train", 1, 20_000, direction) for side in (pair.source, pair.target)}
    for seed in (1, 2):
        held_out = drawn("test", seed, 500, direction) + drawn("validation", seed, 500, direction)
        assert not train & {side for pair in held_out for side in (pair.source, pair.target)}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_sentences_of_the_notes_are_always_in_the_test_and_nowhere_else(seed: int) -> None:
    expected = [Pair(es, en) for es, en in OF_THE_NOTES.items()]
    assert drawn("test", seed, 2) == expected
    assert drawn("test", seed, 2, "en-es") == [Pair(pair.target, pair.source) for pair in expected]
    assert not set(expected) & {*drawn("train", seed, 5000), *drawn("validation", seed, 200)}
    assert {"Tengo un coche.", "Todavía no tengo hambre."} == set(OF_THE_NOTES)


def test_the_sentences_of_the_notes_are_of_the_grammar() -> None:
    dice, me = Dice(5), Phrase("", "I", ANY_PRONOUN[0].ref)
    for fact, (es, en) in zip((states.has, states.feels), OF_THE_NOTES.items(), strict=True):
        made = {told(fact(dice, me)) for _ in range(20_000)}
        assert (es[0].lower() + es[1:-1], en[:-1], ".") in made


def test_the_other_direction_is_the_same_pairs_turned_round() -> None:
    turned = [Pair(pair.target, pair.source) for pair in drawn("train", 4, 50, "en-es")]
    assert turned == drawn("train", 4, 50, "es-en")


def test_a_wrong_direction_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"builtin:spanish: direction = 'es-fr'\. Did you mean es-en\?"):
        CORPUS.examples("train", direction="es-fr")
    with pytest.raises(ConfigError, match=r"has no option 'directions'\. Did you mean direction\?"):
        CORPUS.examples("train", directions="es-en")
    with pytest.raises(ConfigError, match=r"has no split 'valid'\. Did you mean validation\?"):
        CORPUS.examples("valid")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"count = -1\. Ask for 0 examples or more\."):
        CORPUS.examples("train", count=-1)


# Worth learning


def test_there_are_more_than_six_hundred_words_a_side() -> None:
    spanish = {word for es, _ in sample(20_000) for word in WORD.findall(es.lower())}
    english = {word for _, en in sample(20_000) for word in WORD.findall(en.lower())}
    assert len(spanish) > 1500
    assert len(english) > 900


PHENOMENA = {
    "adjective after the noun": (r"\bcoche rojo\b", r"\bred car\b"),
    "feminine plural": (r"\blas \w+as (rojas|caras|nuevas)\b", r"\bthe (red|expensive|new) \w+s\b"),
    "el before a stressed a": (r"\bel agua\b", r"\bwater\b"),
    "un before a stressed a": (r"\bun hacha\b", r"\ban axe\b"),
    "esta before a stressed a": (r"\besta hacha\b", r"\bthis axe\b"),
    "demonstrative": (r"\besas (?!son|no)\w+", r"\bthose \w+"),
    "possessive": (r"\bnuestras \w+", r"\bour \w+s\b"),
    "su is the subject's": (r"^(Ana|Marta|Clara) .*\bsu \w+", r"^(Ana|Marta|Clara) .*\bher \w+"),
    "genitive": (r"\bel coche de Pedro\b", r"\bPedro's car\b"),
    "del": (r"\bdel \w+", r"\w"),
    "al and the personal a": (r"\b(vio|ayudó|llamó|invitó) al \w+", r"\b(saw|helped|called|invited) the \w+"),
    "personal a twice": (r"\b(vio|ayudó) a \w+ y a \w+", r"\b(saw|helped) \w+ and \w+"),
    "present": (r"^Siempre \w+o ", r"^I always \w+ "),
    "progressive": (r"^Estoy comiendo ", r"^I'm eating "),
    "preterite": (r"\bcompré\b", r"\bI bought\b"),
    "irregular preterite": (r"\btrajo\b", r"\bbrought\b"),
    "stem change of the preterite": (r"\bpidió\b", r"\bordered\b"),
    "stem change of the present": (r"\bquiero\b", r"\bI want\b"),
    "imperfect for habits": (r"^Yo \w*(aba|ía)\b", r"^I used to "),
    "imperfect for states": (r"^Yo tenía ", r"^I (had|was) "),
    "future": (r"\btendré\b", r"\bI will have\b"),
    "going to": (r"^Voy a \w+r\b", r"^I'm going to "),
    "perfect": (r"^Ya he ", r"^I have already "),
    "irregular participle": (r"\bhe escrito\b|\bha escrito\b", r"\bwritten\b"),
    "you all": (r"^Tenéis ", r"^You all (have|are) "),
    "ser": (r"\bes alta\b", r"\bis tall\b"),
    "estar": (r"\bestá cansada\b", r"\bis tired\b"),
    "boring with ser": (r"\bes aburrid[oa]\b", r"\bis boring\b"),
    "bored with estar": (r"\bestá aburrid[oa]\b", r"\bis bored\b"),
    "tener hambre": (r"\btengo hambre\b", r"\bI'm hungry\b"),
    "tener mucha sed": (r"\bmucha sed\b", r"\bvery thirsty\b"),
    "tener frío": (r"\btiene frío\b", r"\bis cold\b"),
    "tener prisa": (r"\btiene prisa\b", r"\bis in a hurry\b"),
    "tener razón": (r"\btiene razón\b", r"\bis right\b"),
    "tener ganas": (r"\btiene ganas de \w+", r"\bfeels like \w+ing\b"),
    "age": (r"\btiene \w+ años\b", r"\bis \S+ years old\b"),
    "tener que": (r"\btengo que \w+", r"\bI have to \w+"),
    "gustar": (r"^Me gustan las? ?\w+", r"^I like \w+"),
    "gustar with a name": (r"^A Ana le gusta\b", r"^Ana likes\b"),
    "encantar": (r"^Me encanta", r"^I love"),
    "doler": (r"^Me duele la cabeza\.", r"^My head hurts\."),
    "negation": (r"^No \w+", r"\b\w+n't\b|\bnot\b"),
    "never": (r"^Nunca \w+", r"^(I|You|We|You all) (have )?never\b"),
    "not yet": (r"^Todavía no ", r" yet\."),
    "not anymore": (r"^Ya no ", r" anymore\."),
    "not either": (r"^Tampoco ", r" either\."),
    "nothing": (r"\bno \w+ nada\b", r"n't \w+ anything\b"),
    "nobody": (r"^Nadie ", r"^Nobody "),
    "everyone, plural in Spanish alone": (r"^Todos \w+n\b", r"^Everyone "),
    "people, plural in English alone": (r"^La gente \w+", r"^People "),
    "do-support": (r"^¿Tienes ", r"^(Do you have|Are you) "),
    "did": (r"^¿Compraste ", r"^Did you buy "),
    "negative question": (r"^¿No \w+", r"^\w+n't "),
    "subject after the verb": (r"^¿Tiene [A-Z]\w+ un", r"^Does [A-Z]\w+ have an? "),
    "adjective before the subject": (r"^¿Está \w+ [A-Z]\w+\?", r"^Is [A-Z]\w+ \w+\?"),
    "what": (r"^¿Qué ", r"^What "),
    "which": (r"^¿Qué libro ", r"^Which book "),
    "who": (r"^¿Quién ", r"^Who "),
    "whom": (r"^¿A quién ", r"^Who d"),
    "with whom": (r"^¿Con quién ", r"^Who .* with\b"),
    "where": (r"^¿Dónde ", r"^Where "),
    "when": (r"^¿Cuándo ", r"^When "),
    "why": (r"^¿Por qué ", r"^Why "),
    "how many": (r"^¿Cuántas ", r"^How many "),
    "how much": (r"^¿Cuánto cuesta", r"^How much do"),
    "how old": (r"^¿Cuántos años ", r"^How old "),
    "object pronoun before the verb": (r"\b(me|nos) ayud", r"\bhelp\w* (me|us)\b"),
    "it agrees with its noun": (r"\bla \w+, pero la perd", r", but \w+ lost it "),
    "them": (r"\b(dos|tres) \w+as, pero las vend", r", but \w+ sold them "),
    "pronoun at the end of an infinitive": (r"^Voy a \w+rte\b", r"^I'm going to \w+.* you\b"),
    "dative twice": (r"\ble \w+ un\w? .* a Ana\b", r" to Ana\b"),
    "reflexive": (r"\bse lava las manos\b", r"\bwashes (his|her) hands\b"),
    "command": (r"^¡Abre ", r"^Open .*!$"),
    "forbidden": (r"^¡No abras ", r"^Don't open .*!$"),
    "exclamation": (r"^¡Qué \w+ tan \w+!", r"^What an? \w+ \w+"),
    "hay": (r"^Hay \w+", r"^There (is|are) "),
    "weather": (r"\bhace frío\b", r"\bit's cold\b"),
    "clock": (r"^Son las \w+ y media\.", r"^It's half past "),
    "one o'clock": (r"^(Es|Ya es) la una", r"^It's .*one\b"),
    "por for walking": (r"\bpor el parque\b", r"\bin the park\b"),
    "para": (r"^Fui al? .* para \w+", r"^I went to .* to \w+"),
    "porque": (r" porque ", r" because "),
    "cuando": (r"^Cuando \w+", r"^When .*, "),
    "si": (r"^Si \w+", r"^If .*will "),
    "que": (r"\bdice que ", r"\bsays that "),
    "mientras": (r" mientras ", r" while "),
    "relative with who": (r"^El \w+ que ", r"^The \w+ who "),
    "relative with that": (r"^El libro que ", r"^The book that "),
    "before": (r" antes de \w+", r" before \w+ing\b"),
    "comparative": (r"\bmás alt[oa]s? que ", r"\btaller than "),
    "as ... as": (r"\btan \w+ como ", r"\bas \w+ as "),
    "y becomes e": (r"\w e Irene\b", r" and Irene\b"),
    "o becomes u": (r"\bu Olga\b", r" or Olga\b"),
    "irregular English plural": (r"\bhombres\b", r"\bmen\b"),
    "Spanish plural without change": (r"\blos paraguas\b", r"\bthe umbrellas\b"),
}  # fmt: skip


@pytest.mark.parametrize("phenomenon", PHENOMENA)
def test_the_grammar_has(phenomenon: str) -> None:
    spanish, english = map(re.compile, PHENOMENA[phenomenon])
    assert any(spanish.search(es) and english.search(en) for es, en in sample(80_000))


# Laws of writing, for every sentence


def test_every_sentence_has_its_capital_and_its_marks() -> None:
    for es, en in sample():
        assert en[-1] in ".?!"
        assert es[-1] == en[-1]
        assert {"?": "¿", "!": "¡"}.get(es[-1], "") == (es[0] if es[0] in "¿¡" else "")
        assert es.lstrip("¿¡")[0].isupper()
        assert en[0].isupper()
        assert es == " ".join(es.split())
        assert en == " ".join(en.split())


def test_english_says_an_before_the_sound_of_a_vowel_and_only_there() -> None:
    for _, en in sample():
        for article, word in re.findall(r"\b([Aa]n?) ([\w'-]+)", en):
            assert article.lower() == an(word), en


def test_spanish_contracts_al_and_del_and_changes_y_and_o() -> None:
    wrong = re.compile(r"\b(a|de) el\b|\by (i|hi(?!e))|\bo (o|ho)", re.IGNORECASE)
    assert not [es for es, _ in sample() if wrong.search(es)]


FORMS = {
    word: (noun, plural)
    for noun in nouns.LEXICON.values()
    for plural, word in enumerate(noun.es)
    if " " not in word
}
DETERMINERS = {
    word: (form % 2 == 1, form > 1)
    for row in ("el la los las", "este esta estos estas", "ese esa esos esas", "otro otra otros otras")
    for form, word in enumerate(row.split())
    if word not in ("otros", "otras")
} | {"un": (False, False), "una": (True, False), "muchos": (False, True), "muchas": (True, True)}  # fmt: skip


def test_articles_agree_with_their_nouns() -> None:
    met = set()
    for es, _ in sample():
        words = WORD.findall(es.lower())
        for first, second in pairwise(words):
            if first in DETERMINERS and second in FORMS:
                noun, plural = FORMS[second]
                feminine = noun.feminine and not (noun.takes_el and first in ("el", "un"))
                number = DETERMINERS[first][1] if noun.es[0] == noun.es[1] else bool(plural)
                assert DETERMINERS[first] == (feminine, number), es
                met.add(first)
    assert met == set(DETERMINERS)


# Adjectives that are other words too: "I clean", "he cleans", and the languages.
OTHER_WORDS_TOO = {"limpio", "limpia", *nouns.LANGUAGES}


def test_adjectives_agree_with_the_nouns_before_them() -> None:
    known = {
        form: word for word in adjectives.LEXICON.values() for form in word.es if form not in OTHER_WORDS_TOO
    }
    met = set()
    for es, _ in sample():
        for first, second in pairwise(WORD.findall(es.lower())):
            if first in FORMS and second in known:
                noun, plural = FORMS[first]
                forms = known[second].es
                allowed = {forms[noun.feminine + 2 * number] for number in (0, 1) if noun.es[number] == first}
                assert second in allowed, es
                met.add((noun.feminine, plural))
    assert len(met) == 4


TWO_CLAUSES = re.compile(r", | (and|because|while|when|if|that|who|than|as|or) ")


def test_nobody_meets_himself_within_a_clause() -> None:
    for _, en in sample():
        for name in nouns.WOMEN + nouns.MEN:
            assert TWO_CLAUSES.search(en) or len(re.findall(rf"\b{name}\b", en)) < 2, en


# Morphology


@pytest.mark.parametrize(
    ("infinitive", "tense", "forms"),
    [
        ("tener", "present", "tengo tienes tiene tenemos tenéis tienen"),
        ("tener", "preterite", "tuve tuviste tuvo tuvimos tuvisteis tuvieron"),
        ("tener", "future", "tendré tendrás tendrá tendremos tendréis tendrán"),
        ("ser", "imperfect", "era eras era éramos erais eran"),
        ("ir", "preterite", "fui fuiste fue fuimos fuisteis fueron"),
        ("ir", "imperfect", "iba ibas iba íbamos ibais iban"),
        ("ver", "imperfect", "veía veías veía veíamos veíais veían"),
        ("hacer", "preterite", "hice hiciste hizo hicimos hicisteis hicieron"),
        ("decir", "preterite", "dije dijiste dijo dijimos dijisteis dijeron"),
        ("traer", "preterite", "traje trajiste trajo trajimos trajisteis trajeron"),
        ("conducir", "present", "conduzco conduces conduce conducimos conducís conducen"),
        ("dormir", "present", "duermo duermes duerme dormimos dormís duermen"),
        ("dormir", "preterite", "dormí dormiste durmió dormimos dormisteis durmieron"),
        ("pedir", "present", "pido pides pide pedimos pedís piden"),
        ("pedir", "preterite", "pedí pediste pidió pedimos pedisteis pidieron"),
        ("jugar", "present", "juego juegas juega jugamos jugáis juegan"),
        ("jugar", "preterite", "jugué jugaste jugó jugamos jugasteis jugaron"),
        ("buscar", "preterite", "busqué buscaste buscó buscamos buscasteis buscaron"),
        ("empezar", "preterite", "empecé empezaste empezó empezamos empezasteis empezaron"),
        ("leer", "preterite", "leí leíste leyó leímos leísteis leyeron"),
        ("construir", "present", "construyo construyes construye construimos construís construyen"),
        ("enviar", "present", "envío envías envía enviamos enviáis envían"),
        ("venir", "future", "vendré vendrás vendrá vendremos vendréis vendrán"),
        ("vivir", "present", "vivo vives vive vivimos vivís viven"),
        ("hablar", "imperfect", "hablaba hablabas hablaba hablábamos hablabais hablaban"),
    ],
)
def test_spanish_verbs(infinitive: str, tense: str, forms: str) -> None:
    assert " ".join(getattr(conjugated(infinitive), tense)) == forms


@pytest.mark.parametrize(
    ("infinitive", "gerund", "participle", "command", "forbidden"),
    [
        ("leer", "leyendo", "leído", "lee", "leas"),
        ("dormir", "durmiendo", "dormido", "duerme", "duermas"),
        ("escribir", "escribiendo", "escrito", "escribe", "escribas"),
        ("abrir", "abriendo", "abierto", "abre", "abras"),
        ("hacer", "haciendo", "hecho", "haz", "hagas"),
        ("traer", "trayendo", "traído", "trae", "traigas"),
        ("cerrar", "cerrando", "cerrado", "cierra", "cierres"),
        ("buscar", "buscando", "buscado", "busca", "busques"),
        ("pagar", "pagando", "pagado", "paga", "pagues"),
    ],
)
def test_other_forms_of_spanish_verbs(
    infinitive: str, gerund: str, participle: str, command: str, forbidden: str
) -> None:
    verb = conjugated(infinitive)
    assert (verb.gerund, verb.participle, verb.command, verb.forbidden) == (
        gerund,
        participle,
        command,
        forbidden,
    )


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("lápiz", "lápices"), ("estación", "estaciones"), ("autobús", "autobuses"), ("paraguas", "paraguas"),
        ("gris", "grises"), ("reloj", "relojes"), ("sofá", "sofás"), ("jardín", "jardines"),
        ("zumo de naranja", "zumos de naranja"), ("marrón", "marrones"), ("feliz", "felices"),
    ],
)  # fmt: skip
def test_spanish_plurals(singular: str, plural: str) -> None:
    assert spanish_plural(singular) == plural


@pytest.mark.parametrize(
    "forms",
    [
        "español española españoles españolas", "francés francesa franceses francesas",
        "alemán alemana alemanes alemanas", "trabajador trabajadora trabajadores trabajadoras",
        "joven joven jóvenes jóvenes", "marrón marrón marrones marrones", "gris gris grises grises",
        "optimista optimista optimistas optimistas", "difícil difícil difíciles difíciles",
    ],
)  # fmt: skip
def test_spanish_adjectives(forms: str) -> None:
    assert " ".join(adjectives.LEXICON[forms.split()[0]].es) == forms


def test_english_words() -> None:
    assert [an(word) for word in ("apple", "old", "useful", "university", "hat", "umbrella")] == [
        "an", "an", "a", "a", "a", "an",
    ]  # fmt: skip
    assert [comparative(word) for word in ("big", "lazy", "nice", "quiet", "fun", "famous", "shy")] == [
        "bigger", "lazier", "nicer", "quieter", "more fun", "more famous", "shyer",
    ]  # fmt: skip
    swim = english_verb("swim swam swum")
    assert (swim.third, swim.ing, swim.past, swim.participle) == ("swims", "swimming", "swam", "swum")
    study = english_verb("study")
    assert (study.third, study.ing, study.past) == ("studies", "studying", "studied")
    wait = english_verb("wait + for")
    assert (wait.third, wait.ing, wait.past) == ("waits for", "waiting for", "waited for")
    assert english_verb("prefer").past == "preferred"
    assert english_verb("visit").past == "visited"


def test_the_page_shows_what_its_code_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "spanish.md").read_text(encoding="utf-8")
    code, shown = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL).groups()  # type: ignore[union-attr]
    exec(code, {})
    assert capsys.readouterr().out == shown
