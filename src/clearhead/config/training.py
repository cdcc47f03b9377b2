"""The settings of training: the `[training]` table of a recipe."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from clearhead.config.settings import Settings, listed
from clearhead.errors import ConfigError

Optimizer = Literal["muon", "adamw"]
Schedule = Literal["cosine", "linear", "inverse_sqrt", "stable", "constant"]
Precision = Literal["auto", "float32", "bfloat16"]  # float16 would need its losses scaled
Choice = Literal["auto", "on", "off"]
Average = Literal["none", "last", "exponential"]
Device = Literal["auto", "cpu", "cuda", "mps"]
Parallel = Literal["auto", "ddp", "fsdp"]
Matrix = Literal["W_q", "W_k", "W_v", "W_o", "W_1", "W_2", "W_g"]

ALL_MATRICES: tuple[Matrix, ...] = ("W_q", "W_k", "W_v", "W_o", "W_1", "W_2", "W_g")


class TrainingConfig(Settings):
    """How a model learns."""

    section: ClassVar[str] = "training"

    steps: int | None = Field(None, gt=0, description="how many updates of the weights")
    epochs: float | None = Field(
        None, gt=0, description="how often the data is read; the plan turns it into steps"
    )
    minutes: float | None = Field(
        None,
        gt=0,
        description="how long to train; the plan turns it into steps; with epochs, the fewer count",
    )
    batch_tokens: int = Field(4096, gt=0, description="tokens of one update, padding included")
    accumulate: int = Field(1, gt=0, description="parts in which a batch is computed, to save memory")

    optimizer: Optimizer = Field(
        "muon", description="muon for hidden matrices and adamw for the rest, or adamw for all"
    )
    learning_rate: float = Field(2e-3, gt=0, description="largest rate of adamw")
    matrix_rate: float = Field(0.02, gt=0, description="largest rate of muon")
    momentum: float = Field(0.95, ge=0, lt=1, description="momentum of muon")
    betas: tuple[float, float] = Field(
        (0.9, 0.95), description="averages of adamw: of gradients, of their squares"
    )
    epsilon: float = Field(1e-8, gt=0, description="added to adamw's denominator")
    weight_decay: float = Field(
        0.01, ge=0, description="pull of matrices towards zero; norms and biases have none"
    )
    clip: float | None = Field(1.0, gt=0, description="largest norm of the gradient; no limit when None")

    schedule: Schedule = Field(
        "cosine", description="how the rate goes after the warm-up; stable: constant, then down"
    )
    warmup: float = Field(
        0.03, ge=0, description="steps of rising rate; a share of all steps when less than 1"
    )
    decay: float = Field(
        0.4, gt=0, le=1, description="share of the steps in which a stable schedule goes down"
    )
    final_rate: float = Field(0.02, ge=0, le=1, description="rate at the end, as a share of the largest")

    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="share of the truth spread over all tokens, in training only"
    )
    average: Average = Field(
        "none", description="the weights kept: the newest, or a mean over the last evaluations or steps"
    )
    average_last: int = Field(10, gt=1, description="how many evaluations an average of the last takes in")
    average_decay: float = Field(0.999, gt=0, lt=1, description="memory of an exponential average, per step")

    precision: Precision = Field(
        "auto", description="numbers of the forward pass; auto: bfloat16 where the device is fast at it"
    )
    compile: Choice = Field(
        "auto", description="torch.compile; auto: on a GPU only, since on a CPU it gains too little"
    )
    recompute: bool = Field(
        False, description="recompute blocks in the backward pass instead of keeping them, to save memory"
    )
    device: Device = Field(
        "auto", description="where to compute; auto: cuda, mps, cpu, the first that is there"
    )
    parallel: Parallel = Field(
        "auto",
        description="under torchrun: ddp, the whole model on every rank, or fsdp, a part of each weight",
    )
    threads: int | None = Field(None, gt=0, description="CPU threads; all cores when not given")

    log_every: int = Field(10, gt=0, description="steps between two records of the log")
    evaluate_every: int | None = Field(
        None,
        gt=0,
        description="steps between evaluations; when not given, twenty in a run, at least ten apart",
    )
    evaluate_tokens: int = Field(
        200_000, gt=0, description="most validation tokens of one evaluation, the same ones each time"
    )
    checkpoint_every: int | None = Field(
        None,
        gt=0,
        description="steps between checkpoints; when not given, as many as make saving cost under 2 % of the time",
    )
    keep_checkpoints: int = Field(2, gt=0, description="how many checkpoints are kept")
    patience: int | None = Field(
        None, gt=0, description="evaluations without a better loss after which to stop"
    )
    samples: int = Field(2, ge=0, description="texts to write at each evaluation")
    most_skipped: int = Field(
        5, gt=0, description="steps in a row with a non-finite loss after which to stop"
    )

    init_from: str | None = Field(
        None, description="a model or run folder to start from; random weights when None"
    )
    frozen: Annotated[tuple[str, ...], BeforeValidator(listed)] = Field(
        (), description="parts that stay as they are, such as embeddings, encoder.0, decoder.*.ffn, head"
    )
    layer_decay: float = Field(
        1.0, gt=0, le=1, description="rate of a block as a share of the block above it; embeddings are lowest"
    )
    lora_rank: int | None = Field(
        None,
        gt=0,
        le=4096,
        description="rank of the adapters that learn in place of the model; none when None",
    )
    lora_scale: float = Field(
        2.0, gt=0, description="s in W + s B A, the adapted matrix; what others call alpha / rank"
    )
    lora_targets: Annotated[tuple[Matrix, ...], BeforeValidator(listed)] = Field(
        ALL_MATRICES, min_length=1, description="matrices of the blocks that get an adapter"
    )
    seed: int = Field(1, ge=0, description="of the first weights, the order of the data, and dropout")

    @model_validator(mode="after")
    def _check(self) -> "TrainingConfig":
        lengths = [
            f"{key} = {value}"
            for key in ("steps", "epochs", "minutes")
            if (value := getattr(self, key)) is not None
        ]
        if len(lengths) > 1 and self.steps is not None:
            raise ConfigError(
                f"training.{' and '.join(lengths)} say the same thing twice.\nGive one of them."
            )
        if self.lora_rank is not None and self.init_from is None:
            raise ConfigError(
                f"training.lora_rank = {self.lora_rank} adapts a model that has learned something, but no model to "
                "start from is named.\nName its folder in training.init_from, or leave lora_rank out."
            )
        every, steps = self.evaluate_every, self.steps
        if (
            self.average == "last"
            and every is not None
            and steps is not None
            and self.average_last > steps // every
        ):
            raise ConfigError(
                f"training.average_last = {self.average_last} evaluations do not happen in {steps} steps with one "
                f"every {every}.\nEvaluate more often, or average fewer."
            )
        return self
