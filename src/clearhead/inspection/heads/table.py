"""All that is known of every head: a model and batches enter; importance and role by head leave, and a picture."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from clearhead.inspection.heads.importance import Task, gate_importance, loss_importance
from clearhead.inspection.heads.labels import EVEN, LabelledText, label_weights
from clearhead.inspection.heads.roles import HeadRole, head_roles, start_of, strongest_role
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
    labels: dict[str, float] = field(default_factory=dict)  # its weight on what the data name, if they do

    def as_row(self) -> dict[str, Any]:
        """All numbers by name."""
        row = asdict(self)
        return row | row.pop("role") | row.pop("labels") | {"does": row.pop("does")}


def measure_heads(
    bundle: Bundle,
    tasks: Sequence[Task],
    leave_out: bool = True,
    stage: Stage = lambda name, done: None,
    labelled: Iterable[LabelledText] = (),
) -> list[HeadMeasure]:
    """Importance and role of every head, in the order of the model; with labelled texts also what it looks at there."""
    module = bundle.module
    importance, _ = gate_importance(module, tasks, lambda done, of: stage("gradients", done))
    without: Mapping[str, float] = {}
    if leave_out:
        without = loss_importance(module, tasks, lambda done, of: stage("leaving out heads", done))
    stage("looking at the weights", 0)
    roles = head_roles(module, [inputs for inputs, _ in tasks], start_of(bundle))
    by_label = label_weights(module, labelled)
    found = []
    for name, value in importance.items():
        labels = {label: by_head[name] for label, by_head in by_label.items() if name in by_head}
        does = ", ".join(filter(None, (strongest_role(roles[name]), *strong_labels(labels))))
        found.append(HeadMeasure(name, value, without.get(name), roles[name], does, labels))
    return found


def strong_labels(labels: Mapping[str, float]) -> list[str]:
    """What a head looks at in particular: more than 0.4 of its weight, and twice what even attention would give."""
    return [
        label
        for label, weight in labels.items()
        if not label.endswith(EVEN) and weight >= max(0.4, 2 * labels.get(label + EVEN, 0.0))
    ]


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
