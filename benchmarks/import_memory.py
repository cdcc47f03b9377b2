"""How much memory does `clearhead import` hold, beside the bytes of the model?

A synthetic checkpoint of 1 GB is imported in a process of its own, and so is one of a few kilobytes; the
difference of their peaks of resident memory, mapped files included, is what the model cost. Measured for a
Llama, whose tensors keep their form, for shards of it, and for a GPT-2, whose matrices are transposed. The bar
is 1.3 times the model's bytes.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from harness import arguments, report
from safetensors.torch import save_file

BAR = 1.3


def llama_folder(folder: Path, size: int, shards: int = 1) -> Path:
    """A folder of a Llama of about so many bytes, all of its numbers random."""
    d, vocabulary, d_ff = 1024, 8000, 2816
    block, blocks = 4 * (4 * d * d + 3 * d * d_ff + 2 * d), 1
    d, vocabulary, d_ff = (d, vocabulary, d_ff) if size > block else (16, 50, 32)
    if size > block:
        blocks = max(1, round((size - 8 * vocabulary * d) / block))
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": vocabulary,
        "max_position_embeddings": 2048,
        "hidden_size": d,
        "intermediate_size": d_ff,
        "num_hidden_layers": blocks,
        "num_attention_heads": 8,
        "tie_word_embeddings": False,
    }
    shapes = {"model.embed_tokens": (vocabulary, d), "model.norm": (d,), "lm_head": (vocabulary, d)}
    for i in range(blocks):
        at = f"model.layers.{i}."
        shapes |= {f"{at}self_attn.{x}_proj": (d, d) for x in "qkvo"}
        shapes |= {f"{at}mlp.{x}_proj": (d_ff, d) for x in ("gate", "up")}
        shapes |= {f"{at}mlp.down_proj": (d, d_ff)}
        shapes |= {f"{at}{x}_layernorm": (d,) for x in ("input", "post_attention")}
    return write(folder, config, {f"{name}.weight": shape for name, shape in shapes.items()}, shards)


def gpt2_folder(folder: Path, size: int) -> Path:
    """The same of a GPT-2."""
    d, vocabulary, blocks = 1024, 8000, 1
    block = 4 * (12 * d * d + 13 * d)
    if size > block:
        blocks = max(1, round((size - 4 * vocabulary * d) / block))
    else:
        d, vocabulary = 16, 50
    config = {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": vocabulary,
        "n_positions": 1024,
        "n_embd": d,
        "n_layer": blocks,
        "n_head": 8,
    }
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (vocabulary, d), "wpe.weight": (1024, d)}
    for i in range(blocks):
        for name, columns, rows in (
            ("attn.c_attn", 3 * d, d),
            ("attn.c_proj", d, d),
            ("mlp.c_fc", 4 * d, d),
            ("mlp.c_proj", d, 4 * d),
        ):
            shapes |= {f"h.{i}.{name}.weight": (rows, columns), f"h.{i}.{name}.bias": (columns,)}
        shapes |= {f"h.{i}.{name}.{p}": (d,) for name in ("ln_1", "ln_2") for p in ("weight", "bias")}
    shapes |= {f"ln_f.{p}": (d,) for p in ("weight", "bias")}
    return write(folder, config, {f"transformer.{name}": shape for name, shape in shapes.items()})


def write(
    folder: Path, config: dict[str, object], shapes: dict[str, tuple[int, ...]], shards: int = 1
) -> Path:
    """Config and weights, in one file or in several."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    generator, names = torch.Generator().manual_seed(1), list(shapes)
    places: dict[str, str] = {}
    for shard in range(shards):
        file = "model.safetensors" if shards == 1 else f"model-{shard}.safetensors"
        part = names[shard::shards]
        save_file({name: torch.randn(shapes[name], generator=generator) for name in part}, folder / file)
        places |= dict.fromkeys(part, file)
    if shards > 1:
        index = {"metadata": {}, "weight_map": places}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return folder


def peak(source: Path, out: Path) -> int:
    """The peak of resident memory, in bytes, of a process that imports a folder."""
    done = subprocess.run(
        [sys.executable, __file__, "--import", str(source), str(out)],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def import_here(source: str, out: str) -> None:
    """What the process of its own does."""
    from clearhead.exchange.importing import import_model

    import_model(source, out)
    # Not by getrusage, whose peak a process inherits from the one that started it.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    print(int(re.findall(r"^VmHWM:\s+(\d+) kB", status, re.M)[0]) * 1024)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--import", nargs=2, dest="paths", help="import SOURCE OUT and print the peak")
    options = parser.parse_args()
    if options.paths:
        import_here(*options.paths)
        return
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        base = peak(llama_folder(place / "small", 1), place / "small-out")
        makers: dict[str, Callable[[], Path]] = {
            "llama": lambda: llama_folder(place / "llama", options.megabytes << 20),
            "llama in 8 shards": lambda: llama_folder(place / "shards", options.megabytes << 20, 8),
            "gpt2": lambda: gpt2_folder(place / "gpt2", options.megabytes << 20),
        }
        for name, make in makers.items():
            source = make()
            size = sum(file.stat().st_size for file in source.glob("*.safetensors"))
            held = peak(source, place / f"{source.name}-out") - base
            results[name] = {"model_bytes": size, "held_bytes": held, "ratio": held / size}
            print(
                f"{name:18s} model {size / 1e6:6.0f} MB, held {held / 1e6:6.0f} MB, ratio {held / size:.3f}"
            )
    keeps = all(result["ratio"] <= BAR for result in results.values())
    print(f"bar {BAR}: {'kept' if keeps else 'FAILED'}")
    facts = {"results": results, "base_bytes": base, "bar": BAR, "kept": keeps, "seed": 1}
    report("import_memory", facts, options.save, ("torch", "safetensors"))
    raise SystemExit(not keeps)


if __name__ == "__main__":
    main()
