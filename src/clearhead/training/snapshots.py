"""The state of a run, so that it can go on: weights, optimizers, averages, random numbers and the place in the data.

A snapshot is a folder `checkpoints/step-N` of safetensors and JSON:

state-1-of-1.safetensors   every tensor: what learns, and what training keeps of it; a file for each rank with a part
state.json                 counts, the place in the data, what the run is, its settings, and what it runs on
checksums.json             the SHA-256 of the others

Weights that do not learn are not in it: the run finds them again where it began, and a checksum says whether
they are the same. `write` is the whole of a safe save, `restore_newest` the whole of going on.
"""

import json
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from clearhead.checkpoint import read_json, some
from clearhead.data.cache import checksum
from clearhead.errors import CheckpointError, TrainingError
from clearhead.storage import remove_whole, taking_place
from clearhead.training.distributed import rank, ranks, told_by_first
from clearhead.training.facts import (
    FORMAT,
    Facts,
    check_same,
    check_start,
    compare,
    identity,
    numbers_of,
    surroundings,
)
from clearhead.training.parts import OnDisk, part_names, read_parts, write_part
from clearhead.training.shares import of_all, placed
from clearhead.training.teams import Team
from clearhead.training.trainer import Trainer

log = logging.getLogger(__name__)

FACTS, CHECKSUMS = "state.json", "checksums.json"


class Damaged(CheckpointError):
    """A snapshot that is not as it was written."""


def write(
    folder: Path, facts: Facts, tensors: dict[str, Tensor], keep: int, team: Team | None = None
) -> Path:
    """A safe save: beside its place, with checksums, all of it flushed, then renamed; only then old ones go.

    Every rank of a team writes the tensors that it holds, and the first the rest, once all parts are on disk.
    Whenever any of them is killed, every folder called step-N is whole, and the newest of before is among them.
    """
    team = team or Team()
    place, is_leading = folder / f"step-{facts['step']}", team.number == 0
    new, parts = folder / f".{place.name}.{team.token}.writing", list(part_names(team.size))
    with taking_place(new, place) if is_leading else nullcontext():  # flushes the folder, and renames it
        sums = team.each(lambda: write_part(new / parts[team.number], tensors))
        if is_leading:
            check_seen(new, parts)
            write_facts(new, facts | {"parts": team.size}, dict(zip(parts, sums, strict=True)))
    for old in superseded(folder, facts["step"], keep) if is_leading else ():
        remove_whole(old)
    return place


def check_seen(place: Path, parts: list[str]) -> None:
    """Refuses parts that others have written where the first rank does not see them."""
    if missing := [name for name in parts if not (place / name).is_file()]:
        raise TrainingError(
            f"{some(missing)} of a checkpoint is not in {place.parent}, though its rank has written it.\n"
            "All machines must have the run folder at the same place, on a disk that they share: name such an --out."
        )


def write_facts(place: Path, facts: Facts, sums: dict[str, str]) -> None:
    """Writes what is no tensor, and the checksums of all."""
    (place / FACTS).write_text(json.dumps(facts, allow_nan=False) + "\n", encoding="utf-8")
    for name in sums:
        shutil.copymode(place / FACTS, place / name)  # safetensors lets nobody else read what it writes
    sums = {FACTS: checksum(place / FACTS), **sums}
    (place / CHECKSUMS).write_text(json.dumps(sums) + "\n", encoding="utf-8")


def superseded(folder: Path, step: int, keep: int) -> list[Path]:
    """The snapshots that one of this step makes needless: all but the newest `keep` up to it.

    Those of later steps were damaged, or the run would have gone on from them.
    """
    until = [place for place in snapshots(folder) if step_of(place) <= step]
    return [place for place in snapshots(folder) if place not in until[-keep:]]


def snapshots(folder: Path) -> list[Path]:
    """The snapshots of a run, the newest last."""
    found = [path for path in folder.glob("step-*") if path.name[5:].isdecimal() and path.is_dir()]
    return sorted(found, key=step_of)


def step_of(place: Path) -> int:
    """The step at which a snapshot was taken."""
    return int(place.name[5:])


def restore_newest(folder: Path, trainer: Trainer) -> Facts | None:
    """Puts a trainer where the newest good snapshot was taken, on all ranks alike; its facts, if there is any."""
    taken: list[Facts] = []

    def take(place: Path) -> None:
        facts, tensors = read(place)
        restore(place, facts, tensors, trainer)
        taken.append(facts)

    return taken[-1] if newest_good(folder, Team(ranks()), take) else None


def newest_good(folder: Path, team: Team, take: Callable[[Path], None] = lambda place: None) -> Path | None:
    """The newest snapshot that is whole and can be taken up, if there is any; damaged ones are named.

    Each rank looks at some files.
    """
    found = told_by_first(lambda: " ".join(place.name for place in snapshots(folder))).split()
    for name in reversed(found):
        place = folder / name
        damages = told_damages(team, partial(check, place, team)) or told_damages(team, partial(take, place))
        if not damages:
            return place
        if team.number == 0:
            log.warning("%s%s", damages[0], "" if name == found[0] else " Going on from the one before.")
    if found:
        raise CheckpointError(
            f"None of the {len(found)} checkpoints in {folder} is whole: there is nothing to go on from.\n"
            "Begin a new run, or start one from the model that is there: --training.init_from "
            f"{folder.parent / 'best'}."
        )
    return None


