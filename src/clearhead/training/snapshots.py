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
import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from clearhead import __version__
from clearhead.checkpoint import read_json, some
from clearhead.config.run import RunConfig
from clearhead.data.batches import Position
from clearhead.data.cache import checksum, key_of
from clearhead.errors import CheckpointError, ConfigError, TrainingError
from clearhead.storage import remove_whole, taking_place
from clearhead.training.distributed import rank, ranks, told_by_first
from clearhead.training.parts import OnDisk, part_names, read_parts, write_part
from clearhead.training.shares import of_all, placed, whole
from clearhead.training.teams import Team
from clearhead.training.trainer import Trainer, pick_precision, should_compile

log = logging.getLogger(__name__)

FORMAT = 4
FACTS, CHECKSUMS = "state.json", "checksums.json"
COUNTS = ("step", "seconds", "skipped", "skipped_in_a_row", "best_loss", "evaluations_since_best")
Facts = dict[str, Any]


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
        counts, position = numbers_of(place, facts, trainer)
        then = facts["surroundings"]
        # `torchrun` gives each of several processes one thread, which is far too few for one by itself.
        if trainer.training.threads is None and then["ranks"] == ranks():
            torch.set_num_threads(then["threads"])
        put_back(tensors, trainer)
        compare(then, surroundings(trainer))
    trainer.position = position
    for name, value in counts.items():
        setattr(trainer, name, value)


def numbers_of(place: Path, facts: Facts, trainer: Trainer) -> tuple[dict[str, float], Position]:
    """The counts of a snapshot and its place in the data, if a run can have come to them."""
    epoch, at = facts["position"]
    counts, step = {name: facts[name] for name in COUNTS}, facts["step"]
    if step != step_of(place) or step > trainer.steps:
        raise ValueError(f"step = {step!r} of {trainer.steps}")
    for name, value in (counts | {"epoch": epoch, "position": at}).items():
        if name in ("seconds", "best_loss"):
            is_sound = math.isfinite(value) if value is not None else name == "best_loss"
        else:  # a step has at most one batch, one evaluation and one reason to be skipped
            is_sound = type(value) is int and 0 <= value <= step
        if not is_sound:
            raise ValueError(f"{name} = {value!r}")
    if counts["best_loss"] is None:
        counts["best_loss"] = math.inf
    if not trainer.batches.plan.has(epoch, at):
        raise ValueError(f"epoch {epoch} has no batch {at}")
    return counts, Position(epoch, at)


# What a snapshot says of its run.


def facts_of(trainer: Trainer, run: Facts) -> Facts:
    """Everything of a trainer that is no tensor; `run` is its identity."""
    facts = {"format": FORMAT, "run": run, "surroundings": surroundings(trainer)}
    facts["settings"] = trainer.run.model_dump(mode="json", exclude_unset=True)
    facts |= {"position": [trainer.position.epoch, trainer.position.step]}
    facts |= {name: getattr(trainer, name) for name in COUNTS}
    if not math.isfinite(trainer.best_loss):
        facts["best_loss"] = None  # JSON has no infinity
    return facts


def settings_of(facts: Facts) -> RunConfig | None:
    """The settings of the run until a snapshot; None where it does not say, or in words of another version."""
    try:
        return RunConfig.model_validate(facts["settings"])
    except (KeyError, ConfigError):
        return None


def check_start(facts: Facts, trainer: Trainer) -> None:
    """Refuses another model to start from where all that learns has begun; frozen weights may have moved."""
    settings, now = settings_of(facts), trainer.training.init_from
    before = settings.training.init_from if settings else now
    if now != before and all(weight.requires_grad for weight in trainer.model.parameters()):
        raise ConfigError(
            f"training.init_from = {now!r}: the run has begun, from {before or 'random weights'}.\n"
            "Leave it as it was to go on, or begin a new run with it."
        )


