"""`clearhead import`, `export` and `check --against` as a user meets them."""

import json
from pathlib import Path
from typing import Any

import pytest

from clearhead import model_folder
from clearhead.config.model import ModelConfig
from clearhead.model_folder import Bundle
from clearhead.models.build import build
from tests.commands import Run, runner
from tests.exchange.folders import change, written
from tests.exchange.tiny import pair


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


def test_in_and_out_and_compared(run: Run, tmp_path: Path) -> None:
    theirs, ours, out = written("gpt2", tmp_path / "theirs"), tmp_path / "ours", tmp_path / "out"
    code, printed, _ = run("import", theirs, ours)
    assert code == 0
    assert printed.splitlines() == [
        f"{theirs}: family gpt2, head language, 36,660 weights",
        "tokenizer: none",
        f"The model can read ids but no text: put its tokenizer.json into {ours}.",
        f"Wrote the model folder {ours}. Compare it with its source: clearhead check {ours} --against {theirs}",
    ]
    code, printed, _ = run("check", ours, "--against", theirs)
    assert code == 0
    assert printed.splitlines()[-1].startswith("holds   same as reference          largest difference")
    code, printed, _ = run("export", ours, out)
    assert (code, printed.splitlines()) == (
        0,
        [
            f"{out}: family gpt2, GPT2LMHeadModel",
            "vLLM: yes",
            "llama.cpp: export it to a .gguf file, as gpt2",
        ],
    )
    code, printed, _ = run("import", out, tmp_path / "again", "--json")
    assert code == 0
    assert json.loads(printed) == {
        "family": "gpt2",
        "shape": "decoder",
        "head": "language",
        "weights": 36660,
        "tokens": None,
        "notes": [],
        "out": str(tmp_path / "again"),
    }
    assert model_folder.load(tmp_path / "again").config == pair("gpt2").ours.config


def test_a_difference_is_a_failure(run: Run, tmp_path: Path) -> None:
    theirs, ours = written("gpt2", tmp_path / "theirs"), tmp_path / "ours"
    run("import", theirs, ours)
    change(ours / "config.json", norm_epsilon=0.5)
    code, printed, _ = run("check", ours, "--against", theirs, "--json")
    assert code == 1
    last = json.loads(printed)["laws"][-1]
    assert (last["law"], last["holds"]) == ("same as reference", False)
    assert last["difference"] > last["limit"]


def test_what_was_added_is_told(run: Run, tmp_path: Path) -> None:
    model_folder.save(tmp_path / "ours", Bundle(build(ModelConfig(d=8, h=2, decoder_blocks=1))))
    code, printed, _ = run("export", tmp_path / "ours", tmp_path / "out")
    assert code == 0
    assert "make up for what llama does differently: feedforward, feedforward_bias" in printed
    code, printed, _ = run("export", tmp_path / "ours", tmp_path / "more", "--json")
    assert json.loads(printed)["added"] == ["feedforward", "feedforward_bias"]


@pytest.mark.parametrize(
    ("changes", "vllm", "llama_cpp"),
    [
        (
            {"feedforward": "relu2", "query_key_norm": True},
            "with --model-impl transformers; its own qwen3 has only silu",
            "export it to a .gguf file, as qwen3",
        ),
        (
            {"feedforward": "geglu"},
            "with --model-impl transformers; its own llama has only silu",
            "no: model.feedforward = 'geglu', but there it is 'swiglu'",
        ),
        ({"feedforward": "swiglu"}, "yes", "export it to a .gguf file, as llama"),
    ],
)
def test_an_export_says_which_servers_accept_it(  # type: ignore[no-untyped-def]
    run, changes: dict[str, Any], vllm: str, llama_cpp: str, tmp_path: Path
) -> None:
    model_folder.save(tmp_path / "ours", Bundle(build(ModelConfig(d=8, h=2, decoder_blocks=1, **changes))))
    code, printed, _ = run("export", tmp_path / "ours", tmp_path / "out")
    assert (code, printed.splitlines()[1:]) == (0, [f"vLLM: {vllm}", f"llama.cpp: {llama_cpp}"])


def test_a_gguf_file_is_written_by_its_ending(run: Run, tmp_path: Path) -> None:
    model_folder.save(tmp_path / "ours", Bundle(build(ModelConfig(d=8, h=2, feedforward="swiglu"))))
    code, printed, _ = run("export", tmp_path / "ours", tmp_path / "x.gguf", "--type", "float16")
    size = (tmp_path / "x.gguf").stat().st_size
    assert (code, printed.splitlines()) == (
        0,
        [
            f"{tmp_path / 'x.gguf'}: architecture llama, float16, {size:,} bytes",
            "note: no tokenizer in the model folder: llama.cpp can only read ids",
        ],
    )
    code, printed, _ = run("export", tmp_path / "ours", tmp_path / "y.gguf", "--json")
    assert json.loads(printed)["type"] == "float32"
    assert "--type q4 is unknown" in run("export", tmp_path / "ours", tmp_path / "z.gguf", "--type", "q4")[2]
    assert (
        "applies to .gguf files only" in run("export", tmp_path / "ours", tmp_path / "z", "--type", "q8_0")[2]
    )
    for out, reader, said in (
        ("z", "onnx", "--for onnx is unknown."),
        ("z.gguf", "ctranslate2", "--for ctranslate2 applies to folders only."),
        (
            "z",
            "ctranslate2",
            "--for ctranslate2 applies to translators, and this model has shape = 'decoder'.",
        ),
    ):
        assert said in run("export", tmp_path / "ours", tmp_path / out, "--for", reader)[2]
    assert run("import", tmp_path / "x.gguf", tmp_path / "again")[0] == 0


def test_errors_are_sentences(run: Run, tmp_path: Path) -> None:
    code, printed, errors = run("import", tmp_path / "nothing", tmp_path / "out")
    assert (code, printed) == (1, "")
    assert errors.startswith(f"error: {tmp_path / 'nothing'} does not exist.")
    code, _, errors = run(
        "import", written("gpt2", tmp_path / "theirs"), tmp_path / "out", "--head", "langage"
    )
    assert code == 1
    assert "--head langage is unknown. Did you mean language?" in errors
    code, _, errors = run("export", tmp_path / "theirs", tmp_path / "out")
    assert code == 1
    assert "is not a clearhead config" in errors
    assert run("import")[0] == 2
