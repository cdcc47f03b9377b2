"""How soon does a character model of Shakespeare reach a validation loss of 1.88? Our recipe beside the reference.

Both recipes ship with the package and are trained in turn on the first 90 % of the plays; the loss is exact, over
all of the last 10 % in windows of the recipe's own context that do not overlap. The time is that of the steps. Bars:
`shakespeare-reference` ends within 0.02 of 1.90, and `shakespeare-char-quick` reaches 1.88 in at most 1/4 of its time.
"""

import statistics
import tempfile
from pathlib import Path
from typing import Any

from harness import SHARED_DATA, arguments, report, write_plays

from clearhead.config.run import RunConfig
from clearhead.training.loop.records import StepRecord
from clearhead.training.loop.trainer import Trainer
from clearhead.training.run.run import make_run

REFERENCE, QUICK = "shakespeare-reference", "shakespeare-char-quick"
TARGET, EXPECTED, WITHIN, SHARE = 1.88, 1.90, 0.02, 1 / 4


def train(recipe: str, files: dict[str, str]) -> dict[str, Any]:
    """One complete training: seconds and loss at every evaluation of all of the validation text."""
    settings = files | {"training.evaluate_tokens": "1000000", "training.samples": "0"}
    run = make_run(RunConfig.read(recipe, settings), Path(files["data.train"]).parent / recipe)
    trainer = Trainer(run.config, run.data, run.model, run.plan.steps)
    curve, seconds = [], 0.0
    for record in trainer.train():
        if isinstance(record, StepRecord):
            seconds = record.seconds
        else:
            curve.append({"step": record.step, "seconds": seconds, "loss": record.validation_loss,
                          "predictions": record.predictions})  # fmt: skip
    return {"loss": curve[-1]["loss"], "seconds": seconds, "curve": curve, "parameters": run.plan.parameters}


def reached(curve: list[dict[str, float]]) -> float | None:
    """The seconds after which the loss is no more than the target; None if it never is."""
    return next((point["seconds"] for point in curve if point["loss"] <= TARGET), None)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not SHARED_DATA.exists():
        raise SystemExit(f"{SHARED_DATA} does not exist; this benchmark needs the plays.")
    rounds: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="clearhead-shakespeare-") as folder:
        paths = write_plays(Path(folder), "train", "validation")
        files = dict(zip(("data.train", "data.validation"), paths, strict=True))
        for number in range(options.rounds):
            round: dict[str, Any] = {name: train(name, files) for name in (REFERENCE, QUICK)}
            round["seconds_to_target"] = reached(round[QUICK]["curve"])
            rounds.append(round)
            slow, quick = round[REFERENCE], round[QUICK]
            print(f"round {number + 1}: reference {slow['loss']:.4f} in {slow['seconds']:.1f} s; "
                  f"quick {quick['loss']:.4f} in {quick['seconds']:.1f} s, {TARGET} after "
                  f"{round['seconds_to_target'] or float('nan'):.1f} s", flush=True)  # fmt: skip
    shares = [(round["seconds_to_target"] or float("inf")) / round[REFERENCE]["seconds"] for round in rounds]
    reference = statistics.median(round[REFERENCE]["loss"] for round in rounds)
    result = {
        "share_of_the_reference_time": statistics.median(shares),
        "smallest": min(shares),
        "largest": max(shares),
        "bar": SHARE,
        "reference_loss": reference,
        "rounds": rounds,
        "kept": statistics.median(shares) <= SHARE and abs(reference - EXPECTED) <= WITHIN,
    }
    spread = f"({min(shares):.3f} to {max(shares):.3f})"
    print(f"{TARGET} in {statistics.median(shares):.3f} of the reference's time {spread}, bar {SHARE}")
    report("shakespeare_speed", result, options.save)
    raise SystemExit(not result["kept"])


if __name__ == "__main__":
    main()
