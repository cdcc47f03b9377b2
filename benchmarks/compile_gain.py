"""Does torch.compile pay on a CPU? Two shipped recipes, compiled and not: what it costs at first, and what it gains.

`compile = "auto"` compiles on a GPU alone. It should also do so here if the steps of a usual run, some thousands,
gained more than the compilation takes. Steps of both are taken in turn, in blocks, after those in which it compiles.
"""

import time
from typing import Any

from harness import arguments, ratio, report

from clearhead.config.run import RunConfig
from clearhead.data.batching.batches import Position
from clearhead.data.prepare import prepare
from clearhead.models.build import build
from clearhead.training.loop.trainer import Trainer
from clearhead.training.run.plan import model_config

RECIPES = {  # with a fixed length, and with lengths that change from batch to batch
    "python-lm": {"data": {"count": 300}},
    "spanish-translator": {"data": {"count": 5000}},
}
COMPILING, BLOCK = 8, 5  # steps
LONGEST = 240.0  # seconds of compiling, after which it is given up


def trainer_of(config: RunConfig, choice: str) -> Trainer:
    """A trainer of a recipe, compiled or not."""
    config = config.replace(training=config.training.replace(compile=choice))
    data = prepare(config)
    settings = model_config(config, data)
    return Trainer(config.replace(model=settings), data, build(settings, 1), 1000)


def seconds_of(trainer: Trainer, steps: range) -> float:
    """How long some steps take."""
    held = [trainer.batches.at(Position(0, step)) for step in steps]
    start = time.perf_counter()
    for batch in held:
        trainer.update(batch)
    return time.perf_counter() - start


def first_seconds(trainer: Trainer) -> float | None:
    """How long the steps take in which it compiles, or nothing where that takes too long."""
    taken = 0.0
    for step in range(COMPILING):
        taken += seconds_of(trainer, range(step, step + 1))
        if taken > LONGEST:
            return None
    return taken


def measure(name: str, rounds: int) -> dict[str, Any]:
    """What compiling costs and gains for one recipe."""
    config = RunConfig.read(name)
    config = config.replace(data=config.data.replace(**RECIPES[name]["data"]))
    trainers = {choice: trainer_of(config, choice) for choice in ("on", "off")}
    first = {choice: first_seconds(trainer) for choice, trainer in trainers.items()}
    if first["on"] is None or first["off"] is None:
        return {"given_up_after_seconds": LONGEST}
    seconds: dict[str, list[float]] = {"on": [], "off": []}
    for round in range(rounds):
        steps = range(COMPILING + BLOCK * round, COMPILING + BLOCK * (round + 1))
        for choice in ("on", "off") if round % 2 else ("off", "on"):
            seconds[choice].append(seconds_of(trainers[choice], steps))
    gained = ratio(seconds["on"], seconds["off"])
    saved = sum(seconds["off"]) / (BLOCK * rounds) * (1 - gained["median_ratio"])
    cost = first["on"] - first["off"]
    pays_after = cost / saved if saved > 0 else None
    return {"step_compiled_over_plain": gained, "compile_seconds": cost, "pays_after_steps": pays_after}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    results = {}
    for name in RECIPES:
        result = results[name] = measure(name, options.rounds)
        if "given_up_after_seconds" in result:
            print(f"{name:20s} not compiled after {LONGEST:.0f} s", flush=True)
            continue
        low, high = result["step_compiled_over_plain"]["interval_95"]
        pays = result["pays_after_steps"]
        print(
            f"{name:20s} a compiled step takes {result['step_compiled_over_plain']['median_ratio']:.2f} × "
            f"(95 %: {low:.2f} to {high:.2f}); compiling takes {result['compile_seconds']:.0f} s; "
            f"{'never pays' if pays is None else f'pays after {pays:,.0f} steps'}",
            flush=True,
        )
    report("compile_gain", {"results": results}, options.save)


if __name__ == "__main__":
    main()
