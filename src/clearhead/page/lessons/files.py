"""Lesson files: a folder of TOML files enters; lessons leave. A mistake is reported with its file and line.

A lesson has a title, the rows of the notes that it is about, what it needs of a model, and steps. A step has a text,
the state of the page that it sets, what to look at, and optionally a question and notes for the teacher. A folder such
as `es/` beside the files contains their translations: the same file names, and only the strings.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead.errors import ConfigError, suggest

FOLDER = Path(__file__).parent
NEEDS = (
    "transformer",
    "attention",
    "cross",
    "language",
    "generation",
    "mask",
    "projections",
    "scaling",
    "positions",
    "moments",
)
PANEL = "panel.toml"
LESSON_KEYS = {"title": str, "rows": list, "needs": list, "change": str, "steps": list}
STEP_KEYS = {"title": str, "text": str, "look": str, "notes": str, "state": dict, "question": dict}
QUESTION_KEYS = {"ask": str, "answer": str, "because": str}
STATE_KEYS = (
    *(
        "view",
        "text",
        "target",
        "head",
        "q",
        "k",
        "stage",
        "cell",
        "off",
        "mute",
        "scope",
        "step",
        "sort",
        "stack",
    ),
    *("site", "swap", "temperature", "top_k", "top_p", "seed", "tokens", "at", "moment"),
)
REQUIRED = {
    "lesson": ("title", "change", "steps"),
    "step": ("title", "text", "look", "state"),
    "question": ("ask", "answer"),
}
TRANSLATED = {"lesson": ("title",), "step": ("title", "text", "notes"), "question": ("ask", "because")}
NAMES: dict[type, str] = {str: "a text in quotes", list: "a list", dict: "a table"}


@dataclass(frozen=True)
class Question:
    """What is asked; `answer` names what is computed from the model."""

    ask: str
    answer: str
    because: str = ""


@dataclass(frozen=True)
class Step:
    """One state of the page, with what is said about it."""

    title: str
    text: str
    look: str  # a CSS selector
    state: dict[str, Any]
    notes: str = ""
    question: Question | None = None


@dataclass(frozen=True)
class Lesson:
    """A thread through the views."""

    name: str
    title: str
    change: str  # file:symbol that does what the lesson shows
    steps: tuple[Step, ...]
    rows: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    translations: dict[str, "Lesson"] = field(default_factory=dict)

    def within(self, language: str) -> "Lesson":
        """The lesson in a language, or as it was written."""
        return self.translations.get(language, self)


class LessonFile:
    """The text of one file, which knows the lines of its keys."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.text = path.read_text(encoding="utf-8")
            self.values: dict[str, Any] = tomllib.loads(self.text)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: the lesson cannot be read: {error}") from None
        except tomllib.TOMLDecodeError as error:  # it names the line
            raise ConfigError(f"{path}: {error}") from None

    def line(self, key: str, step: int | None = None) -> int:
        """The line of a key, of the lesson or of a step; of the step's own line if it is missing."""
        seen, found = -1, 1
        for number, text in enumerate(self.text.splitlines(), 1):
            bare = text.strip()
            if bare.startswith("[[steps]]"):
                seen += 1
                found = number if seen == step else found
            is_inside = seen == (-1 if step is None else step)
            is_key = bare.startswith((f"{key} ", f"{key}=", f"[steps.{key}]"))
            if is_inside and is_key:
                return number
        return found

    def fail(self, what: str, key: str, step: int | None = None) -> ConfigError:
        """An error about a key."""
        return ConfigError(f"{self.path}, line {self.line(key, step)}: {what}")

    def checked(
        self, values: Any, kind: str, known: Mapping[str, type], step: int | None = None
    ) -> dict[str, Any]:
        """The values of a table; rejected if a key is unknown, of another type, or missing."""
        where = f"{kind} {step + 1}" if step is not None else kind
        for key, value in values.items():
            if key not in known:
                raise self.fail(f"{where} has no key {key!r}. {suggest(key, known)}", key, step)
            if not isinstance(value, known[key]):
                raise self.fail(f"{key} must be {NAMES[known[key]]}.", key, step)
        for key in REQUIRED[kind]:
            if not values.get(key):
                raise self.fail(f"{where} has no {key}.\nAdd one.", key, step)
        return dict(values)

    def lesson(self) -> Lesson:
        """The lesson of this file."""
        values = self.checked(self.values, "lesson", LESSON_KEYS)
        for need in values.get("needs", []):
            if need not in NEEDS:
                raise self.fail(f"needs names {need!r}. {suggest(str(need), NEEDS)}", "needs")
        if ":" not in values["change"]:
            raise self.fail(
                "change must be FILE:SYMBOL, such as src/clearhead/layers/attention.py:plain.", "change"
            )
        steps = tuple(self.step(number, step) for number, step in enumerate(values.pop("steps")))
        lists = {key: tuple(values.get(key, ())) for key in ("rows", "needs")}
        return Lesson(self.path.stem, steps=steps, **values | lists)

    def step(self, number: int, values: Any) -> Step:
        """One step."""
        values = self.checked(values, "step", STEP_KEYS, number)
        for key in values["state"]:
            if key not in STATE_KEYS:
                raise self.fail(f"the page has no state {key!r}. {suggest(key, STATE_KEYS)}", key, number)
        question = values.pop("question", None)
        if question is not None:
            question = Question(**self.checked(question, "question", QUESTION_KEYS, number))
        return Step(**values, question=question)


