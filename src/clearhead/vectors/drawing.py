"""A map of words: vectors enter; a picture on their first two principal components leaves, as SVG or as one HTML page.

Words that are given as a pair, king:queen, are joined by a line: where differences carry meaning, lines of like pairs
are parallel (N5).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch

from clearhead.errors import ConfigError, InputError
from clearhead.inspection.markup import Markup, joined, tag
from clearhead.storage import write_atomically
from clearhead.vectors.words import WordVectors

WIDTH, HEIGHT, MARGIN = 880, 620, 40
LETTER, LINE = 7.2, 15  # about the size of a letter in the picture
SHARES_LEFT = {"start": 0.0, "middle": 0.5, "end": 1.0}  # of a label, by its anchor
MOST = 500  # words
FREQUENT = 60  # words that are drawn if none are given
STYLE = """
.map { font: 13px system-ui, sans-serif; background: #fff; color: #1b1f24; }
.map text { fill: currentColor; } .map circle { fill: #2f6fed; } .map line { stroke: #2f6fed; stroke-opacity: .35; }
@media (prefers-color-scheme: dark) { .map { background: #14171b; color: #e6e8eb; } }
"""
PAGE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 920px; padding: 0 1rem; color: #1b1f24; }
svg { width: 100%; height: auto; }
@media (prefers-color-scheme: dark) { body { background: #14171b; color: #e6e8eb; } }
"""


@dataclass(frozen=True)
class WordMap:
    """Words at their places, the pairs to join, and the share of the variance along each axis."""

    words: list[str]
    points: list[tuple[float, float]]
    pairs: list[tuple[int, int]]
    shares: tuple[float, float]


def map_words(vectors: WordVectors, wanted: Sequence[str] = ()) -> WordMap:
    """The map of some words or pairs of words, or of the most frequent ones."""
    names = [part.split(":") if part not in vectors.rows else [part] for part in wanted]
    names = names or [[word] for word in vectors.words[:FREQUENT]]
    words = list(dict.fromkeys(word for name in names for word in name))
    if not 3 <= len(words) <= MOST:
        raise InputError(f"{len(words)} words are given, but a map needs 3 to {MOST}.\nGive other words.")
    X = vectors.E[[vectors.row(word) for word in words]].double()
    U, S, _ = torch.linalg.svd(X - X.mean(0), full_matrices=False)
    points = U[:, :2] * S[:2]  # (words, 2)
    if points.shape[1] < 2:
        raise InputError("Vectors of width 1 have no map in two dimensions.")
    shares = (S[:2].square() / S.square().sum().clamp(min=1e-30)).tolist()
    place = {word: at for at, word in enumerate(words)}
    pairs = [(place[a], place[b]) for name in names for a, b in pairwise(name)]
    return WordMap(words, [(x, y) for x, y in points.tolist()], pairs, (shares[0], shares[1]))


def draw(found: WordMap) -> Markup:
    """The picture; a word whose label has no room keeps its dot, and its name as a title."""
    (left, right), (low, high) = ((min(axis), max(axis)) for axis in zip(*found.points, strict=True))
    scale = min((WIDTH - 4 * MARGIN) / ((right - left) or 1), (HEIGHT - 2 * MARGIN) / ((high - low) or 1))
    places = [
        (WIDTH / 2 + (x - (left + right) / 2) * scale, HEIGHT / 2 - (y - (low + high) / 2) * scale)
        for x, y in found.points
    ]
    lines = [
        tag("line", x1=places[a][0], y1=places[a][1], x2=places[b][0], y2=places[b][1])
        for a, b in found.pairs
    ]
    dots = [
        tag("g", tag("title", word), Markup(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>'))
        for word, (x, y) in zip(found.words, places, strict=True)
    ]
    return tag(
        "svg", tag("style", Markup(STYLE)), lines, dots, labels(found.words, places),
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {HEIGHT}", class_="map", role="img",
        aria_label="map of words",
    )  # fmt: skip


def labels(words: Sequence[str], places: Sequence[tuple[float, float]]) -> list[Markup]:
    """Labels beside their dots, on the first side on which there is room."""
    boxes = [(x - 3, y - 3, x + 3, y + 3) for x, y in places]
    drawn = []
    for word, (x, y) in zip(words, places, strict=True):
        width = LETTER * len(word)
        for at, middle, anchor in (
            (x + 6, y, "start"),
            (x - 6, y, "end"),
            (x, y - 12, "middle"),
            (x, y + 12, "middle"),
        ):
            left = at - width * SHARES_LEFT[anchor]
            box = (left, middle - LINE / 2, left + width, middle + LINE / 2)
            inside = box[0] >= 0 and box[2] <= WIDTH and box[1] >= 0 and box[3] <= HEIGHT
            if inside and not any(overlap(box, other) for other in boxes):
                boxes.append(box)
                drawn.append(
                    tag("text", word, x=at, y=middle, text_anchor=anchor, dominant_baseline="central")
                )
                break
    return drawn


def overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    """Whether two boxes (left, top, right, bottom) share a point."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def page(found: WordMap, name: str) -> Markup:
    """The picture on a page that needs nothing else."""
    shares = " and ".join(f"{100 * share:.0f} %" for share in found.shares)
    head = [tag("meta", charset="utf-8"), tag("title", f"{name}: map of words"), tag("style", Markup(PAGE))]
    text = f"{len(found.words)} words on their first two principal components, which explain {shares} of the variance."
    body = [tag("h1", name), draw(found), tag("p", text)]
    return joined(Markup("<!doctype html>\n"), tag("html", tag("head", head), tag("body", body), lang="en"))


def write_map(found: WordMap, path: Path, name: str) -> None:
    """Writes the picture (.svg) or the page (.html); an existing file is replaced."""
    makers = {".svg": lambda: draw(found), ".html": lambda: page(found, name)}
    if path.suffix not in makers:
        raise ConfigError(f"{path}: a map is written as .svg or .html.\nName the file accordingly.")
    write_atomically(path, f"{makers[path.suffix]()}\n")
