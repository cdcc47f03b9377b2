"""What benchmarks share: paired timing, intervals, real data, a complete training, and the results file.

Speed is a ratio of two things measured in turn in one run, since a busy machine slows both. A bar fails only
when the 95 % interval of the median ratio lies beyond it.
"""

import argparse
import gzip
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clearhead.config.run import RunConfig
    from clearhead.training.run.run import Run

RESULTS = Path(__file__).parent / "results"
SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"  # real text, if available


def paired(
    ours: Callable[[], object], theirs: Callable[[], object], pairs: int = 20
) -> tuple[list[float], list[float]]:
    """Seconds of each, run in turn `pairs` times after one run to warm up; the order alternates."""
    ours(), theirs()
    seconds: tuple[list[float], list[float]] = ([], [])
    for pair in range(pairs):
        for which in (0, 1) if pair % 2 else (1, 0):
            start = time.perf_counter()
            (ours, theirs)[which]()
            seconds[which].append(time.perf_counter() - start)
    return seconds


def in_turn(
    engines: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each engine, run in turn `rounds` times after one run to warm up; each is first equally often."""
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    names = list(engines)
    for name in names:
        engines[name]()
    for round in range(rounds):
        first = round % len(names)
        for name in names[first:] + names[:first]:
            start = clock()
            engines[name]()
            seconds[name].append(clock() - start)
    return seconds


def ratio(ours: list[float], theirs: list[float]) -> dict[str, Any]:
    """The median of the paired ratios ours / theirs, with its 95 % interval and spread."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    low, high = median_interval(ratios)
    return {
        "median_ratio": statistics.median(ratios),
        "interval_95": [low, high],
        "smallest": min(ratios),
        "largest": max(ratios),
        "pairs": len(ratios),
        "median_seconds": [statistics.median(ours), statistics.median(theirs)],
    }


def median_interval(values: list[float], draws: int = 2000) -> tuple[float, float]:
    """The 95 % interval of the median, by the bootstrap."""
    generator = random.Random(1)
    medians = sorted(statistics.median(generator.choices(values, k=len(values))) for _ in range(draws))
    return medians[int(0.025 * draws)], medians[int(0.975 * draws)]


def is_within(result: dict[str, Any], at_most: float) -> bool:
    """Whether a ratio keeps its bar: its interval does not lie entirely beyond."""
    return bool(result["interval_95"][0] <= at_most)


def arguments(description: str | None) -> argparse.ArgumentParser:
    """The options of every benchmark."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--save", action="store_true", help="save the result in benchmarks/results")
    return parser


def report(question: str, result: dict[str, Any], save: bool, packages: tuple[str, ...] = ("torch",)) -> None:
    """Prints the result as one JSON object on the last line, and saves it if asked to."""
    result = {"question": question} | environment_of(packages) | result
    if save:
        RESULTS.mkdir(exist_ok=True)
        path = results_file(question)
        path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        print(f"saved to {path}", file=sys.stderr)
    print(json.dumps(result))


def results_file(question: str) -> Path:
    """Where the results of today are kept."""
    return RESULTS / f"{question}_{machine()}_{date.today().isoformat()}.json"


def add_result(
    question: str,
    name: str,
    result: dict[str, Any],
    same: tuple[str, ...],
    packages: tuple[str, ...] = ("torch",),
) -> None:
    """Adds a result to the file of today; it takes the place of one that has the same name and these same values."""
    path = results_file(question)
    file = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    known = file.get("results", {})
    others = [old for old in known.get(name, []) if any(old.get(key) != result[key] for key in same)]
    kept = sorted([*others, result], key=lambda one: [str(one.get(key)) for key in same])
    found = file | {"question": question} | environment_of(packages) | {"results": known | {name: kept}}
    path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def environment_of(packages: tuple[str, ...]) -> dict[str, Any]:
    """Commit, versions, machine and threads."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=RESULTS.parent
    )
    environment = {
        "date": date.today().isoformat(),
        "commit": commit.stdout.strip() or None,
        "machine": machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {package: version(package) for package in packages},
    }
    if "torch" in sys.modules:
        environment["threads"] = sys.modules["torch"].get_num_threads()
    return environment


def write_plays(folder: Path, first: str, last: str) -> tuple[str, str]:
    """Writes Shakespeare's plays as two files of these names: the first 90 % and the last 10 %."""
    text = gzip.decompress((SHARED_DATA / "tinyshakespeare" / "input.txt.gz").read_bytes()).decode("utf-8")
    border = int(0.9 * len(text))
    paths = folder / f"{first}.txt", folder / f"{last}.txt"
    for path, part in zip(paths, (text[:border], text[border:]), strict=True):
        path.write_text(part, encoding="utf-8", newline="")
    return str(paths[0]), str(paths[1])


def plays_in(folder: Path) -> dict[str, str]:
    """Writes the plays into a folder; the settings that name them as data of a training."""
    if not SHARED_DATA.exists():
        raise SystemExit(f"{SHARED_DATA} does not exist; this benchmark needs the plays.")
    folder.mkdir(parents=True, exist_ok=True)
    train, validation = write_plays(folder.absolute(), "train", "validation")
    return {"data.train": train, "data.validation": validation}


def train_and_evaluate(config: "RunConfig", out: Path) -> tuple["Run", dict[str, Any]]:
    """A complete training, and what came of it: steps, seconds, parameters and the quality of the best model."""
    from clearhead.training.loop.records import StepRecord
    from clearhead.training.run.run import make_run

    run = make_run(config, out)
    seconds = [record.seconds for record in run.train() if isinstance(record, StepRecord)]
    quality = run.evaluate() or {}
    plan = run.plan
    return run, {
        "steps": plan.steps, "seconds": seconds[-1], "parameters": plan.parameters, "quality": quality,
    }  # fmt: skip


def machine() -> str:
    """The processor and number of cores, as part of a file name."""
    model = platform.machine()
    if Path("/proc/cpuinfo").exists():
        names = re.findall(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.M)
        model = names[0] if names else model
    return re.sub(r"[^a-z0-9]+", "-", f"{model} {os.cpu_count()} cores".lower()).strip("-")
