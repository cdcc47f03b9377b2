"""`make shipped`: trains the models that the package contains, checks their quality, and writes their folders.

A recipe and its seed enter; `src/clearhead/shipped/NAME` leaves: a model folder with weights in int8, and the recipe.
The bits depend on the machine, so a new model replaces an old one only if it is as good.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import torch

import clearhead
from clearhead.api import Model
from clearhead.corpora import CORPORA
from clearhead.corpora.lecture import OF_THE_NOTES
from clearhead.examples import Pair, Text
from clearhead.inspection.kept_models import keep_model, kept_models, load_kept
from clearhead.model_folder import CARD
from clearhead.shipped import SHIPPED

MODELS = {"translator": "lecture-translator", "language-model": "lecture-lm"}  # name and recipe
LARGEST = 2_000_000  # bytes of a folder
EXACT, LOSS = 0.95, 2.2  # the least share of exact translations, and the most nats per token
TESTED = 200  # held-out examples


def main() -> int:
    """Makes the models that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(MODELS), help="models to make")
    parser.add_argument("--run", type=Path, help="a finished run, in place of training")
    given = parser.parse_args()
    for name in given.names:
        with tempfile.TemporaryDirectory() as place:
            run = given.run or Path(place) / "run"
            if given.run is None:
                clearhead.train(MODELS[name], run)
            made = Path(place) / name
            write(run, made, name)
            quality = measure(clearhead.load(made))
            size = sum(file.stat().st_size for file in made.rglob("*") if file.is_file())
            print(f"{name}: {quality}, {size:,} bytes")
            if not is_good(quality) or size > LARGEST:
                print(f"{name} is not good enough to be shipped; the old one stays.", file=sys.stderr)
                return 1
            shutil.rmtree(SHIPPED / name, ignore_errors=True)
            shutil.copytree(made, SHIPPED / name)
    return 0


def write(run: Path, made: Path, name: str) -> None:
    """The best model of a run in int8, those that were kept after some of its steps, and the recipe that made it."""
    clearhead.load(run / "best", int8=True).save(made)
    bundle = clearhead.load(run / "best").bundle
    for kept in kept_models(run):
        then = load_kept(bundle, kept)
        then.quantise()
        keep_model(made, then, kept.step, kept.loss)
    card = (made / CARD).read_text(encoding="utf-8").replace(str(run / "best"), f"builtin:{name}")
    card = card.replace(f"# {run.name}\n", f"# The {name.replace('-', ' ')} of the package\n", 1)
    (made / CARD).write_text(card, encoding="utf-8")
    shutil.copy(run / "recipe.toml", made / "recipe.toml")


def measure(model: Model) -> dict[str, float]:
    """How good a model is on held-out examples: exact translations, also of the notes' sentences, or the loss."""
    if not model.translates:
        return {"loss": loss(model)}
    pairs = [one for one in CORPORA["lecture"].examples("test", count=TESTED) if isinstance(one, Pair)]
    written = model.generate([pair.source for pair in pairs], beam=1)
    exact = sum(one.text == pair.target for one, pair in zip(written, pairs, strict=True)) / len(pairs)
    both = [*OF_THE_NOTES.items(), *((en, es) for es, en in OF_THE_NOTES.items())]
    notes = model.generate([source for source, _ in both], beam=1)
    right = sum(one.text == target for one, (_, target) in zip(notes, both, strict=True))
    return {"exact": exact, "notes": right / len(both)}


def loss(model: Model) -> float:
    """The mean surprise at a token, in nats."""
    texts = [one.text for one in CORPORA["lines"].examples("test", count=TESTED) if isinstance(one, Text)]
    total, count = 0.0, 0
    for text in texts:
        ids = torch.tensor([model.generator.prompt(text).ids])
        log_P = torch.log_softmax(model.logits(ids)[0, :-1], -1)
        total -= float(log_P.gather(-1, ids[0, 1:, None]).sum())
        count += ids.shape[1] - 1
    return total / count


def is_good(quality: dict[str, float]) -> bool:
    """Whether a model may be shipped."""
    return quality.get("exact", 1.0) >= EXACT and quality.get("loss", 0.0) <= LOSS


if __name__ == "__main__":
    sys.exit(main())
