"""Pictures of attention: a model and a text enter; the weights of every head leave, as SVG or for a terminal.

A row is a query, a column a key (of cross-attention: a token of the target and a token of the source). A darker
field is a larger weight; a row sums to one.
"""

from dataclasses import dataclass

import torch

from clearhead.data.frames import target_frame
from clearhead.decoding.generate import tokenizer_of
from clearhead.decoding.read import Reader
from clearhead.errors import InputError
from clearhead.inspection.capture import capture
from clearhead.inspection.markup import Markup, row_names, tag
from clearhead.model_folder import Bundle
from clearhead.models.inputs import Inputs
from clearhead.text.tokenizers.tokenizer import Tokenizer

MOST_TOKENS = 24  # of a picture that can still be read
LEVELS = 8  # shades of a small picture
LETTER = 7.4  # width of a letter in the large picture
WIDEST = 640  # of its fields, all together
SHADES = " ░▒▓█"
LONGEST_NAME = 14

Weights = list[list[float]]  # rows × columns


@dataclass(frozen=True)
class AttentionPicture:
    """What looks at what in one pass: the tokens, and the weights of each head by its name."""

    rows: list[str]
    columns: list[str]
    heads: dict[str, Weights]

    @property
    def sharpest(self) -> str:
        """The head that on average gives most to one key; the first token, where idle heads rest, not counted."""
        return max(self.heads, key=lambda name: sum(max(row[1:], default=0.0) for row in self.heads[name]))


@torch.inference_mode()
def attention_of(bundle: Bundle, text: str | list[int], target: str | None = None) -> AttentionPicture:
    """The attention of a text, or of framed ids: from target to source in a translator, within the text otherwise."""
    if (target is not None) != bundle.module.translates:
        raise InputError(
            f"A model of shape '{bundle.config.shape}' looks at "
            + (
                "a text alone.\nOmit the target."
                if target is not None
                else "two texts.\nGive the target too."
            )
        )
    module, reader = bundle.module, Reader(bundle)
    ids = reader.frame.wrap(reader.tokenizer.encode(text)) if isinstance(text, str) else text
    keys = shortened(ids, bundle.config.context)
    queries, tokenizer = keys, reader.tokenizer
    device = next(module.parameters()).device
    inputs = Inputs(torch.tensor([keys], device=device))
    if target is not None:
        tokenizer = tokenizer_of(bundle.tokenizer)
        before = target_frame(tokenizer.specials).before
        queries = shortened([*before, *tokenizer.encode(target)], bundle.config.context)
        inputs = Inputs(torch.tensor([queries], device=device), source=inputs.tokens)
    kind = ".cross" if module.translates else ".self"
    wanted = [f"{name}.weights" for name in bundle.config.attentions() if name.endswith(kind)]
    with capture(module, *(wanted or [""])) as trace:
        module.outputs(inputs)
    heads = {
        f"{site.removesuffix('.weights')}.{head}": A[0, place].float().tolist()
        for site, A in trace.items()
        for place, head in enumerate(bundle.config.heads(site.removesuffix(".weights")))
    }
    return AttentionPicture(names(tokenizer, queries), names(reader.tokenizer, keys), heads)


def shortened(ids: list[int], context: int | None) -> list[int]:
    """The tokens that fit into a picture."""
    return ids[: min(MOST_TOKENS, context or MOST_TOKENS)]


def names(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    """Tokens as people read them."""
    return [visible(tokenizer.piece(token)) for token in ids]


def visible(piece: str) -> str:
    """A token as people read it; a space or a newline that is a token of its own is made visible."""
    return piece.strip() or {"\n": "⏎", "\t": "⇥"}.get(piece[:1], "␣")


def large(attention: AttentionPicture, head: str) -> Markup:
    """One head, with the names of its tokens; the weight of a field shows where the pointer rests."""
    rows, columns = [cut(name) for name in attention.rows], [cut(name) for name in attention.columns]
    side = min(40.0, WIDEST / max(1, len(rows), len(columns)))
    left = 12 + LETTER * max(map(len, rows), default=0)
    top = 12 + LETTER * max(map(len, columns), default=0)
    fields = [
        tag(
            "rect", x=left + side * j, y=top + side * i, width=side - 1, height=side - 1, rx=3,
            class_="field", fill_opacity=shade(weight),
        ).replace("/>", ">", 1) + tag("title", f"{row} → {column}: {weight:.3f}") + "</rect>"
        for i, row in enumerate(rows)
        for j, (column, weight) in enumerate(zip(columns, attention.heads[head][i], strict=True))
    ]  # fmt: skip
    sides = row_names(rows, left, top, side)
    tops = [
        tag("text", name, transform=f"translate({left + side * (j + 0.5):.1f} {top - 8:.1f}) rotate(-90)",
            dominant_baseline="central")
        for j, name in enumerate(columns)
    ]  # fmt: skip
    width, height = left + side * len(columns), top + side * len(rows)
    return tag(
        "svg", Markup("".join(fields)), sides, tops, viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=width, class_="attention", role="img", aria_label=f"attention weights of {head}",
    )  # fmt: skip


def small(weights: Weights, side: float = 92) -> Markup:
    """One head as a small picture without names: a path for each shade."""
    height, width = len(weights), len(weights[0]) if weights else 1
    shades: dict[int, list[str]] = {}
    for i, row in enumerate(weights):
        for j, weight in enumerate(row):
            if level := round(shade(weight) * LEVELS):
                shades.setdefault(level, []).append(f"M{j} {i}h1v1h-1z")
    paths = [
        tag("path", d="".join(fields), class_="field", fill_opacity=level / LEVELS)
        for level, fields in sorted(shades.items())
    ]
    scale = side / max(height, width, 1)
    return tag(
        "svg", paths, viewBox=f"0 0 {width} {height}", width=width * scale, height=height * scale,
        class_="small", aria_hidden="true",
    )  # fmt: skip


def shade(weight: float) -> float:
    """How dark a field is: small weights a little darker than their share, so that they can be seen at all."""
    return float(max(0.0, min(1.0, weight)) ** 0.75)


def for_terminal(attention: AttentionPicture, head: str) -> str:
    """One head in blocks of four shades, the names of the keys written downwards."""
    rows, columns = [cut(name) for name in attention.rows], [cut(name) for name in attention.columns]
    left = max(map(len, rows), default=0) + 1
    deepest = max(map(len, columns), default=0)
    lines = [
        " " * left + "  ".join(name.rjust(deepest)[depth] for name in columns).rstrip()
        for depth in range(deepest)
    ]
    for name, weights in zip(rows, attention.heads[head], strict=True):
        fields = (
            SHADES[min(len(SHADES) - 1, round(shade(weight) * (len(SHADES) - 1)))] * 2 for weight in weights
        )
        lines.append(name.rjust(left - 1) + " " + " ".join(fields).rstrip())
    return "\n".join(lines)


def cut(name: str) -> str:
    """A name that is not too long."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
