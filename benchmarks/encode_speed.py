"""How fast does text become tokens? Each kind through our `encode_batch`, against the library's batch call.

The text is the source of Python's standard library, about 10 MB in whole files; for bpe also in lines, and
without a normal form, which costs the library much; for dna, random letters. Both run in turn on the same
texts, with all cores. The bare call alone is timed, though its ids would still have to be taken out; ours
ends with arrays of ids. The bars: 0.9 times the bare call for every kind, 2.5 times for byte-level BPE.
"""

import random
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from harness import arguments, paired, ratio, report
from tokenizers import Tokenizer as Library

from clearhead.config.tokenizer import Kind, TokenizerConfig
from clearhead.text.tokenizers.fast import cores
from clearhead.text.tokenizers.tokenizer import Tokenizer

BARS = {"bpe": 2.5}
BAR = 0.9
SEED = 1


def source_files(size: int) -> list[str]:
    """The standard library's files, in order of their names, up to this many bytes."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    texts, length = [], 0
    for path in sorted(folder.rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        texts.append(text)
        length += len(text.encode())
        if length >= size:
            break
    return texts


def dna(size: int) -> list[str]:
    """Random sequences of a thousand letters."""
    generator = random.Random(SEED)
    return ["".join(generator.choices("ACGT", k=1000)) for _ in range(size // 1000)]


def measure(config: TokenizerConfig, texts: list[str], training: list[str], pairs: int) -> dict[str, Any]:
    """The speed of ours over the bare call, in paired rounds, on one kind."""
    tokenizer = Tokenizer.train(training, config)
    library = Library.from_str(tokenizer.document)

    def ours() -> object:
        return tokenizer.encode_batch(texts)

    def bare() -> object:
        return library.encode_batch(texts, add_special_tokens=False)

    def loop() -> None:
        for text in texts:
            library.encode(text, add_special_tokens=False)

    bytes_ = sum(len(text.encode()) for text in texts)
    result = ratio(*reversed(paired(ours, bare, pairs)))
    bare_seconds, our_seconds = result["median_seconds"]
    return result | {
        "megabytes": bytes_ / 1e6,
        "megabytes_per_second": bytes_ / 1e6 / our_seconds,
        "bare_megabytes_per_second": bytes_ / 1e6 / bare_seconds,
        "loop_megabytes_per_second": bytes_ / 1e6 / _once(loop),
        "bar": BARS.get(config.kind, BAR),
    }


def _once(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--kinds", nargs="*", default=list(get_args(Kind)))
    options = parser.parse_args()
    size = int(options.megabytes * 1e6)
    files = source_files(size)
    lines = [line for text in files for line in text.splitlines(keepends=True)]
    cases = {
        kind: (TokenizerConfig(kind=kind), dna(size) if kind == "dna" else files) for kind in options.kinds
    }
    if "bpe" in cases:
        cases["bpe, no form"] = TokenizerConfig(normalization="none"), files
        cases["bpe, lines"] = TokenizerConfig(), lines
    print(f"{'kind':14s}{'ours':>8s}{'bare':>8s}{'loop':>8s}  MB/s{'ours / bare':>14s}{'95 % interval':>20s}")
    results = {}
    for name, (config, texts) in cases.items():
        result = results[name] = measure(config, texts, files[:300], options.pairs)
        low, high = result["interval_95"]
        speeds = [result[f"{who}megabytes_per_second"] for who in ("", "bare_", "loop_")]
        kept = "" if high >= result["bar"] else "   FAILED"
        print(
            f"{name:14s}{speeds[0]:8.2f}{speeds[1]:8.2f}{speeds[2]:8.2f}{result['median_ratio']:20.2f}"
            f"{low:12.2f} to {high:5.2f}   bar {result['bar']}{kept}",
            flush=True,
        )
    keeps = all(result["interval_95"][1] >= result["bar"] for result in results.values())
    report(
        "encode_speed",
        {"results": results, "kept": keeps, "seed": SEED, "threads": cores()},
        options.save,
        packages=("tokenizers", "tiktoken", "numpy"),
    )
    raise SystemExit(not keeps)


if __name__ == "__main__":
    main()
