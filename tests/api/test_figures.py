"""What a notebook shows: objects with a plain repr, a frame of fixed height that loads nothing, and a file."""

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

import clearhead
from clearhead.api import Figure, Model
from clearhead.config.recurrent import RecurrentConfig
from clearhead.errors import InputError
from clearhead.inspection.attribution.direct import direct_logit_attribution
from clearhead.inspection.attribution.goals import Logit
from clearhead.model_folder import Bundle
from clearhead.models.build import build
from tests.decoding.tiny import SENTENCES, classifier, language_model, tokenizer, translator
from tests.training.small import small_config

TEXT = SENTENCES[0]
ELSEWHERE = re.compile(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//|@import|url\(\s*["']?http""")


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(language_model("word"))


FIGURES: dict[str, Callable[[Model], Figure]] = {
    "explore": lambda model: model.explore(TEXT, target=SENTENCES[3] if model.translates else None),
    "attention": lambda model: model.attention(TEXT),
    "heads": lambda model: model.heads(TEXT),
    "attribution": lambda model: model.attribution(TEXT),
}


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("make", [language_model, translator, classifier], ids=lambda make: make.__name__)
def test_a_figure_is_shown_and_saved(name: str, make: Callable[[str], object], tmp_path: Path) -> None:
    figure = FIGURES[name](Model(make("word")))  # type: ignore[arg-type]
    assert repr(figure).startswith("<clearhead figure: ")
    assert "\n" not in repr(figure)
    html = figure._repr_html_()
    assert html.startswith("<iframe ")
    assert f'height="{figure.height}"' in html
    assert len(html.encode()) <= 400_000
    assert not ELSEWHERE.search(unescape(html))
    saved = figure.save(tmp_path / "figure.html").read_text(encoding="utf-8")
    assert saved.startswith("<!doctype html>")
    assert not ELSEWHERE.search(saved)
    assert "prefers-color-scheme: dark" in saved or name == "explore"  # whose script asks for it


def test_the_frame_has_less_than_the_file_where_there_is_more(model: Model) -> None:
    figure = model.explore(TEXT)
    assert len(figure.frame) < len(figure.whole())


def test_one_head_is_drawn_with_its_weights(model: Model) -> None:
    figure = model.attention(TEXT, head="decoder.0.self.1")
    A = model.trace(TEXT)["decoder.0.self.weights"][0, 1]
    tokens = [token.strip() for token in model.trace(TEXT).tokens]
    drawn = re.findall(r"<title>(.*?) → (.*?): ([\d.]+)</title>", figure.whole())
    assert len(drawn) == A.numel()
    assert [float(weight) for *_, weight in drawn] == pytest.approx(A.flatten().tolist(), abs=5e-4)
    assert unescape(drawn[-1][0]) == tokens[-1]
    with pytest.raises(InputError, match=r"decoder\.9\.self\.1 is not a head"):
        model.attention(TEXT, head="decoder.9.self.1")


def test_an_attribution_adds_up(model: Model) -> None:
    shown = unescape(model.attribution(TEXT).whole())
    answer = int(model.trace(TEXT)["logits"][0, -1].argmax())
    found = direct_logit_attribution(model.module, model.inputs(TEXT), Logit(answer))
    assert f"The logit {found.logit:.3f} of" in shown
    for name, value in found.parts.items():
        assert f"<th>{name}</th>" in shown
        assert f"{value:+.3f}".replace("-", "−") in shown


def test_a_model_without_attention_says_so() -> None:
    words = tokenizer("word")
    config = RecurrentConfig(shape="decoder", vocabulary=words.size, d=8, decoder_blocks=1)
    model = Model(Bundle(build(config), words))
    with pytest.raises(InputError, match="no attention to draw"):
        model.heads(TEXT)
    assert model.explore(TEXT)._repr_html_()


def test_a_run_and_its_data(tmp_path: Path) -> None:
    config = small_config("translate", tmp_path)
    with pytest.raises(InputError, match="contains no run"):
        clearhead.training_curves(tmp_path / "run")
    clearhead.train(config, tmp_path / "run")
    curves = clearhead.training_curves(tmp_path / "run")
    assert repr(curves) == "<clearhead figure: loss of run over 6 steps>"
    assert "loss over steps" in curves.whole()
    report = clearhead.data_report(config)
    assert "<th>examples</th>" in report.whole()
    assert "60 examples" in repr(report)
