"""What each rank of `torchrun` does for the tests: the cases of a folder enter; `found.json` leaves, from the first.

python -m torch.distributed.run --standalone --nproc-per-node 2 -m tests.training.distributed.ranked FOLDER
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import EllipsisType
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from clearhead.config.run import RunConfig
from clearhead.data.prepare import prepare
from clearhead.models.build import build
from clearhead.training.checkpoints import save as saving
from clearhead.training.checkpoints.files import list_checkpoints, step_of
from clearhead.training.checkpoints.restore import check
from clearhead.training.checkpoints.sharded import StoredTensor, write_shard
from clearhead.training.distributed.collectives import full_tensor
from clearhead.training.distributed.ranks import broadcast_from_first, is_first, process_group, rank, ranks
from clearhead.training.loop.optimizers import Muon
from clearhead.training.loop.records import EvaluationRecord, StepRecord
from clearhead.training.loop.trainer import Trainer
from clearhead.training.run.plan import model_config
from clearhead.training.run.run import make_run

STOP = 3
SHAPES = [(8, 8), (8, 8), (8, 8), (12, 5), (5, 12), (7, 3), (1, 6)]


def learned(config: RunConfig, steps: int) -> dict[str, Any]:
    """The losses of a trainer's steps and evaluations, and the weights it ends with."""
    data = prepare(config)
    trainer = Trainer(config, data, build(model_config(config, data), seed=3), steps)
    records = list(trainer.train())
    with trainer.weights_to_save():
        weights = {
            name: W.detach().flatten().tolist()
            for name, W in trainer.parallel.full_model.named_parameters()
            if is_first()
        }
    return {
        "losses": [record.loss for record in records if isinstance(record, StepRecord)],
        "validation": [r.validation_loss for r in records if isinstance(r, EvaluationRecord)],
        "weights": weights,
    }


def run(config: RunConfig, out: Path, begun: Path | None, stops: bool) -> dict[str, Any]:
    """A run, or the rest of one that was started in a folder; with `stops`, only the last rank is asked to stop."""
    if begun is not None:
        broadcast_from_first(lambda: str(shutil.copytree(begun, out)))
    ready = make_run(config, out)
    with counted() as read:
        for record in ready.train(resume=begun is not None):
            if stops and record.step >= STOP and rank() == ranks() - 1:
                ready.stop()
    return {"step": ready.step, "is_done": ready.is_done, "read": sum(read)}


@contextmanager
def counted() -> Iterator[list[int]]:
    """How many numbers this rank reads of checkpoints, beside random states."""
    read, get = [], StoredTensor.__getitem__

    def count(kept: StoredTensor, rows: slice | EllipsisType) -> Tensor:
        found = get(kept, rows)
        read.append(found.numel() * found.is_floating_point())
        return found

    StoredTensor.__getitem__ = count  # type: ignore[method-assign]
    try:
        yield read
    finally:
        StoredTensor.__getitem__ = get  # type: ignore[method-assign]


def die() -> NoReturn:
    """Ends this process as nobody can refuse."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def run_and_die(config: RunConfig, folder: Path) -> None:
    """A run of which, start after start, another rank is killed in another moment of a save; and one in peace."""
    start, out = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), folder / "killed"
    if start == 0:
        run(config, folder / "in peace", folder / "begun", stops=False)
        broadcast_from_first(lambda: str(shutil.copytree(folder / "begun", out)))
    begun = step_of(list_checkpoints(folder / "begun" / "checkpoints")[-1])
    if is_first():
        kept = list_checkpoints(out / "checkpoints")
        for place in kept:
            check(place)
        left = [sorted(path.name for path in place.iterdir()) for place in out.glob("checkpoints/.*.writing")]
        with (folder / "starts.jsonl").open("a") as file:
            file.write(json.dumps({"whole": [place.name for place in kept], "left": left}) + "\n")

    write_metadata = saving.write_metadata

    def half(path: Path, tensors: dict[str, Tensor]) -> str:
        written = write_shard(path, tensors)
        if rank() == 1 and f"step-{begun + 2}" in path.parent.name:
            os.truncate(path, path.stat().st_size // 2)
            die()
        return written

    def all_but_the_rename(checkpoint: Path, metadata: dict[str, Any], checksums: dict[str, str]) -> None:
        write_metadata(checkpoint, metadata, checksums)
        if metadata["step"] == begun + 3:
            die()

    if start == 0:
        saving.write_shard = half  # type: ignore[attr-defined]
    elif start == 1:
        saving.write_metadata = all_but_the_rename
    for _ in make_run(config, out).train(resume=True):
        pass


def changed() -> tuple[list[Tensor], list[Tensor]]:
    """Matrices after three steps of Muon, in one piece and in shards over the ranks."""
    generator = torch.Generator().manual_seed(1)
    given = [[torch.randn(shape, generator=generator) for shape in SHAPES] for _ in range(4)]
    mesh = init_device_mesh("cpu", (ranks(),))

    def learn(place: Any) -> list[Tensor]:
        weights = [nn.Parameter(place(W)) for W in given[0]]
        optimizer = Muon(weights, lr=0.1, momentum=0.9, weight_decay=0.01)
        for gradients in given[1:]:
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.grad = place(gradient)
            optimizer.step()
        return [full_tensor(weight).detach() for weight in weights]

    return learn(lambda W: W.clone()), learn(lambda W: distribute_tensor(W, mesh, [Shard(0)]))


def main(folder: Path) -> None:
    """Does every case, in order."""
    found: dict[str, Any] = {}
    with process_group():
        for case in json.loads((folder / "cases.json").read_text()):
            config = RunConfig(**case["config"])
            if "steps" in case:
                found[case["name"]] = learned(config, case["steps"])
            elif case.get("dies"):
                run_and_die(config, folder)
            else:
                begun = folder / case["begun"] if "begun" in case else None
                found[case["name"]] = run(config, folder / case["name"], begun, case.get("stops", False))
        pieces, shards = changed()
        found["muon"] = [float((a - b).abs().max()) for a, b in zip(pieces, shards, strict=True)]
        if is_first():
            (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
