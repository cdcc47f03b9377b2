"""What each rank of `torchrun` does for the tests: the cases of a folder enter; `found.json` leaves, from the first.

python -m torch.distributed.run --standalone --nproc-per-node 2 -m tests.training.ranked FOLDER
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from clearhead.config.run import RunConfig
from clearhead.data.prepare import prepare
from clearhead.models.build import build
from clearhead.training.distributed import is_first, joined, rank, ranks
from clearhead.training.optimizers import Muon
from clearhead.training.plan import model_config
from clearhead.training.runs import make_run
from clearhead.training.shares import whole
from clearhead.training.trainer import EvaluationRecord, StepRecord, Trainer

STOP = 3
SHAPES = [(8, 8), (8, 8), (8, 8), (12, 5), (5, 12), (7, 3), (1, 6)]


def learned(config: RunConfig, steps: int) -> dict[str, Any]:
    """The losses of a trainer's steps and evaluations, and the weights it ends with."""
    data = prepare(config)
    trainer = Trainer(config, data, build(model_config(config, data), seed=3), steps)
    records = list(trainer.train())
    with trainer.shown():
        weights = {
            name: W.detach().flatten().tolist()
            for name, W in trainer.parallel.whole.named_parameters()
            if is_first()
        }
    return {
        "losses": [record.loss for record in records if isinstance(record, StepRecord)],
        "validation": [r.validation_loss for r in records if isinstance(r, EvaluationRecord)],
        "weights": weights,
    }


def run(config: RunConfig, out: Path, resume: bool, stops: bool) -> dict[str, Any]:
    """A run from its beginning or its newest checkpoint; with `stops`, only the last rank is told to stop."""
    ready = make_run(config, out)
    for record in ready.train(resume):
        if stops and record.step >= STOP and rank() == ranks() - 1:
            ready.stop()
    return {"step": ready.step, "is_done": ready.is_done}


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
        return [whole(weight).detach() for weight in weights]

    return learn(lambda W: W.clone()), learn(lambda W: distribute_tensor(W, mesh, [Shard(0)]))


def main(folder: Path) -> None:
    """Does every case, in order."""
    found: dict[str, Any] = {}
    with joined():
        for case in json.loads((folder / "cases.json").read_text()):
            config = RunConfig(**case["config"])
            if "steps" in case:
                found[case["name"]] = learned(config, case["steps"])
            else:
                found[case["name"]] = run(config, Path(case["out"]), case["resume"], case["stops"])
        pieces, shards = changed()
        found["muon"] = [float((a - b).abs().max()) for a, b in zip(pieces, shards, strict=True)]
        if is_first():
            (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
