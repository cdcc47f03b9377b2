"""Do the shipped recipes reach published results? Each is trained on real data and measured as the publication did.

    python benchmarks/reproduce.py                      every recipe, one after the other, then the table
    python benchmarks/reproduce.py multi30k-en-de       one of them
    python benchmarks/reproduce.py --table              the table of the results files; nothing is trained

Models are selected by the loss on validation data; test data are read once, at the end. A run that was killed resumes
from its latest checkpoint if the command is given again with the same --out. Time is counted in seconds of the
processor, all cores together, so that a busy machine counts no more than an idle one.
"""

import json
import math
import statistics
import time
import tomllib
from contextlib import chdir
from pathlib import Path
from typing import Any

from harness import RESULTS, arguments, report
from published import PUBLISHED, Published

from clearhead.config.run import RunConfig, shipped
from clearhead.training.loop.records import EvaluationRecord
from clearhead.training.run.folder import RECIPE, RunFolder, holds_run
from clearhead.training.run.run import Run, keep_length, make_run

OUT = Path("runs/reproduce")
# Beside a run folder: the seconds of it so far, and what came of it.
SPENT, DONE = "spent.json", "result.json"


class Clock:
    """Wall and processor seconds of a run, also of those parts of it that were interrupted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before = json.loads(path.read_text()) if path.exists() else {"wall": 0.0, "processor": 0.0}
        self.wall, self.processor = time.perf_counter(), time.process_time()

    def write(self) -> dict[str, float]:
        """Writes what was spent so far."""
        spent = {
            "wall": self.before["wall"] + time.perf_counter() - self.wall,
            "processor": self.before["processor"] + time.process_time() - self.processor,
        }
        self.path.write_text(json.dumps(spent))
        return spent


def train(config: RunConfig, place: Path, until: float) -> tuple[Run, dict[str, float]]:
    """Trains a recipe to its end or for some time, from the latest checkpoint if there is one."""
    is_started = holds_run(place)
    if is_started:
        config = keep_length(RunConfig.read(place / RECIPE), config)
    place.parent.mkdir(parents=True, exist_ok=True)
    clock = Clock(place.with_suffix(f".{SPENT}"))
    run = make_run(config, place)
    for record in run.train(resume=is_started):
        clock.write()
        if time.perf_counter() > until:
            run.stop()
        if isinstance(record, EvaluationRecord):
            print(f"  step {record.step:6,} of {run.plan.steps:,}: {record.validation_loss:.4f}", flush=True)
    return run, clock.write()


def one_run(
    goal: Published, settings: dict[str, str], place: Path, until: float = math.inf
) -> dict[str, Any] | None:
    """One training and its measurement, or what is left of an earlier one; None if time was up before its end."""
    done = place.with_suffix(f".{DONE}")
    if done.exists():
        return dict(json.loads(done.read_text()))
    config = RunConfig.read(goal.name, settings)
    run, spent = train(config, place, until)
    if not run.is_done:
        return None
    measured = time.process_time()
    best = run.history.best
    result = {
        "settings": settings,
        "steps": run.plan.steps,
        "epochs": run.plan.epochs,
        "parameters": run.plan.parameters,
        "precision": run.config.training.precision,
        "seed": run.config.training.seed,
        "best_step": best.step if best else None,
        "best_validation_loss": best.validation_loss if best else None,
        "wall_seconds": spent["wall"],
        "processor_seconds": spent["processor"],
        "quality": goal.measure(RunFolder(place).best, run.config),
        "overlap": overlap_of(run),
    }
    result["measuring_processor_seconds"] = time.process_time() - measured
    done.write_text(json.dumps(result))
    return result


def overlap_of(run: Run) -> dict[str, int]:
    """How many inputs of each other split are also inputs of the training data, by the data report."""
    audit = run.data.audit
    return {split: found.overlap.get("train", 0) for split, found in audit.splits.items() if split != "train"}


def reproduce(goal: Published, out: Path, until: float = math.inf) -> dict[str, Any] | None:
    """All runs of one recipe, and what came of them; None if time was up before."""
    data = out / "data"
    data.mkdir(parents=True, exist_ok=True)
    goal.unpack(data)
    runs = []
    for number, settings in enumerate(goal.runs(data)):
        print(f"{goal.name}, run {number + 1}: {settings}", flush=True)
        with chdir(data):  # against which the shipped recipes resolve their files
            result = one_run(goal, settings, out / f"{goal.name}-{number + 1}", until)
        if result is None:
            return None
        runs.append(result)
    values = [run["quality"][goal.metric] for run in runs]
    mean = statistics.mean(values)
    return {
        "recipe": tomllib.loads(shipped()[goal.name].read_text(encoding="utf-8")),
        "published": goal.source,
        "metric": goal.metric,
        "must": goal.must,
        "aim": goal.aim,
        "value": mean,
        "deviation": statistics.stdev(values) if len(values) > 1 else None,
        "is_reached": goal.is_reached(mean, goal.must),
        "is_aim_reached": goal.is_reached(mean, goal.aim),
        "processor_seconds_per_run": statistics.mean(run["processor_seconds"] for run in runs),
        "runs": runs,
    }


def latest(name: str) -> tuple[Path, dict[str, Any]] | None:
    """The latest results file of a recipe, and its content."""
    found = sorted(RESULTS.glob(f"reproduce-{name}_*.json"), key=lambda path: path.stem.rpartition("_")[2])
    return (found[-1], json.loads(found[-1].read_text(encoding="utf-8"))) if found else None


def table() -> list[str]:
    """What the results files say, as a table in Markdown."""
    lines = [
        "| recipe | must | aim | reached | runs | processor seconds per run | file |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, goal in PUBLISHED.items():
        known = latest(name)
        if known is None:
            lines.append(f"| `{name}` | {goal.must:g} | {goal.aim:g} | not measured | | | |")
            continue
        path, result = known
        spread = "" if result["deviation"] is None else f" ± {result['deviation']:.3f}"
        lines.append(
            f"| `{name}` | {goal.must:g} | {goal.aim:g} | {result['value']:.4g}{spread} | {len(result['runs'])} "
            f"| {result['processor_seconds_per_run']:,.0f} | `{path.name}` |"
        )
    return lines


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *PUBLISHED], help="recipes; all if omitted")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of data and runs, kept to resume from")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="after which to stop; again to resume"
    )
    parser.add_argument("--table", action="store_true", help="only print the table of the results files")
    options = parser.parse_args()
    until = time.perf_counter() + 60 * options.minutes
    for name in [] if options.table else options.names or PUBLISHED:
        goal = PUBLISHED[name]
        if goal.missing:
            print(f"{name} is skipped: {goal.missing}.")
            continue
        result = reproduce(goal, options.out.absolute(), until)
        if result is None:
            raise SystemExit(
                f"{name} has stopped after {options.minutes:g} minutes. Give the command again to resume."
            )
        report(f"reproduce-{name}", result, options.save, packages=("torch", "sacrebleu"))
    print("\n".join(table()))


if __name__ == "__main__":
    main()
