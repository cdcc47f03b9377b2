"""A recipe that fits the data and the machine: a task and files enter; a recipe leaves, and a line for each choice.

Two things decide. How much text there is: little text wants small pieces (or whole words, where it has labels), a
small model and much dropout, and is read often. And how much can be computed in the time: a model that is too large
for it learns less than a smaller one that reads more.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from clearhead.checkpoint import find, read_config
from clearhead.config.data import DataConfig, anchor
from clearhead.config.model import ModelConfig
from clearhead.config.run import KINDS, RunConfig, Task
from clearhead.config.tokenizer import BYTES, SPECIALS, TokenizerConfig
from clearhead.config.training import TrainingConfig
from clearhead.errors import DataError
from clearhead.text.examples import Conversation, Example, Kind, Labelled
from clearhead.text.held_out import split_of
from clearhead.training.begin import begun_from, gentle_settings
from clearhead.training.plan import DEFAULT_EPOCHS
from clearhead.training.survey import Survey, guessed_columns, survey_of, texts_of

MINUTES = 10.0
CORE_SPEED = 20e9  # multiplications and additions a second that a core gets done in training
GPU_SPEED = 10e12
SIZES = [(64, 2), (128, 3), (128, 4), (192, 4), (256, 6), (384, 6), (512, 8), (768, 12)]  # d, blocks
# Tokens read in a run for each weight of the blocks, at least: a larger model would learn too little. A translator is
# better large: with half the lessons it was far better in the same time.
LESSONS = {"text": 3.0, "pair": 1.5, "labelled": 3.0}
MOST_WEIGHTS = (
    20.0  # weights of the blocks for each token of the data: a larger model would learn it by heart
)
MOST_READINGS = {
    "text": 30.0,
    "pair": 40.0,
    "labelled": 8.0,
}  # epochs after which a text is only learned by heart
PATIENCE = 6  # evaluations, of twenty in a run
FEWEST_STEPS = 300  # that a model needs to learn anything
DROPOUTS = ((3.0, 0.0), (8.0, 0.1), (20.0, 0.2), (math.inf, 0.3))  # for less than so many readings
BATCHES = (
    (20_000.0, 512),
    (200_000.0, 1024),
    (3_000_000.0, 2048),
    (math.inf, 4096),
)  # for less than so many tokens
HEAD, MOST_CONTEXT = 32, 512
ALL_STACKS = ("encoder_blocks", "decoder_blocks")
STACKS = {"language-model": ("decoder_blocks",), "translate": ALL_STACKS}
# What the data and the time say of a model that starts from another.
NOT_TAKEN = {"vocabulary", "source_vocabulary", "head", "classes", "dropout"}
FEW_CHARACTERS = 50_000  # below it there is too little text to learn pieces from
KNOWN = 0.85  # the share of words that must be known in other texts, to be the tokens of a classifier
SMALL = 5_000_000  # characters of labelled texts that a large model would learn by heart
FEWEST_PIECES, MOST_PIECES = 512, 32_768  # bytes are 256 of them
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)  # of the data to hold out
SEEDS = range(1, 40)
# Characters of text, or examples, that are enough to measure by.
HELD_OUT = {"text": 50_000, "pair": 1000, "labelled": 2000}


class Choices:
    """Settings that are chosen, each with its reason; what the user has stated stays as it is."""

    def __init__(self, stated: dict[str, Any]) -> None:
        self.table = {section: dict(values) for section, values in stated.items() if isinstance(values, dict)}
        self.reasons: list[str] = []

    def get(self, name: str) -> Any:
        """A setting that was stated or chosen."""
        section, key = name.split(".")
        return self.table.get(section, {}).get(key)

    def has(self, name: str) -> bool:
        """Whether a setting was stated or chosen, if only as nothing."""
        section, key = name.split(".")
        return key in self.table.get(section, {})

    def choose(self, reason: str, **settings: Any) -> None:
        """Chooses some settings for one reason: `model__d=64`."""
        new = {name.replace("__", "."): value for name, value in settings.items()}
        new = {name: value for name, value in new.items() if not self.has(name)}
        for name, value in new.items():
            section, key = name.split(".")
            self.table.setdefault(section, {})[key] = value
        if new:
            shown = ", ".join(f"{name} = {plain(value)}" for name, value in new.items())
            self.reasons.append(f"{shown}: {reason}")


def plain(value: Any) -> str:
    """A value in a line of reason."""
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    return (
        f"{value:g}"
        if isinstance(value, float)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )


@dataclass(frozen=True)
class Machine:
    """What computes, and how much it gets done in the time."""

    name: str
    minutes: float
    work: float  # multiplications and additions

    @classmethod
    def here(cls, minutes: float, device: str | None, threads: int | None) -> "Machine":
        """This machine."""
        if device in (None, "auto", "cuda") and torch.cuda.is_available():
            return cls("a GPU", minutes, 60 * minutes * GPU_SPEED)
        cores = threads or torch.get_num_threads()
        return cls(f"{cores} cores" if cores > 1 else "1 core", minutes, 60 * minutes * cores * CORE_SPEED)


def recipe_for(
    task: Task, files: Sequence[str], minutes: float | None = None, overrides: Mapping[str, str] | None = None
) -> tuple[RunConfig, list[str]]:
    """A recipe for a task on some files, and the reasons; overrides such as `model.d` are kept as they are."""
    choices = Choices(RunConfig.overridden({}, overrides or {}))
    choices.table.setdefault("data", {})["train"] = source_of(task, files)
    if choices.get("data.columns") is None and (
        guess := guessed_columns(choices.get("data.train"), KINDS[task])
    ):
        choices.choose(guess[1], data__columns=guess[0])
    survey = survey_of(DataConfig(**choices.table["data"]), KINDS[task])
    check_labels(task, survey)
    hold_out(choices, task, survey)
    asked = minutes or choices.get("training.minutes") or MINUTES
    machine = Machine.here(asked, choices.get("training.device"), choices.get("training.threads"))
    is_new = choices.get("training.init_from") is None  # a model brings its tokenizer
    packing = cut_text(choices, task, survey) if is_new else 1.0
    Sizing(choices, task, survey, machine, packing).choose()
    return RunConfig.model_validate({"task": task} | choices.table), choices.reasons


def source_of(task: Task, files: Sequence[str]) -> Any:
    """The files as a source of a recipe; `positive=good.txt negative=bad.txt` is a label and its files."""
    is_named = ["=" in file and not Path(file).exists() for file in files]
    if task == "classify" and all(is_named):
        table: dict[str, list[str]] = {}
        for label, _, file in (file.partition("=") for file in files):
            table.setdefault(label, []).append(file)
        return anchor(table, Path.cwd())
    return anchor(files[0] if len(files) == 1 else list(files), Path.cwd())


def check_labels(task: Task, survey: Survey) -> None:
    """Refuses labels that nothing can be learned from."""
    labels = survey.labels
    if task == "classify" and len(labels) < 2:
        raise DataError(
            f"All {len(survey.examples):,} examples have the label {next(iter(labels))!r}; a classifier needs two.\n"
            "Add examples with other labels, or name the column of the labels: --data.columns TEXT,LABEL."
        )
    if task == "classify" and len(labels) > 20 and len(labels) > len(survey.examples) / 2:
        raise DataError(
            f"There are {len(labels):,} different labels for {len(survey.examples):,} examples, such as "
            f"{next(iter(labels))[:60]!r}: they look like texts.\n"
            "Name the columns of text and label: --data.columns TEXT,LABEL."
        )


def hold_out(choices: Choices, task: Task, survey: Survey) -> None:
    """Chooses what the model is measured by: a share of the data that it does not learn from."""
    data = DataConfig(**choices.table["data"])
    if data.is_builtin or choices.has("data.validation"):
        return
    if task in ("language-model", "masked-language-model") and survey.characters < 500_000:
        size = max(160, min(2048, survey.characters // 60))
        choices.choose("short pieces, so that some can be held out", data__chunk_characters=size)
        survey = survey_of(DataConfig(**choices.table["data"]), KINDS[task])
    share, has_test = share_of(survey, KINDS[task]), KINDS[task] != "text" and survey.count >= 2000
    seeds = (seed for seed in SEEDS if is_fair(survey, share, has_test, seed))
    seed = next(seeds, None) if survey.is_whole else 1
    if seed is None:
        choices.choose(
            f"too little to hold any of it out ({survey.amount}), so nothing will tell how good the model is",
            data__validation=0.0,
        )
        return
    chosen: dict[str, Any] = {"data__validation": share}
    chosen |= {"data__test": share} if has_test else {}
    chosen |= {"data__seed": seed} if seed > 1 else {}
    choices.choose(
        "shares to choose the best model and to measure it by" if has_test else "a share to measure by",
        **chosen,
    )


def share_of(survey: Survey, kind: Kind) -> float:
    """How much to hold out: enough to measure by, but a small part of what there is."""
    whole, enough = (survey.characters if kind == "text" else survey.count), HELD_OUT[kind]
    if SHARES[0] * whole > enough:
        return float(f"{enough / whole:.1g}")
    return next((share for share in SHARES if share * whole >= min(enough, 0.08 * whole)), SHARES[-1])


def is_fair(survey: Survey, share: float, has_test: bool, seed: int) -> bool:
    """Whether something is held out, enough is left, and every label is among what is left."""
    shares = {"validation": share} | ({"test": share} if has_test else {})
    sides: dict[str, list[Example]] = {"train": [], "validation": [], "test": []}
    for example in survey.examples:
        sides[split_of(example, shares, seed)].append(example)
    labels = {example.label for example in sides["train"] if isinstance(example, Labelled)}
    amount = sum(len(texts_of(example)[0]) for example in sides["validation"])
    wanted = share * sum(len(texts_of(example)[0]) for example in survey.examples)
    return bool(sides["train"]) and wanted / 2 < amount < 3 * wanted and labels.issuperset(survey.labels)


def cut_text(choices: Choices, task: Task, survey: Survey) -> float:
    """Chooses the tokenizer: the more text, the larger the pieces that can be learned. Returns characters a token."""
    amount = survey.amount
    if survey.is_dna and task != "translate":
        choices.choose("the letters are A, C, G, T and N", tokenizer__kind="dna")
        if is_lined_up(choices, task, survey):
            choices.choose("all sequences have one length, so that threes of letters line up", tokenizer__k=3)
    elif task == "classify" and choices.get("tokenizer.kind") in (None, "word"):
        words = {"vocabulary": MOST_PIECES} | choices.table.get("tokenizer", {}) | {"kind": "word"}
        known, length = survey.trial(TokenizerConfig.model_validate(words))
        if known >= KNOWN or choices.has("tokenizer.kind"):
            reason = f"{math.floor(100 * known)} of 100 words are known in texts that were not seen"
            choices.choose(reason, tokenizer__kind="word", tokenizer__vocabulary=MOST_PIECES)
            return length
    elif survey.characters < FEW_CHARACTERS and task != "classify":
        few = f"{amount} are too few to learn larger pieces from"
        kind = "character" if survey.outside_ascii > 0.1 else "byte"
        choices.choose(few, tokenizer__kind=kind)
    if choices.get("tokenizer.kind") in ("byte", "dna"):
        return float(choices.get("tokenizer.k") or 1) if choices.get("tokenizer.kind") == "dna" else 1.0
    choices.choose("words and parts of words; nothing is unknown", tokenizer__kind="bpe")
    pieces = (1.2 if KINDS[task] == "text" else 2.4) * math.sqrt(survey.characters)
    wanted = 1 << round(math.log2(max(pieces, 1)))
    vocabulary = max(FEWEST_PIECES, min(MOST_PIECES, wanted))
    reason = f"what {amount} show often enough"
    if wanted != vocabulary:
        reason = "more would take long to learn" if wanted > vocabulary else "the fewest that are of use"
    choices.choose(reason, tokenizer__vocabulary=vocabulary)
    is_pieces = choices.get("tokenizer.kind") != "character"
    return characters_per_piece(choices.get("tokenizer.vocabulary")) if is_pieces else 1.0


def is_lined_up(choices: Choices, task: Task, survey: Survey) -> bool:
    """Whether the places of DNA tell its class."""
    return task == "classify" and choices.get("tokenizer.kind") == "dna" and survey.lines_up


def characters_per_piece(vocabulary: int) -> float:
    """How much text a piece of a word holds, about."""
    return max(1.0, 0.5 * math.log2(vocabulary / 32))


class Sizing:
    """Chooses the model and the training for an amount of text, a tokenizer and a machine."""

    def __init__(
        self, choices: Choices, task: Task, survey: Survey, machine: Machine, packing: float
    ) -> None:
        self.choices, self.task, self.survey, self.machine = choices, task, survey, machine
        self.vocabulary = choices.get("tokenizer.vocabulary") or BYTES + SPECIALS
        self.packing = packing  # characters a token

    @property
    def tokens(self) -> float:
        """Tokens of all the data, about."""
        return max(1.0, self.survey.characters / self.packing)

    def choose(self) -> None:
        """Makes the choices."""
        if self.choices.get("training.init_from") is not None:
            self.begin_with(Path(self.choices.get("training.init_from")))
        else:
            self.model()
        self.context()
        self.training()

    def weights(self, d: int, blocks: int) -> float:
        """The weights of the blocks: 12 d² each, and 4 d² more for the cross-attention of a translator's decoder."""
        return d * d * blocks * (28.0 if self.task == "translate" else 12.0)

    def readable(self, d: int, blocks: int) -> float:
        """How many tokens such a model can read in the time: six operations for each weight that a token meets."""
        met = self.weights(d, blocks) + (0 if self.task == "classify" else d * self.vocabulary)
        # In a translator a token passes one of the two stacks, and only a token of the target the head.
        return self.machine.work / (6 * (met / 2 if self.task == "translate" else met))

    def model(self) -> None:
        """Chooses the size: the largest that can learn enough in the time, and finds enough text."""
        lessons = LESSONS[KINDS[self.task]]
        filled = [size for size in SIZES if self.weights(*size) <= MOST_WEIGHTS * self.tokens]
        taught = [size for size in SIZES if self.readable(*size) >= lessons * self.weights(*size)]
        d, blocks = min(filled[-1] if filled else SIZES[0], taught[-1] if taught else SIZES[0])
        reason = f"as much as {self.machine.name} can teach in {self.machine.minutes:g} minutes"
        if not filled or (taught and filled[-1] < taught[-1]):
            reason = f"as much as {self.survey.amount} can fill"
        if self.is_small:  # a block for tokens that mean something, one more for letters that must meet first
            d, blocks = SIZES[0][0], 1 if self.packing > 1 else 2
            reason = "a larger model would learn the labels by heart"
        names = STACKS.get(self.task, ("encoder_blocks",))
        self.choices.choose(reason, model__d=d, **{f"model__{name}": blocks for name in names})
        d = self.choices.get("model.d")
        heads = [h for h in range(1, max(1, d // HEAD) + 1) if d % h == 0 and d // h % 2 == 0]
        self.choices.choose(f"about {HEAD} numbers a head", model__h=heads[-1] if heads else 1)
        fast = {"model__query_key_norm": True, "model__feedforward": "relu2", "model__zero_outputs": True}
        self.choices.choose("what learns fastest in a short training", **fast)
        if self.choices.get("tokenizer.kind") == "word" and self.is_small:
            # A word seen twice has hardly left its first, random vector. A norm would make that as long as any
            # other, and texts would be known by their rare words.
            quiet = {"model__initial_deviation": 0.02, "model__norm_epsilon": 1.0}
            self.choices.choose("rare words stay small, and say little", **quiet)
        if is_lined_up(self.choices, self.task, self.survey):
            self.choices.choose(
                "where a letter stands tells as much as what it is", model__positions="learned"
            )

    @property
    def is_small(self) -> bool:
        """Whether there are few labelled texts, and no model that has read more."""
        is_new = self.choices.get("training.init_from") is None
        return self.task == "classify" and is_new and self.survey.characters < SMALL

    def begin_with(self, folder: Path) -> None:
        """Takes the settings of a model that training starts from, so that its weights fit."""
        given = begun_from(read_config(find(folder)), ModelConfig(), self.task)
        stacks = [name for name in ALL_STACKS if name.split("_")[0] in given.shape]
        names = {*given.model_dump(exclude_defaults=True), "d", "h", "context", *stacks} - NOT_TAKEN
        own = {f"model__{key}": value for key, value in given.model_dump(mode="json").items() if key in names}
        self.choices.choose(f"those of {folder}, so that its weights fit", **own)
        training = TrainingConfig.model_validate(self.choices.table["training"])
        gentle = {f"training__{key}": value for key, value in gentle_settings(training).items()}
        self.choices.choose("gentle steps, which keep what the model knows", **gentle)
        self.vocabulary = given.vocabulary
        self.packing = characters_per_piece(self.vocabulary)

    def context(self) -> None:
        """Chooses how many tokens the model sees at once."""
        are_texts = KINDS[self.task] == "text" and not isinstance(self.survey.examples[0], Conversation)
        if are_texts:
            amount = self.survey.characters
            tokens = 64 if amount < FEW_CHARACTERS else 128 if amount < 10 * FEW_CHARACTERS else 256
            self.choices.choose("how far back it looks", model__context=tokens)
            return
        # Rare words take more tokens than the mean says, and a beginning and an end are added.
        longest = 1.4 * self.survey.quantile(0.99) / self.packing + 2
        tokens = int(min(MOST_CONTEXT, 16 * math.ceil(longest / 16)))
        longer = "longer pairs are left out" if self.task == "translate" else "longer ones are cut"
        whole = "99 of 100 texts" if longest <= MOST_CONTEXT else "the beginnings of texts"
        self.choices.choose(f"room for {whole}; {longer}, and counted", model__context=tokens)

    def training(self) -> None:
        """Chooses batches, length, and what keeps the model from learning the text by heart."""
        batch = next(size for most, size in BATCHES if self.tokens < most)
        batch = batch if self.machine.name != "a GPU" else 8 * batch
        self.choices.choose(
            "small for little text, so that there are enough steps", training__batch_tokens=batch
        )
        batch = self.choices.get("training.batch_tokens")
        readings = max(MOST_READINGS[KINDS[self.task]], FEWEST_STEPS * batch / self.tokens)
        readings = float(round(min(300.0, readings)))
        if not any(self.choices.has(f"training.{key}") for key in ("steps", "epochs", "minutes")):
            self.choices.choose(
                f"the time that there is, or {readings:g} readings: more would only learn the text by heart",
                training__minutes=self.machine.minutes, training__epochs=readings,
            )  # fmt: skip
        expected = self.expected_readings(batch)
        dropout = next(share for most, share in DROPOUTS if expected < most)
        if self.is_small:
            dropout = 0.5 if self.choices.get("tokenizer.kind") == "word" else 0.3
            self.choices.choose("against learning the labels by heart", model__dropout=dropout)
        elif dropout:
            self.choices.choose(
                f"the text is read about {max(1, round(expected))} times", model__dropout=dropout
            )
        if self.task == "translate":
            self.choices.choose("a sentence has more than one translation", training__label_smoothing=0.1)
        if self.choices.get("data.validation") != 0.0:
            self.choices.choose(
                f"it ends where {PATIENCE} evaluations in a row are no better", training__patience=PATIENCE
            )
        tokens = int(max(50_000, min(200_000, expected * self.tokens / 100)))
        self.choices.choose("so that evaluations take little of the time", training__evaluate_tokens=tokens)

    def expected_readings(self, batch: int) -> float:
        """How often the text will be read, about, by what is stated or chosen of steps, epochs and minutes."""
        steps, epochs, minutes = (
            self.choices.get(f"training.{key}") for key in ("steps", "epochs", "minutes")
        )
        if steps is not None:
            return float(steps * batch / self.tokens)
        blocks = max(1, *(self.choices.get(f"model.{name}") or 1 for name in ALL_STACKS))
        in_time = self.readable(self.choices.get("model.d"), blocks) / self.tokens
        limits = ((epochs, epochs), (minutes, in_time))
        return float(min((limit for stated, limit in limits if stated is not None), default=DEFAULT_EPOCHS))
