"""Do two steps of look-up need two layers (N31)? The hops recipes are trained, and asked in new stories.

`hops-two-layers` and `hops-one-layer` differ in the number of blocks alone. After training each writes the next word
of held-out stories that end "… searched the kitchen and found the"; whoever knows only which objects were named is
right in one of three cases.
"""

import tempfile
from pathlib import Path
from typing import Any

from harness import arguments, report

import clearhead
from clearhead.corpora import CORPORA
from clearhead.examples import Labelled

RECIPES = {"two layers": "hops-two-layers", "one layer": "hops-one-layer"}
STORIES = 1000


def accuracy(model: clearhead.Model) -> float:
    """The share of held-out stories whose next word is right."""
    stories = [e for e in CORPORA["hops"].examples("test", count=STORIES) if isinstance(e, Labelled)]
    written = model.generate([story.text for story in stories], max_tokens=1, temperature=0.0)
    return sum(w.text.strip() == story.label for w, story in zip(written, stories, strict=True)) / len(
        stories
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "--models", nargs=2, metavar="FOLDER", help="model folders that are trained already: two, one"
    )
    options = parser.parse_args()
    result: dict[str, Any] = {"stories": STORIES, "guess": 1 / 3}
    with tempfile.TemporaryDirectory(prefix="clearhead-hops-") as folder:
        for number, (name, recipe) in enumerate(RECIPES.items()):
            trained = options.models and clearhead.load(options.models[number])
            result[name] = accuracy(trained or clearhead.train(recipe, Path(folder, recipe)))
            print(f"{name:12s} {result[name]:.3f}", flush=True)
    report("hops_layers", result, options.save)


if __name__ == "__main__":
    main()
