"""Evaluations during training: exact means, bounded cost, and the patience that follows from them."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from clearhead.data.batching.batches import Position
from clearhead.training.loop import trainer as module
from clearhead.training.loop.losses import inputs_of
from clearhead.training.loop.records import EvaluationRecord, StepRecord
from clearhead.training.loop.validation import validate
from tests.training.trainers import (
    TASKS,
    make_trainer,
    run_through,
)

tasks = pytest.mark.parametrize("task", TASKS)


@tasks
def test_an_evaluation_is_the_exact_mean_whatever_the_batches(task: str, tmp_path: Path) -> None:
    trainer = make_trainer(task, tmp_path)
    found = [
        validate(trainer.model, trainer.data.batches("validation", size, shuffle=False), trainer.device)
        for size in (1, 100, 100_000)
    ]
    assert len({(predictions, right) for _, predictions, right in found}) == 1
    assert [loss for loss, _, _ in found] == pytest.approx([found[0][0]] * 3, rel=1e-5)
    single, predictions, _ = found[0]
    batches = trainer.data.batches("validation", 1, shuffle=False)
    trainer.model.eval()
    nats, count = 0.0, 0
    for batch in batches.epoch():
        wanted = batch.targets if batch.labels is None else batch.labels
        assert wanted is not None
        with torch.no_grad():
            P = trainer.model(inputs_of(batch)).double().softmax(-1)
        real = wanted != -100
        nats -= float(P[real].gather(1, wanted[real][:, None]).log().sum())
        count += int(real.sum())
    assert predictions == count
    assert single == pytest.approx(nats / count, rel=1e-5)


@tasks
@pytest.mark.parametrize("tokens", [1, 100, 200])
def test_an_evaluation_reads_no_more_tokens_than_it_may(task: str, tokens: int, tmp_path: Path) -> None:
    trainer = make_trainer(task, tmp_path, batch_tokens=32, evaluate_tokens=tokens)
    assert trainer.validation is not None
    count = trainer.validation.count()
    assert count > 4
    read = [trainer.validation.at(Position(0, step)).tokens for step in trainer.validation_steps]
    assert len(read) == 1 or sum(read) <= tokens
    assert trainer.validation_steps == sorted({*trainer.validation_steps})
    assert trainer.validation_steps[-1] < count
    if 2 < len(read) < count:  # from all over, since batches come in the order of their lengths
        assert trainer.validation_steps[0] < count / 2 <= trainer.validation_steps[-1]
    assert trainer.evaluate().predictions == sum(
        trainer.validation.at(Position(0, step)).total for step in trainer.validation_steps
    )
    assert make_trainer(task, tmp_path, evaluate_tokens=10**6, batch_tokens=32).validation_steps == list(
        range(count)
    )


def test_evaluations_of_one_run_are_on_the_same_examples(tmp_path: Path) -> None:
    _, found = run_through(
        make_trainer("translate", tmp_path, batch_tokens=64, evaluate_tokens=150, evaluate_every=2)
    )
    assert len({record.predictions for record in found}) == 1  # the last one too
    losses = [record.validation_loss for record in found]
    best = [loss < min([math.inf, *losses[:place]]) for place, loss in enumerate(losses)]
    assert [record.is_best for record in found] == best


@tasks
def test_an_evaluation_takes_parts_no_larger_than_a_step(task: str, tmp_path: Path) -> None:
    trainer = make_trainer(task, tmp_path, batch_tokens=512, accumulate=4)
    assert trainer.validation is not None
    for batch in trainer.validation.epoch():
        padded = batch.inputs.numel() + (0 if batch.source is None else batch.source.numel())
        assert padded <= 512 // 4 or batch.rows == 1


def test_an_evaluation_is_of_the_average(tmp_path: Path) -> None:
    trainer = make_trainer("translate", tmp_path, average="exponential", evaluate_every=6)
    _, (record,) = run_through(trainer)
    assert trainer.validation is not None
    latest, _, _ = validate(trainer.model, trainer.validation, trainer.device)
    with trainer.average.applied():
        averaged, _, _ = validate(trainer.model, trainer.validation, trainer.device)
    assert record.validation_loss == averaged != latest
    assert int(trainer.average.state()["exponential.steps"]) == trainer.step  # every step went into it


def test_the_weights_of_every_evaluation_go_into_the_average_of_the_last(tmp_path: Path) -> None:
    trainer = make_trainer("translate", tmp_path, average="last", average_last=2, evaluate_every=1)
    seen = []
    for record in trainer.train():
        if isinstance(record, EvaluationRecord):
            seen.append(torch.cat([weight.detach().flatten() for weight in trainer.model.parameters()]))
    mean = trainer.average.mean()
    assert mean is not None
    assert torch.allclose(
        torch.cat([weight.flatten() for weight in mean]), (seen[-1] + seen[-2]) / 2, atol=1e-6
    )


def test_a_non_finite_evaluation_is_never_the_best(tmp_path: Path) -> None:
    trainer = make_trainer("translate", tmp_path)
    sound = trainer.evaluate()
    with torch.no_grad():
        next(trainer.model.parameters()).fill_(math.nan)
    record = trainer.evaluate()
    assert math.isnan(record.validation_loss)
    assert not record.is_best
    assert (trainer.best_loss, trainer.evaluations_since_best) == (sound.validation_loss, 1)


@pytest.mark.parametrize("patience", [1, 3])
def test_patience_ends_a_run_that_gets_no_better(patience: int, tmp_path: Path) -> None:
    trainer = make_trainer(
        "translate", tmp_path, steps=50, patience=patience, evaluate_every=2, log_every=100
    )
    trainer.best_loss = -1.0  # nothing is better
    records = list(trainer.train())
    assert isinstance(records[-1], EvaluationRecord)
    assert trainer.step == 2 * patience
    assert [record.step for record in records if isinstance(record, StepRecord)][-1] == trainer.step
    assert trainer.is_done
    assert list(trainer.train()) == []  # and it does not resume where it stopped


def test_patience_begins_anew_with_every_better_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer("translate", tmp_path, patience=1, evaluate_every=1)
    validated = iter([5.0, 4.0, 4.5, 1.0])
    monkeypatch.setattr(module, "validate", lambda *given: (next(validated), 1, 0))
    _, found = run_through(trainer)
    assert [record.is_best for record in found] == [True, True, False]


@pytest.mark.prove
def test_a_large_evaluation_takes_no_more_memory_than_a_step(tmp_path: Path) -> None:
    """100,000 pairs; the logits of all of them would be half a gigabyte."""
    for name, count in (("train", 3000), ("validation", 100_000)):
        pairs = "".join(f"{k}\t{k}\n" for k in range(count))
        (tmp_path / f"{name}.tsv").write_text(pairs, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path)], capture_output=True, text=True, check=True
    )
    before, after, predictions = map(int, done.stdout.split())
    assert predictions > 500_000
    assert after - before < 40_000  # kilobytes


MEMORY = """
import resource, sys
from pathlib import Path
from clearhead.config.run import RunConfig
from clearhead.data.prepare import prepare
from clearhead.models.build import build
from clearhead.training.run.plan import model_config
from clearhead.training.loop.trainer import Position, Trainer

folder = Path(sys.argv[1])
run = RunConfig.model_validate({
    "task": "translate",
    "data": {"train": str(folder / "train.tsv"), "validation": str(folder / "validation.tsv")},
    "tokenizer": {"kind": "byte"},
    "model": {"d": 8, "h": 2, "encoder_blocks": 1, "decoder_blocks": 1},
    "training": {"threads": 1, "evaluate_tokens": 10**9},
})
data = prepare(run)
trainer = Trainer(run, data, build(model_config(run, data)), steps=5)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for step in range(5):
    trainer.update(trainer.batches.at(Position(0, step)))
before = peak()
record = trainer.evaluate()
print(before, peak(), record.predictions)
"""
