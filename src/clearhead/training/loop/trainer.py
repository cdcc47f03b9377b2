"""The loop: batches become steps, and steps become records.

    for record in Trainer(run, data, model, steps).train():
        print(record.step, record.loss)

`Trainer.train` is the loop, `Trainer.update` one step, `Trainer.accumulate` its forward and backward passes. Progress
lines, `log.jsonl`, plots and checkpoints follow the same records. On a CPU each thread computes the gradient of some
rows of the batch (`threads.py`), and the sum of these gradients is that of the batch.
"""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property, partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from clearhead.config.run import RunConfig
from clearhead.data.batching.batches import Batch, Position
from clearhead.data.batching.loader import Loader
from clearhead.data.prepare import Prepared
from clearhead.errors import TrainingError
from clearhead.inspection.kept_models import kept_steps
from clearhead.layers.attention import Attention
from clearhead.layers.dropout import Dropout, drawing_from
from clearhead.machine.load import LoadMeter
from clearhead.models.model import Model
from clearhead.models.stack import Stack
from clearhead.training.distributed.collectives import full_tensor, sum_over_ranks
from clearhead.training.distributed.parallel import make_parallel
from clearhead.training.distributed.ranks import is_first, rank, ranks
from clearhead.training.loop.adapters import merged
from clearhead.training.loop.averages import make_average
from clearhead.training.loop.device import autocast, pick_device, should_compile
from clearhead.training.loop.losses import inputs_of, training_loss
from clearhead.training.loop.optimizers import make_optimizers, set_rate
from clearhead.training.loop.records import EvaluationRecord, Record, StepRecord
from clearhead.training.loop.schedules import make_schedule
from clearhead.training.loop.threads import one_core_each, own_threads, share_out, spread
from clearhead.training.loop.validation import pick_steps, validate

MIN_STEPS_BETWEEN_EVALUATIONS = 10  # if the recipe does not say
SEED_STRIDE = 1_000_003  # between the seeds of two ranks, so that their dropout differs
SEEDS = 2**62  # from which each thread is given one per step, for its dropout


