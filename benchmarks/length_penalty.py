"""Which length penalty suits a translator that `reproduce.py` has trained? BLEU of its validation data with each.

    python benchmarks/length_penalty.py multi30k-en-de --save

The best goes into `[decoding]` of the recipe, before the test data are read. A recipe without a run is skipped.
"""

import time
from contextlib import chdir
from pathlib import Path
from typing import Any

from harness import arguments, report
from published import PUBLISHED, Published
from reproduce import OUT

from clearhead.config.run import RunConfig
from clearhead.model_folder import load
from clearhead.text.sources.read import read_split
from clearhead.training.evaluation.evaluate import Evaluation
from clearhead.training.run.folder import RunFolder

PENALTIES = (0.6, 1.0, 1.4, 1.8)
TRANSLATORS = [name for name, goal in PUBLISHED.items() if goal.bleu]


def measure(goal: Published, model: Path, penalties: list[float]) -> list[dict[str, Any]]:
    """The scores of the validation data with each length penalty."""
    config, bundle, results = RunConfig.read(goal.name, {}), load(model), []
    for penalty in penalties:
        reader = read_split(config.data, config.kind, "validation")
        assert reader is not None
        decoding, started = config.decoding.replace(length_penalty=penalty), time.process_time()
        found = Evaluation(bundle).run(reader, decoding, goal.bleu, goal.lowercase)
        seconds = time.process_time() - started
        results.append({"length_penalty": penalty, "processor_seconds": seconds, "quality": found})
        print(f"{penalty:g}: {found['bleu']:.2f} BLEU in {seconds:.0f} s of the processor", flush=True)
    return results


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *TRANSLATORS], help="recipes; all if omitted")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of data and runs, as of reproduce.py")
    parser.add_argument("--penalties", type=float, nargs="+", default=PENALTIES)
    options = parser.parse_args()
    out = options.out.absolute()
    for name in options.names or TRANSLATORS:
        model = RunFolder(out / f"{name}-1").best
        if not model.exists():
            print(f"{name} is skipped: {model} does not exist.")
            continue
        with chdir(out / "data"):  # against which the shipped recipes resolve their files
            results = measure(PUBLISHED[name], model, options.penalties)
        best = max(results, key=lambda one: one["quality"]["bleu"])["length_penalty"]
        result = {"best": best, "results": results}
        report(f"length_penalty-{name}", result, options.save, ("torch", "sacrebleu"))


if __name__ == "__main__":
    main()
