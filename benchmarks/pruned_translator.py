"""How many heads does the demo's translator need? Exact matches after pruning, before and after a short fine-tuning.

The model is one that the recipe `spanish-translator` made (--model RUN), or is trained first. Heads are ranked by the
loss without them, measured anew after each removal, on validation data. Fine-tuning is tried at several shares of the
recipe's rates; the one with the least loss on other validation data is taken. Exact matches are counted on test data,
which chose nothing. Bar: at least 40 % of the heads removed with less than 1 point of exact matches lost.
"""

from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness import arguments, report

from clearhead import api
from clearhead.cli.prune import tuned
from clearhead.config.run import RunConfig
from clearhead.inspection.heads.choose import prune_to, pruning_curve
from clearhead.inspection.heads.importance import head_names, loss_importance, mean_loss
from clearhead.model_folder import Bundle, load
from clearhead.text.sources.read import read_split
from clearhead.training.evaluation.evaluate import Evaluation
from clearhead.training.evaluation.tasks import TaskCollector

POINTS = 1.0


def exact(bundle: Bundle, config: RunConfig, count: int) -> float:
    """The share of test sentences that come out exactly right."""
    reader = read_split(config.data, "pair", "test")
    assert reader is not None
    return float(Evaluation(bundle).run(islice(reader, count), config.decoding)["exact_match"])


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--keep", type=int, default=14, help="of 24 heads")
    parser.add_argument("--steps", type=int, default=400, help="of fine-tuning")
    parser.add_argument(
        "--rates", type=float, nargs="+", default=[0.25, 0.5, 1.0], help="shares of the recipe's rates to try"
    )
    parser.add_argument("--sentences", type=int, default=1000)
    options = parser.parse_args()
    config = RunConfig.read("spanish-translator")
    with TemporaryDirectory() as place:
        if options.model is None:
            api.train(config, Path(place) / "run")
        bundle = load(options.model or Path(place) / "run")
        validation = read_split(config.data, "pair", "validation")
        assert validation is not None
        examples = iter(validation)
        tasks = TaskCollector(bundle).collect(islice(examples, 256))
        others = TaskCollector(bundle).collect(islice(examples, 256))  # choose the rate
        heads = len(head_names(bundle.config))  # type: ignore[arg-type]
        curve = pruning_curve(bundle.module, tasks, loss_importance(bundle.module, tasks), points=7)
        module = prune_to(bundle.module, tasks, options.keep, rounds=heads - options.keep, by="loss")
        smaller = replace(bundle, module=module)
        tried = {
            rate: tuned(smaller, config, options.steps, Path(place) / f"tuned-{rate}", rate)
            for rate in options.rates
        }
        losses = {rate: mean_loss(one.module, others) for rate, one in tried.items()}
        rate = min(losses, key=losses.__getitem__)
        after = tried[rate]
        found: dict[str, Any] = {
            name: exact(model, config, options.sentences)
            for name, model in (("whole", bundle), ("pruned", smaller), ("fine-tuned", after))
        }
    lost = 100 * (found["whole"] - found["fine-tuned"])
    keeps = lost < POINTS and options.keep <= 0.6 * heads
    for name, share in found.items():
        print(f"{name:12} {share:.1%} of {options.sentences} sentences exactly right")
    print(f"{heads - options.keep} of {heads} heads removed; {lost:.2f} points lost; bar {POINTS}: "
          f"{'kept' if keeps else 'FAILED'}")  # fmt: skip
    facts = {
        "exact_match": found,
        "heads": [heads, options.keep],
        "steps": options.steps,
        "points_lost": lost,
        "rate": rate,
        "validation_losses": {str(one): loss for one, loss in losses.items()},
    }
    points = [[one.order, one.kept, one.loss] for one in curve]
    report(
        "pruned_translator", facts | {"curve": points, "bar": POINTS, "kept": keeps, "seed": 1}, options.save
    )
    raise SystemExit(not keeps)


if __name__ == "__main__":
    main()
