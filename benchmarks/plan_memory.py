"""Does a run take the memory that its plan says? Random models of 15M and 135M weights learn conversations.

Each run is a process of its own: plan, two steps, an evaluation with samples, checkpoints, `best` and `last`. Its
settings are those that the program chooses, with and without LoRA; only the length is given, and with --batch-tokens
the batch. Printed are what the plan says, the peak of resident memory, and the peak after the plan. Bar: the plan is
within 20 % of the peak.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import arguments, report

BAR = 0.2
MODELS: dict[str, dict[str, Any]] = {  # like a Llama that writes stories, and like SmolLM2
    "15M": {"vocabulary": 32_000, "d": 288, "h": 6, "decoder_blocks": 6, "d_ff": 768},
    "135M": {"vocabulary": 49_152, "d": 576, "h": 9, "h_kv": 3, "decoder_blocks": 30, "d_ff": 1536},
}
LIKE_LLAMA = {"shape": "decoder", "norm": "rms", "feedforward": "swiglu", "context": 2048, "tied": True}
TUNING = {"full": {}, "LoRA": {"training.lora_rank": "8"}}
LENGTH = {"training.steps": "2", "training.evaluate_every": "2", "training.checkpoint_every": "1"}


def peak() -> int:
    """The most memory that this process has had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def measure(model: str, tuning: str, folder: Path, batch_tokens: int | None) -> dict[str, float]:
    """The plan's bytes and the peaks of this process, after the plan and at the end."""
    from clearhead.config.model import ModelConfig
    from clearhead.config.tokenizer import TokenizerConfig
    from clearhead.model_folder import Bundle, save
    from clearhead.models.build import build
    from clearhead.text.tokenizers.tokenizer import Tokenizer
    from clearhead.training.recipes.suggest import recipe_for
    from clearhead.training.run.run import make_run

    place = folder / model
    if not place.exists():
        bytes_only = Tokenizer.train([], TokenizerConfig(kind="byte"))
        save(place, Bundle(build(ModelConfig.model_validate(LIKE_LLAMA | MODELS[model])), bytes_only))
        return {}
    chats = folder / "chats.jsonl"
    with chats.open("w") as file:
        for k in range(50):
            texts = (("user", f"What is {k} plus 4? {'Think. ' * 20}"), ("assistant", f"It is {k + 4}. " * 9))
            file.write(
                json.dumps({"messages": [{"role": who, "content": text} for who, text in texts]}) + "\n"
            )
    stated = {"training.init_from": str(place)} | LENGTH | TUNING[tuning]
    stated |= {} if batch_tokens is None else {"training.batch_tokens": str(batch_tokens)}
    config, _ = recipe_for("language-model", [str(chats)], overrides=stated)
    run = make_run(config, folder / f"run-{model}-{tuning}")
    planned, after_plan = run.plan.memory_bytes, peak()
    list(run.train())
    return {"planned": planned, "after_plan": after_plan, "peak": peak(), "tokens": run.plan.tokens_per_step}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "--case", nargs=3, metavar=("MODEL", "TUNING", "FOLDER"), help="one process of the benchmark"
    )
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--batch-tokens", type=int, help="fewer, where the machine is slow")
    options = parser.parse_args()
    if options.case:
        print(
            json.dumps(measure(options.case[0], options.case[1], Path(options.case[2]), options.batch_tokens))
        )
        return
    rows = []
    print("model  tuning  planned GB  peak GB  (after the plan)  planned / peak")
    with tempfile.TemporaryDirectory(prefix="clearhead-plan-") as folder:
        for model in options.models:
            for tuning in ("make", *TUNING):
                command = [sys.executable, __file__, "--case", model, tuning, folder]
                command += (
                    [] if options.batch_tokens is None else ["--batch-tokens", str(options.batch_tokens)]
                )
                found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                if not found:
                    continue
                share = found["planned"] / found["peak"]
                rows.append({"model": model, "tuning": tuning, "share": share, **found})
                sizes = (found[key] / 1e9 for key in ("planned", "peak", "after_plan"))
                print(
                    f"{model:6} {tuning:6} {'{:11.2f} {:8.2f} {:13.2f}'.format(*sizes)} {share:16.2f}",
                    flush=True,
                )
    kept = all(abs(row["share"] - 1) <= BAR for row in rows)
    print("kept" if kept else "FAILED")
    report("plan_memory", {"rows": rows, "bar": BAR, "kept": kept}, options.save)


if __name__ == "__main__":
    main()
