"""Proof that a refactor changes no number: a commit enters; a hash of every result, here and there, leaves.

    python -m tools.same_numbers                    prints the hashes of the working tree
    python -m tools.same_numbers --against COMMIT   compares them with a commit's; exit code 1 if any differs

Both trees train the same small models and use them, in float32 with one thread, fixed seeds and a fresh cache. Only the
command line and `import clearhead` are used, so that modules may move; `tools/result_hashes.py` makes the hashes. They
depend on the machine and on the versions of what is installed: compare them, do not keep them.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tomli_w

ROOT = Path(__file__).resolve().parents[1]
BOOK = "".join(f"In {year} the river rose {year % 7} feet, and nobody cared.\n" for year in range(1500, 1900))

HELD_OUT = {"validation": 0.1, "test": 0.1}
SMALL = {"d": 32, "h": 4, "encoder_blocks": 2, "decoder_blocks": 2, "context": 64, "dropout": 0.1}
TRAINING: dict[str, Any] = {
    "steps": 30, "batch_tokens": 512, "log_every": 5, "evaluate_every": 10, "checkpoint_every": 10, "samples": 1,
    "seed": 3, "threads": 1, "precision": "float32", "device": "cpu", "compile": "off",
}  # fmt: skip

# Recipes by the name of their run. Together they cover as many tokenizers, parts of a model and ways to train as fit.
RUNS: dict[str, dict[str, Any]] = {
    "language-model": {
        "task": "language-model",
        "data": HELD_OUT | {"train": "book.txt", "chunk_characters": 200},
        "tokenizer": {"kind": "bpe", "vocabulary": 300},
        "model": SMALL | {"h_kv": 2, "feedforward": "swiglu", "tied": False},
        "training": TRAINING,
    },
    "masked-language-model": {
        "task": "masked-language-model",
        "data": HELD_OUT | {"train": "builtin:reviews", "count": 1000},
        "tokenizer": {"kind": "wordpiece", "vocabulary": 400},
        "model": SMALL | {
            "positions": "learned", "norm": "layer", "norm_placement": "post", "embedding_norm": True,
            "attention_bias": "qkvo", "feedforward_bias": True, "head_transform": True, "head_bias": True,
        },
        "training": TRAINING | {"optimizer": "adamw", "accumulate": 2, "average": "last", "average_last": 2},
    },
    "translate": {
        "task": "translate",
        "data": HELD_OUT | {"train": "builtin:spanish", "count": 1000},
        "tokenizer": {"kind": "word", "shared": False},
        "model": SMALL | {"positions": "sinusoidal", "feedforward": "relu2"},
        "training": TRAINING | {"label_smoothing": 0.1, "average": "exponential", "average_decay": 0.9},
        "decoding": {"max_tokens": 20},
    },
    "classify": {
        "task": "classify",
        "data": HELD_OUT | {"train": "builtin:dna", "count": 1000},
        "tokenizer": {"kind": "dna"},
        "model": SMALL | {"positions": "relative", "feedforward": "geglu", "attention_dropout": 0.1},
        "training": TRAINING | {"schedule": "linear"},
    },
    "fine-tune": {
        "task": "classify",
        "data": HELD_OUT | {"train": "builtin:reviews", "count": 1000},
        "training": TRAINING | {"init_from": "masked-language-model", "lora_rank": 4},
    },
}  # fmt: skip
EXPORTED = ("language-model", "masked-language-model")


class RunError(Exception):
    """A command failed in one of the trees."""


def commands(tree: Path) -> list[list[str]]:
    """All that is run for a tree, in order; the last one prints the hashes."""
    scripts = tomllib.loads((tree / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    module, _, function = scripts["clearhead"].partition(":")
    clearhead = [sys.executable, "-c", f"from {module} import {function}; {function}()"]
    results = [sys.executable, str(ROOT / "tools" / "result_hashes.py")]
    return [
        *([*clearhead, "train", f"{name}.toml", "--out", name] for name in RUNS),
        [*results, "interrupt"],
        [*clearhead, "train", "resumed", "--resume"],
        *([*clearhead, "export", name, f"exported-{name}"] for name in EXPORTED),
        *([*clearhead, "import", f"exported-{name}", f"imported-{name}"] for name in EXPORTED),
        [*results, "measure"],
    ]


def hashes_of(name: str, tree: Path) -> dict[str, str]:
    """The hashes of a tree, by item."""
    with TemporaryDirectory(prefix="same-numbers-") as place:
        folder = Path(place)
        (folder / "book.txt").write_text(BOOK, encoding="utf-8")
        for run, recipe in RUNS.items():
            (folder / f"{run}.toml").write_text(tomli_w.dumps(recipe), encoding="utf-8")
        environment = os.environ | {"PYTHONPATH": str(tree / "src"), "CLEARHEAD_CACHE": str(folder / "cache")}
        environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        for command in commands(tree):
            print(f"{name}: {' '.join(command[3:] or command[2:])}", file=sys.stderr)
            output = run_in(folder, command, environment)
        return json.loads(output)


def run_in(folder: Path, command: list[str], environment: dict[str, str] | None = None) -> bytes:
    """What a command prints."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    if done.returncode:
        raise RunError(f"{' '.join(command)} failed:\n{done.stderr.decode(errors='replace')[-3000:]}")
    return done.stdout


def extract(commit: str, folder: Path) -> Path:
    """The folder, with the sources of a commit in it."""
    content = run_in(ROOT, ["git", "archive", commit, "src", "pyproject.toml"])
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def report(trees: dict[str, dict[str, str]], as_json: bool = False) -> int:
    """Prints the hashes of one tree, or of two side by side; the exit code, 1 where they differ."""
    items = list(dict.fromkeys(item for hashes in trees.values() for item in hashes))
    different = [item for item in items if len({hashes.get(item) for hashes in trees.values()}) > 1]
    if as_json:
        print(json.dumps({"trees": trees, "items": len(items), "different": different}))
        return int(bool(different))
    width = max(map(len, items))
    print(" " * width, *(f"{name[:16]:16}" for name in trees), sep="  ")
    for item in items:
        cells = [hashes.get(item, "missing".ljust(16)) for hashes in trees.values()]
        verdict = ["DIFFERENT" if item in different else "same"] * (len(trees) > 1)
        print(item.ljust(width), *cells, *verdict, sep="  ")
    if len(trees) > 1:
        print(f"{len(items) - len(different)} of {len(items)} the same")
    return int(bool(different))


def main(arguments: list[str] | None = None) -> int:
    """Measures and compares; the exit code."""
    parser = argparse.ArgumentParser(description="Prove that a refactor changes no number.")
    parser.add_argument("--against", metavar="COMMIT", help="the commit to compare the working tree with")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    trees = {"this tree": ROOT}
    with TemporaryDirectory(prefix="same-numbers-") as other, ThreadPoolExecutor() as pool:
        try:
            if options.against:
                trees[options.against] = extract(options.against, Path(other))
            hashes = dict(zip(trees, pool.map(hashes_of, trees, trees.values()), strict=True))
        except RunError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    return report(hashes, options.json)


if __name__ == "__main__":
    sys.exit(main())
