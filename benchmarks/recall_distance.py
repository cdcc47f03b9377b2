"""How many words back can each family recall one (N42, N43, N44)?

"Anna likes plums. The old dog slept. … Anna likes": which fruit? Each model reads the same texts of `builtin:recall`
with one pair: first with up to 8 words after the fruit, then, from that model, with up to 128. Texts are drawn so that
each doubling of the distance has as many tokens. What precedes the pair is dropped where the context has no room for
it, so at 128 words the pair is near the first token. All models have width 64 and take the same steps of AdamW with the
gradient clipped at 1; recurrent matrices start orthogonal and forget gates open, as always here. Four name the fruit
from the last token's vector; the LSTM with attention writes it, as a translation of the text, because in 2014 attention
belonged to a decoder. Draws docs/images/recall-distance.svg.
"""

import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from drawing import Axis, draw
from harness import arguments, report

import clearhead
from clearhead.config.run import RunConfig
from clearhead.corpora import CORPORA
from clearhead.corpora.recall import draw as draw_text
from clearhead.examples import Labelled

NEAREST = 4  # words
STAGES = {
    8: (300, 2e-3),
    128: (500, 1e-3),
}  # the farthest distance of a stage, its steps and its learning rate
DISTANCES = (4, 8, 16, 32, 64, 96, 128)
CONTEXT = 192  # tokens
ROOM = CONTEXT - 4  # tokens of a text, without those of its frame
TEXTS, TESTS = 24_000, 200  # to learn from in each stage; to test at each distance
READER: dict[str, Any] = {"shape": "decoder", "d": 64, "context": CONTEXT, "pool": "last"}
MODELS: dict[str, dict[str, Any]] = {
    "transformer": READER | {"h": 4, "decoder_blocks": 2},
    "LSTM with attention": {
        "family": "recurrent", "shape": "encoder-decoder", "d": 64, "context": CONTEXT, "bidirectional": False,
        "embedding_scale": 8.0,
    },
    "LSTM": READER | {"family": "recurrent"},
    "RNN": READER | {"family": "recurrent", "cell": "rnn"},
    "CNN": READER | {"family": "convolutional", "decoder_blocks": 5},
}  # fmt: skip


def tokens_of(text: str) -> int:
    """Words and full stops."""
    return len(text.split()) + text.count(".")


def fitted(example: Labelled) -> Labelled:
    """A text that fits into the context: without as many of its first sentences as it takes."""
    text = example.text
    while tokens_of(text) > ROOM:
        text = text.partition(". ")[2]
    assert f"likes {example.label}." in text
    return Labelled(text, example.label)


def write_texts(place: Path, farthest: int) -> None:
    """Writes the texts of a stage; none of them is one of the test."""
    rng, lines = Random(farthest), list[str]()
    while len(lines) < TEXTS:
        share = rng.random()
        distance = round(1 / (share / farthest + (1 - share) / NEAREST))
        example = draw_text(rng, distance, 1)
        if CORPORA["recall"].split_of(example.text) == "train":
            lines.append(f"{fitted(example).text}\t{example.label}\n")
    place.write_text("".join(lines), encoding="utf-8")


def recipe(name: str, data: Path, steps: int, rate: float, before: Path | None) -> RunConfig:
    """A stage of the training of a model, from the one before."""
    task = "translate" if MODELS[name]["shape"] == "encoder-decoder" else "classify"
    return RunConfig.model_validate(
        {
            "task": task,
            "data": {"train": str(data), "validation": 0.0},
            "tokenizer": {"kind": "word"},
            "model": MODELS[name],
            "training": {
                "steps": steps,
                "batch_tokens": 2048,
                "optimizer": "adamw",
                "learning_rate": rate,
                "schedule": "linear",
                "final_rate": 0.1,
                "samples": 0,
                "init_from": None if before is None else str(before),
            },
        }
    )


def train(name: str, folder: Path) -> clearhead.Model:
    """A model that has passed all stages."""
    before = None
    for farthest, (steps, rate) in STAGES.items():
        place = folder / f"{name}-{farthest}"
        model = clearhead.train(recipe(name, folder / f"{farthest}.tsv", steps, rate, before), place)
        before = place
    return model


def accuracy(model: clearhead.Model, distance: int) -> float:
    """The share of fruits that are recalled at a distance."""
    options = {"shortest": distance, "longest": distance, "pairs": 1}
    rows = [
        fitted(row)
        for row in CORPORA["recall"].examples("test", count=TESTS, **options)
        if isinstance(row, Labelled)
    ]
    texts = [row.text for row in rows]
    found = (
        model.translate(texts, beam=1, max_tokens=4)
        if model.translates
        else [one.label for one in model.classify(texts)]
    )
    return sum(one == row.label for one, row in zip(found, rows, strict=True)) / len(rows)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    options = parser.parse_args()
    print(f"{'':20s}" + "".join(f"{distance:7d}" for distance in DISTANCES) + " words")
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="clearhead-recall-") as place:
        for farthest in STAGES:
            write_texts(Path(place, f"{farthest}.tsv"), farthest)
        for name in options.models:
            start = time.perf_counter()
            model = train(name, Path(place))
            seconds = time.perf_counter() - start
            by_distance = {distance: accuracy(model, distance) for distance in DISTANCES}
            found[name] = {
                "accuracy": by_distance,
                "parameters": sum(weight.numel() for weight in model.module.parameters()),
                "seconds": seconds,
                "settings": MODELS[name],
            }
            print(
                f"{name:20s}"
                + "".join(f"{share:7.3f}" for share in by_distance.values())
                + f"  {seconds:.0f} s",
                flush=True,
            )
    result = {
        "stages": STAGES, "texts": TEXTS, "tests": TESTS, "seed": 1, "guess": 1 / 16,
        "models": found,
    }  # fmt: skip
    if options.save:
        shares = Axis("fruits recalled", (0, 0.25, 0.5, 0.75, 1), show="{:.0%}".format)
        words = Axis("words after the one to recall", DISTANCES, is_logarithmic=True)
        draw(
            "recall-distance",
            {name: list(one["accuracy"].items()) for name, one in found.items()},
            words,
            shares,
        )
    report("recall_distance", result, options.save)


if __name__ == "__main__":
    main()
