"""What does an encoder know of the order of words (N7, N14)?

"They are rich, but are they happy?" asks about the second of two; "Are they rich, but they are happy" asks about the
first, in the same words. Two encoders, the same but for their positions, learn to say which is asked, from sentences of
twelve adjectives; every pair of the test is new. Draws docs/images/word-order.svg.
"""

import math
import tempfile
from pathlib import Path
from typing import Any

from drawing import Axis, draw
from harness import arguments, report

import clearhead
from clearhead.config.run import RunConfig
from clearhead.training.reporting.history import read_log
from clearhead.training.run.folder import RunFolder

ADJECTIVES = (
    "rich", "happy", "old", "young", "tired", "clever", "tall", "quiet", "brave", "kind", "busy", "lucky",
)  # fmt: skip
ASKED = "they are rich , but are they happy ?"
STEPS, EVERY = 40, 2


def sentences() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Sentences to learn from and to test, each with what it asks about: every fifth pair is tested."""
    pairs = [(one, two) for one in ADJECTIVES for two in ADJECTIVES if one != two]
    rows = [
        (number, text, label)
        for number, (one, two) in enumerate(pairs)
        for text, label in (
            (f"they are {one} , but are they {two} ?", "second"),
            (f"are they {one} , but they are {two} ?", "first"),
        )
    ]
    test = [(text, label) for number, text, label in rows if number % 5 == 0]
    return [(text, label) for number, text, label in rows if number % 5], test


def recipe(positions: str, folder: Path) -> RunConfig:
    """An encoder with these positions."""
    return RunConfig.model_validate(
        {
            "task": "classify",
            "data": {"train": str(folder / "train.tsv"), "validation": str(folder / "test.tsv")},
            "tokenizer": {"kind": "word"},
            "model": {"d": 32, "h": 2, "encoder_blocks": 2, "context": 16, "positions": positions},
            "training": {
                "steps": STEPS, "batch_tokens": 1024, "learning_rate": 3e-3, "samples": 0, "evaluate_every": EVERY,
                "log_every": EVERY,
            },
        }
    )  # fmt: skip


def main() -> None:
    options = arguments(__doc__).parse_args()
    train, test = sentences()
    assert (ASKED, "second") in test
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="clearhead-order-") as place:
        folder = Path(place)
        for name, rows in (("train", train), ("test", test)):
            lines = [f"{text}\t{label}\n" for text, label in rows]
            (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
        for positions in ("learned", "none"):
            model = clearhead.train(recipe(positions, folder), folder / positions)
            answers = model.classify([text for text, _ in test])
            right = sum(one.label == label for one, (_, label) in zip(answers, test, strict=True))
            history = read_log(RunFolder(folder / positions).log)
            found[positions] = {
                "accuracy": right / len(test),
                "asked": model.classify([ASKED])[0].probabilities,
                "loss": {record.step: record.validation_loss for record in history.evaluations},
            }
            print(
                f"positions = {positions:8s} {right} of {len(test)} right; {ASKED} {found[positions]['asked']}"
            )
    if options.save:
        names = {"learned": "with positions", "none": "without positions"}
        steps = Axis("steps", range(0, STEPS + 1, 10))
        losses = Axis("loss on new sentences", (0, 0.2, 0.4, round(math.log(2), 3), 0.8))
        curves = {names[key]: list(one["loss"].items()) for key, one in found.items()}
        draw("word-order", curves, steps, losses)
    result = {
        "seed": 1,
        "sentence": ASKED,
        "tested": len(test),
        "learned_from": len(train),
        "positions": found,
    }
    report("word_order", result, options.save)


if __name__ == "__main__":
    main()
