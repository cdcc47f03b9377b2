"""Does the demo keep its word? Its recipe is trained, and asked to translate sentences that it has never read.

Bars, on two cores: at most 4 minutes of training, and at least 97 % of 2,000 held-out sentences exactly right. The time
is absolute, since that is what somebody waits for, so it says something about a quiet machine only.
"""

import json
import tempfile
from pathlib import Path

from harness import arguments, report

import clearhead
from clearhead.training.loop.records import StepRecord
from clearhead.training.run.folder import QUALITY

RECIPE = "spanish-translator"
MOST_MINUTES, LEAST_RIGHT = 4.0, 0.97


def main() -> None:
    options = arguments(__doc__).parse_args()
    seconds: list[float] = []

    def note(record: object) -> None:
        if isinstance(record, StepRecord):
            seconds.append(record.seconds)

    with tempfile.TemporaryDirectory(prefix="clearhead-demo-") as folder:
        out = Path(folder, "run")
        clearhead.train(RECIPE, out, on_record=note)
        quality = json.loads((out / QUALITY).read_text(encoding="utf-8"))
    minutes = seconds[-1] / 60
    kept = minutes <= MOST_MINUTES and quality["exact_match"] >= LEAST_RIGHT
    print(
        f"{minutes:.2f} minutes of training, {quality['exact_match']:.2%} of {quality['examples']} exactly right"
    )
    print("kept" if kept else "FAILED")
    report("demo_quality", {"minutes": minutes, "quality": quality, "kept": kept}, options.save)
    raise SystemExit(not kept)


if __name__ == "__main__":
    main()
