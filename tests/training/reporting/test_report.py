"""The report: one page that needs nothing else, says what happened, and that no text of the data can break."""

import html
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from clearhead.training.reporting import sections
from clearhead.training.reporting.history import Sample
from clearhead.training.reporting.report import page, write_report
from clearhead.training.reporting.sections import confusion, sample_over_time, samples_section
from clearhead.training.reporting.wording import clock, duration
from clearhead.training.run.run import Run
from tests.training.small import EVIL, small_run

TASKS = ["language-model", "masked-language-model", "translate", "classify"]
VOID = {"meta", "br", "hr", "col"}


class Balance(HTMLParser):
    """Reads a page, and keeps its elements, its text, and what is opened and not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(text: str) -> Balance:
    parser = Balance()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


@pytest.fixture(scope="module", params=TASKS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A whole run of each task."""
    run = small_run(request.param, tmp_path_factory.mktemp(request.param))
    list(run.train())
    run.evaluate()
    return run


def test_the_page_is_whole_and_needs_nothing_else(run: Run) -> None:
    text = (run.out / "report.html").read_text(encoding="utf-8")
    parser = read(text)
    names = {name for name, _ in parser.elements}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    for _, attributes in parser.elements:
        assert not {"src", "href", "xlink:href"} & attributes.keys()
        assert not any(key.startswith("on") for key in attributes)
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", text)


def test_it_says_what_happened(run: Run) -> None:
    parser = read((run.out / "report.html").read_text(encoding="utf-8"))
    titles = ["Loss", "Quality on the test data", "Attention", "Data", "Settings"]
    assert all(title in parser.text for title in titles)
    assert ("Samples" in parser.text) == (run.config.task != "masked-language-model")
    assert "6 of 6 steps" in parser.text
    assert run.history.best is not None
    assert f"{run.history.best.validation_loss:.3f}" in parser.text
    assert "training.batch_tokens" in parser.text
    assert run.quality is not None
    assert f"{run.quality['loss']:,.4f}" in parser.text
    if run.config.task == "classify":
        assert "confusion" in parser.text
        assert "down|&" in parser.text
    site = "decoder.0.cross" if run.config.task == "translate" else run.config.model.attentions()[0]
    assert f"{site}.0" in parser.text


def test_the_report_is_there_from_the_first_evaluation_on(tmp_path: Path) -> None:
    run = small_run("classify", tmp_path)
    seen = []
    for record in run.train():
        place = run.out / "report.html"
        seen.append((record.step, place.exists() and "3 of 6 steps" in place.read_text(encoding="utf-8")))
    assert not any(is_there for step, is_there in seen if step < 3)
    assert any(is_there for step, is_there in seen if 3 < step < 6)
    assert not list(run.out.glob(".*.new"))


def test_whatever_the_data_says_is_only_text(tmp_path: Path) -> None:
    run = small_run("classify", tmp_path)
    plain = len(read(page(run.summary)).elements)
    run.history.samples = [Sample(3, f"{EVIL} given", f"{EVIL} made", f"{EVIL} wanted")]
    quality = {"split": EVIL, "loss": 1.0, "labels": [EVIL, "b"], "confusion": [[1, 2], [0, 0]]}
    text = page(replace(run.summary, notes=[EVIL], quality=quality))
    assert "<script" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    parser = read(text)
    assert parser.text.count("<script>alert(1)</script>") == 7
    assert len(parser.elements) > plain


def test_a_page_is_renamed_into_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = small_run("classify", tmp_path)
    run.out.mkdir()
    (run.out / "report.html").write_text("old")

    def fail(*places: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no room"):
        write_report(run.summary)
    assert (run.out / "report.html").read_text() == "old"


def test_samples_show_changes_and_mark_what_is_right() -> None:
    samples = [
        Sample(step, "uno", made, "one") for step, made in ((1, "x"), (2, "x"), (3, "one"), (4, "one"))
    ]
    shown = html.unescape(str(samples_section(samples)))
    assert [f"step {k}" in shown for k in (1, 2, 3, 4)] == [True, False, True, False]
    assert shown.count('class="right"') == 1
    many = [Sample(step, "uno", str(step), "one") for step in range(1, 100)]
    section = str(samples_section(many))
    assert "step 1<" in section
    assert "step 99<" in section
    assert section.count("<dt>step") == sections.SHOWN_TIMES


def test_a_text_from_nothing_is_shown_in_full_and_earlier_ones_folded() -> None:
    shown = sample_over_time("text 1", [Sample(1, "", "first"), Sample(2, "", "line\nline")])
    assert "line\nline" in shown
    assert shown.index("line\nline") < shown.index("<details>") < shown.index("first")


def test_a_confusion_of_many_classes_is_not_drawn() -> None:
    labels = [str(k) for k in range(30)]
    assert "too large to show" in confusion(labels, [[0] * 30] * 30)


def test_times_in_words() -> None:
    assert [duration(s) for s in (0, 59.4, 60, 200, 3600, 7500)] == [
        "0 s",
        "59 s",
        "1 min",
        "3 min 20 s",
        "1 h",
        "2 h 5 min",
    ]
    assert [clock(s) for s in (5, 200, 7500)] == ["0:05", "3:20", "2:05:00"]
