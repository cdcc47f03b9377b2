"""What does preparation cost beside encoding? A file becomes shards, against the bare encoder in memory.

The text is the source of Python's standard library, about 10 MB: as documents, and a line at a time, which is
the hardest case since every example has its own costs. Preparation reads and checks the file, cuts it into
examples, hashes, encodes, frames, counts, writes, flushes and takes checksums; the encoder only encodes. Both
run in turn, with all cores. The bar: 0.7 times the speed of the encoder.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

from encode_speed import source_files
from harness import arguments, paired, ratio, report

from clearhead.config.data import Documents, Reading
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.data.frames import document_frame
from clearhead.data.progress import ignore_progress
from clearhead.data.shards.encoding import Rules, Side
from clearhead.data.shards.splits import write_split
from clearhead.examples import Text
from clearhead.text.sources.read import read
from clearhead.text.tokenizers.tokenizer import Tokenizer

BAR = 0.7


def measure(file: Path, documents: Documents, tokenizer: Tokenizer, pairs: int) -> dict[str, Any]:
    """The speed of the preparation over that of the encoder, in paired rounds."""
    reader = read(file, "text", reading=Reading(documents=documents))
    texts = [example.text for example in reader if isinstance(example, Text)]
    side = Side("text", tokenizer, document_frame(tokenizer.specials))

    def ours() -> None:
        with tempfile.TemporaryDirectory() as folder:
            write_split(Path(folder), reader, "train", (side,), Rules(packed=True), ignore_progress)

    def bare() -> object:
        return tokenizer.encode_batch(texts)

    result = ratio(*reversed(paired(ours, bare, pairs)))
    megabytes = file.stat().st_size / 1e6
    encoder_seconds, our_seconds = result["median_seconds"]
    return result | {
        "examples": len(texts),
        "megabytes": megabytes,
        "megabytes_per_second": megabytes / our_seconds,
        "encoder_megabytes_per_second": megabytes / encoder_seconds,
        "bar": BAR,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--megabytes", type=float, default=10)
    options = parser.parse_args()
    texts = source_files(int(options.megabytes * 1e6))
    tokenizer = Tokenizer.train(texts[:300], TokenizerConfig(kind="bpe"))
    results = {}
    print(f"{'examples':12s}{'prepared':>10s}{'encoder':>10s}  MB/s{'ratio':>10s}{'95 % interval':>20s}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "source.txt")
        file.write_text("\n\n".join(texts), encoding="utf-8")
        for name, documents in (("documents", "file"), ("lines", "line")):
            result = results[name] = measure(file, documents, tokenizer, options.pairs)  # type: ignore[arg-type]
            low, high = result["interval_95"]
            speeds = result["megabytes_per_second"], result["encoder_megabytes_per_second"]
            kept = "" if high >= BAR else "   FAILED"
            print(
                f"{name:12s}{speeds[0]:10.2f}{speeds[1]:10.2f}{result['median_ratio']:16.2f}"
                f"{low:12.2f} to {high:5.2f}   bar {BAR}{kept}",
                flush=True,
            )
    keeps = all(result["interval_95"][1] >= BAR for result in results.values())
    outcome = {"results": results, "kept": keeps, "threads": os.cpu_count()}
    report("prepare_speed", outcome, options.save, packages=("tokenizers", "tiktoken", "numpy"))
    raise SystemExit(not keeps)


if __name__ == "__main__":
    main()
