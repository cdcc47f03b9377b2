"""The loop: batches become steps, and steps become records, which whoever watches reads as they come.

    for record in Trainer(run, data, model, steps).train():
        print(record.step, record.loss)

Progress lines, `log.jsonl`, plots and checkpoints are readers of the same records.
"""

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch.utils.checkpoint import checkpoint

from clearhead.config.run import RunConfig
from clearhead.config.training import TrainingConfig
from clearhead.data.batches import Batch, Batches, Position
from clearhead.data.loader import Loader
from clearhead.data.prepare import Prepared
from clearhead.errors import ConfigError, TrainingError
from clearhead.models.build import Model
from clearhead.models.stack import Stack
from clearhead.training.adapters import merged
from clearhead.training.averages import make_average
from clearhead.training.distributed import is_first, rank, ranks
from clearhead.training.losses import logits_of, loss_of, training_loss
from clearhead.training.optimizers import make_optimizers, set_rate
from clearhead.training.parallel import make_parallel
from clearhead.training.schedules import make_schedule
from clearhead.training.shares import total, whole


@dataclass(frozen=True)
class StepRecord:
    """Some steps: their mean loss per prediction, and how fast they went."""

    step: int  # steps done
    epoch: float
    loss: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float
    seconds: float  # of training so far, without evaluations
    waiting: float  # share of the time in which the model waited for data
    skipped: int  # steps left out so far for a non-finite loss or gradient


@dataclass(frozen=True)
class EvaluationRecord:
    """How good the model is on the validation data after some steps."""

    step: int
    validation_loss: float
    predictions: int
    accuracy: float
    is_best: bool


Record = StepRecord | EvaluationRecord
FEWEST_STEPS = 10  # between two evaluations, where the recipe does not say
APART = 1_000_003  # between the seeds of two ranks, so that they drop different numbers


