"""Lessons for one model: a lesson's file enters; steps leave whose heads, tokens and answers are this model's own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from clearhead.config.model import ModelConfig
from clearhead.errors import InputError, suggest
from clearhead.page.lessons.files import Lesson, Question, languages, panel_words, read_lessons
from clearhead.page.service.lesson_answers import answer_of
from clearhead.page.service.lesson_states import Chosen, resolved
from clearhead.page.service.service import ExplorerService

Structure = dict[str, Any]


class Lessons:
    """The lessons that the page offers beside its views: those of a folder first, then those of the package."""

    def __init__(self, service: ExplorerService, folder: Path | None = None) -> None:
        shipped = read_lessons()
        self.service, self.languages = service, languages(shipped)
        self.lessons = {**(read_lessons(folder) if folder is not None else {}), **shipped}

    def listing(self, language: str) -> dict[str, Any]:
        """The titles in order, each with the reason if this model cannot show it, and the words of the panel."""
        words = panel_words(language)
        found = []
        for lesson in self.lessons.values():
            titles = [step.title for step in lesson.within(language).steps]
            why = why_not(lesson, self.service, words)
            found.append(
                {"name": lesson.name, "title": lesson.within(language).title, "rows": lesson.rows}
                | {"steps": titles, "why": why}
            )
        return {"lessons": found, "words": words, "languages": self.languages}

    def step(self, name: str, number: int, language: str) -> dict[str, Any]:
        """One step: its texts, the state that it sets, what to look at, and its question with the answer."""
        if name not in self.lessons:
            raise InputError(f"{name} is not a lesson. {suggest(name, self.lessons)}")
        lesson = self.lessons[name].within(language)
        if not 1 <= number <= len(lesson.steps):
            raise InputError(
                f"{lesson.title} has steps 1 to {len(lesson.steps)}, so there is no step {number}."
            )
        if why := why_not(lesson, self.service, panel_words(language)):
            raise InputError(why)
        step = lesson.steps[number - 1]
        with self.service.lock:
            chosen = resolved(self.service, step.state)
            question = step.question and asked(step.question, chosen)
        texts = {key: chosen.said(getattr(step, key)) for key in ("title", "text", "notes")}
        is_last = number == len(lesson.steps)
        more = {
            "look": chosen.said(step.look),
            "question": question,
            "change": lesson.change if is_last else None,
        }
        return texts | more | {"state": chosen.state, "lesson": lesson.title, "rows": lesson.rows}


def asked(question: Question, chosen: Chosen) -> dict[str, Any] | None:
    """A question with its answer; nothing if it is about an output that the model lacks."""
    answer = answer_of(question.answer, chosen)
    return answer and {"ask": chosen.said(question.ask), "because": chosen.said(question.because), **answer}


def why_not(lesson: Lesson, service: ExplorerService, words: dict[str, str]) -> str | None:
    """Why this model cannot show a lesson, or nothing."""
    structure = service.structure
    missing = next((need for need in lesson.needs if not HAS[need](structure, service)), None)
    return None if missing is None else words[f"needs {missing}"]


def can_lose(part: str) -> Callable[[Structure, ExplorerService], bool]:
    """Whether a model can run without a part."""
    return lambda structure, _: part not in structure["parts"]["missing"]


HAS: dict[str, Callable[[Structure, ExplorerService], bool]] = {
    "transformer": lambda _, service: isinstance(service.inspector.config, ModelConfig),
    "attention": lambda structure, _: any(one["heads"] for one in structure["attentions"]),
    "cross": lambda structure, _: any(
        one["kind"] == "cross" and one["heads"] for one in structure["attentions"]
    ),
    "language": lambda structure, _: structure["head"] == "language",
    "generation": lambda structure, _: structure["head"] == "language" and structure["shape"] != "encoder",
    "mask": can_lose("mask"),
    "projections": can_lose("projections"),
    "scaling": can_lose("scaling"),
    "positions": can_lose("positions"),
    "moments": lambda structure, _: bool(structure["moments"]),
}
