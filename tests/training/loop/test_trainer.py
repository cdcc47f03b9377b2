"""The loop: exact means whatever the split, failed steps that leave no trace, evaluations that change nothing."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.data.batching.batches import Batch, Position
from clearhead.errors import TrainingError
from clearhead.training.loop.losses import inputs_of, loss_of
from clearhead.training.loop.records import StepRecord
from clearhead.training.loop.trainer import Trainer, recompute_blocks
from tests.training.trainers import (
    TASKS,
    farthest,
    gradients_of,
    make_trainer,
    run_through,
    same_bits,
    state_of,
    weights_of,
)

tasks = pytest.mark.parametrize("task", TASKS)


class Recorder(torch.optim.SGD):
    """An optimizer that changes nothing and keeps the gradients it is shown."""

    def __init__(self, trainer: Trainer) -> None:
        super().__init__(trainer.model.parameters(), lr=0.0)
        self.seen: list[dict[str, Tensor]] = []
        self.names = {id(weight): name for name, weight in trainer.model.named_parameters()}
        for group in self.param_groups:
            group["largest_rate"] = 0.0

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        weights = [weight for group in self.param_groups for weight in group["params"]]
        self.seen.append(
            {self.names[id(weight)]: weight.grad.clone() for weight in weights if weight.grad is not None}
        )


def gradients(trainer: Trainer, batch: Batch) -> dict[str, Tensor]:
    """The gradients of one step."""
    recorder = Recorder(trainer)
    trainer.optimizers = [recorder]
    trainer.update(batch)
    return recorder.seen[0]


def ragged(trainer: Trainer) -> Batch:
    """A batch of many rows of different length, where the task has such."""
    many = [trainer.batches.at(Position(0, step)) for step in range(trainer.batches.count(0))]
    return max(many, key=lambda batch: (batch.counts is not None, batch.rows))


# One step.


@tasks
@pytest.mark.parametrize("parts", [2, 4, 7, 1000])
def test_a_batch_in_parts_has_the_gradient_of_the_whole(task: str, parts: int, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"clip": None, "batch_tokens": 1024, "label_smoothing": 0.1}
    whole = make_trainer(task, tmp_path, **settings)
    batch = ragged(whole)
    assert batch.rows >= 8
    assert batch.counts is not None
    split = make_trainer(task, tmp_path, accumulate=parts, **settings)
    expected, found = gradients(whole, batch), gradients(split, batch)
    largest = max(float(gradient.abs().max()) for gradient in expected.values())
    assert farthest(found, expected) < 2e-6 * max(1.0, largest)


@tasks
@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_weights_learned_in_parts_are_those_learned_at_once(
    task: str, optimizer: str, tmp_path: Path
) -> None:
    """Adam divides by the size of a gradient, so that a gradient of almost 0 could be ±1: ε keeps it small."""
    settings: dict[str, Any] = {"optimizer": optimizer, "epsilon": 1e-2, "batch_tokens": 512}
    whole, split = (make_trainer(task, tmp_path, accumulate=parts, **settings) for parts in (1, 4))
    for step in range(3):
        batch = whole.batches.at(Position(0, step % whole.batches.count(0)))
        (nats, norm), (other_nats, other_norm) = whole.update(batch), split.update(batch)
        assert other_nats == pytest.approx(nats, rel=1e-5)
        assert other_norm == pytest.approx(norm, rel=1e-4)
    assert farthest(weights_of(split), weights_of(whole)) < 2e-5


@tasks
def test_a_gradient_is_that_of_the_mean_over_predictions(task: str, tmp_path: Path) -> None:
    trainer = make_trainer(task, tmp_path, clip=None)
    batch = trainer.batches.at(Position())
    found = gradients(trainer, batch)
    loss = loss_of(trainer.model(inputs_of(batch)), batch)
    assert loss.count == batch.total
    (loss.total / loss.count).backward()
    expected = {name: w.grad.clone() for name, w in trainer.model.named_parameters() if w.grad is not None}
    assert farthest(found, expected) < 1e-6


def test_clipping_bounds_the_norm_and_keeps_the_direction(tmp_path: Path) -> None:
    free, bound = (make_trainer("translate", tmp_path, clip=clip) for clip in (None, 0.01))
    batch = free.batches.at(Position())
    expected, found = gradients(free, batch), gradients(bound, batch)
    size = math.sqrt(sum(float(gradient.square().sum()) for gradient in expected.values()))
    assert size > 0.01
    scaled = {name: gradient * (0.01 / size) for name, gradient in expected.items()}
    assert farthest(found, scaled) < 1e-7
    _, norm = make_trainer("translate", tmp_path, clip=0.01).update(batch)
    assert norm == pytest.approx(size, rel=1e-4)  # what is reported is the norm before


@tasks
def test_blocks_that_are_run_again_give_the_same_gradients(task: str, tmp_path: Path) -> None:
    """With dropout: the second time the same numbers are dropped."""
    found, runs = [], []
    for recompute in (False, True):
        trainer = make_trainer(task, tmp_path, {"dropout": 0.3}, recompute=recompute, clip=None)
        count = [0]
        for stack in ("encoder", "decoder"):
            for block in getattr(getattr(trainer.model, stack, None), "blocks", ()):
                block.ffn.register_forward_hook(lambda *_, count=count: count.__setitem__(0, count[0] + 1))
        torch.manual_seed(5)
        found.append(gradients(trainer, trainer.batches.at(Position())))
        runs.append(count[0])
    assert runs[1] == 2 * runs[0]
    assert farthest(*found) < 1e-7


def test_a_model_that_is_trained_again_runs_its_blocks_twice_only(tmp_path: Path) -> None:
    trainer = make_trainer("translate", tmp_path, recompute=True)
    before = [block.forward for block in trainer.model.decoder.blocks]  # type: ignore[union-attr]
    recompute_blocks(trainer.model)
    assert [block.forward for block in trainer.model.decoder.blocks] == before  # type: ignore[union-attr]


# Steps that cannot be taken.


def spoil_loss(trainer: Trainer, value: float) -> Callable[[], None]:
    """Makes the loss non-finite."""
    sound = trainer.forward
    trainer.forward = lambda *given: sound(*given) * value

    def repair() -> None:
        trainer.forward = sound

    return repair


def spoil_gradient(trainer: Trainer, value: float) -> Callable[[], None]:
    """Makes one number of one gradient non-finite, while the loss is finite."""
    weight = list(trainer.model.parameters())[-1]

    def change(gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        gradient.view(-1)[-1] = value
        return gradient

    return weight.register_hook(change).remove


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
@pytest.mark.parametrize("average", ["none", "exponential", "last"])
@pytest.mark.parametrize("spoil", [spoil_loss, spoil_gradient])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_non_finite_step_leaves_no_trace(
    optimizer: str, average: str, spoil: Callable[[Trainer, float], Callable[[], None]], value: float,
    tmp_path: Path,
) -> None:  # fmt: skip
    trainer = make_trainer("translate", tmp_path, optimizer=optimizer, average=average, average_last=2)
    first, second = (trainer.batches.at(Position(0, step)) for step in range(2))
    trainer.update(first)
    trainer.average.before_evaluation()
    before = state_of(trainer)
    repair = spoil(trainer, value)
    trainer.update(second)
    assert same_bits(state_of(trainer), before)
    assert (trainer.skipped, trainer.skipped_in_a_row) == (1, 1)
    assert not list(gradients_of(trainer))
    repair()
    trainer.update(second)
    assert not same_bits(state_of(trainer), before)
    assert (trainer.skipped, trainer.skipped_in_a_row) == (1, 0)


def test_skipped_steps_are_reported_and_count_for_no_loss(tmp_path: Path) -> None:
    trainer = make_trainer("translate", tmp_path, log_every=2, evaluate_every=6, checkpoint_every=6)
    repairs = []
    records = []
    for record in trainer.train():
        records.append(record)
        if isinstance(record, StepRecord) and record.step == 2:
            repairs.append(spoil_loss(trainer, math.nan))
        elif isinstance(record, StepRecord) and record.step == 4:
            repairs.pop()()
    steps = [record for record in records if isinstance(record, StepRecord)]
    assert [record.skipped for record in steps] == [0, 2, 2]
    assert [math.isfinite(record.loss) for record in steps] == [True, False, True]


@pytest.mark.parametrize("most", [1, 3])
def test_too_many_in_a_row_end_the_run_with_advice(most: int, tmp_path: Path) -> None:
    trainer = make_trainer("translate", tmp_path, most_skipped=most)
    before = state_of(trainer)
    spoil_loss(trainer, math.nan)
    with pytest.raises(TrainingError) as caught:
        list(trainer.train())
    assert str(caught.value) == (
        f"{most} steps in a row gave a loss of nan with a gradient norm of nan; the last was step {most}.\n"
        "Resume from the latest checkpoint with --resume and a smaller --training.learning_rate or "
        "--training.matrix_rate, or a longer --training.warmup."
    )
    assert same_bits(state_of(trainer), before)
    assert not list(gradients_of(trainer))


def test_a_norm_after_the_sublayers_is_named_as_a_cause(tmp_path: Path) -> None:
    trainer = make_trainer("translate", tmp_path, most_skipped=1, model={"norm_placement": "post"})
    spoil_loss(trainer, math.nan)
    with pytest.raises(TrainingError, match=r"or start a run with model\.norm_placement = 'pre'\.$"):
        list(trainer.train())


# Records.


def test_what_is_logged_evaluated_or_kept_has_a_record(tmp_path: Path) -> None:
    trainer = make_trainer("translate", tmp_path, steps=7, log_every=2, evaluate_every=3, checkpoint_every=5)
    whole = []
    shown: list[tuple[str, int]] = []
    for record in trainer.train():
        shown.append((type(record).__name__[0], record.step))
        assert record.step == trainer.step
        if trainer.is_last_of_step(record):
            whole.append(record.step)
    expected = [("S", 2), ("S", 3), ("E", 3), ("S", 4), ("S", 5), ("S", 6), ("E", 6), ("S", 7), ("E", 7)]
    assert shown == expected
    assert whole == [2, 3, 4, 5, 6, 7]  # each once, after its evaluation


def test_a_record_is_the_mean_over_all_predictions_since_the_last(tmp_path: Path) -> None:
    single, _ = run_through(make_trainer("translate", tmp_path, log_every=1))
    trainer = make_trainer("translate", tmp_path, log_every=3)
    grouped, _ = run_through(trainer)
    position, counts = Position(), []
    for _ in range(6):
        counts.append(trainer.batches.at(position).total)
        position = trainer.batches.after(position)
    assert len(set(counts)) > 1  # else a mean of means would pass
    for number, record in enumerate(grouped):
        part = slice(3 * number, 3 * number + 3)
        nats = sum(one.loss * count for one, count in zip(single[part], counts[part], strict=True))
        assert record.loss == pytest.approx(nats / sum(counts[part]), rel=1e-6)


@pytest.mark.notes("N33")
@tasks
def test_the_reported_loss_is_not_smoothed(task: str, tmp_path: Path) -> None:
    plain, smooth = (
        run_through(make_trainer(task, tmp_path, label_smoothing=share, evaluate_every=1))
        for share in (0.0, 0.4)
    )
    assert smooth[0][0].loss == plain[0][0].loss  # of the same first weights
    assert smooth[0][-1].loss != plain[0][-1].loss  # another thing was minimised


@tasks
def test_logging_and_evaluating_change_nothing(task: str, tmp_path: Path) -> None:
    """With dropout, whose numbers an evaluation must not use up."""
    found = []
    for log_every, evaluate_every in ((1, 1), (4, 100)):
        trainer = make_trainer(
            task, tmp_path, {"dropout": 0.2}, log_every=log_every, evaluate_every=evaluate_every
        )
        run_through(trainer)
        assert trainer.model.training
        found.append(weights_of(trainer))
    assert same_bits(*found)


def test_someone_can_end_it_after_the_step_that_is_running(tmp_path: Path) -> None:
    trainer = make_trainer(
        "translate", tmp_path, steps=50, log_every=20, evaluate_every=20, checkpoint_every=20
    )
    update = trainer.update

    def stop(batch: Batch) -> tuple[float, float]:
        trainer.is_stopping = trainer.step == 4
        return update(batch)

    trainer.update = stop  # type: ignore[method-assign]
    (record,) = trainer.train()
    assert isinstance(record, StepRecord)
    assert record.step == trainer.step == 5  # with a record of the steps since the last