class Trainer:
    """Trains a model; `steps` is what the plan has made of steps, epochs or minutes."""

    def __init__(self, run: RunConfig, data: Prepared, model: Model, steps: int) -> None:
        self.run, self.training, self.data, self.steps = run, run.training, data, steps
        self.device = pick_device(self.training.device)
        if self.training.threads is not None:
            torch.set_num_threads(self.training.threads)
        torch.manual_seed(self.training.seed + APART * rank())
        self.parallel = make_parallel(model, self.training, self.device)
        self.model = self.parallel.model.train()
        self.optimizers = make_optimizers(self.model, self.training)
        t = self.training
        self.schedule = make_schedule(t.schedule, steps, t.warmup, t.decay, t.final_rate)
        self.average = make_average(self.model, t)
        self.batches = data.batches("train", t.batch_tokens, t.seed)
        # In parts as large as those of training, so that an evaluation needs no more memory than a step.
        self.validation_tokens = max(1, t.batch_tokens // t.accumulate)
        self.validation = (
            data.batches("validation", self.validation_tokens, shuffle=False)
            if data.splits.get("validation")
            else None
        )
        self.position, self.step, self.seconds = Position(), 0, 0.0
        self.skipped = self.skipped_in_a_row = 0
        self.is_stopping = False  # whoever sets it ends the loop after the step that is running
        self.is_ending = False  # some rank's was set before the last step, so that all end at the same one
        self.best_loss, self.evaluations_since_best = math.inf, 0
        if t.recompute:
            recompute_blocks(self.model)
        is_compiled = should_compile(t, self.device)
        self.forward = torch.compile(self.parallel.forward) if is_compiled else self.parallel.forward

    @property
    def evaluate_every(self) -> int:
        """Steps between two evaluations."""
        return self.training.evaluate_every or max(FEWEST_STEPS, self.steps // 20)

    @property
    def checkpoint_every(self) -> int:
        """Steps between two checkpoints."""
        return self.training.checkpoint_every or self.evaluate_every

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to do: all steps are done, or someone or the evaluations ended it."""
        patience = self.training.patience
        is_worse = patience is not None and self.evaluations_since_best >= patience
        return self.step >= self.steps or self.stops or is_worse

    @property
    def stops(self) -> bool:
        """Whether someone has ended the run before its last step."""
        return self.is_ending if ranks() > 1 else self.is_stopping

    def evaluates_at(self, step: int) -> bool:
        """Whether an evaluation follows a step."""
        return self.validation is not None and (step % self.evaluate_every == 0 or step == self.steps)

    def records_at(self, step: int) -> bool:
        """Whether a record follows a step: what is logged, evaluated or kept has one, and the last step."""
        is_due = step % self.training.log_every == 0 or step % self.checkpoint_every == 0
        return is_due or self.evaluates_at(step) or step == self.steps or self.stops

    def is_last_of_step(self, record: Record) -> bool:
        """Whether no other record of the same step follows: only then is the state that of a whole step."""
        return isinstance(record, EvaluationRecord) or not self.evaluates_at(record.step)

    def saves_after(self, record: Record) -> bool:
        """Whether a checkpoint follows a record."""
        return self.is_last_of_step(record) and record.step % self.checkpoint_every == 0

    def train(self) -> Iterator[Record]:
        """Every record from where the run stands to its end."""
        with Loader(self.batches, self.position) as loader:
            window = Window(self, loader)
            while not self.is_over:
                batch = next(loader)
                window.add(batch, *self.update(batch.to(self.device)))
                self.position, self.step = loader.position, self.step + 1
                if self.records_at(self.step):
                    yield window.record()
                    window = Window(self, loader)
                if self.evaluates_at(self.step):
                    yield self.evaluate()
                    window.restart()

    def update(self, batch: Batch) -> tuple[float, float]:
        """One step: the sum of −log P over the batch, and the norm of the gradient before clipping.

        The batch is that of all ranks. Gradients leave as the mean over the ranks, so each gives its loss as often
        as there are ranks.
        """
        training, nats, count = self.training, 0.0, ranks()
        parts = min(training.accumulate, -(-batch.rows // count))
        for part in range(parts):
            rows = batch if parts * count == 1 else batch.share(part * count + rank(), parts * count)
            with self.parallel.part(is_last=part == parts - 1):
                with self.autocast():
                    logits = logits_of(self.model, rows, self.forward)
                loss, plain = training_loss(logits, rows, training.label_smoothing)
                (loss * count / max(1, batch.total)).backward()
            nats += float(plain)
        nats, ending = total(self.device, nats, self.is_stopping)
        self.is_ending = bool(ending)
        weights = [weight for weight in self.model.parameters() if weight.grad is not None]
        norm = self.clip(weights)
        is_sound = math.isfinite(norm) and math.isfinite(nats)
        if is_sound:
            set_rate(self.optimizers, self.schedule(self.step))
            for optimizer in self.optimizers:
                optimizer.step()
            self.average.after_step()
            self.skipped_in_a_row = 0
        for weight in weights:
            weight.grad = None
        if not is_sound:
            self.skip(nats, norm)
        return nats, norm

    def clip(self, weights: list[torch.nn.Parameter]) -> float:
        """Bounds the norm of all gradients together, and gives what it was before."""
        norm = whole(torch.nn.utils.get_total_norm([weight.grad for weight in weights]))  # type: ignore[misc]
        torch.nn.utils.clip_grads_with_norm_(weights, self.training.clip or math.inf, norm)
        return float(norm)

    def skip(self, nats: float, norm: float) -> None:
        """Leaves weights and averages as they are; too many in a row end the run with advice."""
        self.skipped += 1
        self.skipped_in_a_row += 1
        if self.skipped_in_a_row >= self.training.most_skipped:
            is_post = self.run.model.norm_placement == "post"
            raise TrainingError(
                f"{self.skipped_in_a_row} steps in a row gave a loss of {nats} with a gradient norm of {norm}; the "
                f"last was step {self.step + 1}.\nGo on from the newest checkpoint with --resume and a smaller "
                "--training.learning_rate or --training.matrix_rate, or a longer --training.warmup"
                + (", or begin a run with model.norm_placement = 'pre'." if is_post else ".")
            )

    def autocast(self) -> AbstractContextManager[None]:
        """Lower precision for the matrix products of the forward pass, where asked for or fast."""
        precision = pick_precision(self.training, self.device)
        if precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, getattr(torch, precision))

    @cached_property
    def evaluated(self) -> list[int]:
        """The validation batches of every evaluation: all, or as many as `evaluate_tokens` allows.

        They are the same each time, so that losses can be compared, and from all over the data, since batches
        come in the order of their lengths.
        """
        assert self.validation is not None
        count = self.validation.count()
        some = (self.validation.at(Position(0, step)).tokens for step in {0, count // 2, count - 1})
        most = max(1, self.training.evaluate_tokens // max(self.validation_tokens, *some))
        return (
            list(range(count)) if most >= count else [(2 * i + 1) * count // (2 * most) for i in range(most)]
        )

    def evaluate(self) -> EvaluationRecord:
        """The loss on the validation data, by the averaged weights where there is an average."""
        assert self.validation is not None
        self.average.before_evaluation()
        with self.average.applied():
            loss, predictions, right = validate(self.model, self.validation, self.device, self.evaluated)
            self.parallel.rest()
        is_best = loss < self.best_loss
        self.best_loss = min(loss, self.best_loss) if math.isfinite(loss) else self.best_loss
        self.evaluations_since_best = 0 if is_best else self.evaluations_since_best + 1
        return EvaluationRecord(self.step, loss, predictions, right / max(1, predictions), is_best)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """The weights to keep and to show, in the whole model: averages and adapters in their place. For all ranks."""
        with self.average.applied():
            self.parallel.gather()
            # On other ranks `whole` may be shards, whose products all ranks would have to take part in.
            with merged(self.parallel.whole) if is_first() else nullcontext():
                yield


class Window:
    """The steps since the last record."""

    def __init__(self, trainer: Trainer, loader: Loader) -> None:
        self.trainer, self.loader = trainer, loader
        self.nats, self.norm, self.predictions, self.tokens, self.seconds = 0.0, 0.0, 0, 0, 0.0
        self.waited = loader.waited_seconds
        self.restart()

    def restart(self) -> None:
        """Leaves the time since the last step out of account."""
        self.clock = time.perf_counter()

    def add(self, batch: Batch, nats: float, norm: float) -> None:
        """Counts a step."""
        now = time.perf_counter()
        self.seconds += now - self.clock
        self.clock, self.norm = now, norm
        if math.isfinite(nats):
            self.nats += nats
            self.predictions += batch.total
        self.tokens += batch.tokens

    def record(self) -> StepRecord:
        """The record of these steps."""
        trainer = self.trainer
        trainer.seconds += self.seconds
        epoch, place = trainer.position.epoch, trainer.position.step
        return StepRecord(
            step=trainer.step,
            epoch=epoch + place / max(1, trainer.batches.count(epoch)),
            loss=self.nats / max(1, self.predictions) if self.predictions else math.nan,
            learning_rate=trainer.training.learning_rate * trainer.schedule(trainer.step - 1),
            gradient_norm=self.norm,
            tokens_per_second=self.tokens / max(self.seconds, 1e-9),
            seconds=trainer.seconds,
            waiting=(self.loader.waited_seconds - self.waited) / max(self.seconds, 1e-9),
            skipped=trainer.skipped,
        )


@torch.no_grad()  # what comes together in inference mode could not learn any more
def validate(
    model: Model, batches: Batches, device: torch.device, steps: Iterable[int] | None = None
) -> tuple[float, int, int]:
    """Mean −log P over batches, of how many predictions, and the right ones; a batch at a time is in memory.

    Each rank reads its rows of every batch.
    """
    was_training = model.training
    model.eval()
    nats, predictions, right = 0.0, 0, 0
    for step in range(batches.count()) if steps is None else steps:
        batch = batches.at(Position(0, step), rank(), ranks()).to(device)
        loss = loss_of(logits_of(model, batch), batch)
        nats, predictions, right = nats + float(loss.total), predictions + loss.count, right + loss.right
    model.train(was_training)
    nats, *counts = total(device, nats, predictions, right)
    predictions, right = map(int, counts)
    return nats / predictions if predictions else math.nan, predictions, right


def pick_device(name: str) -> torch.device:
    """The device of this name; auto takes the first of cuda, mps and cpu that is there."""
    is_here = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if not is_here.get(name, True):
        raise ConfigError(
            f"training.device = '{name}', but PyTorch finds no such device here.\nUse 'auto' or 'cpu'."
        )
    return torch.device(next(device for device in is_here if is_here[device]) if name == "auto" else name)


def pick_precision(training: TrainingConfig, device: torch.device) -> str:
    """The type of number of the forward pass; auto never takes bfloat16 where it is only imitated, as on a CPU."""
    if training.precision != "auto":
        return training.precision
    is_fast = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return "bfloat16" if is_fast else "float32"


def should_compile(training: TrainingConfig, device: torch.device) -> bool:
    """Whether to compile the forward pass."""
    is_sharded = training.parallel == "fsdp" and ranks() > 1
    return training.compile == "on" or (
        training.compile == "auto" and device.type == "cuda" and not is_sharded
    )


def recompute_blocks(model: Model) -> None:
    """Blocks keep only their input; the backward pass runs them again."""
    for stack in model.modules():
        for block in stack.blocks if isinstance(stack, Stack) else ():
            if not isinstance(block.forward, partial):  # a model that is trained again has it already
                block.forward = partial(checkpoint, block.forward, use_reentrant=False)
