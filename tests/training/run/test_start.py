"""A run begins with the weights of another model: what fits is taken, what cannot be is refused, all of it told."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead import folder_files, model_folder
from clearhead.config.model import ModelConfig
from clearhead.config.run import RunConfig
from clearhead.config.tasks import TASKS, Task
from clearhead.config.training import TrainingConfig
from clearhead.errors import CheckpointError, ConfigError, ModelFolderError
from clearhead.examples import Conversation
from clearhead.model_folder import Bundle
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model
from clearhead.text.tokenizers.tokenizer import Tokenizer
from clearhead.training.checkpoints.files import list_checkpoints
from clearhead.training.evaluation.evaluate import Evaluation
from clearhead.training.run.run import Run, make_run
from clearhead.training.run.start import (
    GENTLE,
    GENTLE_LORA,
    GENTLE_MUON,
    fine_tuned_config,
    gentle_settings,
    resolve_start,
)
from tests.narrow import transformer
from tests.text.tokenizers.chats import TALK, tokenizer_of
from tests.training.checkpoints.saved import rewrite
from tests.training.trainers import configured

BYTES = Tokenizer.train([], configured("classify", Path("/tmp")).tokenizer)


def model_of(shape: str, **settings: Any) -> Model:
    """A small model of random weights."""
    sizes = {
        "vocabulary": BYTES.size,
        "d": 8,
        "h": 2,
        "encoder_blocks": 2,
        "decoder_blocks": 2,
        "context": 64,
    }
    return build(ModelConfig.model_validate({"shape": shape, **sizes, **settings}), seed=7)


def kept(place: Path, model: Model, **parts: Any) -> str:
    """A model folder, by its name."""
    model_folder.save(place, Bundle(model, BYTES, **parts))
    return str(place)


def started(task: str, place: Path, init_from: str, **training: Any) -> Run:
    """A run of this task that starts from a folder."""
    return make_run(configured(task, place, init_from=init_from, **training), place / "run")


def weights(model: Model) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


# What can start from what.


@pytest.mark.parametrize(
    ("shape", "task"),
    [
        ("decoder", "language-model"),
        ("decoder", "classify"),
        ("encoder", "classify"),
        ("encoder", "masked-language-model"),
        ("encoder-decoder", "translate"),
        ("encoder-decoder", "classify"),
        ("encoder-decoder", "masked-language-model"),
    ],
)
def test_a_model_of_another_task_gives_the_weights_that_both_have(
    shape: str, task: str, tmp_path: Path
) -> None:
    given = model_of(shape, **({"head": "none"} if shape == "encoder" else {}))
    run = started(task, tmp_path, kept(tmp_path / "given", given), steps=2, samples=1)
    theirs, ours = weights(given), weights(run.model)
    stack = "encoder." if shape != "decoder" else "decoder."
    assert {name for name in theirs if name.startswith(stack)} <= ours.keys()
    for name, weight in ours.items():
        assert name in theirs or name.startswith("head."), name
        assert name not in theirs or torch.equal(weight, theirs[name])
    assert run.model.config.head == ("classifier" if task == "classify" else "language")
    list(run.train())  # and it learns
    assert not torch.equal(
        weights(model_folder.load(run.out / "last").module)[f"{stack}tokens.weight"],
        theirs[f"{stack}tokens.weight"],
    )


def test_the_vectors_of_a_decoder_that_became_a_classifier_are_those_it_had(tmp_path: Path) -> None:
    given = model_of("decoder")
    run = started("classify", tmp_path, kept(tmp_path / "given", given))
    tokens = torch.arange(5, 12)[None]
    assert run.model.config.pool == "last"
    assert torch.equal(run.model.eval().vectors(Inputs(tokens)), given.vectors(Inputs(tokens)))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("shape", ["decoder", "encoder", "encoder-decoder"])
def test_what_cannot_start_from_what_is_refused_with_a_reason(shape: Any, task: Task) -> None:
    given = ModelConfig(shape=shape)
    if shape in TASKS[task].starts_from:
        fine_tuned_config(given, ModelConfig(), task)
        return
    with pytest.raises(ConfigError) as caught:
        fine_tuned_config(given, ModelConfig(), task)
    first, second = str(caught.value).split("\n")
    assert first.startswith(f"task = {task!r} cannot start from a model of shape = {shape!r}: ")
    assert (
        second
        == f"Start from a model of shape {TASKS[task].shapes[0]}"
        + (" or encoder-decoder" if task == "masked-language-model" else "")
        + ", or omit training.init_from."
    )


def test_classes_are_taken_over_only_with_the_same_labels(tmp_path: Path) -> None:
    given = model_of("encoder", head="classifier", classes=2)
    for labels, is_same in ((["<up>", "down|&"], True), (["no", "yes"], False)):
        place = kept(tmp_path / labels[0], given, labels=labels)
        run = started("classify", tmp_path / f"run of {labels[1]}", place)
        assert list(run.data.labels) == ["<up>", "down|&"]
        assert (
            torch.equal(weights(run.model)["head.out.weight"], weights(given)["head.out.weight"]) is is_same
        )


def test_the_recipe_says_what_is_read_and_the_model_how_large_it_is(tmp_path: Path) -> None:
    given = model_of("encoder", head="none", dropout=0.1, attention_dropout=0.1)
    config = configured("classify", tmp_path / "b", init_from=kept(tmp_path / "given", given))
    model = config.model.replace(d=16, dropout=0.3, pool="first")
    run = make_run(config.replace(model=model), tmp_path / "run")
    found = transformer(run.config.model)
    assert (found.d, found.context, found.encoder_blocks) == (8, 64, 2)
    assert (found.dropout, found.pool, found.attention_dropout) == (0.3, "first", 0.0)
    assert "model.d = 16, model.encoder_blocks = 1, model.decoder_blocks = 1: ignored" in run.notes[0]
    assert "tokenizer.kind = 'byte': ignored, as the model keeps its own tokenizer of 261 tokens" in run.notes


def test_a_run_folder_means_its_best_model(tmp_path: Path) -> None:
    best = kept(tmp_path / "before" / "best", model_of("encoder"))
    kept(tmp_path / "before" / "last", model_of("decoder"))
    run = started("classify", tmp_path, str(tmp_path / "before"))
    assert run.config.training.init_from == best
    assert any(f"weights copied from {best}" in note for note in run.notes)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    model_folder.save(tmp_path / "given", Bundle(model_of("encoder")))
    config = configured("classify", tmp_path, init_from=str(tmp_path / "given"))
    with pytest.raises(ConfigError, match=r"has no tokenizer\.json"):
        resolve_start(config)


def test_rows_to_spare_stay(tmp_path: Path) -> None:
    given = model_of("decoder", vocabulary=BYTES.size + 9)
    run = started("language-model", tmp_path, kept(tmp_path / "given", given))
    assert run.model.config.vocabulary == BYTES.size + 9
    assert all(torch.equal(weight, weights(given)[name]) for name, weight in weights(run.model).items())


def test_the_notes_tell_what_was_taken_and_stand_in_the_recipe(tmp_path: Path) -> None:
    given = model_of("encoder", head_transform=True)
    run = started("classify", tmp_path, kept(tmp_path / "given", given), steps=1)
    next(iter(run.train()))
    told = [note for note in run.notes if "copied" in note]
    assert told == [
        f"18 weights copied from {tmp_path / 'given'}; new: head.out.weight, head.out.bias; "
        "not used: head.transform.weight, head.transform.bias, head.transform_norm.weight"
    ]
    recipe = (run.out / "recipe.toml").read_text()
    assert f"# {told[0]}\n" in recipe
    again = RunConfig.read(run.out / "recipe.toml")
    assert again == run.config
    assert resolve_start(again).config.model.replace(head="classifier", classes=2) == run.config.model


# The folder is gone when the run goes on.


def killed(place: Path, given: str, step: int, **training: Any) -> RunConfig:
    """The recipe of a run that was killed after a step; what it began with is gone."""
    records = started("classify", place, given, checkpoint_every=2, **training).train()
    for record in records:
        if record.step == step:
            break
    records.close()  # type: ignore[attr-defined]
    shutil.rmtree(given)
    return RunConfig.read(place / "run" / "recipe.toml")


def test_a_run_goes_on_without_the_model_that_it_has_added_tokens_to(tmp_path: Path) -> None:
    given = kept(tmp_path / "given", model_of("encoder"))
    config = configured("classify", tmp_path / "data", init_from=given, checkpoint_every=2)
    config = config.replace(tokenizer=config.tokenizer.replace(added=["<one>", "<two>"]))
    records = make_run(config, tmp_path / "run").train()
    assert any(record.step == 4 for record in records)
    records.close()  # type: ignore[attr-defined]
    shutil.rmtree(given)
    again = make_run(RunConfig.read(tmp_path / "run" / "recipe.toml"), tmp_path / "run")
    assert next(iter(again.train(resume=True))).step > 1


def test_another_tokenizer_of_the_model_it_began_with_is_refused(tmp_path: Path) -> None:
    """Also where it cuts these very data into the same ids."""
    given = kept(tmp_path / "given", model_of("encoder"))
    run = started("classify", tmp_path, given, lora_rank=2, steps=4, checkpoint_every=2)
    records = run.train()
    assert any(record.step == 3 for record in records)
    records.close()  # type: ignore[attr-defined]
    (place,) = list_checkpoints(run.out / "checkpoints")
    document = json.loads((tmp_path / "given" / "tokenizer.json").read_text())
    pieces = document["model"]["vocab"]
    one, other = [piece for piece in pieces if len(piece) == 1 and ord(piece) > 255][:2]
    pieces[one], pieces[other] = pieces[other], pieces[one]
    (tmp_path / "given" / "tokenizer.json").write_text(json.dumps(document))
    folder_files.write_checksums(tmp_path / "given", model_folder.CHECKED)
    recipe = RunConfig.read(run.out / "recipe.toml")
    with pytest.raises(CheckpointError, match=f"^{place} was trained with another tokenizer: "):
        list(make_run(recipe, run.out).train(resume=True))
    facts = json.loads((place / "state.json").read_text())
    del facts["run"]["tokenizers"]  # as checkpoints were before
    rewrite(place, "run", facts["run"])
    assert list(make_run(recipe, run.out).train(resume=True))


@pytest.mark.parametrize("frozen", [(), ("embeddings", "encoder.0")])
def test_a_run_goes_on_without_the_model_it_began_with(frozen: tuple[str, ...], tmp_path: Path) -> None:
    given = kept(tmp_path / "given", model_of("encoder"))
    whole = started("classify", tmp_path / "whole", given, frozen=frozen)
    list(whole.train())
    recipe = killed(tmp_path / "parts", given, 5, frozen=frozen)
    again = make_run(recipe, tmp_path / "parts" / "run")
    list(again.train(resume=True))
    assert all(torch.equal(weights(whole.model)[name], W) for name, W in weights(again.model).items())
    assert again.config.training.init_from == given


@pytest.mark.parametrize(
    ("step", "lora_rank", "reason"),
    [(5, 2, "adapters need its weights"), (3, None, "contains no model yet")],
)
def test_where_the_checkpoint_is_not_enough_the_folder_is_asked_for(
    step: int, lora_rank: int | None, reason: str, tmp_path: Path
) -> None:
    given = kept(tmp_path / "given", model_of("encoder"))
    recipe = killed(tmp_path, given, step, lora_rank=lora_rank, evaluate_every=4)
    with pytest.raises(ModelFolderError, match=f"given does not exist, and .*{reason}") as caught:
        make_run(recipe, tmp_path / "run")
    assert "name its new place: --training.init_from FOLDER" in str(caught.value)


def test_a_model_that_was_moved_can_be_named_anew(tmp_path: Path) -> None:
    given = model_of("encoder")
    recipe = killed(tmp_path, kept(tmp_path / "given", given), 5, lora_rank=2)
    moved = recipe.training.replace(init_from=kept(tmp_path / "moved", given))
    list(make_run(recipe.replace(training=moved), tmp_path / "run").train(resume=True))
    assert RunConfig.read(tmp_path / "run" / "recipe.toml").training.init_from == str(tmp_path / "moved")


# Tokens that are added.


def test_added_tokens_leave_the_logits_of_the_others_as_they_were(tmp_path: Path) -> None:
    given = model_of("decoder", head_bias=True, tied=False, vocabulary=BYTES.size)
    config = configured("language-model", tmp_path, init_from=kept(tmp_path / "given", given))
    config = config.replace(tokenizer=config.tokenizer.replace(added=["<one>", "<two>"]))
    run = make_run(config, tmp_path / "run")
    size, tokenizer = BYTES.size, run.data.tokenizers.target
    assert (tokenizer.size, run.model.config.vocabulary) == (size + 2, size + 2)
    assert [tokenizer.encode(name) for name in ("<one>", "<two>")] == [[size], [size + 1]]
    tokens = torch.arange(4, 20)[None]
    assert torch.allclose(run.model.eval()(Inputs(tokens))[..., :size], given(Inputs(tokens)), atol=1e-6)
    for name in ("decoder.tokens.weight", "head.table.weight", "head.bias"):
        rows, old = weights(run.model)[name], weights(given)[name]
        assert torch.equal(rows[:size], old)
        assert (rows[size:] - old.mean(0)).abs().max() <= 0.5 * old.std(0).max()
    assert not torch.equal(rows[size], rows[size + 1]) or rows.ndim == 1
    assert "2 tokens added to the 261 of its tokenizer" in run.notes
    list(run.train())
    assert Tokenizer.load(run.out / "last").encode("<two>") == [size + 1]


# Gentle settings.


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({}, GENTLE),
        ({"learning_rate": 0.5}, {key: value for key, value in GENTLE.items() if key != "learning_rate"}),
        ({"lora_rank": 4}, GENTLE | GENTLE_LORA),
        ({"matrix_rate": 0.5}, GENTLE | {"optimizer": "muon"}),
        (
            {"optimizer": "muon"},
            {key: value for key, value in (GENTLE | GENTLE_MUON).items() if key != "optimizer"},
        ),
    ],
)
def test_what_a_recipe_leaves_open_is_gentle(stated: dict[str, Any], expected: dict[str, Any]) -> None:
    assert gentle_settings(TrainingConfig.model_validate({"init_from": "x", **stated})) == expected


def test_gentle_settings_are_smaller_than_those_of_a_new_model() -> None:
    usual = TrainingConfig()
    assert GENTLE["learning_rate"] < GENTLE_LORA["learning_rate"] < usual.learning_rate
    assert GENTLE_MUON["matrix_rate"] < usual.matrix_rate


def test_gentle_settings_stand_in_the_recipe_and_are_told(tmp_path: Path) -> None:
    run = started("classify", tmp_path, kept(tmp_path / "given", model_of("encoder", head="none")))
    assert run.config.training.learning_rate == GENTLE["learning_rate"]
    assert "learning_rate" in run.config.training.model_fields_set
    assert any("training.learning_rate = 0.0002" in note and "small steps" in note for note in run.notes)


# What it is good for.


@pytest.mark.slow
@pytest.mark.notes("N36")
def test_a_model_that_has_read_text_learns_a_task_from_four_examples(tmp_path: Path) -> None:
    """Two kinds of sentences, each with its own words: reading shows which words go together, labels only name them."""
    draw = random.Random(1)
    words = {kind: [f"{kind}{number}" for number in range(30)] for kind in ("sea", "sky")}

    def lines(count: int, is_labelled: bool) -> str:
        said = [(" ".join(draw.choices(words[kind], k=6)), kind) for _ in range(count) for kind in words]
        return "".join(f"{text}\t{kind}\n" if is_labelled else f"{text}\n" for text, kind in said)

    for name, count in (("text.txt", 750), ("few.tsv", 2), ("test.tsv", 100)):
        (tmp_path / name).write_text(lines(count, name != "text.txt"))

    def run(task: str, file: str, out: str, data: dict[str, Any], **training: Any) -> Run:
        config = {
            "task": task,
            "data": {"train": str(tmp_path / file), **data},
            "tokenizer": {"kind": "word", "minimum_frequency": 1},
            "model": {"d": 24, "h": 2, "encoder_blocks": 1, "context": 16},
            "training": {"threads": 1, "samples": 0, "batch_tokens": 512, "learning_rate": 2e-3, **training},
        }
        made = make_run(RunConfig.model_validate(config), tmp_path / out)
        list(made.train())
        return made

    run("masked-language-model", "text.txt", "read", {"validation": 0.05, "documents": "line"}, steps=150)
    held_out = {"validation": 0.0, "test": str(tmp_path / "test.tsv")}
    found = {}
    for out, more in (("new", {}), ("tuned", {"init_from": str(tmp_path / "read" / "last")})):
        quality = run("classify", "few.tsv", out, held_out, steps=40, **more).evaluate()
        assert quality is not None
        found[out] = quality["accuracy"]
    assert found["tuned"] > 0.95 > 0.8 > found["new"]


# Conversations.


def test_a_model_with_a_chat_template_is_fine_tuned_by_it_and_keeps_it(tmp_path: Path) -> None:
    tokenizer = tokenizer_of("ChatML")
    given = model_of("decoder", vocabulary=tokenizer.size, context=128, d=16)
    model_folder.save(tmp_path / "given", Bundle(given, tokenizer))
    record = {"messages": [{"role": one.role, "content": one.content} for one in TALK]}
    path = tmp_path / "chats.jsonl"
    path.write_text("".join(json.dumps(record | {"id": k}) + "\n" for k in range(20)), encoding="utf-8")
    config = configured("language-model", tmp_path, init_from=str(tmp_path / "given"), steps=12, samples=1)
    data = {"train": str(path), "validation": str(path)}
    run = make_run(
        RunConfig.model_validate(config.model_dump(exclude={"data"}) | {"data": data}), tmp_path / "run"
    )
    list(run.train())
    best = model_folder.load(run.out)
    assert best.config.vocabulary == tokenizer.size
    assert best.tokenizer is not None
    assert best.tokenizer.chat_template == tokenizer.chat_template
    losses = [entry.validation_loss for entry in run.history.evaluations]
    assert losses[-1] < losses[0]
    assert run.history.samples[-1].given.endswith("<|im_start|>assistant\n")
    measured = Evaluation(best).run([Conversation(TALK)])
    assert measured["loss"] == pytest.approx(min(losses), abs=1e-3)
