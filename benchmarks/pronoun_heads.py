"""Which head knows who *it* is? A translator of `builtin:pronouns`, its weights, and patching (N20, N46).

Three models with different seeds learn to translate 8,000 sentences such as "The animal didn't cross the street because
it was too tired." Two things are asked of each: how much weight the heads of the encoder give from *it* to the noun
that it is; and which head, given at one token what it had for "tired", turns the answer for "wide" from *sie* to *es*.
Draws docs/images/pronoun-heads.svg of the first seed.
"""

import tempfile
import time
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from drawing import draw_map
from harness import arguments, report
from patched_heads import Contrast, is_known, mean_scores, strongest

import clearhead
from clearhead.config.run import RunConfig
from clearhead.corpora.pronouns import ANIMALS, CORPUS, IT, OF_ANIMALS, OF_PLACES, PLACES, VERBS, sentence
from clearhead.examples import Pair
from clearhead.inspection.heads.labels import label_weights, labelled_texts

RECIPE: dict[str, Any] = {
    "task": "translate",
    "data": {"train": "builtin:pronouns", "count": 8_000},
    "tokenizer": {"kind": "word", "shared": False},
    "model": {
        "shape": "encoder-decoder", "d": 64, "h": 4, "encoder_blocks": 2, "decoder_blocks": 1, "context": 32,
    },
    "training": {"steps": 200, "batch_tokens": 2048, "learning_rate": 4e-3, "optimizer": "adamw", "samples": 0},
}  # fmt: skip
SHOWN = 12  # heads in the picture


def contrasts(count: int) -> list[Contrast]:
    """The same sentence with a reason of the animal and with one of the place, whose genders differ."""
    rng, found = Random(1), list[Contrast]()
    while len(found) < count:
        animal, verb, place = rng.choice(ANIMALS), rng.choice(VERBS), rng.choice(PLACES)
        one, other = (sentence(animal, verb, place, rng.choice(some)) for some in (OF_ANIMALS, OF_PLACES))
        if animal[2] != place[2]:
            found.append(Contrast(one.source, other.source, IT[animal[2]], IT[place[2]], "Weil"))
    return found


def measure(model: clearhead.Model, tests: int) -> dict[str, Any]:
    """How often it is right, where *it* looks, and what patching says."""
    rows = [row for row in islice(CORPUS.examples("test"), tests) if isinstance(row, Pair)]
    written = model.translate([row.source for row in rows], beam=1)
    right = sum(one == row.target for one, row in zip(written, rows, strict=True)) / len(rows)
    assert CORPUS.word_labels is not None
    found = label_weights(model.module, labelled_texts(model.bundle, rows, CORPUS.word_labels))
    pairs = [one for one in contrasts(60) if is_known(model, one)]
    places, scores = mean_scores(model, pairs)
    return {
        "exact_match": right,
        "known": len(pairs),
        "weights": {
            name: {head: value for head, value in by_head.items() if head.startswith("encoder.")}
            for name, by_head in found.items()
        },
        "strongest": strongest(places, scores, 5),
        "places": places,
        "scores": scores,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--keep", type=Path, help="keep the runs in this folder")
    options = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory(prefix="clearhead-pronouns-") as place:
        folder = options.keep or Path(place)
        for seed in options.seeds:
            start = time.perf_counter()
            training = RECIPE["training"] | {"seed": seed}
            config = RunConfig.model_validate(RECIPE | {"training": training})
            out = folder / f"seed-{seed}"
            model = clearhead.load(out) if out.exists() else clearhead.train(config, out)
            results[seed] = measure(model, 400) | {"seconds": time.perf_counter() - start}
            one = results[seed]
            head, weight = max(one["weights"]["coreference"].items(), key=lambda item: item[1])
            other = one["weights"]["other noun"][head]
            print(f"seed {seed}: {one['exact_match']:.1%} exact, {one['seconds']:.0f} s; from it to its noun {head} "
                  f"gives {weight:.2f}, to the other {other:.2f}", flush=True)  # fmt: skip
            for name, at, score in one["strongest"]:
                print(f"    {name} at token {at}: {score:.2f}")
    if options.save:
        first = results[options.seeds[0]]
        best = [name for name, _, _ in strongest(first["places"], first["scores"], SHOWN)]
        shown = [name for name in first["places"] if name in best]
        source = "The animal didn't cross the street because it was too tired."
        tokens = list(model.trace(source).source_tokens)
        tokens[1] += " / Weil"  # which the decoder reads in this place
        by_name = dict(zip(first["places"], first["scores"], strict=True))
        draw_map("pronoun-heads", shown, tokens, [by_name[name] for name in shown])
    report("pronoun_heads", {"recipe": RECIPE, "results": results}, options.save)


if __name__ == "__main__":
    main()
