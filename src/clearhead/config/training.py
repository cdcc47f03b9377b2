"""The `[training]` table of a recipe: how a model is trained."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from clearhead.config.data import MOST
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
MOST_EPOCHS, MOST_MINUTES = 1e9, 1e7
MOST_THREADS = 1024  # OpenMP crashes with some more


class TrainingConfig(Settings):
    """How a model is trained."""

    section: ClassVar[str] = "training"

    steps: int | None = Field(None, gt=0, le=MOST, description="number of weight updates")
    epochs: float | None = Field(
        None, gt=0, le=MOST_EPOCHS, description="passes over the data; the plan turns them into steps"
    )
    minutes: float | None = Field(
        None,
        gt=0,
        le=MOST_MINUTES,
        description="how long to train; the plan turns it into steps; with epochs, the smaller number counts",
    )
    batch_tokens: int = Field(4096, gt=0, le=MOST, description="tokens per update, padding included")
    accumulate: int = Field(1, gt=0, le=MOST, description="parts into which a batch is split to save memory")

    optimizer: Optimizer = Field(
        "muon", description="muon for hidden matrices and adamw for the rest, or adamw for all"
    )
    learning_rate: float = Field(2e-3, gt=0, description="peak learning rate of adamw")
    matrix_rate: float = Field(0.02, gt=0, description="peak learning rate of muon")
    momentum: float = Field(0.95, ge=0, lt=1, description="momentum of muon")
    betas: tuple[float, float] = Field(
        (0.9, 0.95), description="decay rates of adamw's averages: of gradients, of their squares"
    )
    epsilon: float = Field(1e-8, gt=0, description="added to adamw's denominator")
    weight_decay: float = Field(
        0.01, ge=0, description="weight decay of matrices; norms and biases have none"
    )
    clip: float | None = Field(1.0, gt=0, description="maximum norm of the gradient; no limit if none")

    schedule: Schedule = Field(
        "cosine", description="the learning rate after the warm-up; stable: constant, then decaying"
    )
    warmup: float = Field(
        0.03, ge=0, le=MOST, description="warm-up steps; a fraction of all steps if below 1"
    )
    decay: float = Field(
        0.4, gt=0, le=1, description="fraction of the steps in which a stable schedule decays"
    )
    final_rate: float = Field(
        0.02, ge=0, le=1, description="learning rate at the end, as a fraction of the peak"
    )

    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="probability spread over all tokens, in training only"
    )
    average: Average = Field(
        "none",
        description="the weights to keep: the latest, a mean of the last evaluations, or an exponential average",
    )
    average_last: int = Field(
        10, gt=1, le=10_000, description="number of evaluations to average over, for average = last"
    )
    average_decay: float = Field(0.999, gt=0, lt=1, description="decay per step, for average = exponential")

    precision: Precision = Field(
        "auto", description="number format of the forward pass; auto: bfloat16 if it is measured to be faster"
    )
    compile: Choice = Field(
        "auto", description="torch.compile; auto: only on a GPU, as a CPU gains too little"
    )
    recompute: bool = Field(
        False, description="recompute blocks in the backward pass instead of storing them, to save memory"
    )
    device: Device = Field(
        "auto", description="where to compute; auto: the first available of cuda, mps and cpu"
    )
    parallel: Parallel = Field(
        "auto",
        description="under torchrun: ddp, the whole model on every rank, or fsdp, a shard of each weight",
    )
    threads: int | None = Field(None, gt=0, le=MOST_THREADS, description="CPU threads; all cores if omitted")

    log_every: int = Field(10, gt=0, le=MOST, description="steps between log records")
    evaluate_every: int | None = Field(
        None,
        gt=0,
        le=MOST,
        description="steps between evaluations; if omitted, twenty evaluations per run, at least ten steps apart",
    )
    evaluate_tokens: int = Field(
        200_000, gt=0, le=MOST, description="maximum validation tokens per evaluation, the same each time"
    )
    checkpoint_every: int | None = Field(
        None,
        gt=0,
        le=MOST,
        description="steps between checkpoints; if omitted, so many that saving costs under 2 % of the time",
    )
    keep_checkpoints: int = Field(2, gt=0, le=MOST, description="number of checkpoints to keep")
    keep_models: int = Field(
        0,
        ge=0,
        le=10_000,
        description="models to keep from the whole run, weights only, for the explorer; more of them from its start",
    )
    patience: int | None = Field(
        None,
        gt=0,
        le=MOST,
        description="evaluations without improvement after which to stop; never if omitted",
    )
    samples: int = Field(2, ge=0, le=10_000, description="samples to generate at each evaluation")
    watch_heads: bool = Field(
        False,
        description="at each evaluation, record where every attention head looks; the report draws how that changes",
    )
    most_skipped: int = Field(
        5, gt=0, le=MOST, description="consecutive steps with a non-finite loss after which to stop"
    )

    init_from: str | None = Field(
        None, description="model folder or run folder to start from; random weights if omitted"
    )
    embeddings_from: str | None = Field(
        None,
        description="vectors folder from which the embeddings of known words start, as `clearhead vectors` writes it",
    )
    frozen: Annotated[tuple[str, ...], BeforeValidator(listed)] = Field(
        (), description="parts that are not trained, such as embeddings, encoder.0, decoder.*.ffn, head"
    )
    layer_decay: float = Field(
        1.0,
        gt=0,
        le=1,
        description="learning rate of a block as a fraction of that of the block above; embeddings are lowest",
    )
    lora_rank: int | None = Field(
        None,
        gt=0,
        le=4096,
        description="rank of the LoRA adapters that are trained instead of the model; no adapters if omitted",
    )
    lora_scale: float = Field(
        2.0, gt=0, description="s in W + s B A, the adapted matrix; other tools call it alpha / rank"
    )
    lora_targets: Annotated[tuple[Matrix, ...], BeforeValidator(listed)] = Field(
        ALL_MATRICES, min_length=1, description="matrices of the blocks that get an adapter"
    )
    seed: int = Field(
        1, ge=0, le=MOST, description="seed of the initial weights, the order of the data, and dropout"
    )

    @model_validator(mode="after")
    def _check(self) -> "TrainingConfig":
        lengths = [
            f"{key} = {value}"
            for key in ("steps", "epochs", "minutes")
            if (value := getattr(self, key)) is not None
        ]
        if len(lengths) > 1 and self.steps is not None:
            raise ConfigError(f"training.{' and '.join(lengths)} exclude each other.\nGive only one of them.")
        if self.lora_rank is not None and self.init_from is None:
            raise ConfigError(
                f"training.lora_rank = {self.lora_rank} adapts a trained model, but no model to start from is "
                "named.\nName its folder in training.init_from, or omit lora_rank."
            )
        if self.embeddings_from is not None and self.init_from is not None:
            raise ConfigError(
                "training.embeddings_from and training.init_from both say what the embeddings start from.\n"
                "Give only one of them."
            )
        every, steps = self.evaluate_every, self.steps
        if (
            self.average == "last"
            and every is not None
            and steps is not None
            and self.average_last > steps // every
        ):
            raise ConfigError(
                f"training.average_last = {self.average_last}, but {steps} steps with an evaluation every {every} have "
                f"fewer evaluations.\nEvaluate more often, or average fewer."
            )
        return self
