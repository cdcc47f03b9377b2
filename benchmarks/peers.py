"""Other engines beside ours: their model files with our weights, and processes of their own that they run in.

Set up an environment with `pip install llama-cpp-python ctranslate2` (the first builds itself with its default flags)
and name its Python by `--peers`; engines that it does not have are left out, and the result says so.

To keep all engines to AVX2, set the variables of `KEPT_TO` (haswell; +avx2,+fma; AVX2; avx2; AVX2), and build
llama-cpp-python with

    CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON
        -DGGML_AVX_VNNI=OFF -DGGML_AVX512=OFF -DLLAVA_BUILD=OFF"
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf

HERE = Path(__file__).parent
# Seconds before a run: threads of OpenMP occupy a core that long after one, waiting for more work.
PAUSE = 0.3
# Variables by which engines use fewer instructions than the processor has: Numba, PyTorch, and CTranslate2.
KEPT_TO = (
    "NUMBA_CPU_NAME",
    "NUMBA_CPU_FEATURES",
    "ONEDNN_MAX_CPU_ISA",
    "ATEN_CPU_CAPABILITY",
    "CT2_FORCE_CPU_ISA",
)


def kept_to() -> dict[str, str]:
    """Those of the variables that are set."""
    return {name: os.environ[name] for name in KEPT_TO if name in os.environ}


class Peer:
    """An engine in a process of its own; its seconds are its own, without the transport."""

    def __init__(self, python: str, kind: str, path: Path, *numbers: int) -> None:
        command = [python, str(HERE / "peer_engine.py"), kind, str(path), *map(str, numbers)]
        environment = os.environ | {"OMP_NUM_THREADS": str(numbers[0])}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=environment,
        )  # fmt: skip
        self.about = self.read()

    def read(self) -> Any:
        """The next line that it writes."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise OSError("the engine has ended")
        return json.loads(line)

    def write(self, **task: Any) -> tuple[list[list[int]], float]:
        """The texts and seconds of a task."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        found = self.read()
        return found["texts"], found["seconds"]

    def close(self) -> None:
        """Ends the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def start_peers(engines: dict[str, tuple[str, str, Path, list[int]]]) -> tuple[dict[str, Peer], list[str]]:
    """The engines that run here, and the names of those that do not."""
    found, missing = {}, []
    for name, (python, kind, path, numbers) in engines.items():
        try:
            found[name] = Peer(python, kind, path, *numbers)
        except OSError:
            missing.append(name)
            print(f"{name} is left out: it does not run in {python}", file=sys.stderr)
    return found, missing


def write_gguf(model: Any, path: Path, is_int8: bool) -> None:
    """GPT-2 of transformers as a file of llama.cpp, in float32 or q8_0; norms and biases stay in float32."""
    import gguf

    config = model.config
    writer = gguf.GGUFWriter(str(path), "gpt2")
    writer.add_context_length(config.n_positions)
    writer.add_embedding_length(config.n_embd)
    writer.add_block_count(config.n_layer)
    writer.add_feed_forward_length(4 * config.n_embd)
    writer.add_head_count(config.n_head)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("none")
    names = {
        "wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "ln_1": "attn_norm", "ln_2": "ffn_norm",
        "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
    }  # fmt: skip
    for name, weight in model.transformer.state_dict().items():
        part, _, kind = name.rpartition(".")
        block = ""
        if part.startswith("h."):
            _, number, part = part.split(".", 2)
            block = f"blk.{number}."
        W = weight.float()
        W = (W.t() if "c_" in part and W.dim() == 2 else W).contiguous().numpy()
        target = f"{block}{names[part]}.{kind}"
        if is_int8 and W.ndim == 2 and part != "wpe":
            packed = gguf.quants.quantize(W, gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(target, packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        else:
            writer.add_tensor(target, np.ascontiguousarray(W))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Numbers:
    """A tokenizer whose tokens are numbers as text."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.bos_token = self.eos_token = self.unk_token = "0"

    def get_vocab(self) -> dict[str, int]:
        """Every token and its id."""
        return {str(i): i for i in range(self.size)}


def write_ctranslate2(folder: Path, out: Path, quantization: str, size: int) -> None:
    """A saved model of transformers as a folder of CTranslate2."""
    from ctranslate2.converters import TransformersConverter

    class Converter(TransformersConverter):  # type: ignore[misc]
        def load_tokenizer(self, *given: Any, **named: Any) -> Numbers:
            return Numbers(size)

    Converter(str(folder)).convert(str(out), quantization=quantization, force=True)


def memory_bandwidth(gigabytes: float = 1.0) -> dict[str, float]:
    """Bytes a second that all threads move: the best of some copies, triads, matrix-vector products and sums."""
    n = int(gigabytes * 2**30 / 4)
    a, b = torch.ones(n), torch.ones(n)
    W, x = a.view(-1, 1024), torch.ones(1024)
    ways: dict[str, tuple[Callable[[], object], int]] = {
        "copy": (lambda: b.copy_(a), 2), "triad": (lambda: torch.add(a, b, alpha=0.5, out=b), 3),
        "matrix_vector": (lambda: torch.mv(W, x), 1), "sum": (a.sum, 1),
    }  # fmt: skip
    speeds = {}
    for name, (run, passes) in ways.items():
        times = []
        for _ in range(6):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        speeds[name] = passes * 4 * n / min(times)
    return speeds


def save_transformers(model: Any, folder: Path) -> Path:
    """Writes a model of transformers; returns the folder."""
    model.save_pretrained(str(folder))
    return folder


def gpt2(sizes: dict[str, int]) -> Any:
    """GPT-2 with random weights, the same every time; wide logits, so that rounding rarely changes a token."""
    torch.manual_seed(1)
    model = hf.GPT2LMHeadModel(
        hf.GPT2Config(**sizes, n_positions=1024, bos_token_id=None, eos_token_id=None)
    ).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)
    return model
