"""How large should the first model of a text be? Recipes for files, with other sizes and dropout than the rules choose.

    python benchmarks/first_sizes.py brown 2 model.d=96 model.decoder_blocks=2

One training by one thread in so many minutes of the processor, whoever else computes, and what it makes of the test:
bits per byte of the last tenth of the plays, of 3 million characters of Python's standard library, of the Brown corpus
and of parts of it (brown-20 has 20,000 characters), BLEU of the captions' test 2016, the loss of masked-plays. Each
joins the results file of today.
"""

import gzip
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from first_model import Words, captions, plays
from harness import SHARED_DATA, add_result, arguments, train_and_evaluate

from clearhead.training.recipes.suggest import recipe_for

LIBRARY = 3_000_000  # characters
START = 3_000_000  # where a part of Brown begins
TEST_SHARE = 4  # characters to learn from for each of the test


def brown(folder: Path, thousands: int | None) -> Words:
    """Brown, or so many thousand characters of it and a quarter more as the test."""
    text = gzip.decompress((SHARED_DATA / "word2vec" / "brown.txt.gz").read_bytes()).decode("utf-8")
    if thousands is None:
        border, end = int(0.9 * len(text)), int(0.9 * len(text)) + 300_000
    else:
        text, border = text[START:], 1000 * thousands
        end = border + border // TEST_SHARE
    return split_off(folder, text, border, end)


def split_off(folder: Path, text: str, border: int, end: int) -> Words:
    """A text up to the border to learn from, and from there to the end as the test."""
    (folder / "train.txt").write_text(text[:border], encoding="utf-8")
    (folder / "test.txt").write_text(text[border:end], encoding="utf-8")
    return "language-model", [str(folder / "train.txt")], {"data.test": str(folder / "test.txt")}


def masked_plays(folder: Path) -> Words:
    """The plays, with gaps to fill."""
    return "masked-language-model", *plays(folder)[1:]


def standard_library(folder: Path) -> Words:
    """The files of the top folder of Python's standard library, in the order of their names."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    text = "".join(file.read_text(encoding="utf-8", errors="ignore") for file in files)[:LIBRARY]
    return split_off(folder, text, int(0.9 * len(text)), len(text))


OTHERS: dict[str, Callable[[Path], Words]] = {
    "plays": plays, "captions": captions, "masked-plays": masked_plays, "standard-library": standard_library,
}  # fmt: skip


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("data", help="plays, captions, masked-plays, standard-library, brown, brown-20, ...")
    parser.add_argument("minutes", type=float)
    parser.add_argument("settings", nargs="*", help="settings in place of the rules', such as model.d=96")
    options = parser.parse_args()
    time.perf_counter = time.process_time
    torch.set_num_threads(1)
    stated = dict(setting.split("=", 1) for setting in options.settings)
    with tempfile.TemporaryDirectory(prefix="clearhead-sizes-") as place:
        folder = Path(place)
        if options.data in OTHERS:
            task, files, own = OTHERS[options.data](folder)
        else:
            _, _, thousands = options.data.partition("-")
            task, files, own = brown(folder, int(thousands) if thousands else None)
        given = {"training.threads": "1"} | own | stated
        config, reasons = recipe_for(task, files, options.minutes, given)  # type: ignore[arg-type]
        run, trained = train_and_evaluate(config, folder / "run")
    best = run.history.best
    result = {
        "minutes": options.minutes, "settings": stated, "d": config.model.d,
        "blocks": getattr(config.model, "decoder_blocks", None), "vocabulary": config.tokenizer.vocabulary,
        "dropout": config.model.dropout, "steps": trained["steps"], "epochs": run.plan.epochs,
        "best_step": best.step if best else None, "precision": run.plan.precision, "quality": trained["quality"],
        "chosen": reasons,
    }  # fmt: skip
    print(result)
    if options.save:
        add_result("first_sizes", options.data, result, ("minutes", "settings"))


if __name__ == "__main__":
    main()
