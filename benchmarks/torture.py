"""Does a run that is killed again and again end with the same bits as one that was left alone?

`clearhead train --resume` is killed with SIGKILL at random moments: while it starts, while it trains, and in the
middle of a save. After every kill each checkpoint must be undamaged and the best model loadable. At the end the
weights of `last` and `best` and every loss of the log are compared with those of a run that nobody disturbed.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported; also, no thread is lost in a fork

import hashlib
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from harness import arguments, environment_of, report

from clearhead import model_folder
from clearhead.cli import main as command_line
from clearhead.config.run import RunConfig
from clearhead.training.checkpoints.files import list_checkpoints, step_of
from clearhead.training.checkpoints.restore import check
from clearhead.training.reporting.history import read_log
from clearhead.training.run.disk import used_room
from clearhead.training.run.folder import CHECKPOINTS, LOG

WAYS = {"in a save": 6, "while training": 2, "while starting": 2}  # how often of ten
LONGEST_SECONDS = 900.0  # that anything is waited for


def recipe(folder: Path, steps: int) -> RunConfig:
    """A small translator with all that has a state: dropout, two optimizers, an average, several epochs."""
    numbers = random.Random(7)
    words = ["".join(numbers.choices("abcdefgh", k=4)) for _ in range(40)]
    texts = [" ".join(numbers.choices(words, k=numbers.randint(2, 9))) for _ in range(150)]
    (folder / "pairs.tsv").write_text("".join(f"{text}\t{text[::-1]}\n" for text in texts))
    tables: dict[str, Any] = {
        "task": "translate",
        "data": {"train": str(folder / "pairs.tsv"), "validation": 0.1},
        "tokenizer": {"kind": "byte"},
        "model": {"d": 48, "h": 2, "encoder_blocks": 1, "decoder_blocks": 1, "context": 128, "dropout": 0.1},
        "training": {
            "steps": steps,
            "precision": "float32",  # a start that is killed before it has written its recipe would measure again
            "threads": 2,
            "batch_tokens": 256,
            "average": "last",
            "average_last": 8,
            "log_every": 5,
            "evaluate_every": max(1, steps // 20),
            "checkpoint_every": 5,
            "samples": 1,
        },
    }
    return RunConfig.model_validate(tables)


# One process.


class Child:
    """`clearhead train RECIPE --out OUT --resume` in a process of its own."""

    def __init__(self, recipe: Path, out: Path, said: Path) -> None:
        self.said = said
        sys.stdout.flush()
        self.process = os.fork()
        if self.process == 0:
            carry_out(["clearhead", "train", str(recipe), "--out", str(out), "--resume"], said)
        self.code: int | None = None

    def is_over(self) -> bool:
        """Whether it has ended by itself; if with an error, what it said is raised."""
        if self.code is None:
            process, status = os.waitpid(self.process, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if process else None
        if self.code:
            raise SystemExit(f"The run ended with {self.code}:\n{self.said.read_text()[-3000:]}")
        return self.code == 0

    def until(self, is_so: Callable[[], bool]) -> bool:
        """Waits until something is so; false if the process ends before."""
        started = time.monotonic()
        while not is_so():
            if self.is_over():
                return False
            if time.monotonic() - started > LONGEST_SECONDS:
                self.kill()
                raise SystemExit(f"Nothing happened for {LONGEST_SECONDS} seconds.")
            time.sleep(0.0003)
        return True

    def kill(self) -> None:
        """Ends it as no program can refuse or notice."""
        if self.code is None:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)


def carry_out(command: list[str], said: Path) -> None:
    """The child's side of a fork: runs a command, and never returns."""
    code = 1
    try:
        file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, 1), os.dup2(file, 2)
        sys.argv = command
        command_line.main()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)


# One kill.


def kill_once(child: Child, way: str, out: Path, after: int, numbers: random.Random) -> str | None:
    """Kills a run in this way, once it has reached a step; where it was, or nothing if it was over before."""
    kept = out / CHECKPOINTS
    if way == "while starting":
        wait = numbers.uniform(0, 2.0)
        started = time.monotonic()
        is_alive = child.until(lambda: time.monotonic() - started > wait)
    else:
        is_alive = child.until(lambda: max(map(step_of, list_checkpoints(kept)), default=0) >= after)
        if is_alive and way == "in a save":
            is_alive = child.until(lambda: bool(left_in(kept)))
        time.sleep(numbers.uniform(0, 0.012 if way == "in a save" else 0.5))
    if not is_alive or child.is_over():
        return None
    child.kill()
    if left_in(kept):
        return "in a save"
    return "while a model folder was written" if left_in(out) else "elsewhere"


