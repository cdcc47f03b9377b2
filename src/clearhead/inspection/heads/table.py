"""All that is known of every head: a model and batches enter; importance and role by head leave, and a picture."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from clearhead.data.frames import document_frame, target_frame
from clearhead.decoding.generate import tokenizer_of
from clearhead.inspection.heads.importance import Task, gate_importance, loss_importance
from clearhead.inspection.heads.roles import HeadRole, head_roles, strongest_role
from clearhead.inspection.markup import Markup, row_names, tag
from clearhead.model_folder import Bundle

Stage = Callable[[str, int], None]  # what is being done, and how many passes of it are done
SIDE, LETTER = 34.0, 7.6  # of a field and of a letter in the picture
STYLE = """
svg { font: 13px system-ui, sans-serif; background: #fff; } text { fill: #1b1f24; } rect { fill: #2f6fed; }
@media (prefers-color-scheme: dark) { svg { background: #14171b; } text { fill: #e6e8eb; } }
"""


@dataclass(frozen=True)
class HeadMeasure:
    """One head: how much the loss depends on it, and where it looks."""

    name: str
    importance: float  # the mean of |∂loss/∂gate|
    loss_without: float | None  # how much the loss rises if it is put to zero; None if that was not measured
    role: HeadRole
    does: str  # where it looks most, if anywhere in particular

    def as_row(self) -> dict[str, Any]:
        """All numbers by name."""
        row = asdict(self)
        return row | row.pop("role") | {"does": row.pop("does")}


def measure_heads(
    bundle: Bundle, tasks: Sequence[Task], leave_out: bool = True, stage: Stage = lambda name, done: None
) -> list[HeadMeasure]:
    """Importance and role of every head, in the order of the model."""
    module = bundle.module
    importance, _ = gate_importance(module, tasks, lambda done, of: stage("gradients", done))
    without: Mapping[str, float] = {}
    if leave_out:
        without = loss_importance(module, tasks, lambda done, of: stage("leaving out heads", done))
    stage("looking at the weights", 0)
    roles = head_roles(module, [inputs for inputs, _ in tasks], start_of(bundle))
    return [
        HeadMeasure(name, value, without.get(name), roles[name], strongest_role(roles[name]))
        for name, value in importance.items()
    ]


def start_of(bundle: Bundle) -> tuple[int, ...]:
    """The ids that begin every text of a decoder."""
    if bundle.tokenizer is None or bundle.config.shape == "encoder":
        return ()
    specials = tokenizer_of(bundle.tokenizer).specials
    return (target_frame if bundle.module.translates else document_frame)(specials).before


def head_map(values: Mapping[str, float], label: str) -> Markup:
    """A heat map: a row for each sublayer, a field for each head; its number shows where the pointer rests."""
    rows: dict[str, dict[int, float]] = {}
    for name, value in values.items():
        sublayer, _, head = name.rpartition(".")
        rows.setdefault(sublayer, {})[int(head)] = value
    most = max((abs(value) for value in values.values()), default=0.0) or 1.0
    left, top = 16 + LETTER * max(map(len, rows), default=0), 46.0
    columns = 1 + max((head for row in rows.values() for head in row), default=0)
    fields = [
        tag("g",
            tag("rect", x=left + SIDE * head, y=top + SIDE * i, width=SIDE - 2, height=SIDE - 2, rx=3,
                fill_opacity=f"{max(0.0, value) / most:.3f}"),
            tag("title", f"{sublayer}.{head}: {value:.4g}"))
        for i, (sublayer, row) in enumerate(rows.items())
        for head, value in row.items()
    ]  # fmt: skip
    names = row_names(rows, left, top, SIDE)
    numbers = [
        tag("text", str(head), x=left + SIDE * (head + 0.5) - 1, y=top - 8, text_anchor="middle")
        for head in range(columns)
    ]
    width, height = max(left + SIDE * columns, 20 + LETTER * len(label)), top + SIDE * len(rows) + 8
    return tag(
        "svg", tag("style", Markup(STYLE)), tag("text", label, x=8, y=18), fields, names, numbers,
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width:.0f} {height:.0f}", width=width, height=height,
        role="img", aria_label=label,
    )  # fmt: skip
