"""How good are the recipes of the other families beside the transformer's, after the same number of tokens?

`clearhead compare` trains each shipped recipe of a task on the same data with the same budget of tokens, and measures
all on the same test data: bits per byte, BLEU or accuracy, with intervals and a paired test against the first. The
budgets are short, so that everything takes minutes: the numbers say how the families compare there, not what they can
reach.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import arguments, report

COMPARISONS: dict[str, tuple[list[str], int]] = {  # recipes, and the tokens that each is trained on
    "reviews": (["reviews-classifier", "reviews-lstm", "reviews-cnn"], 1_000_000),
    "python": (["python-lm", "python-lstm"], 300_000),
    "spanish": (["spanish-translator", "spanish-recurrent"], 500_000),
}
KEPT = (
    "name", "score", "value", "interval", "p_value", "parameters", "seconds", "tokens_per_second",
    "decoding_per_second", "decoding_unit", "quality",
)  # fmt: skip


def compare(recipes: list[str], tokens: int, out: Path) -> list[dict[str, Any]]:
    """One comparison; it continues if it was interrupted."""
    program = str(Path(sys.executable).with_name("clearhead"))
    command = [program, "compare", *recipes, "--tokens", str(tokens), "--out", str(out), "--json"]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return [{key: row[key] for key in KEPT} for row in found["runs"]]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "--out", type=Path, help="folder for the runs, to continue with; a temporary one if omitted"
    )
    parser.add_argument("--only", nargs="+", choices=list(COMPARISONS), default=list(COMPARISONS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="clearhead-families-") as place:
        for name in options.only:
            recipes, tokens = COMPARISONS[name]
            rows = compare(recipes, tokens, (options.out or Path(place)) / name)
            for row in rows:
                print(
                    f"{row['name']:20s} {row['score']} {row['value']:.3f}  {row['seconds']:.0f} s", flush=True
                )
            report(f"family_quality_{name}", {"seed": 1, "tokens": tokens, "runs": rows}, options.save)


if __name__ == "__main__":
    main()
