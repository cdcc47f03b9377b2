"""The inner half of `tools/same_numbers.py`: a folder of runs enters; a hash of each of their results leaves.

    python tools/result_hashes.py interrupt   starts a run and abandons it, for `clearhead train resumed --resume`
    python tools/result_hashes.py measure     prints one JSON object: a hash per item

It runs in that folder, with the `clearhead` that PYTHONPATH names, and uses public names only. Weights are hashed as
tensors, and logs without their timings, so that files may gain fields.
"""

import hashlib
import json
import os
import sys
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from clearhead import Model

TEXTS = ["The film was not bad at all.", "ACGTTGACATATAAT", "El perro duerme en la casa."]
DECODING: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "sampled": {"temperature": 1.0, "top_p": 0.9, "repetition_penalty": 1.1, "seed": 5},
    "beam": {"beam": 3, "length_penalty": 0.6},
}
STOP = 20  # the step at which a run is abandoned; a checkpoint comes before it
LOGGED = ("step", "loss", "gradient_norm", "validation_loss", "accuracy")
SCORES = ("loss", "accuracy", "macro_f1", "bits_per_byte", "bleu", "chrf")


def hash_parts(*parts: bytes) -> str:
    """A short hash; each part enters with its length, so that no byte moves to the next part unseen."""
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).hexdigest()[:16]


def hash_values(values: object) -> str:
    """The hash of what JSON can hold: every bit of a float counts, the order of keys does not."""
    return hash_parts(json.dumps(values, sort_keys=True).encode())


def hash_tensors(tensors: Mapping[str, "Tensor"]) -> str:
    """The hash of the name, type, shape and bytes of each tensor, in whatever order they come."""
    import torch

    parts: list[bytes] = []
    for name, tensor in sorted(tensors.items()):
        content = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        parts += [name.encode(), f"{tensor.dtype} {tuple(tensor.shape)}".encode(), content]
    return hash_parts(*parts)


def hash_weights(folder: Path) -> str:
    """The hash of the weights of a model folder, ours or Hugging Face's."""
    from safetensors.torch import load_file

    return hash_tensors(load_file(folder / "model.safetensors"))


def hash_losses(run: Path) -> str:
    """The hash of the losses that a run has logged."""
    records = map(json.loads, (run / "log.jsonl").read_text("utf-8").splitlines())
    return hash_values([[record.get(key) for key in LOGGED] for record in records])


def interrupt() -> None:
    """Trains the language model again, and stops halfway."""
    import clearhead

    class Interrupted(Exception):
        pass

    def stop(record: Any) -> None:
        if record.step == STOP:
            raise Interrupted

    with suppress(Interrupted):
        clearhead.train("language-model.toml", "resumed", on_record=stop)
        raise SystemExit(f"The run was not interrupted at step {STOP}.")


def measure() -> dict[str, str]:
    """The hash of everything that the runs have written, and that their models compute."""
    import clearhead

    if not Path(clearhead.__file__).is_relative_to(os.environ["PYTHONPATH"]):
        raise SystemExit(f"{clearhead.__file__} was imported, which is not in {os.environ['PYTHONPATH']}.")
    hashes: dict[str, str] = {}

    def add(folder: str, items: Mapping[str, str]) -> None:
        hashes.update({f"{folder}: {item}": value for item, value in items.items()})

    tasks = {path.stem: tomllib.loads(path.read_text("utf-8"))["task"] for path in Path().glob("*.toml")}
    for name in (*tasks, "resumed"):
        scores = json.loads(Path(name, "quality.json").read_text("utf-8"))
        add(name, {"weights": hash_weights(Path(name, "best")), "losses": hash_losses(Path(name))})
        add(name, {"scores": hash_values([scores.get(key) for key in SCORES])})
    for path in Path().glob("exported-*"):
        for file in ("config.json", "tokenizer.json"):
            add(path.name, {file: hash_values(json.loads((path / file).read_text("utf-8")))})
        add(path.name, {"weights": hash_weights(path)})
    for path in Path().glob("imported-*"):
        tasks[path.name] = tasks[path.name.removeprefix("imported-")]
        add(path.name, {"weights": hash_weights(path)})
    for name, task in tasks.items():
        add(name, computed(clearhead.load(name), task))
    return dict(sorted(hashes.items()))


def computed(model: "Model", task: str) -> dict[str, str]:
    """The hash of everything that a model computes."""
    import torch

    ids = torch.arange(5, 10).view(1, 5)
    attention = {site: A for site, A in model.trace(TEXTS[0]).items() if site.endswith(".weights")}
    hashes = {
        "logits": hash_tensors({"": model.logits(ids, ids.flip(1) if task == "translate" else None)}),
        "attention": hash_tensors(attention),
        "vectors": hash_tensors({"": model.embed(TEXTS)}),
    }
    if task == "classify":
        hashes["classes"] = hash_values([[one.label, one.probabilities] for one in model.classify(TEXTS)])
    if task == "translate":
        hashes["translations"] = hash_values(model.translate(TEXTS, max_tokens=20))
    if task in ("translate", "language-model"):
        for way, settings in DECODING.items():
            written = model.generate(TEXTS, max_tokens=40, **settings)
            hashes[f"{way} texts"] = hash_values([[one.text, one.tokens, one.logprobs] for one in written])
        pieces = model.stream(TEXTS[0], max_tokens=40, temperature=0)
        hashes["streamed text"] = hash_values([piece.text for piece in pieces])
    return hashes


if __name__ == "__main__":
    if sys.argv[1:] == ["interrupt"]:
        interrupt()
    else:
        print(json.dumps(measure()))
