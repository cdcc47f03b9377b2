"""`clearhead prune MODEL OUT`: a model without the heads and units that matter least, physically smaller."""

import json as json_format
from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.evaluate import Columns, Data, PartOfData, Recipe
from clearhead.cli.exchange import Out
from clearhead.cli.heads import EXAMPLES, Limit, load_tasks
from clearhead.cli.options import Json, ModelFolder
from clearhead.cli.stages import Stages, load_pytorch
from clearhead.errors import InputError, suggest
from clearhead.inspection.heads.shares import check_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clearhead.config.run import RunConfig
    from clearhead.inspection.heads.choose import CurvePoint, ImportanceKind
    from clearhead.inspection.heads.importance import Task
    from clearhead.model_folder import Bundle
    from clearhead.models.model import Model

MOST_ROUNDS = 1000
RATE = (
    0.5  # of fine-tuning, as a share of the run's own: it must make up for what is missing, and keep the rest
)
MEASURES: "dict[str, ImportanceKind]" = {"gradient": "gradient", "loss": "loss"}
CURVE_STYLE = """
svg { font: 13px system-ui, sans-serif; background: #fff; } text { fill: #57606a; } .rule { stroke: #d0d7de; }
.curve { fill: none; stroke-width: 2; } .importance { stroke: #2f6fed; } .random { stroke: #8c959f; }
.reverse { stroke: #d1242f; }
"""


def prune(
    model: ModelFolder,
    out: Out,
    keep: Annotated[
        float | None, typer.Option("--keep", help="Share of the heads to keep, the most important ones: 0.6.")
    ] = None,
    max_loss: Annotated[
        str | None,
        typer.Option("--max-loss", help="Remove as many heads as raise the loss by no more than this: 1%."),
    ] = None,
    heads: Annotated[
        str | None, typer.Option("--heads", help="Remove these heads: decoder.2.cross.3,encoder.0.self.1")
    ] = None,
    ffn: Annotated[
        float | None, typer.Option("--ffn", help="Share of the units of each feed-forward to keep: 0.7.")
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            "--by", help="Importance: gradient of a gate, or loss without the head (slower, exact)."
        ),
    ] = "gradient",
    rounds: Annotated[
        int,
        typer.Option(
            "--rounds", min=1, max=MOST_ROUNDS, help="With --keep: measure importance anew so many times."
        ),
    ] = 1,
    fine_tune: Annotated[
        int | None,
        typer.Option("--fine-tune", metavar="STEPS", min=1, help="Train what is left on the run's data."),
    ] = None,
    curve: Annotated[
        Path | None,
        typer.Option("--curve", metavar="FILE", help="Draw the loss against the heads kept, as SVG."),
    ] = None,
    data: Data = None,
    columns: Columns = None,
    recipe: Recipe = None,
    split: PartOfData = None,
    limit: Limit = EXAMPLES,
    json: Json = False,
) -> None:
    """Remove the attention heads and feed-forward units that matter least."""
    share, most = check_options(keep, max_loss, heads, ffn, out)
    if by not in MEASURES:
        raise InputError(f"--by {by} is unknown. {suggest(by, MEASURES)}")
    load_pytorch(f"Reading {model}")
    from clearhead import model_folder
    from clearhead.inspection.heads import choose, importance
    from clearhead.models.transformer.pruned import pruned

    is_file = bool(data) and not any(name.startswith(("builtin:", "hub:")) for name in data or [])
    bundle, tasks, config, what, _ = load_tasks(
        model, data, columns, recipe, split or (None if is_file else "validation"), limit
    )
    if fine_tune is not None and config is None:
        raise InputError(
            f"{model} is not in a run folder, so the data to fine-tune on are unknown.\nGive --recipe RECIPE."
        )
    with Stages("Measuring heads") as stages:
        points: list[CurvePoint] = []
        by_head: dict[str, float] | None = None
        module, before = bundle.module, importance.mean_loss(bundle.module, tasks)
        if curve is not None:
            by_head = choose.importance_by(MEASURES[by], module, tasks)
            points = choose.pruning_curve(
                module,
                tasks,
                by_head,
                progress=lambda done, of: stages.show("Drawing the curve", f"{done} of {of}"),
            )
        module = without_heads(module, tasks, share, most, heads, rounds, MEASURES[by], stages, by_head)
        if ffn is not None:
            _, by_unit = importance.gate_importance(module, tasks)
            module = pruned(module, units=choose.kept_units(by_unit, ffn))
        smaller = described(replace(bundle, module=module, calibration=None, is_int8=False), bundle)
        facts = sizes(bundle.module, module) | {
            "loss": [before, importance.mean_loss(module, tasks)],
            "data": what,
        }
        if fine_tune is not None and config is not None:
            stages.show("Fine-tuning", f"{fine_tune} steps")
            smaller = tuned(smaller, config, fine_tune, out)
            facts["loss"].append(importance.mean_loss(smaller.module, tasks))
    model_folder.save(out, smaller)
    if curve is not None:
        draw_curve(curve, points)
    if json:
        print(json_format.dumps(facts | {"curve": [asdict(point) for point in points], "out": str(out)}))
    else:
        show_sizes(facts, out)