def told_damages(team: Team, do: Callable[[], None]) -> list[str]:
    """What the members of a team find wrong with a snapshot as they do something with it."""
    damage = ""
    try:
        do()
    except Damaged as error:
        damage = str(error)
    return [damage for damage in team.told(damage) if damage]


def check(place: Path, team: Team | None = None) -> None:
    """Refuses a snapshot whose files are not as they were written; each of a team looks at some of them."""
    team = team or Team()
    try:
        sums = read_json(place / CHECKSUMS)
        check_file(place / FACTS, sums)
        facts = read_json(place / FACTS)
        if facts["format"] == FORMAT:  # how others call their parts is not known
            for name in islice(part_names(facts["parts"]), team.number, None, team.size):
                check_file(place / name, sums)
    except (OSError, ValueError, KeyError, TypeError, CheckpointError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise Damaged(f"{place} is damaged: {reason}.") from None


def check_file(path: Path, sums: dict[str, str]) -> None:
    """Refuses a file that is not as it was written."""
    if checksum(path) != sums[path.name]:
        raise ValueError(f"{path.name} is not as it was written")


def read(place: Path) -> tuple[Facts, dict[str, OnDisk]]:
    """The facts and tensors of a snapshot; of the tensors nothing is read yet."""
    facts = read_json(place / FACTS)
    with readable(place):
        if facts.get("format") != FORMAT:
            raise CheckpointError(
                f"{place} has format {facts.get('format')}, but this version reads format {FORMAT}.\n"
                "Go on with the version of clearhead that wrote it."
            )
        return facts, read_parts(place, facts["parts"])


@contextmanager
def readable(place: Path) -> Iterator[None]:
    """Says which snapshot is not what a run writes, though its checksums are right."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, SafetensorError) as error:
        raise Damaged(f"{place} is not a checkpoint as clearhead writes them: {error!r}.") from None


def restore(place: Path, facts: Facts, tensors: Mapping[str, OnDisk], trainer: Trainer) -> None:
    """Puts a trainer where a snapshot was taken; one of another run is refused before anything is changed."""
    ours = identity(trainer)
    with readable(place):
        check_start(facts, trainer)
        check_same(place, facts["run"], ours)
        counts, position = numbers_of(facts, step_of(place), trainer)
        then = facts["surroundings"]
        # `torchrun` gives each of several processes one thread, which is far too few for one by itself.
        if trainer.training.threads is None and then["ranks"] == ranks():
            torch.set_num_threads(then["threads"])
        put_back(tensors, trainer)
        compare(then, surroundings(trainer))
    trainer.position = position
    for name, value in counts.items():
        setattr(trainer, name, value)


# What a snapshot holds.


def tensors_of(trainer: Trainer) -> dict[str, Tensor]:
    """Everything of a trainer that is a tensor, by name; of what is spread over ranks, this one's part."""
    tensors: dict[str, Tensor] = {f"weights.{name}": W for name, W in learning(trainer.model).items()}
    for number, name, state in optimizer_states(trainer):
        tensors |= {f"optimizer.{number}.{name}.{key}": value for key, value in state.items()}
    tensors |= {f"average.{name}": value for name, value in trainer.average.state().items()}
    tensors["random.cpu"] = of_all(torch.get_rng_state())  # (ranks, bytes)
    if trainer.device.type == "cuda":
        tensors["random.cuda"] = of_all(torch.cuda.get_rng_state(trainer.device))
    return tensors


def put_back(tensors: Mapping[str, OnDisk], trainer: Trainer) -> None:
    """The reverse of `tensors_of`, for any number of ranks: each reads only its rows."""
    names = {}
    with torch.no_grad():
        for name, weight in learning(trainer.model).items():
            weight.copy_(placed(of_shape(tensors[f"weights.{name}"], weight), weight))
            names[id(weight)] = name
    for number, optimizer in enumerate(trainer.optimizers):
        for weight in (weight for group in optimizer.param_groups for weight in group["params"]):
            kept = below(f"optimizer.{number}.{names[id(weight)]}.", tensors)
            optimizer.state[weight] = {
                key: placed(of_shape(value, weight), weight) for key, value in kept.items()
            }
    trainer.average.restore(below("average.", tensors))
    if rank() < tensors["random.cpu"].shape[0]:  # a rank that was not there before begins with its own seed
        mine = slice(rank(), rank() + 1)
        torch.set_rng_state(tensors["random.cpu"][mine].clone()[0])  # a view of another row is misread
        if "random.cuda" in tensors and trainer.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["random.cuda"][mine].clone()[0], trainer.device)


def of_shape(tensor: OnDisk, weight: Tensor) -> OnDisk:
    """What is kept of a weight, if it has its shape or is one number, as a count of steps is."""
    if tuple(tensor.shape) not in (tuple(weight.shape), ()):
        raise ValueError(f"a tensor of shape {tensor.shape} for a weight of {tuple(weight.shape)}")
    return tensor


def learning(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weights that learn, by name."""
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def below(prefix: str, tensors: Mapping[str, OnDisk]) -> dict[str, OnDisk]:
    """The tensors whose names begin so, by the rest of their names."""
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}


def optimizer_states(trainer: Trainer) -> list[tuple[int, str, dict[str, Any]]]:
    """The number of an optimizer, the name of a weight, and what the optimizer remembers of it."""
    names = {id(weight): name for name, weight in trainer.model.named_parameters()}
    return [
        (number, names[id(weight)], dict(state))
        for number, optimizer in enumerate(trainer.optimizers)
        for weight, state in optimizer.state.items()
    ]
