"""How long does `clearhead import` take beside copying the same file and waiting for the disk?

A synthetic checkpoint of 500 MB in safetensors is imported, and its file is copied with `shutil.copyfile` and
`fsync`, in turn. Both write new files each time, and both start with the source in the system's cache. The bar
is 2, for a Llama, whose tensors keep their form, and for a GPT-2, whose matrices have to be transposed.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from harness import arguments, is_within, paired, ratio, report
from import_memory import gpt2_folder, llama_folder

from clearhead.exchange.importing import import_model

BAR = 2.0


def measure(source: Path, place: Path, pairs: int) -> dict[str, Any]:
    """Seconds of the import and of the copy, as a ratio."""

    def fresh(work: Callable[[Path], object]) -> Callable[[], None]:
        def run() -> None:
            out = place / "out"
            work(out)
            shutil.rmtree(out)

        return run

    def copy(out: Path) -> None:
        out.mkdir()
        for name in ("config.json", "model.safetensors"):
            shutil.copyfile(source / name, out / name)
            handle = os.open(out / name, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)

    return ratio(*paired(fresh(lambda out: import_model(source, out)), fresh(copy), pairs))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--pairs", type=int, default=10)
    options = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, make in (("llama", llama_folder), ("gpt2", gpt2_folder)):
            source = make(place / name, options.megabytes << 20)
            size = (source / "model.safetensors").stat().st_size
            results[name] = {"bytes": size} | measure(source, place, options.pairs)
            shutil.rmtree(source)
            low, high = results[name]["interval_95"]
            ours, theirs = results[name]["median_seconds"]
            print(
                f"{name:6s} {size / 1e6:5.0f} MB  import {ours:.2f} s, copy {theirs:.2f} s, "
                f"ratio {results[name]['median_ratio']:.2f}  (95 %: {low:.2f} to {high:.2f})"
            )
    keeps = all(is_within(result, BAR) for result in results.values())
    print(f"bar {BAR}: {'kept' if keeps else 'FAILED'}")
    facts = {
        "results": results,
        "bar": BAR,
        "kept": keeps,
        "seed": 1,
        "torch_threads": torch.get_num_threads(),
    }
    report("import_speed", facts, options.save)
    raise SystemExit(not keeps)


if __name__ == "__main__":
    main()