def check_options(
    keep: float | None, max_loss: str | None, heads: str | None, ffn: float | None, out: Path
) -> tuple[float | None, float | None]:
    """The share of heads to keep and the share by which the loss may rise, if given; one way of choosing at most."""
    if out.exists():
        raise InputError(f"{out} already exists.\nChoose another name.")
    given = [
        name
        for name, value in (("--keep", keep), ("--max-loss", max_loss), ("--heads", heads))
        if value is not None
    ]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} each say which heads to remove.\nGive one of them.")
    if not given and ffn is None:
        raise InputError(
            "Nothing says what to remove.\nGive --keep 0.6, --max-loss 1%, --heads NAMES or --ffn 0.7."
        )
    for name, share in (("--keep", keep), ("--ffn", ffn)):
        if share is not None:
            check_share(share, name)
    if max_loss is None:
        return keep, None
    try:
        most = float(max_loss.removesuffix("%")) / (100 if max_loss.endswith("%") else 1)
    except ValueError:
        most = -1.0
    if not 0 <= most < float("inf"):
        raise InputError(
            f"--max-loss {max_loss} is not a share by which the loss may rise.\nGive one such as 1%."
        )
    return keep, most


def without_heads(
    module: "Model",
    tasks: "Sequence[Task]",
    share: float | None,
    most: float | None,
    names: str | None,
    rounds: int,
    by: "ImportanceKind",
    stages: Stages,
    by_head: "dict[str, float] | None",
) -> "Model":
    """The model without the heads that the options choose; `by_head` is their importance, if it is known."""
    from clearhead.inspection.heads import choose, importance
    from clearhead.models.transformer.pruned import pruned

    module, config = importance.headed(module)
    count = len(importance.head_names(config))
    if share is not None:
        left = max(1, round(share * count))
        show = lambda done, of: stages.show("Removing heads", f"round {done} of {of}")  # noqa: E731
        return choose.prune_to(module, tasks, left, min(rounds, max(1, count - left)), by, show, by_head)
    gone = [name.strip() for name in (names or "").split(",") if name.strip()]
    if names is not None and not gone:
        raise InputError("--heads names no head.\nGive names such as decoder.0.self.1.")
    if most is not None:
        order = choose.removal_order(by_head or choose.importance_by(by, module, tasks))
        gone = order[: choose.most_removable(module, tasks, order, most)]
    return pruned(module, choose.kept_by_sublayer(config, gone))


