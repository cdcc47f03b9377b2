"""Contact sheets of the explorer: every view of some models on every screen, to look at after a change of the page.

    python -m tools.page_pictures MODELS OUT [--models spanish,dna] [--screens large,1024] [--views heads,next]

MODELS has a run for each of RECIPES; one that is missing is trained there, in about a minute. OUT gets a sheet for
each model, screen and theme, `spanish-large-dark.png`, and beside it the pictures that it is made of. A picture is the
whole page; a red line marks where the window ends.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw
from playwright.sync_api import Browser, sync_playwright

from clearhead.api import load
from clearhead.config.run import RunConfig
from clearhead.training.run.run import make_run
from tests.browser.conftest import CHROMIUM, VIEWS, Visitor, served

# The recipe of each, and its steps: so many on a busy machine too.
RECIPES = {
    "spanish": ("spanish-translator", 300),
    "python": ("python-lm", 150),
    "reviews": ("reviews-classifier", 150),
    "dna": ("dna-classifier", 300),
}
# Width and height in CSS pixels, size of the text, and pixels of the screen for each: 200 % is a zoom of the browser.
SCREENS: dict[str, tuple[int, int, float, int]] = {
    "1280": (1280, 720, 1, 1),
    "large": (1280, 720, 1.5, 1),
    "1024": (1024, 768, 1, 1),
    "800": (800, 900, 1, 1),
    "zoomed": (640, 360, 1, 2),
}
# What is selected beside the opening, so that a view shows all that it can.
SELECTED: dict[str, dict[str, Any]] = {
    "embeddings": {"swap": "0,1"},
    "generation": {"step": 3},
}
# A text and another one of as many tokens for Two texts, by model.
TWO_TEXTS = {
    "spanish": ("La chica lee un libro rojo.", "La chica come un libro rojo."),
    "python": ("def first(self): return self.first", "def other(self): return self.first"),
    "reviews": (
        "The music was great, but the plot was boring.",
        "The music was great, but the plot was great.",
    ),
    "dna": ("TTGACATTATGCTAGGCATCATTGACTATAATCGATTGC", "TTGACATTATGCTAGGCATCATTGACGGGAATCGATTGC"),
}
TALLEST, COLUMN, COLUMNS = 2600, 640, 3  # of a picture in a sheet, in pixels


def trained(folder: Path, recipe: str, steps: int) -> Path:
    """A run of a recipe; trained if it does not exist."""
    if not folder.exists():
        lengths = {"training.steps": str(steps), "training.minutes": "none", "training.epochs": "none"}
        list(make_run(RunConfig.read(recipe, lengths), folder).train())
    return folder


def pictures(
    browser: Browser, address: str, name: str, screen: str, theme: str, views: list[str]
) -> Iterator[tuple[str, bytes]]:
    """The whole page of every view."""
    width, height, size, ratio = SCREENS[screen]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        device_scale_factor=ratio,
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
    )
    context.add_init_script(f"localStorage.setItem('size', '{size}')")
    visitor = Visitor(context.new_page(), address)
    for view in views:
        two = dict(zip(("text", "other"), TWO_TEXTS[name], strict=True)) if view == "contrast" else {}
        visitor.go(view, **SELECTED.get(view, {}), **two)
        if visitor.page.locator("[data-panel=patching]").count():
            visitor.page.wait_for_selector("[data-panel=patching][data-done]")
        visitor.page.evaluate(
            "document.documentElement.style.scrollSnapType = 'none'"
        )  # the picture is taller
        yield view, visitor.page.screenshot(full_page=True)
    print("\n".join(visitor.faults), end="")
    context.close()


def sheet(files: list[Path], window: int) -> Image.Image:
    """Pictures side by side, each scaled to the same width, the shorter ones below each other."""
    columns: list[list[Image.Image]] = [[] for _ in range(COLUMNS)]
    for file in files:
        picture = Image.open(file).convert("RGB")
        end = round(window * COLUMN / picture.width)
        picture = picture.resize(
            (COLUMN, round(picture.height * COLUMN / picture.width)), Image.Resampling.LANCZOS
        )
        ImageDraw.Draw(picture).line((0, end, COLUMN, end), fill="red")
        shortest = min(columns, key=lambda column: sum(one.height for one in column))
        shortest.append(picture.crop((0, 0, COLUMN, min(TALLEST, picture.height))))
    height = max(sum(one.height + 12 for one in column) for column in columns)
    whole = Image.new("RGB", (COLUMNS * (COLUMN + 12), height), "#777777")
    for at, column in enumerate(columns):
        top = 0
        for picture in column:
            whole.paste(picture, (at * (COLUMN + 12), top))
            top += picture.height + 12
    return whole


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", type=Path)
    parser.add_argument("out", type=Path)
    for key, known in (
        ("models", RECIPES),
        ("screens", SCREENS),
        ("themes", ["light", "dark"]),
        ("views", VIEWS),
    ):
        parser.add_argument(f"--{key}", dest=f"only_{key}", default=",".join(known))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name in given.only_models.split(","):
            model = load(trained(given.models / name, *RECIPES[name]))
            with served(model, name) as address:
                for screen in given.only_screens.split(","):
                    for theme in given.only_themes.split(","):
                        files = []
                        for view, data in pictures(
                            browser, address, name, screen, theme, given.only_views.split(",")
                        ):
                            files.append(given.out / f"{name}-{screen}-{theme}-{view}.png")
                            files[-1].write_bytes(data)
                        _, height, _, ratio = SCREENS[screen]
                        sheet(files, height * ratio).save(given.out / f"{name}-{screen}-{theme}.png")
                        print(given.out / f"{name}-{screen}-{theme}.png")
        browser.close()


if __name__ == "__main__":
    main()