class Trainer:
    """Trains a model for `steps` steps, to which the plan has converted epochs or minutes."""

    def __init__(self, run: RunConfig, data: Prepared, model: Model, steps: int) -> None:
        self.run, self.training, self.data, self.steps = run, run.training, data, steps
        self.device = pick_device(self.training.device)
        if self.training.threads is not None:
            torch.set_num_threads(self.training.threads)
        torch.manual_seed(self.training.seed + SEED_STRIDE * rank())
        self.parallel = make_parallel(model, self.training, self.device)
        self.model = self.parallel.model.train()
        self.optimizers = make_optimizers(self.model, self.training)
        t = self.training
        self.schedule = make_schedule(t.schedule, steps, t.warmup, t.decay, t.final_rate)
        self.average = make_average(self.model, t)
        self.batches = data.batches("train", t.batch_tokens, t.seed)
        # As large as a micro-batch of training, so that an evaluation needs no more memory than a step.
        self.validation_tokens = max(1, t.batch_tokens // t.accumulate)
        self.validation = (
            data.batches("validation", self.validation_tokens, shuffle=False)
            if data.splits.get("validation")
            else None
        )
        self.position, self.step, self.seconds = Position(), 0, 0.0
        self.skipped = self.skipped_in_a_row = 0
        self.is_stopping = False  # set it to end the loop after the current step
        self.stops_on_all_ranks = (
            False  # one rank's was set before the last step, so that all end at the same one
        )
        self.best_loss, self.evaluations_since_best = math.inf, 0
        if t.recompute:
            recompute_blocks(self.model)
        is_compiled = should_compile(t, self.device)
        self.forward = torch.compile(self.parallel.forward) if is_compiled else self.parallel.forward
        # DDP and recomputation know nothing of threads of ours.
        is_plain = ranks() == 1 and not (is_compiled or t.recompute or draws_in_common(self.model))
        self.splits_batches = self.device.type == "cpu" and is_plain

    @property
    def evaluate_every(self) -> int:
        """Steps between two evaluations."""
        return self.training.evaluate_every or max(MIN_STEPS_BETWEEN_EVALUATIONS, self.steps // 20)

    @property
    def checkpoint_every(self) -> int:
        """Steps between two checkpoints."""
        return self.training.checkpoint_every or self.evaluate_every

    @property
    def is_done(self) -> bool:
        """Whether all steps are done, or the run was stopped, or the evaluations have stopped improving."""
        patience = self.training.patience
        has_stalled = patience is not None and self.evaluations_since_best >= patience
        return self.step >= self.steps or self.is_stopped or has_stalled

    @property
    def is_stopped(self) -> bool:
        """Whether the run was stopped before its last step."""
        return self.stops_on_all_ranks if ranks() > 1 else self.is_stopping

    def evaluates_at(self, step: int) -> bool:
        """Whether an evaluation follows a step."""
        return self.validation is not None and (step % self.evaluate_every == 0 or step == self.steps)

    @cached_property
    def kept_steps(self) -> set[int]:
        """The steps after which the weights are kept for the explorer."""
        return kept_steps(self.training.keep_models, self.steps)

    def records_at(self, step: int) -> bool:
        """Whether a record follows a step: one that is logged, evaluated, saved or kept, and the last."""
        is_due = step % self.training.log_every == 0 or step % self.checkpoint_every == 0
        is_due |= step in self.kept_steps
        return is_due or self.evaluates_at(step) or step == self.steps or self.is_stopped

    def is_last_of_step(self, record: Record) -> bool:
        """Whether no other record of the same step follows: only then is the step complete."""
        return isinstance(record, EvaluationRecord) or not self.evaluates_at(record.step)

    def saves_after(self, record: Record) -> bool:
        """Whether a checkpoint follows a record."""
        return self.is_last_of_step(record) and record.step % self.checkpoint_every == 0

    def keeps_after(self, record: Record) -> bool:
        """Whether the weights are kept for the explorer after a record."""
        return self.is_last_of_step(record) and record.step in self.kept_steps

    def train(self) -> Iterator[Record]:
        """The loop: every record from the current step to the end."""
        with Loader(self.batches, self.position) as loader:
            window = StepWindow(self, loader)
            while not self.is_done:
                batch = next(loader)
                window.add(batch, *self.update(batch.to(self.device)))
                self.position, self.step = loader.position, self.step + 1
                if self.records_at(self.step):
                    yield window.record()
                    window = StepWindow(self, loader)
                if self.evaluates_at(self.step):
                    yield self.evaluate()
                    window.restart_clock()

    def update(self, batch: Batch) -> tuple[float, float]:
        """One step: the sum of −log P over the batch, and the norm of the gradient before clipping."""
        with one_core_each(self.splits_batches):
            nats, stopping = sum_over_ranks(self.device, self.accumulate(batch), self.is_stopping)
            self.stops_on_all_ranks = bool(stopping)
            weights = [weight for weight in self.model.parameters() if weight.grad is not None]
            norm = self.clip(weights)
            is_finite = math.isfinite(norm) and math.isfinite(nats)
            if is_finite:
                set_rate(self.optimizers, self.schedule(self.step))
                for optimizer in self.optimizers:
                    optimizer.step()
                self.average.after_step()
                self.skipped_in_a_row = 0
            for weight in weights:
                weight.grad = None
            if not is_finite:
                self.skip(nats, norm)
        return nats, norm

    def accumulate(self, batch: Batch) -> float:
        """Forward and backward over the batch, micro-batch by micro-batch; this rank's sum of −log P.

        The batch is that of all ranks. DDP and FSDP average gradients over the ranks, so each rank multiplies its
        loss by their number.
        """
        nats, count = 0.0, ranks()
        parts = min(self.training.accumulate, -(-batch.rows // count))
        for part in range(parts):
            rows = batch if parts * count == 1 else batch.share(part * count + rank(), parts * count)
            with self.parallel.gradient_sync(is_last=part == parts - 1):
                nats += self.add_gradient(rows, count / max(1, batch.total))
        return nats

    def add_gradient(self, batch: Batch, scale: float) -> float:
        """Adds the gradient of `scale` times the loss of a micro-batch; its sum of −log P."""
        threads = min(own_threads(), batch.rows)
        if threads == 1:
            loss, nats = self.loss(batch)
            (loss * scale).backward()
            return float(nats)
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        seeds = torch.randint(SEEDS, (threads,)).tolist()

        def gradients_of(thread: int) -> tuple[tuple[Tensor | None, ...], Tensor]:
            with drawing_from(torch.Generator().manual_seed(seeds[thread])):
                loss, nats = self.loss(batch.share(thread, threads))
            return torch.autograd.grad(loss * scale, weights, allow_unused=True), nats

        made = spread(gradients_of, range(threads))
        gradients = zip(weights, *(one for one, _ in made), strict=True)
        spread(add_to_weights, share_out(list(gradients)))
        return float(sum(nats for _, nats in made))

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """What training minimises, summed over the predictions, and the sum of −log P."""
        with autocast(self.training, self.device):
            logits = self.forward(inputs_of(batch))
        return training_loss(logits, batch, self.training.label_smoothing)

    def clip(self, weights: list[torch.nn.Parameter]) -> float:
        """Clips the norm of all gradients together; what it was before."""
        norm = full_tensor(torch.nn.utils.get_total_norm([weight.grad for weight in weights]))  # type: ignore[misc]
        torch.nn.utils.clip_grads_with_norm_(weights, self.training.clip or math.inf, norm)
        return float(norm)

    def skip(self, nats: float, norm: float) -> None:
        """Counts a step that changed no weight; too many in a row end the run with advice."""
        self.skipped += 1
        self.skipped_in_a_row += 1
        if self.skipped_in_a_row >= self.training.most_skipped:
            is_post = self.run.model.is_post_norm
            raise TrainingError(
                f"{self.skipped_in_a_row} steps in a row gave a loss of {nats} with a gradient norm of {norm}; the "
                f"last was step {self.step + 1}.\nResume from the latest checkpoint with --resume and a smaller "
                "--training.learning_rate or --training.matrix_rate, or a longer --training.warmup"
                + (", or start a run with model.norm_placement = 'pre'." if is_post else ".")
            )

    @cached_property
    def validation_steps(self) -> list[int]:
        """The validation batches of every evaluation."""
        assert self.validation is not None
        return pick_steps(self.validation, self.validation_tokens, self.training.evaluate_tokens)

    def evaluate(self) -> EvaluationRecord:
        """The loss on the validation data, with the averaged weights if there is an average."""
        assert self.validation is not None
        self.average.before_evaluation()
        with self.average.applied(), one_core_each(self.splits_batches):
            loss, predictions, right = validate(
                self.model, self.validation, self.device, self.validation_steps
            )
            self.parallel.reshard()
        is_best = loss < self.best_loss
        self.best_loss = min(loss, self.best_loss) if math.isfinite(loss) else self.best_loss
        self.evaluations_since_best = 0 if is_best else self.evaluations_since_best + 1
        return EvaluationRecord(self.step, loss, predictions, right / max(1, predictions), is_best)

    @contextmanager
    def weights_to_save(self) -> Iterator[None]:
        """Puts the weights to save and to sample from into the full model: averaged, adapters merged. For all ranks."""
        with self.average.applied():
            self.parallel.gather_weights()
            # On other ranks `full_model` may be sharded, and every rank would have to take part in its products.
            with merged(self.parallel.full_model) if is_first() else nullcontext():
                yield


class StepWindow:
    """The steps since the last record."""

    def __init__(self, trainer: Trainer, loader: Loader) -> None:
        self.trainer, self.loader = trainer, loader
        self.nats, self.norm, self.predictions, self.tokens, self.seconds = 0.0, 0.0, 0, 0, 0.0
        self.waited, self.meter = loader.waited_seconds, LoadMeter()
        self.restart_clock()

    def restart_clock(self) -> None:
        """Ignores the time since the last step."""
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
        position = trainer.position
        return StepRecord(
            step=trainer.step,
            epoch=position.epoch + position.step / max(1, trainer.batches.count(position.epoch)),
            loss=self.nats / max(1, self.predictions) if self.predictions else math.nan,
            learning_rate=trainer.training.learning_rate * trainer.schedule(trainer.step - 1),
            gradient_norm=self.norm,
            tokens_per_second=self.tokens / max(self.seconds, 1e-9),
            seconds=trainer.seconds,
            waiting=(self.loader.waited_seconds - self.waited) / max(self.seconds, 1e-9),
            skipped=trainer.skipped,
            busy_cores=self.meter.others(),
        )


def draws_in_common(model: Model) -> bool:
    """Whether a model drops by other means than `Dropout`, and so draws from the generator of all threads."""
    return any(
        (isinstance(part, nn.Dropout) and not isinstance(part, Dropout) and part.p > 0)
        or (isinstance(part, Attention | nn.RNNBase) and part.dropout > 0)
        for part in model.modules()
    )


@torch.no_grad()
def add_to_weights(gradients: Sequence[tuple[Tensor | None, ...]]) -> None:
    """Adds gradients to those of their weights: the first of each tuple is a weight, the others are parts."""
    for weight, *parts in gradients:
        assert weight is not None
        for part in parts:
            if part is not None:
                weight.grad = part if weight.grad is None else weight.grad.add_(part)


def recompute_blocks(model: Model) -> None:
    """Lets blocks keep only their input for the backward pass, which runs them again."""
    for stack in model.modules():
        for block in stack.blocks if isinstance(stack, Stack) else ():
            if not isinstance(block.forward, partial):  # a model that is trained again is wrapped already
                block.forward = partial(checkpoint, block.forward, use_reentrant=False)
