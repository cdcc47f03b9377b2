"""How much of its speed does each kind of work keep beside other programs?

Programs that compute all the time share two cores with ours: one or two of them, at normal priority and at the lowest
(`nice 19`). Training is the demo's step; translating, generating and the explorer's pass use models of a laptop's size.
All kinds are measured in turn, in each situation, in each round. The bars, of the speed alone: 0.7 × the fair share
2 / (2 + k) beside k programs of normal priority, and 0.7 beside programs of the lowest. With `--before SOURCES`, an
earlier version works alone in turn with this one, which may be 5 % slower at most.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from harness import arguments, median_interval, ratio, report

BUSY = "while True: pass"
SECONDS = 1.5  # of work in each situation of each round
KEPT = 0.7
BEFORE = ", before"
SITUATIONS = {
    "alone": (0, 0),
    "1 program": (1, 0),
    "2 programs": (2, 0),
    "1 nice": (1, 19),
    "2 nice": (2, 19),
}
BARS = {"1 program": KEPT * 2 / 3, "2 programs": KEPT * 2 / 4, "1 nice": KEPT, "2 nice": KEPT}


def train() -> Callable[[], int]:
    """A step of the demo: tokens."""
    from clearhead.config.run import RunConfig
    from clearhead.data.batching.batches import Position
    from clearhead.data.prepare import prepare
    from clearhead.models.build import build
    from clearhead.training.loop.trainer import Trainer
    from clearhead.training.run.plan import model_config

    config = RunConfig.read("spanish-translator")
    config = config.replace(data=config.data.replace(count=20_000))
    data = prepare(config)
    config = config.replace(model=model_config(config, data))
    trainer = Trainer(config, data, build(config.model, 1), 1000)
    batches = [trainer.batches.at(Position(0, step)) for step in range(16)]

    def step() -> int:
        batch = batches[trainer.step % len(batches)]
        trainer.update(batch)
        trainer.step += 1
        return batch.tokens

    return step


def translate() -> Callable[[], int]:
    """Sixteen sentences by the demo's model: sentences."""
    from clearhead.api import Model
    from clearhead.config.model import ModelConfig
    from clearhead.config.tokenizer import TokenizerConfig
    from clearhead.model_folder import Bundle
    from clearhead.models.build import build
    from clearhead.text.tokenizers.tokenizer import Tokenizer

    tokenizer = Tokenizer.train(["text"], TokenizerConfig(kind="byte"))
    sizes = {"vocabulary": tokenizer.size, "d": 128, "d_ff": 256, "encoder_blocks": 2, "decoder_blocks": 2}
    rest = {"shape": "encoder-decoder", "context": 64, "feedforward": "relu2"}
    config = ModelConfig.model_validate(sizes | rest)
    model = Model(Bundle(build(config), tokenizer, tokenizer))
    texts = [f"La chica lee {number} libros rojos." for number in range(16)]
    return lambda: len(model.translate(texts, beam=1))


def generate() -> Callable[[], int]:
    """A text of 32 tokens by a model of 6 blocks: tokens."""
    model = language_model()
    return lambda: len(model.generate("Once upon a time", max_tokens=32, temperature=0.0).tokens)


def explore() -> Callable[[], int]:
    """Every tensor of a pass over 128 tokens of the same model: passes."""
    model = language_model()
    return lambda: len([model.trace("Once upon a time. " * 7)])


def language_model() -> Any:
    """A byte-level language model with random weights."""
    from clearhead.api import Model
    from clearhead.config.model import ModelConfig
    from clearhead.config.tokenizer import TokenizerConfig
    from clearhead.model_folder import Bundle
    from clearhead.models.build import build
    from clearhead.text.tokenizers.tokenizer import Tokenizer

    tokenizer = Tokenizer.train(["text"], TokenizerConfig(kind="byte"))
    config = ModelConfig(vocabulary=tokenizer.size, d=384, h=6, decoder_blocks=6, context=1024)
    return Model(Bundle(build(config), tokenizer))


KINDS = {"train": train, "translate": translate, "generate": generate, "explore": explore}


def work(kind: str) -> None:
    """Works for as many seconds as each line of stdin says, and prints how much it does per second."""
    do = KINDS[kind]()
    do(), do()
    print("ready", flush=True)
    for line in sys.stdin:
        start, done = time.perf_counter(), 0
        while time.perf_counter() - start < float(line):
            done += do()
        print(done / (time.perf_counter() - start), flush=True)


class Worker:
    """A process that works when it is asked to."""

    def __init__(self, kind: str, sources: str | None = None) -> None:
        environment = os.environ | ({"PYTHONPATH": sources} if sources else {})
        command = [sys.executable, __file__, "--work", kind]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.read()

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def speed(self) -> float:
        """What it does per second, now."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{SECONDS}\n")
        self.process.stdin.flush()
        return float(self.read())


def measure(workers: dict[str, Worker], rounds: int) -> dict[str, dict[str, list[float]]]:
    """The speed of each worker in each situation of each round."""
    speeds: dict[str, dict[str, list[float]]] = {
        name: {place: [] for place in SITUATIONS} for name in workers
    }
    for _ in range(rounds):
        for place, (count, priority) in SITUATIONS.items():
            asked = {
                name: worker for name, worker in workers.items() if not name.endswith(BEFORE) or not count
            }
            command = ["nice", "-n", str(priority), sys.executable, "-c", BUSY]
            others = [subprocess.Popen(command) for _ in range(count)]
            time.sleep(0.2 * bool(count))
            try:
                for name, worker in asked.items():
                    speeds[name][place].append(worker.speed())
            finally:
                for other in others:
                    other.kill()
                    other.wait()
    return speeds


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--before", metavar="SOURCES", help="the sources of an earlier version")
    parser.add_argument("--work", choices=KINDS, help="the work itself")
    options = parser.parse_args()
    if options.work:
        work(options.work)
        return
    workers = {kind: Worker(kind) for kind in options.kinds}
    if options.before:
        workers |= {kind + BEFORE: Worker(kind, options.before) for kind in options.kinds}
    speeds = measure(workers, options.rounds)
    results: dict[str, Any] = {}
    kept = True
    for name in options.kinds:
        places = speeds[name]
        alone = statistics.median(places["alone"])
        print(f"{name:10} {'alone':11} {alone:9.1f} per second")
        results[name] = {"alone": {"per_second": alone, "interval_95": median_interval(places["alone"])}}
        compared = {place: (ratio(places[place], places["alone"]), bar) for place, bar in BARS.items()}
        if options.before:
            compared["before"] = ratio(places["alone"], speeds[name + BEFORE]["alone"]), 0.95
        for place, (found, bar) in compared.items():
            low, high = found["interval_95"]
            is_kept = high >= bar
            kept &= is_kept
            median, verdict = found["median_ratio"], "kept" if is_kept else "FAILED"
            print(
                f"{name:10} {place:11} {median:9.2f} of it ({low:.2f} to {high:.2f}), bar {bar:.2f}: {verdict}"
            )
            results[name][place] = found | {"bar": bar, "kept": is_kept}
    report("busy_machine", {"results": results, "kept": kept}, options.save)
    for worker in workers.values():
        worker.process.kill()


if __name__ == "__main__":
    main()
