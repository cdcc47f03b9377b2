"""Does the explorer stay within its limit? A random model of 135M weights, and texts of 1 to 4,000 tokens in all views.

Each length is a process of its own: the service opens the text, reads everything that the views ask for (thumbnails and
statistics of all heads, stream, lens, neighbours, projection, next token, all tensors; of a long text those of every
sixth block, and one head of each), and opens it again. Not run are the effects of muting each of 270 heads, which only
repeat the fast pass. Printed is the peak of resident memory over that of the loaded model. Bars: within the 1 GiB that
the service states, or refused before the pass runs; and the second time the pass of the first.
"""

import json
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness import arguments, report
from plan_memory import LIKE_LLAMA, MODELS, peak

LENGTHS = (1, 128, 1024, 2000, 4000, 4097)
LONG = 256  # tokens from which not all heads are asked for


def measure(tokens: int, folder: Path) -> dict[str, Any]:
    """The bytes that a text of so many tokens adds to this process, or the refusal."""
    from clearhead.api import load
    from clearhead.errors import InputError
    from clearhead.page.service.requests import PassRequest
    from clearhead.page.service.service import ExplorerService

    service = ExplorerService(load(folder).bundle, "model", "MODEL")
    request = PassRequest(text="x" * (tokens - 1))  # and a token at the beginning
    service.run_pass(PassRequest(text="x"))  # what libraries allocate once
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again
    before, start = peak(), time.perf_counter()
    found: dict[str, Any] = {"tokens": tokens, "limit": service.cache.most_bytes}
    try:
        found["name"] = look_at_everything(service, request)
        found["again"] = service.run_pass(request)["name"]
    except InputError as error:
        found["refused"] = str(error)
    return found | {"bytes": peak() - before, "seconds": time.perf_counter() - start}


def look_at_everything(service: Any, request: Any) -> str:
    """Asks all that the views ask; the name of the pass."""
    from clearhead.errors import InputError

    answer = service.run_pass(request)
    captured = service.cache.get(answer["name"])
    service.thumbnails(captured)
    for what in ("heads", "stream", "lens", "choice", "prediction", "neighbours"):
        service.reading(captured, what, {"position": "-1", "id": "5"})
    service.reading(captured, "projection", {"site": "decoder.embeddings.out"})
    is_long = len(captured.ids["decoder"]) > LONG
    for site, shape in answer["sites"].items():
        number = site.split(".")[1] if "." in site else ""
        if is_long and number.isdecimal() and int(number) % 6:
            continue
        heads = [None] if len(shape) < 3 else [int(number) % shape[0]] if is_long else range(shape[0])
        for head in heads:
            with suppress(InputError):  # more numbers than one answer has: the page shows a part
                service.tensors(captured, {"sites": site} | ({} if head is None else {"head": str(head)}))
    return str(answer["name"])


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--case", nargs=2, metavar=("TOKENS", "FOLDER"), help="one process of the benchmark")
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS))
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(int(options.case[0]), Path(options.case[1]))))
        return
    from clearhead.config.model import ModelConfig
    from clearhead.config.tokenizer import TokenizerConfig
    from clearhead.model_folder import Bundle, save
    from clearhead.models.build import build
    from clearhead.text.tokenizers.tokenizer import Tokenizer

    rows = []
    with tempfile.TemporaryDirectory(prefix="clearhead-explorer-") as place:
        folder = Path(place, "model")
        bytes_only = Tokenizer.train([], TokenizerConfig(kind="byte"))
        config = ModelConfig.model_validate(LIKE_LLAMA | MODELS["135M"] | {"context": 8192})
        save(folder, Bundle(build(config), bytes_only))
        print("tokens  MiB over the model  seconds")
        for tokens in options.lengths:
            command = [sys.executable, __file__, "--case", str(tokens), str(folder)]
            row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            rows.append(row)
            what = row.get("refused", "").partition("\n")[0]
            print(f"{tokens:6} {row['bytes'] / 2**20:19,.0f} {row['seconds']:8.1f}  {what}", flush=True)
    kept = all(row["bytes"] <= row["limit"] for row in rows)
    reused = all(row.get("name") == row.get("again") for row in rows)
    print("kept" if kept and reused else "FAILED")
    report("explorer_memory", {"rows": rows, "kept": kept, "reused": reused}, options.save)


if __name__ == "__main__":
    main()
