"""Lessons on models of every shape: each step finds its heads and tokens, and its answer is the model's."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.api import Model
from clearhead.errors import ClearheadError, InputError
from clearhead.inspection.pass_bytes import inputs_of
from clearhead.inspection.variants import without
from clearhead.page.service.lesson_states import words_of
from clearhead.page.service.lessons import Lessons
from clearhead.page.service.service import ExplorerService
from tests.decoding.tiny import language_model, random_model, translator

MODELS = {
    "decoder": lambda: Model(language_model("word")),
    "encoder-decoder": lambda: Model(translator("word")),
    "grouped heads": lambda: Model(random_model("decoder", "word", h=4, h_kv=2)),
}
EMPHASISED = re.compile(r"(?<!\*)\*([^*]+)\*(?!\*)")
OWN = """title = "Mine"
change = "src/clearhead/layers/attention.py:plain"
[[steps]]
title = "First"
text = "Look at {query}."
look = "main"
[steps.state]
view = "attention"
text = ["no such words", "my dog wanted to see the red ball"]
head = "@sharp"
q = "@word dog"
k = "@strongest"
"""


@pytest.fixture(scope="module", params=list(MODELS))
def lessons(request: pytest.FixtureRequest) -> Lessons:
    return Lessons(ExplorerService(MODELS[request.param]().bundle, "tiny", "tiny"))


def test_every_step_of_every_lesson_is_found_or_refused_with_a_reason(lessons: Lessons) -> None:
    for language in ("en", "es"):
        for one in lessons.listing(language)["lessons"]:
            if one["why"]:
                with pytest.raises(InputError, match=" "):
                    lessons.step(one["name"], 1, language)
                continue
            for number, title in enumerate(one["steps"], 1):
                step = lessons.step(one["name"], number, language)
                assert step["title"] == title
                assert not [value for value in step["state"].values() if "@" in value or "{" in value]
                assert "{q" not in step["text"] + step["look"]
                assert (step["change"] is not None) == (number == len(one["steps"]))


def test_nothing_is_said_about_words_that_are_not_shown(lessons: Lessons) -> None:
    """The tiny models know few words of the lessons' texts, so most steps show another text."""
    hidden, nouns = 0, {"emma", "chicken", "pollo", "road", "carretera", "rich", "happy", "ricos", "felices"}
    for language in ("en", "es"):
        for one in lessons.listing(language)["lessons"]:
            for number in range(1, 1 + len(one["steps"]) * (not one["why"])):
                step, written = lessons.step(one["name"], number, language), lessons.lessons[one["name"]]
                own, shown = (
                    set(words_of(" ".join(texts)))
                    for texts in (written.steps[number - 1].state["text"], [step["state"]["text"]])
                )
                said = f"{step['title']} {step['text']} {step['notes']}"
                named = set(words_of(" ".join(EMPHASISED.findall(said)))) | nouns.intersection(words_of(said))
                assert named.isdisjoint(own - shown), (one["name"], number, language)
                assert "[[" not in said
                hidden += own.isdisjoint(shown)
    assert hidden


def test_passages_are_said_if_their_word_is_shown(tmp_path: Path) -> None:
    said = "Look at {query}.[[perro dog| A *dog*!]][[cat| A cat!]]"
    (tmp_path / "mine.toml").write_text(OWN.replace("Look at {query}.", said), encoding="utf-8")
    lessons = Lessons(ExplorerService(language_model("word"), "tiny", "tiny"), tmp_path)
    assert lessons.step("mine", 1, "en")["text"] == "Look at dog. A *dog*!"


def test_a_translator_can_show_all_and_others_say_why() -> None:
    def reasons(model: Model) -> dict[str, str]:
        listing = Lessons(ExplorerService(model.bundle, "tiny", "tiny")).listing("en")["lessons"]
        return {one["name"]: one["why"] for one in listing if one["why"]}

    assert set(reasons(Model(translator("word", positions="learned")))) == {"20-training"}
    assert set(reasons(Model(language_model("word")))) == {"18-translation", "20-training"}
    assert "17-kv-cache" in reasons(Model(random_model("encoder", "word")))


def answers(lessons: Lessons) -> dict[str, tuple[dict[str, Any], dict[str, str]]]:
    """The first question of each kind, and the state that it is asked in."""
    found: dict[str, tuple[dict[str, Any], dict[str, str]]] = {}
    for lesson in lessons.lessons.values():
        for number, step in enumerate(lesson.steps, 1):
            if step.question is not None:
                try:
                    shown = lessons.step(lesson.name, number, "en")
                except ClearheadError:
                    continue
                found.setdefault(step.question.answer, (shown["question"], shown["state"]))
    return found


def test_answers_are_what_python_computes(lessons: Lessons) -> None:
    found = answers(lessons)
    model = Model(lessons.service.inspector.bundle)

    def trace(state: dict[str, str]) -> Any:
        return model.trace(state["text"])

    question, state = found["product"]
    at, head = state["at"], int(state["head"])
    own = next(one for one in lessons.service.structure["attentions"] if one["name"] == at)
    T = trace(state)
    q, k = T[f"{at}.q"][0, head, int(state["q"])], T[f"{at}.k"][0, own["reads"][head], int(state["k"])]
    assert question["value"] == pytest.approx(float(q.double() @ k.double()), rel=1e-4)

    question, state = found["looks at"]
    row = trace(state)[f"{state['at']}.weights"][0, int(state["head"]), int(state["q"])]
    tokens = lessons.service.inspector.run(state["text"]).tokens
    names = tokens["encoder" if state["at"].endswith("cross") else state["at"].split(".")[0]]
    assert question["value"] == names[int(row.argmax())].text.strip()

    question, state = found["head width"]
    assert question["value"] == q.shape[-1]
    question, state = found["root"]
    assert question["value"] == pytest.approx(math.sqrt(q.shape[-1]))
    question, state = found["heads"]
    assert question["value"] == sum(len(model.config.heads(name)) for name in model.config.attentions())

    question, state = found["next"]
    P = torch.softmax(trace(state)["logits"][0, -1].double(), -1)
    assert question["value"] == model.tokenizer.piece(int(P.argmax())).strip()
    question, state = found["surprise"]
    P = torch.softmax(trace(state)["logits"][0, -1].double(), -1)
    assert question["value"] == pytest.approx(-math.log(float(P.max())), rel=1e-4)

    question, state = found["tokens"]
    main = "encoder" if model.translates else "decoder"
    assert question["value"] == trace(state)[f"{main}.embeddings.tokens"].shape[1]
    question, state = found["same"]
    other = without(model.module, "projections")
    captured = lessons.service.inspector.run(state["text"])
    with torch.no_grad():
        before, after = (one(inputs_of(one, captured.ids))[0, -1].argmax() for one in (model.module, other))
    assert question["value"] == ("yes" if before == after else "no")


def test_own_lessons_come_first_and_texts_are_those_that_the_model_knows(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(OWN, encoding="utf-8")
    lessons = Lessons(ExplorerService(language_model("word"), "tiny", "tiny"), tmp_path)
    assert lessons.listing("en")["lessons"][0]["name"] == "mine"
    step = lessons.step("mine", 1, "en")
    assert step["state"]["text"] == "my dog wanted to see the red ball"
    assert step["text"] == "Look at dog."
    for name, number in (("nobody", 1), ("mine", 2), ("mine", 0)):
        with pytest.raises(InputError, match=r"is not a lesson|no step"):
            lessons.step(name, number, "en")
