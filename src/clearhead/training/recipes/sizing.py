"""The model and its training: data, a tokenizer and a machine enter; sizes, batches and a length leave.

Two things decide. How much data there is: little data calls for a small model and much dropout, and is read often.
And how much can be computed in the time: a model that is too large for it learns less than a smaller one that reads
more.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from clearhead.config.families import family_of
from clearhead.config.model_base import AnyModelConfig, Shape
from clearhead.config.tasks import TASKS, Task
from clearhead.config.tokenizer import BYTES, SPECIALS
from clearhead.config.training import TrainingConfig
from clearhead.examples import Conversation, Kind
from clearhead.model_folder import find, read_config
from clearhead.training.recipes.choices import Choices
from clearhead.training.recipes.data_sample import DataSample
from clearhead.training.recipes.machine import Machine
from clearhead.training.recipes.tokens import FEW_CHARACTERS, characters_per_token, is_aligned_dna
from clearhead.training.run.plan import DEFAULT_EPOCHS
from clearhead.training.run.start import fine_tuned_config, gentle_settings

SIZES = [  # d, blocks
    (64, 2), (96, 2), (96, 3), (128, 3), (128, 4), (192, 4), (256, 4), (256, 6), (384, 6), (512, 8), (768, 12),
]  # fmt: skip
# Tokens read in a run for each weight of the blocks, at least: a larger model would learn too little.
TOKENS_PER_WEIGHT: dict[Kind, float] = {"text": 8.0, "pair": 8.0, "labelled": 3.0}
MOST_WEIGHTS = 4.0  # weights of the blocks for each token of the data: a larger model would overfit
MOST_EPOCHS: dict[Kind, float] = {"text": 30.0, "pair": 40.0, "labelled": 8.0}  # more would only overfit
SMALL = 5_000_000  # characters of labelled texts that a large model would overfit
QUICK_RATE = 1e-2  # of embeddings and head, whose rows are seldom seen
PATIENCE = 6  # evaluations, of twenty in a run
FEWEST_STEPS = 300  # that a model needs to learn anything
# By how much a model can memorise: the epochs times its weights per token of the data, for less than so many.
DROPOUTS = ((10.0, 0.0), (30.0, 0.1), (100.0, 0.2), (math.inf, 0.3))
BATCHES = (
    (20_000.0, 512),
    (200_000.0, 1024),
    (3_000_000.0, 2048),
    (math.inf, 4096),
)  # for fewer than so many tokens
HEAD, MOST_CONTEXT = 32, 512
PAIR_CONTEXT = (
    128  # tokens of a source or target, at least: files to translate have longer lines than the examples
)
ALL_STACKS = ("encoder_blocks", "decoder_blocks")
# What the data and the time decide, even if the model starts from another.
NOT_TAKEN = {"vocabulary", "source_vocabulary", "head", "classes", "labels", "texts"}


def stacks_of(shape: Shape) -> list[str]:
    """The settings that say how many blocks a model of this shape has."""
    return [name for name in ALL_STACKS if name.split("_")[0] in shape]


class Sizing:
    """Chooses the model and the training for an amount of data, a tokenizer and a machine."""

    def __init__(
        self, choices: Choices, task: Task, sample: DataSample, machine: Machine, packing: float
    ) -> None:
        self.choices, self.task, self.sample, self.machine = choices, task, sample, machine
        self.kind: Kind = TASKS[task].kind
        self.vocabulary = choices.get("tokenizer.vocabulary") or BYTES + SPECIALS
        self.packing = packing  # characters per token

    @property
    def family(self) -> type[AnyModelConfig]:
        """The family of the model."""
        return family_of(self.choices.table.get("model", {}))

    @property
    def tokens(self) -> float:
        """Tokens in all the data, approximately."""
        return max(1.0, self.sample.characters / self.packing)

    def choose(self) -> None:
        """Makes the choices."""
        if not self.is_new:
            self.start_from(Path(self.choices.get("training.init_from")))
        else:
            self.choose_size()
        self.choose_context()
        self.choose_training()

    def weights(self, d: int, blocks: int) -> float:
        """The weights of the blocks: 12 d² each, and 4 d² more for the cross-attention of a translator's decoder."""
        return d * d * blocks * (28.0 if self.kind == "pair" else 12.0)

    def readable(self, d: int, blocks: int) -> float:
        """How many tokens such a model can read in the time."""
        passed = self.weights(d, blocks) + (0 if self.kind == "labelled" else d * self.vocabulary)
        # In a translator a token passes one of the two stacks, and only a token of the target the head.
        return self.machine.tokens(d, passed / 2 if self.kind == "pair" else passed)

    def taught(self, sizes: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """The sizes that read enough tokens in the time; what is larger than the first that does not is not timed."""
        least = TOKENS_PER_WEIGHT[self.kind]
        return takewhile(lambda size: self.readable(*size) >= least * self.weights(*size), sizes)

    def choose_size(self) -> None:
        """Chooses the largest size that reads enough tokens in the time and has enough data."""
        if self.is_small:  # one block for tokens with a meaning, one more if letters must be combined first
            d, blocks, reason = SIZES[0][0], 1 if self.packing > 1 else 2, "a larger model would overfit"
        else:
            smallest, most = SIZES[:1], MOST_WEIGHTS * self.tokens
            filled = [size for size in SIZES if self.weights(*size) <= most] or smallest
            taught = list(self.taught(filled)) or smallest
            (d, blocks), unit = taught[-1], "minute" if self.machine.minutes == 1 else "minutes"
            reason = f"the largest that {self.machine.name} can train in {self.machine.minutes:g} {unit}"
            if taught[-1] == filled[-1] != SIZES[-1]:
                reason = f"the largest that {self.sample.amount} justify"
        blocks = min(blocks, self.family.deepest)
        names = stacks_of(self.choices.get("model.shape") or TASKS[self.task].shapes[0])
        self.choices.choose(reason, model__d=d, **{f"model__{name}": blocks for name in names})
        d = self.choices.get("model.d")
        heads = [h for h in range(1, max(1, d // HEAD) + 1) if d % h == 0 and d // h % 2 == 0]
        self.choices.choose(f"about {HEAD} dimensions per head", model__h=heads[-1] if heads else 1)
        fast = {"model__feedforward": "relu2", "model__zero_outputs": True}
        is_encoder = names == ["encoder_blocks"]
        if not is_encoder or is_aligned_dna(self.choices, self.kind, self.sample):
            # Other encoders learn as well without it, and can be exported: EuroBERT has none.
            fast = {"model__query_key_norm": True} | fast
        self.choices.choose("what learns fastest in a short run", **fast)
        if self.choices.get("tokenizer.kind") == "word" and self.is_small:
            # A word seen twice has hardly moved from its random first vector. A norm would make that as long as any
            # other, and the model would memorise texts by their rare words.
            quiet = {"model__initial_deviation": 0.02, "model__norm_epsilon": 1.0}
            self.choices.choose("rare words start small and matter little", **quiet)
        if is_aligned_dna(self.choices, self.kind, self.sample):
            self.choices.choose(
                "the position of a letter matters as much as the letter", model__positions="learned"
            )

    @property
    def blocks(self) -> int:
        """The blocks of a stack, as chosen."""
        return max(1, *(self.choices.get(f"model.{name}") or 1 for name in ALL_STACKS))

    @property
    def is_new(self) -> bool:
        """Whether there is no pre-trained model to start from."""
        return self.choices.get("training.init_from") is None

    @property
    def is_small(self) -> bool:
        """Whether there are few labelled texts, and no pre-trained model."""
        return self.kind == "labelled" and self.is_new and self.sample.characters < SMALL

    def start_from(self, folder: Path) -> None:
        """Uses the settings of the model to start from, so that its weights fit."""
        given = fine_tuned_config(read_config(find(folder)), self.family.model_validate({}), self.task)
        stacks = stacks_of(given.shape)
        names = {
            *given.model_dump(exclude_defaults=True),
            *({"family"} & given.model_fields_set),
            "d",
            "h",
            "context",
            *stacks,
        } - NOT_TAKEN
        own = {f"model__{key}": value for key, value in given.model_dump(mode="json").items() if key in names}
        self.choices.choose(f"taken from {folder}, so that its weights fit", **own)
        training = TrainingConfig.model_validate(self.choices.table["training"])
        gentle = {f"training__{key}": value for key, value in gentle_settings(training).items()}
        self.choices.choose("small steps, to keep what the model knows", **gentle)
        self.vocabulary = given.vocabulary
        self.packing = characters_per_token(self.vocabulary)

    def choose_context(self) -> None:
        """Chooses how many tokens the model sees at once."""
        are_texts = self.kind == "text" and not isinstance(self.sample.examples[0], Conversation)
        if are_texts:
            amount = self.sample.characters
            tokens = 64 if amount < FEW_CHARACTERS else 128 if amount < 10 * FEW_CHARACTERS else 256
            self.choices.choose("how many tokens the model sees at once", model__context=tokens)
            return
        # Rare words take more tokens than the mean, and a start and an end token are added.
        longest = 1.4 * self.sample.quantile(0.99) / self.packing + 2
        tokens = int(min(MOST_CONTEXT, 16 * math.ceil(longest / 16)))
        longer = "longer ones are truncated"
        whole = "99 % of the texts" if longest <= MOST_CONTEXT else "the beginnings of texts"
        if (
            self.kind == "pair"
        ):  # batches are filled by tokens, so that room for a few long ones costs nothing
            tokens = min(MOST_CONTEXT, max(PAIR_CONTEXT, 2 * tokens))
            longer, whole = "longer pairs are dropped", f"more than {whole}"
        self.choices.choose(f"fits {whole}; {longer} and counted", model__context=tokens)

    def choose_training(self) -> None:
        """Chooses batches, length, regularisation and evaluations."""
        batch = next(size for most, size in BATCHES if self.tokens < most)
        batch = 8 * batch if self.machine.is_gpu else batch
        little, much = (
            "small for little text, so that there are enough steps",
            "steady steps; there is text for many",
        )
        self.choices.choose(little if self.tokens < BATCHES[-2][0] else much, training__batch_tokens=batch)
        batch = self.choices.get("training.batch_tokens")
        epochs = max(MOST_EPOCHS[self.kind], FEWEST_STEPS * batch / self.tokens)
        epochs = float(round(min(300.0, epochs)))
        if not any(self.choices.has(f"training.{key}") for key in ("steps", "epochs", "minutes")):
            self.choices.choose(
                f"the time limit, or {epochs:g} epochs: more would only overfit",
                training__minutes=self.machine.minutes, training__epochs=epochs,
            )  # fmt: skip
        expected = self.expected_epochs(batch)
        if self.is_new:  # one that has learned with its own would have to learn again with others
            self.choose_regularisation(expected)
            if self.kind != "labelled":
                self.choose_rate()
        if self.choices.get("data.validation") != 0.0:
            self.choices.choose(
                f"training stops after {PATIENCE} evaluations without improvement",
                training__patience=PATIENCE,
            )
        tokens = int(max(50_000, min(200_000, expected * self.tokens / 100)))
        self.choices.choose("so that evaluations take little of the time", training__evaluate_tokens=tokens)

    def choose_rate(self) -> None:
        """Chooses how fast a new model learns; by AdamW alone, so high a rate would be too high for matrices."""
        quick: dict[str, Any] = {"training__schedule": "stable"}
        if self.choices.get("training.optimizer") != "adamw":
            quick["training__learning_rate"] = QUICK_RATE
        self.choices.choose("a high rate as long as it pays, then a linear decay", **quick)

    def choose_regularisation(self, expected: float) -> None:
        """Chooses what keeps a new model from overfitting data that it reads so often."""
        can_memorise = expected * self.weights(self.choices.get("model.d"), self.blocks) / self.tokens
        dropout = next(share for most, share in DROPOUTS if can_memorise < most)
        if self.is_small:
            dropout = 0.5 if self.choices.get("tokenizer.kind") == "word" else 0.3
            self.choices.choose("against overfitting", model__dropout=dropout)
        elif dropout:
            times = max(1, round(expected))
            self.choices.choose(
                f"the data is read about {times} times, and could be memorised", model__dropout=dropout
            )
        if self.kind == "pair":
            self.choices.choose("a sentence has more than one translation", training__label_smoothing=0.1)

    def expected_epochs(self, batch: int) -> float:
        """How often the data will be read, approximately, given the steps, epochs and minutes."""
        steps, epochs, minutes = (
            self.choices.get(f"training.{key}") for key in ("steps", "epochs", "minutes")
        )
        if steps is not None:
            return float(steps * batch / self.tokens)
        in_time = self.readable(self.choices.get("model.d"), self.blocks) / self.tokens
        limits = ((epochs, epochs), (minutes, in_time))
        return float(min((limit for stated, limit in limits if stated is not None), default=DEFAULT_EPOCHS))