def identity(trainer: Trainer) -> Facts:
    """What must be the same for a run to go on as if it had never stopped."""
    training, tokenizers = trainer.training, trainer.data.tokenizers
    weights = trainer.model.named_parameters()
    model = trainer.run.model.model_dump(mode="json", exclude={"dropout", "attention_dropout"})
    return {
        "steps": trainer.steps,
        "training.batch_tokens": training.batch_tokens,
        "training.seed": training.seed,
        "training.optimizer": training.optimizer,
        "training.average": training.average,
        "training data": data_key(trainer, "train"),
        "validation data": data_key(trainer, "validation"),
        "tokenizers": [each.digest for each in (tokenizers.target, tokenizers.source)],
        **{f"model.{key}": value for key, value in model.items()},
        "training.lora_scale": training.lora_scale,
        "weights": {name: list(weight.shape) for name, weight in weights if weight.requires_grad},
        "frozen weights": frozen_key(trainer.model),
    }


def data_key(trainer: Trainer, split: Any) -> str | None:
    """A name for the contents of a split."""
    shards = trainer.data.splits.get(split)
    return key_of({name: facts.sha256 for name, facts in shards.files.items()}) if shards else None


def frozen_key(model: nn.Module) -> str | None:
    """A name for the weights that do not learn."""
    frozen = [(name, weight) for name, weight in model.named_parameters() if not weight.requires_grad]
    digest = sha256()
    for name, weight in frozen:
        digest.update(name.encode())
        digest.update(whole(weight.detach()).cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest() if frozen else None


def check_same(place: Path, theirs: Facts, ours: Facts) -> None:
    """Refuses a snapshot of another run, and says what differs and what to do."""
    for name, value in ours.items():
        if theirs.get(name) == value or (name == "tokenizers" and name not in theirs):  # old ones do not say
            continue
        if name.endswith("data"):
            raise CheckpointError(
                f"The {name} is not what {place} was trained on: its files, or how they are read, have changed since.\n"
                "Put them back as they were to go on. Or begin a new run on the new data from the model that is "
                f"there: --training.init_from {place.parent.parent / 'best'}."
            )
        if name == "tokenizers":
            raise CheckpointError(
                f"{place} goes with another tokenizer than this one: the same ids would mean other texts.\n"
                "Put back tokenizer.json of the model in training.init_from, or the data and the settings that it was "
                "made from."
            )
        if name == "frozen weights":
            raise CheckpointError(
                f"{place} goes with other frozen weights than these: the model in training.init_from has changed, "
                "or other parts are frozen.\nPut back the model and the recipe that the run began with."
            )
        what = difference(theirs[name], value) if name == "weights" else f"{name} = {theirs.get(name)}"
        mine = "" if name == "weights" else f", while this one has {value}"
        raise CheckpointError(
            f"{place} is of a run with {what}{mine}.\n"
            "Go on with the recipe and the data of that run, or begin a new one."
        )


def difference(theirs: dict[str, list[int]], ours: dict[str, list[int]]) -> str:
    """In which weights that learn two runs differ."""
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    return f"other weights that learn: they differ in {some(names)}"


def surroundings(trainer: Trainer) -> Facts:
    """What the bits of a run depend on besides its recipe and its data."""
    return {
        "clearhead": __version__,
        "torch": torch.__version__,
        "processor": torch.backends.cpu.get_cpu_capability(),
        "device": trainer.device.type,
        "ranks": ranks(),
        "threads": torch.get_num_threads(),
        "precision": pick_precision(trainer.training, trainer.device),
        "compiled": should_compile(trainer.training, trainer.device),
    }


def compare(then: Facts, now: Facts) -> None:
    """Says what has changed around a run, where that may change its bits."""
    changes = [
        f"{name} was {then.get(name)} and is {now[name]}" for name in now if then.get(name) != now[name]
    ]
    if changes:
        log.warning(
            "The run goes on, but may not end with the same bits as one that never stopped: %s.",
            ", ".join(changes),
        )


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
