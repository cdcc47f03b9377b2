"""The loop: exact means whatever the split, failed steps that leave no trace, evaluations that change nothing."""

import math
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.config.training import TrainingConfig
from clearhead.data.batches import Batch, Position
from clearhead.errors import ConfigError, TrainingError
from clearhead.training import trainer as module
from clearhead.training.losses import logits_of, loss_of
from clearhead.training.trainer import (
    EvaluationRecord,
    StepRecord,
    Trainer,
    pick_device,
    pick_precision,
    recompute_blocks,
    should_compile,
    validate,
)
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
    loss = loss_of(logits_of(trainer.model, batch), batch)
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
    """Makes the model say what is no number."""
    sound = trainer.forward
    trainer.forward = lambda *given: sound(*given) * value

    def mend() -> None:
        trainer.forward = sound

    return mend


def spoil_gradient(trainer: Trainer, value: float) -> Callable[[], None]:
    """Makes one number of one gradient none, while the loss is sound."""
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
def test_a_step_that_is_no_number_leaves_no_trace(
    optimizer: str, average: str, spoil: Callable[[Trainer, float], Callable[[], None]], value: float,
    tmp_path: Path,
) -> None:  # fmt: skip
    trainer = make_trainer("translate", tmp_path, optimizer=optimizer, average=average, average_last=2)
    first, second = (trainer.batches.at(Position(0, step)) for step in range(2))
    trainer.update(first)
    trainer.average.before_evaluation()
    before = state_of(trainer)
    mend = spoil(trainer, value)
    trainer.update(second)
    assert same_bits(state_of(trainer), before)
    assert (trainer.skipped, trainer.skipped_in_a_row) == (1, 1)
    assert not list(gradients_of(trainer))
    mend()
    trainer.update(second)
    assert not same_bits(state_of(trainer), before)
    assert (trainer.skipped, trainer.skipped_in_a_row) == (1, 0)


def test_skipped_steps_are_reported_and_count_for_no_loss(tmp_path: Path) -> None:
    trainer = make_trainer("translate", tmp_path, log_every=2, evaluate_every=6, checkpoint_every=6)
    mends = []
    records = []
    for record in trainer.train():
        records.append(record)
        if isinstance(record, StepRecord) and record.step == 2:
            mends.append(spoil_loss(trainer, math.nan))
        elif isinstance(record, StepRecord) and record.step == 4:
            mends.pop()()
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
        "Go on from the newest checkpoint with --resume and a smaller --training.learning_rate or "
        "--training.matrix_rate, or a longer --training.warmup."
    )
    assert same_bits(state_of(trainer), before)
    assert not list(gradients_of(trainer))


def test_a_norm_after_the_sublayers_is_named_as_a_cause(tmp_path: Path) -> None:
    trainer = make_trainer("translate", tmp_path, most_skipped=1, model={"norm_placement": "post"})
    spoil_loss(trainer, math.nan)
    with pytest.raises(TrainingError, match=r"or begin a run with model\.norm_placement = 'pre'\.$"):
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


# Evaluation.


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
            P = logits_of(trainer.model, batch).double().softmax(-1)
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
    read = [trainer.validation.at(Position(0, step)).tokens for step in trainer.evaluated]
    assert len(read) == 1 or sum(read) <= tokens
    assert trainer.evaluated == sorted({*trainer.evaluated})
    assert trainer.evaluated[-1] < count
    if 2 < len(read) < count:  # from all over, since batches come in the order of their lengths
        assert trainer.evaluated[0] < count / 2 <= trainer.evaluated[-1]
    assert trainer.evaluate().predictions == sum(
        trainer.validation.at(Position(0, step)).total for step in trainer.evaluated
    )
    assert make_trainer(task, tmp_path, evaluate_tokens=10**6, batch_tokens=32).evaluated == list(
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
    newest, _, _ = validate(trainer.model, trainer.validation, trainer.device)
    with trainer.average.applied():
        averaged, _, _ = validate(trainer.model, trainer.validation, trainer.device)
    assert record.validation_loss == averaged != newest
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


def test_an_evaluation_that_is_no_number_is_never_the_best(tmp_path: Path) -> None:
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
    assert trainer.is_over
    assert list(trainer.train()) == []  # and it does not go on where it stopped


def test_patience_begins_anew_with_every_better_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer("translate", tmp_path, patience=1, evaluate_every=1)
    validated = iter([5.0, 4.0, 4.5, 1.0])
    monkeypatch.setattr(module, "validate", lambda *given: (next(validated), 1, 0))
    _, found = run_through(trainer)
    assert [record.is_best for record in found] == [True, True, False]


@pytest.mark.slow
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
from clearhead.training.plan import model_config
from clearhead.training.trainer import Position, Trainer

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


# The machine.


def test_a_cpu_does_not_compile_unless_told_to(tmp_path: Path) -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    for choice, device, expected in (
        ("auto", cpu, False), ("auto", cuda, True), ("off", cuda, False), ("on", cpu, True),
    ):  # fmt: skip
        assert should_compile(TrainingConfig.model_validate({"compile": choice}), device) is expected
    trainer = make_trainer("translate", tmp_path, device="cpu")
    assert trainer.forward is trainer.model


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # the compiler's own
@pytest.mark.parametrize("task", TASKS)
def test_a_compiled_model_takes_the_same_steps(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traced by the compiler; the code that it would write is left out, since that takes half a minute."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    plain, compiled = (make_trainer(task, tmp_path, steps=3, compile=choice) for choice in ("off", "on"))
    assert compiled.forward is not compiled.model
    for one, other in zip(run_through(plain)[0], run_through(compiled)[0], strict=True):
        assert other.loss == pytest.approx(one.loss, abs=1e-5)


@pytest.mark.parametrize("is_fast", [False, True])
def test_auto_takes_few_bits_only_where_they_are_fast(is_fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def supported(including_emulation: bool = True) -> bool:
        return is_fast or including_emulation

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    auto = TrainingConfig()
    assert pick_precision(auto, torch.device("cpu")) == "float32"
    assert pick_precision(auto, torch.device("mps")) == "float32"
    assert pick_precision(auto, torch.device("cuda")) == ("bfloat16" if is_fast else "float32")
    asked = TrainingConfig(precision="bfloat16")
    assert pick_precision(asked, torch.device("cpu")) == "bfloat16"


def test_a_cpu_computes_in_float32_unless_told_otherwise(tmp_path: Path) -> None:
    full, few = (
        make_trainer("translate", tmp_path, precision=kind, device="cpu") for kind in ("auto", "bfloat16")
    )
    assert isinstance(full.autocast(), nullcontext)
    batch = full.batches.at(Position())
    with few.autocast():
        assert (
            few.model(batch.inputs, batch.source, batch.counts, batch.source_counts).dtype == torch.bfloat16
        )
    (exact, _), (rough, _) = full.update(batch), few.update(batch)
    assert rough == pytest.approx(exact, rel=0.02)
    assert all(weight.dtype == torch.float32 for weight in few.model.parameters())


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")]
)
def test_auto_takes_the_first_device_that_is_there(
    cuda: bool, mps: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert pick_device("auto").type == expected
    assert pick_device("cpu").type == "cpu"
    for name, is_here in (("cuda", cuda), ("mps", mps)):
        if is_here:
            assert pick_device(name).type == name
        else:
            with pytest.raises(ConfigError, match=f"training.device = '{name}', but PyTorch finds no such"):
                pick_device(name)
