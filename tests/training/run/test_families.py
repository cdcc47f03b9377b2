"""Models of other families are trained, resumed, saved, used and checked by the same code as transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient

import clearhead
from clearhead.api import Model
from clearhead.config.convolutional import ConvolutionalConfig
from clearhead.config.model import ModelConfig
from clearhead.config.model_base import AnyModelConfig
from clearhead.config.recurrent import RecurrentConfig
from clearhead.config.tasks import Task
from clearhead.config.training import TrainingConfig
from clearhead.errors import ConfigError
from clearhead.exchange.exporting import export_model
from clearhead.exchange.exporting_gguf import export_gguf
from clearhead.exchange.families.accepted_by import describe_export
from clearhead.inspection.check import check
from clearhead.page.service.service import READINGS
from clearhead.serving.explorer.app import explorer_app
from clearhead.training.loop.adapters import freeze_weights
from clearhead.training.recipes.suggest import recipe_for
from clearhead.training.run.run import make_run
from clearhead.training.run.start import fine_tuned_config
from tests.training.small import small_config

SIZES: dict[str, Any] = {"d": 8, "context": 64}
CASES: dict[str, tuple[str, AnyModelConfig]] = {
    "lstm that writes": ("language-model", RecurrentConfig(**SIZES, decoder_blocks=2)),
    "gru that translates": ("translate", RecurrentConfig(**SIZES, cell="gru")),
    "rnn that translates from one state": (
        "translate",
        RecurrentConfig(**SIZES, cell="rnn", attention="none"),
    ),
    "lstm that classifies": ("classify", RecurrentConfig(**SIZES)),
    "filters that write": ("language-model", ConvolutionalConfig(**SIZES, decoder_blocks=3)),
    "filters that classify": ("classify", ConvolutionalConfig(**SIZES)),
    "filters that fill gaps": ("masked-language-model", ConvolutionalConfig(**SIZES)),
}


@pytest.fixture(scope="module", params=CASES)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Model]:
    """The run folder and the best model of six steps, of which the last three were resumed."""
    task, model = CASES[request.param]
    folder = tmp_path_factory.mktemp("family")
    config = small_config(task, folder, threads=1, samples=1).replace(model=model)
    whole = make_run(config, folder / "whole")
    list(whole.train())
    run = make_run(config, folder / "run")
    for record in run.train():
        if record.step == 3:
            break
    list(make_run(config, folder / "run").train(resume=True))
    one, other = (clearhead.load(folder / name / "last").module.state_dict() for name in ("whole", "run"))
    assert all(torch.equal(one[name], other[name]) for name in one)  # resumed = uninterrupted
    return folder / "run", clearhead.load(folder / "run" / "best")


def test_a_model_of_another_family_does_what_its_task_asks(trained: tuple[Path, Model]) -> None:
    folder, model = trained
    assert (folder / "report.html").stat().st_size > 1000
    assert all(law.holds for law in check(model.bundle))
    assert model.embed(["good 3", "bad 4 and more"]).shape == (2, 8)
    if model.config.head == "classifier":
        assert {found.label for found in model.classify(["good 3", "bad"])} <= {"<up>", "down|&"}
    elif model.translates:
        assert len(model.translate(["uno 3 dos", "uno"], beam=3, max_tokens=8)) == 2
    elif model.module.generates:
        assert len(model.generate(["text", "te"], max_tokens=5, seed=1)) == 2
    trace = model.trace("uno 3")
    assert {f"{name}.weights" for name in model.config.attentions()} <= trace.keys()


def test_the_explorer_answers_about_a_model_of_another_family(trained: tuple[Path, Model]) -> None:
    client = TestClient(explorer_app(trained[1], "tiny"), base_url="http://127.0.0.1:7878")
    assert client.get("/api/model").status_code == 200
    target = {"target": "one"} if trained[1].translates else {}  # its own may be longer than its context
    answer = client.post("/api/passes", json={"text": "uno 3 dos"} | target)
    assert answer.status_code == 200, answer.text
    name, sites = answer.json()["name"], answer.json()["sites"]
    assert client.get(f"/api/passes/{name}/tensors", params={"sites": ",".join(sites)}).status_code == 200
    assert client.get(f"/api/passes/{name}/thumbnails").status_code == 200
    site = f"{'encoder' if 'encoder' in answer.json()['tokens'] else 'decoder'}.embeddings.out"
    for what in READINGS:
        found = client.get(f"/api/passes/{name}/{what}", params={"position": 0, "id": 3, "site": site})
        assert found.status_code in (200, 422), f"{what}: {found.text}"
        assert found.status_code == 200 or len(found.json()["error"]) > 20
    if trained[1].module.generates:
        assert client.post("/api/generations", json={"text": "uno", "max_tokens": 2}).status_code == 200


def test_what_a_model_of_another_family_cannot_do_is_refused(
    trained: tuple[Path, Model], tmp_path: Path
) -> None:
    folder, model = trained
    for export in (
        lambda: export_model(folder, tmp_path / "out"),
        lambda: export_gguf(folder, tmp_path / "o.gguf"),
    ):
        with pytest.raises(ConfigError, match="only transformers can be exported"):
            export()
    assert not list(tmp_path.iterdir())
    assert "other programs have no" in describe_export(model.config)
    if not model.config.attentions():
        lora = TrainingConfig(lora_rank=2, init_from=str(folder))
        with pytest.raises(ConfigError, match="attention and feed-forward, and this model has neither"):
            freeze_weights(model.module, lora)


@pytest.mark.parametrize("family", ["recurrent", "convolutional"])
def test_a_recipe_is_made_for_files_and_another_family(family: str, tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("In the year 1700 the river rose by seven feet.\n" * 400)
    given = {"model.family": family}
    run, reasons = recipe_for("language-model", [str(tmp_path / "book.txt")], overrides=given)
    assert run.model.family == family
    assert run.model.decoder_blocks <= 2
    assert not any("model.h" in reason for reason in reasons)


def test_a_model_to_start_from_keeps_its_family(trained: tuple[Path, Model]) -> None:
    given = trained[1].config
    task: Task = "masked-language-model" if given.shape == "encoder" else "language-model"
    if given.shape == "encoder-decoder":
        task = "translate"
    found = fine_tuned_config(given, ModelConfig(), task)
    assert (found.family, found.shape) == (given.family, given.shape)
    with pytest.raises(ConfigError, match=r"but the model in training\.init_from has family"):
        fine_tuned_config(given, ModelConfig(family="transformer"), task)
    if given.shape == "encoder-decoder":
        assert fine_tuned_config(given, ModelConfig(), "classify").shape == "encoder"