def read_lessons(folder: Path = FOLDER) -> dict[str, Lesson]:
    """The lessons of a folder by their names, with their translations."""
    if not folder.is_dir():
        raise ConfigError(f"The folder of lessons {folder} does not exist.\nGive a folder with .toml files.")
    files = [path for path in sorted(folder.glob("*.toml")) if path.name != PANEL]
    if not files:
        raise ConfigError(f"{folder} contains no lessons.\nGive a folder with .toml files.")
    found = {path.stem: LessonFile(path).lesson() for path in files}
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        for path in sorted(place.glob("*.toml")):
            if path.stem in found:
                found[path.stem].translations[place.name] = translated(found[path.stem], LessonFile(path))
    return found


def translated(lesson: Lesson, file: LessonFile) -> Lesson:
    """A lesson with the strings of another file; a missing or extra one is an error."""
    values = dict(strings(file.values))
    wanted = dict(strings(plain(lesson)))
    for step, key in wanted.keys() ^ values.keys():
        what = "misses" if (step, key) in wanted else "has, unlike the lesson,"
        raise file.fail(
            f"the translation {what} {key} {'' if step is None else f'of step {step + 1}'}", key, step
        )
    steps = []
    for number, one in enumerate(lesson.steps):
        own = {key: values.get((number, key), getattr(one, key)) for key in TRANSLATED["step"]}
        question = one.question and Question(
            values[number, "ask"], one.question.answer, values.get((number, "because"), "")
        )
        steps.append(Step(look=one.look, state=one.state, question=question, **own))
    return Lesson(lesson.name, values[None, "title"], lesson.change, tuple(steps), lesson.rows, lesson.needs)


def plain(lesson: Lesson) -> dict[str, Any]:
    """The strings of a lesson as its file has them."""
    steps = []
    for one in lesson.steps:
        asked = one.question and {"ask": one.question.ask, "because": one.question.because}
        steps.append({"title": one.title, "text": one.text, "notes": one.notes, "question": asked})
    return {"title": lesson.title, "steps": steps}


def strings(values: dict[str, Any]) -> Iterator[tuple[tuple[int | None, str], str]]:
    """What is translated, by step and key; empty ones do not count."""
    yield (None, "title"), values.get("title", "")
    for number, step in enumerate(values.get("steps", [])):
        every = {key: step.get(key) for key in TRANSLATED["step"]}
        every |= {key: (step.get("question") or {}).get(key) for key in TRANSLATED["question"]}
        yield from (((number, key), value) for key, value in every.items() if value)


def panel_words(language: str) -> dict[str, str]:
    """The words of the panel itself."""
    place = FOLDER / language / PANEL
    return tomllib.loads((place if place.is_file() else FOLDER / PANEL).read_text(encoding="utf-8"))


def languages(lessons: dict[str, Lesson]) -> list[str]:
    """English, and those into which every lesson is translated."""
    every = [set(lesson.translations) for lesson in lessons.values()]
    return ["en", *sorted(set.intersection(*every))]
