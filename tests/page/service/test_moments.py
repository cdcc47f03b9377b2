"""The steps of a run on the page: passes, weights, texts and lessons of the model as it was then."""

from pathlib import Path

import pytest
import torch

from clearhead.api import Model
from clearhead.errors import InputError
from clearhead.inspection.kept_models import keep_model, kept_models
from clearhead.page.service.lessons import Lessons
from clearhead.page.service.requests import GenerationRequest, PassRequest
from clearhead.page.service.service import ExplorerService
from tests.decoding.tiny import random_model
from tests.page.service.packets import unpack

STEPS = (0, 3, 12)
TEXT = "my dog wanted to see the red ball"
SITE = "decoder.0.self.weights"


@pytest.fixture(scope="module", params=["decoder", "encoder-decoder"])
def models(request: pytest.FixtureRequest) -> dict[int | None, Model]:
    """A model (None), and the same after some steps."""
    return {
        step: Model(random_model(request.param, "word", seed)) for seed, step in enumerate((None, *STEPS), 1)
    }


@pytest.fixture(scope="module")
def service(models: dict[int | None, Model], tmp_path_factory: pytest.TempPathFactory) -> ExplorerService:
    folder: Path = tmp_path_factory.mktemp("run")
    for step in STEPS:
        keep_model(folder, models[step].bundle, step, 1.5 if step else None)
    return ExplorerService(models[None].bundle, "tiny", "tiny", kept=kept_models(folder))


def test_each_step_has_its_own_numbers(service: ExplorerService, models: dict[int | None, Model]) -> None:
    assert service.structure["moments"] == [
        {"step": 0, "loss": None}, {"step": 3, "loss": 1.5}, {"step": 12, "loss": 1.5}
    ]  # fmt: skip
    target = "a red ball" if models[None].translates else None
    for step, model in models.items():
        found = service.run_pass(PassRequest(text=TEXT, target=target, moment=step))
        A = service.cache.get(found["name"]).trace[SITE]
        torch.testing.assert_close(A, model.trace(TEXT, target)[SITE])
        name, weight = next(model.module.named_parameters())
        query = {"name": name} | ({} if step is None else {"moment": str(step)})
        (W,) = unpack(service.weights(query)).values()
        assert torch.equal(W, weight)


def test_a_text_is_generated_by_the_model_of_that_step(
    service: ExplorerService, models: dict[int | None, Model]
) -> None:
    for step, model in models.items():
        found = service.generate(GenerationRequest(text=TEXT, max_tokens=5, moment=step))
        written = model.generate(TEXT, max_tokens=5, temperature=0, beam=1)
        assert [one["token"]["id"] for one in found["steps"]] == list(written.tokens)


def test_a_step_that_was_not_kept_is_refused(service: ExplorerService) -> None:
    with pytest.raises(InputError, match=r"after step 5\.\nThe steps that were kept: 0, 3, 12"):
        service.run_pass(PassRequest(text=TEXT, moment=5))


def test_the_lesson_asks_about_the_step_that_it_shows(
    service: ExplorerService, models: dict[int | None, Model]
) -> None:
    lessons = Lessons(service)
    steps = [lessons.step("20-training", number, "en") for number in range(1, 6)]
    assert [step["state"]["moment"] for step in steps] == ["0", "0", "3", "3", ""]
    first = steps[0]["state"]
    A = models[0].trace(first["text"], first.get("target"))[f"{first['at']}.weights"][0, int(first["head"])]
    assert steps[0]["question"]["value"] == pytest.approx(
        float(A[int(first["q"]), int(first["k"])]), abs=1e-5
    )
    vocabulary = torch.tensor(float(models[None].config.vocabulary))
    assert steps[1]["question"]["value"] == pytest.approx(float(vocabulary.log()), rel=1e-6)
    state = steps[2]["state"]
    before, after = (
        models[step].trace(state["text"], state.get("target"))["logits"][0, -1] for step in (None, 3)
    )
    assert steps[2]["question"]["value"] == ("yes" if before.argmax() == after.argmax() else "no")