def left_in(folder: Path) -> list[str]:
    """What is incomplete in a folder."""
    ends = (".writing", ".previous", ".removing")
    try:
        return [name for name in os.listdir(folder) if name.startswith(".") and name.endswith(ends)]
    except FileNotFoundError:
        return []


def check_good(out: Path) -> None:
    """What must hold whenever a run is killed: every checkpoint is undamaged, and the best model exists."""
    for place in list_checkpoints(out / CHECKPOINTS):
        check(place)
    log = read_log(out / LOG) if (out / LOG).exists() else None
    kept = list_checkpoints(out / CHECKPOINTS)
    if log and kept and any(record.step <= step_of(kept[-1]) for record in log.evaluations):
        model_folder.load(out / "best")


# All kills of a run.


def result_of(out: Path) -> dict[str, str]:
    """Checksums of all that must be the same."""
    log = read_log(out / LOG)
    losses = [(record.step, record.epoch, record.loss, record.gradient_norm) for record in log.steps]
    judged = [(record.step, record.validation_loss, record.is_best) for record in log.evaluations]
    written = [(sample.step, sample.given, sample.made) for sample in log.samples]
    weights = {name: (out / name / "model.safetensors").read_bytes() for name in ("last", "best")}
    contents = weights | {"log": repr((losses, judged, written)).encode()}
    return {name: hashlib.sha256(content).hexdigest()[:16] for name, content in contents.items()}


def torture(folder: Path, kills: int, steps: int, seed: int) -> dict[str, Any]:
    """Kills a run so often, and lets it end; what happened, and whether it ended as it should."""
    numbers = random.Random(seed)
    recipe(folder, steps).write(folder / "recipe.toml")
    quiet = Child(folder / "recipe.toml", folder / "quiet", folder / "quiet.txt")
    quiet.until(lambda: False)
    out = folder / "killed"
    where: Counter[str] = Counter()
    for number in range(kills):
        way = numbers.choices(list(WAYS), list(WAYS.values()))[0] if number else "in a save"
        child = Child(folder / "recipe.toml", out, folder / "killed.txt")
        found = kill_once(child, way, out, steps * number // (kills + 1), numbers)
        if found is None:
            raise SystemExit(f"The run was over after {number} kills.")
        where[found] += 1
        check_good(out)
        kept = list_checkpoints(out / CHECKPOINTS)
        print(f"{number + 1:3}  {kept[-1].name if kept else 'nothing':10}  {found}", file=sys.stderr)
    Child(folder / "recipe.toml", out, folder / "killed.txt").until(lambda: False)
    expected, got = result_of(folder / "quiet"), result_of(out)
    epochs = read_log(out / LOG).steps[-1].epoch
    return {
        "kills": kills,
        "where": dict(where),
        "in_a_save": where["in a save"],
        "steps": steps,
        "epochs": round(epochs, 2),
        "checkpoint_bytes": used_room(list_checkpoints(out / CHECKPOINTS)[-1]),
        "undisturbed": expected,
        "killed": got,
        "identical": expected == got,
        "seed": seed,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    code = environment_of(("torch",))[
        "commit"
    ]  # what is loaded now is what is killed, whatever is committed meanwhile
    with TemporaryDirectory() as folder:
        os.environ["CLEARHEAD_CACHE"] = str(Path(folder) / "cache")
        result = torture(Path(folder), options.kills, options.steps, options.seed)
    least = max(1, options.kills * 3 // 10)  # of the kills, that must have hit a save
    print(f"{'where the kill fell':34} kills")
    for name, count in result["where"].items():
        print(f"{name:34} {count:5}")
    print(f"\n{'after all of them':34} undisturbed       killed {options.kills} times")
    for name in result["undisturbed"]:
        print(f"{name:34} {result['undisturbed'][name]}  {result['killed'][name]}")
    keeps = result["identical"] and result["in_a_save"] >= least
    print(f"identical: {result['identical']}; in a save: {result['in_a_save']} (at least {least})")
    facts = {"commit": code, "threads": torch.get_num_threads(), "least_in_a_save": least, "kept": keeps}
    report("torture", result | facts, options.save)
    raise SystemExit(not keeps)


if __name__ == "__main__":
    main()
