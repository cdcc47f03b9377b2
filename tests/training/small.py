"""Small runs for tests: data of a few lines, a model of a few thousand weights, a few steps."""

from pathlib import Path

import torch

from clearhead.config.run import RunConfig
from clearhead.training.loop.records import StepRecord
from clearhead.training.run.run import Run, make_run

PAIRS = [f"uno {k} dos\tone {k} two" for k in range(60)]
EVIL = '<script>alert(1)</script> & "q" `x` | \x1b[31m\u202e'
MODEL = {"d": 8, "h": 2, "encoder_blocks": 1, "decoder_blocks": 1}


def small_config(task: str, folder: Path, **training: object) -> RunConfig:
    """A run of this task; its texts hold marks that could break a page."""
    folder.mkdir(parents=True, exist_ok=True)
    if task == "translate":
        (folder / "d.tsv").write_text("".join(f"{pair}\n" for pair in PAIRS), encoding="utf-8")
    elif task == "classify":
        rows = [f"{'good' if k % 2 else 'bad'} {k} <b>\t{'<up>' if k % 2 else 'down|&'}" for k in range(60)]
        (folder / "d.tsv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    else:
        (folder / "d.tsv").write_text("".join(f"text\n{EVIL} {k}\n" for k in range(60)), encoding="utf-8")
    data = {"train": str(folder / "d.tsv"), "validation": 0.2, "test": 0.1, "chunk_characters": 120}
    data |= {} if task in ("translate", "classify") else {"format": "txt", "documents": "line"}
    steps: dict[str, object] = {"steps": 6, "log_every": 1, "batch_tokens": 256}
    steps |= {"evaluate_every": 3, "checkpoint_every": 3}
    return RunConfig.model_validate(
        {
            "task": task,
            "data": data,
            "tokenizer": {"kind": "byte"},
            "model": MODEL | {"context": 64},
            "training": steps | training,
        }
    )


def small_run(task: str, folder: Path, **training: object) -> Run:
    """The same, ready to start."""
    return make_run(small_config(task, folder, **training), folder / "run")


def killed_and_resumed(config: RunConfig, out: Path) -> Run:
    """A run that was killed after step 5, and resumed from step 3 to its end after others drew random numbers."""
    records = make_run(config, out).train()
    for record in records:
        if isinstance(record, StepRecord) and record.step == 5:
            break
    records.close()  # type: ignore[attr-defined]
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["step-3"]
    torch.manual_seed(99)
    again = make_run(RunConfig.read(out / "recipe.toml"), out)
    list(again.train(resume=True))
    return again


def final_weights(run: Run) -> list[bytes]:
    """The files of the best and the last weights."""
    return [(run.out / name / "model.safetensors").read_bytes() for name in ("best", "last")]
