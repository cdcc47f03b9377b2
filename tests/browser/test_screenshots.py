"""A picture of every view, kept where pytest keeps its files, or in docs/images when asked for.

    CLEARHEAD_SCREENSHOTS=FOLDER pytest tests/browser/test_screenshots.py

makes those of the documentation anew, from the models in FOLDER, `spanish` and `reviews`, as the shipped recipes
train them, and from the package's translator.
"""

import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from clearhead.api import Model, load
from tests.browser.conftest import Visitor
from tests.browser.test_class import enlarge
from tests.browser.test_numbers import MODELS
from tests.pages import ROOT

pytestmark = pytest.mark.prove
FOLDER = os.environ.get("CLEARHEAD_SCREENSHOTS")
WIDTH = 1280
# "a" looks at "rojo", since "red" comes next.
SPANISH = {"text": "La chica lee un libro rojo.", "at": "decoder.1.cross", "head": 3, "q": 4, "k": 6}
REVIEW = {"text": "The music was great, but the plot was boring."}

MUTED = [f"decoder.1.cross.{head}" for head in range(4 if FOLDER else 3)]  # all of them
SHAPES = {"spanish": "encoder-decoder", "reviews": "encoder", "translator": "encoder-decoder"}
TIRED = "The chicken didn't cross the road because it was too tired."
# Of models that know other words.
PLAIN = {"text": "the cat sat on the green table", "other": "the dog sat on the green table"}

# name: model, view, selection; the large one is the last of its model, as the text stays large
PICTURES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "overview": ("spanish", "attention", SPANISH | {"cell": "weights:4:6"}),
    "explorer-stages": ("spanish", "attention", SPANISH | {"at": "decoder.0.self", "k": 2, "stage": "all"}),
    "explorer-attention": ("spanish", "attention", SPANISH | {"cell": "weights:4:6"}),
    "explorer-map": ("spanish", "map", SPANISH),
    "explorer-heads": ("spanish", "heads", SPANISH | {"mute": ",".join(MUTED)}),
    "explorer-translation": ("spanish", "translation", SPANISH),
    "explorer-next": ("spanish", "next", SPANISH | {"temperature": 2.5, "top_k": 12}),
    "explorer-generation": ("spanish", "generation", SPANISH | {"step": 4}),
    "explorer-projector": ("spanish", "attention", SPANISH),
    "explorer-classifier": ("reviews", "classifier", REVIEW),
    "explorer-two-texts": (
        "translator",
        "contrast",
        {"text": TIRED, "other": TIRED.replace("tired", "wide")},
    ),
}
SCREENS = {
    "overview": 1000,
    "explorer-projector": 720,
    "explorer-heads": 900,
}  # those that show the window, not the page


@pytest.mark.parametrize("folder", list(SHAPES))
def test_pictures_are_taken(visit: Callable[..., Visitor], folder: str, tmp_path: Path) -> None:
    place = "builtin:translator" if folder == "translator" else Path(FOLDER or "") / folder
    model: Model = load(place) if FOLDER else MODELS[SHAPES[folder]]()
    visitor = visit(model, folder, alone=True, color_scheme="light")
    for name, (of, view, state) in PICTURES.items():
        if of != folder:
            continue
        visitor.page.set_viewport_size({"width": WIDTH, "height": SCREENS.get(name, 900)})
        visitor.go(view, **state if FOLDER else state | PLAIN)
        if view == "contrast":
            visitor.page.wait_for_selector("[data-panel=patching][data-done=true]")
        if name == "explorer-projector":
            enlarge(visitor)
        assert visitor.page.locator("main .panel").count() > 0
        assert visitor.page.locator(".error").count() == 0
        picture = visitor.page.screenshot(full_page=name not in SCREENS)
        keep(picture, (ROOT / "docs" / "images" if FOLDER else tmp_path) / f"{name}.png")


def keep(data: bytes, path: Path) -> None:
    """A palette, and no more of a long page than is looked at: a picture of some tens of kilobytes."""
    with Image.open(BytesIO(data)) as picture:
        cut = picture.convert("RGB").crop((0, 0, WIDTH, min(picture.height, 1500)))
        cut.quantize(256, Image.Quantize.MEDIANCUT, kmeans=2 if FOLDER else 0, dither=Image.Dither.NONE).save(
            path, optimize=bool(FOLDER)
        )
    assert path.stat().st_size < 200_000
