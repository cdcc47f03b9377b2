"""`lm-eval`'s `local-completions` scores a local task through the server as the model does in process.

It needs lm-eval, which brings much along: `CLEARHEAD_LM_EVAL` names an interpreter that has it, with transformers.
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from clearhead.cli.listening import listen
from clearhead.exchange.exporting import export_model
from clearhead.model_folder import save
from clearhead.serving.server.app import server_app
from clearhead.serving.server.service import Service
from clearhead.serving.sockets import server_for
from tests.decoding.tiny import language_model, next_logits, tokenizer

PYTHON = os.environ.get("CLEARHEAD_LM_EVAL", sys.executable)
PAIRS = [("the cat", " sat on"), ("my dog is", " old"), ("he", " is happy"), ("a red", " ball and a table")]
SCRIPT = """
import json, sys
from lm_eval import simple_evaluate

address, folder, data = sys.argv[1:]
task = {
    "task": "continuations", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": data}},
    "test_split": "test", "output_type": "loglikelihood", "doc_to_text": "{{context}}",
    "doc_to_target": "{{continuation}}", "target_delimiter": "", "metric_list": [{"metric": "acc"}],
}
options = {
    "model": "writes", "base_url": address, "tokenizer": folder, "tokenizer_backend": "huggingface", "max_length": 48,
}
found = simple_evaluate("local-completions", model_args=options, tasks=[task], log_samples=True, bootstrap_iters=0)
samples = sorted(found["samples"]["continuations"], key=lambda sample: sample["doc_id"])
print(json.dumps([float(sample["resps"][0][0][0]) for sample in samples]))
"""


def has_lm_eval() -> bool:
    """Whether the interpreter has it."""
    return subprocess.run([PYTHON, "-c", "import lm_eval, transformers"], capture_output=True).returncode == 0


@pytest.mark.prove
def test_a_local_task_is_scored_as_in_process(service: Service, tmp_path: Path) -> None:
    if not has_lm_eval():
        pytest.skip("lm-eval is not installed; CLEARHEAD_LM_EVAL names an interpreter that has it")
    bundle, words = language_model(), tokenizer("byte")
    save(tmp_path / "model", bundle)
    export_model(tmp_path / "model", tmp_path / "exported")
    lines = [json.dumps({"context": context, "continuation": more}) for context, more in PAIRS]
    (tmp_path / "task.jsonl").write_text("\n".join(lines))
    with listen(0) as listener:
        server = server_for(server_app(service))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/completions"
        given = [address, str(tmp_path / "exported"), str(tmp_path / "task.jsonl")]
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "OPENAI_API_KEY": "none"}
        done = subprocess.run(
            [PYTHON, "-c", SCRIPT, *given], capture_output=True, text=True, env=environment, timeout=600
        )
        server.should_exit = True
        thread.join(10)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    for score, (context, more) in zip(found, PAIRS, strict=True):
        ids, start = words.encode(context + more), len(words.encode(context))
        P = [torch.log_softmax(next_logits(bundle, ids[:at]), -1)[ids[at]] for at in range(start, len(ids))]
        assert score == pytest.approx(float(sum(P)), abs=1e-4)
