"""How soon does a character model of Shakespeare reach a validation loss of 1.88, and 1.65? Beside a reference.

Two recipes that ship with the package are trained in turn on the first 90 % of the plays: `shakespeare-reference`, and
`shakespeare-char-quick` as it is and for more steps. The loss is exact, over all of the last 10 % in windows of the
recipe's own context that do not overlap. The time is that of the steps, in seconds of the processor. Before that,
steps of the reference take turns with those of a bare loop of PyTorch, of the same model. Bars: the reference ends
within 0.02 of 1.90, and takes at most 1.05 of the bare loop's time; quick reaches 1.88 in at most 0.2 of the
reference's time, and 1.65 in at most all of it.
What is trained is kept in --out, and the command continues there.
"""

import json
import math
import statistics
import time
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from harness import arguments, in_turn, is_within, plays_in, ratio, report
from train_speed import BareModel, bare_step, count, repeat

from clearhead.config.run import RunConfig
from clearhead.data.batching.batches import Position
from clearhead.training.loop.records import StepRecord
from clearhead.training.loop.trainer import Trainer
from clearhead.training.run.run import make_run

REFERENCE, QUICK = "shakespeare-reference", "shakespeare-char-quick"
LONG = "quick, for more steps"
EXPECTED, WITHIN = 1.90, 0.02  # of the reference
BARE, TURNS, TURN = 1.05, 9, 30  # the share of the bare loop's time, turns, and steps of each
TARGETS = {QUICK: (1.88, 0.2), LONG: (1.65, 1.0)}  # a loss, and the share of the reference's time
# The loss is needed at the end of the reference, and around the targets of the others.
TRAININGS: dict[str, tuple[str, dict[str, str]]] = {
    REFERENCE: (REFERENCE, {"training.evaluate_every": "1000"}),
    QUICK: (QUICK, {}),
    LONG: (QUICK, {"training.steps": "750", "training.evaluate_every": "150"}),
}


def train(name: str, files: dict[str, str]) -> dict[str, Any]:
    """One complete training: seconds and loss at every evaluation of all of the validation text."""
    recipe, changes = TRAININGS[name]
    settings = files | {"training.evaluate_tokens": "1000000", "training.samples": "0"} | changes
    run = make_run(RunConfig.read(recipe, settings), Path(files["data.train"]).parent / recipe)
    trainer = Trainer(run.config, run.data, run.model, run.plan.steps)
    curve, wall, seconds, started = [], 0.0, 0.0, time.process_time()
    for record in trainer.train():
        if isinstance(record, StepRecord):
            wall, seconds = record.seconds, seconds + time.process_time() - started
        else:
            curve.append({"step": record.step, "seconds": seconds, "wall_seconds": wall,
                          "loss": record.validation_loss, "predictions": record.predictions})  # fmt: skip
        started = time.process_time()
    return {"loss": curve[-1]["loss"], "seconds": seconds, "wall_seconds": wall, "curve": curve,
            "steps": run.plan.steps, "parameters": run.plan.parameters}  # fmt: skip


def against_bare(files: dict[str, str]) -> dict[str, Any]:
    """The time of the reference's steps beside those of a bare loop, on the clock."""
    run = make_run(RunConfig.read(REFERENCE, files), Path(files["data.train"]).parent / REFERENCE)
    trainer = Trainer(run.config, run.data, run.model, run.plan.steps)
    batch = trainer.batches.at(Position())
    model, n = run.model.config, batch.inputs.shape[1]
    bare = BareModel(model.d, 4, model.decoder_blocks, n, model.vocabulary, bias=False, is_tied=True)
    step = bare_step(bare, batch, "float32")
    takes = {"ours": lambda: trainer.update(batch), "bare": step}
    seconds = in_turn({name: partial(repeat, take, TURN) for name, take in takes.items()}, TURNS)
    found = ratio(seconds["ours"], seconds["bare"])
    weights = {"ours": count(trainer.model), "bare": count(bare)}
    return found | {"weights": weights, "bar": BARE, "kept": is_within(found, BARE)}


def reached(curve: list[dict[str, float]], target: float) -> float:
    """The seconds after which the loss is no more than the target; infinite if it never is."""
    return next((point["seconds"] for point in curve if point["loss"] <= target), math.inf)


def shares_of(rounds: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """For each target: the time to it as a share of the reference's time, over the rounds."""
    found: dict[str, dict[str, Any]] = {}
    for name, (target, bar) in TARGETS.items():
        shares = [reached(round[name]["curve"], target) / round[REFERENCE]["seconds"] for round in rounds]
        median = statistics.median(shares)
        found[f"{target}"] = {
            "share_of_the_reference_time": median if math.isfinite(median) else None,
            "smallest": min(shares) if math.isfinite(min(shares)) else None,
            "largest": max(shares) if math.isfinite(max(shares)) else None,
            "bar": bar,
            "kept": median <= bar,
        }
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="after which no further training starts"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/shakespeare-speed"), help="where to continue")
    options = parser.parse_args()
    files = plays_in(options.out)
    kept = options.out / "rounds.json"
    rounds: list[dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else []
    rounds += [{} for _ in range(options.rounds - len(rounds))]
    until = time.perf_counter() + 60 * options.minutes
    bare = against_bare(files)
    print(
        f"a step of the reference takes {bare['median_ratio']:.2f} of the time of a bare loop's", flush=True
    )
    for number, name in product(range(options.rounds), TRAININGS):
        if name in rounds[number]:
            continue
        if time.perf_counter() > until:
            raise SystemExit(
                f"Stopped after {options.minutes:g} minutes. Give the command again to continue."
            )
        found = rounds[number][name] = train(name, files)
        kept.write_text(json.dumps(rounds))
        print(f"round {number + 1}, {name}: {found['loss']:.4f} in {found['seconds']:.1f} s", flush=True)
    targets = shares_of(rounds)
    reference = statistics.median(round[REFERENCE]["loss"] for round in rounds)
    for target, found in targets.items():
        print(
            f"{target} in {found['share_of_the_reference_time']} of the reference's time, bar {found['bar']}"
        )
    kept = all(found["kept"] for found in (*targets.values(), bare)) and abs(reference - EXPECTED) <= WITHIN
    result = {"targets": targets, "reference_loss": reference, "against_bare": bare, "rounds": rounds}
    result["kept"] = kept
    report("shakespeare_speed", result, options.save)
    raise SystemExit(not kept)


if __name__ == "__main__":
    main()