def tuned(bundle: "Bundle", config: "RunConfig", steps: int, out: Path, rate: float = RATE) -> "Bundle":
    """The model after some steps on the data of a recipe, with a share of the rates that the model was trained with."""
    from clearhead import model_folder
    from clearhead.api import train
    from clearhead.config.training import TrainingConfig

    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as place:
        model_folder.save(Path(place) / "pruned", bundle)
        own = config.training
        training = TrainingConfig(
            init_from=str(Path(place) / "pruned"), steps=steps, seed=own.seed, samples=0,
            optimizer=own.optimizer, batch_tokens=own.batch_tokens,
            learning_rate=rate * own.learning_rate, matrix_rate=rate * own.matrix_rate,
        )  # fmt: skip
        found = train(config.replace(training=training), Path(place) / "run").bundle
    return replace(found, card=f"{bundle.card}\nFine-tuned for {steps:,} steps after that.\n")


def described(bundle: "Bundle", before: "Bundle") -> "Bundle":
    """A pruned model with a card that says so."""
    facts = sizes(before.module, bundle.module)
    changes = ", ".join(f"{facts[key][0]:,} {key} to {facts[key][1]:,}" for key in ("heads", "units"))
    line = f"Pruned: {changes}."
    return replace(
        bundle, card=f"{before.card.rstrip()}\n\n{line} What is said above was measured before.\n".lstrip()
    )


def sizes(before: "Model", after: "Model") -> dict[str, Any]:
    """Heads, units, weights and the bytes of the cache per token, before and after."""
    from clearhead.inspection.heads.importance import head_names, headed

    found: dict[str, list[int]] = {"heads": [], "units": [], "weights": [], "cache_bytes_per_token": []}
    for model in (before, after):
        _, config = headed(model)
        found["heads"].append(len(head_names(config)))
        found["units"].append(sum(config.units(name) for name in config.feedforwards()))
        found["weights"].append(sum(weight.numel() for weight in model.parameters()))
        stack = getattr(model, "decoder", None)
        blocks = [] if stack is None else [block.self.size for block in stack.blocks]
        width = sum(len(size.key_heads) * (size.d_k + size.d_v) for size in blocks)
        found["cache_bytes_per_token"].append(width * next(model.parameters()).element_size())
    return found


def show_sizes(facts: dict[str, Any], out: Path) -> None:
    """Prints what changed."""
    for key in ("heads", "units", "weights", "cache_bytes_per_token"):
        before, after = facts[key]
        print(f"{key.replace('_', ' '):22} {before:,} -> {after:,}")
    losses = " -> ".join(f"{loss:.4f}" for loss in facts["loss"][:2])
    print(f"{'loss':22} {losses} on {facts['data']}")
    if len(facts["loss"]) > 2:
        print(f"{'after fine-tuning':22} {facts['loss'][2]:.4f}")
    print(f"Wrote the model folder {out}. Measure it: clearhead evaluate {quote(str(out))} --data FILE")


def draw_curve(path: Path, points: "Sequence[CurvePoint]") -> None:
    """Writes the curves of the three orders, with their names beside them."""
    from clearhead.inspection.markup import Markup, joined, tag
    from clearhead.storage import write_atomically
    from clearhead.training.reporting.charts import Curve, chart

    orders = dict.fromkeys(point.order for point in points)
    curves = [
        Curve(order, order, sorted((float(one.kept), one.loss) for one in points if one.order == order))
        for order in orders
    ]
    names = [
        tag(
            "text",
            f"{order} first" if order != "random" else "at random",
            x=660,
            y=30 + 18 * i,
            class_=f"name {order}",
        )
        for i, order in enumerate(orders)
    ]
    picture = chart(curves, float(points[0].heads), 360, "loss against the heads kept")
    inside = joined(tag("style", Markup(CURVE_STYLE + ".name { stroke: none; font-weight: 600; }")), names)
    start = picture.index(">") + 1
    opening = picture[:start].replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    write_atomically(path, f"{opening}{inside}{picture[start:]}\n")
