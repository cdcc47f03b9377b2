"""What `train TASK FILES` makes without a recipe leaves: `transformers` writes the same text, finds the same classes.

llama.cpp runs the language model in `test_llama_cpp.py`, if llama-cpp-python is installed.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

import clearhead
from clearhead.config.tasks import Task
from clearhead.exchange.exporting import export_model
from clearhead.exchange.families.accepted_by import describe_export
from clearhead.models.inputs import Inputs
from clearhead.training.recipes.suggest import recipe_for

NOUNS, VERBS = ("river", "boat", "girl", "dog", "bridge", "sea"), ("saw", "crossed", "loved", "left")
SENTENCES = [f"The {a} {verb} the {b}." for a in NOUNS for verb in VERBS for b in NOUNS if a != b]
GERMAN = str.maketrans({"e": "ä", "T": "D", "h": "i"})
PLACES = ("sea", "river", "bridge")
FAMILIES: dict[Task, str] = {
    "language-model": "qwen3",
    "masked-language-model": "eurobert",
    "classify": "eurobert",
    "translate": "t5",
}


def files_for(task: Task, folder: Path) -> list[str]:
    """Data of which a model learns something in seconds."""
    rows = {
        "a": SENTENCES,
        "b": [sentence.translate(GERMAN) for sentence in SENTENCES],
        "c": [
            "text,label",
            *(f"{s},{'place' if s.endswith(tuple(f'{p}.' for p in PLACES)) else 'being'}" for s in SENTENCES),
        ],
    }
    names = {"translate": ["a.txt", "b.txt"], "classify": ["c.csv"]}.get(task, ["a.txt"])
    for name in names:
        (folder / name).write_text("\n".join(rows[name[0]] * (1 if name[0] == "c" else 3)), encoding="utf-8")
    return [str(folder / name) for name in names]


def exported(task: Task, folder: Path, settings: dict[str, str] | None = None) -> tuple[Any, Path]:
    """A model trained without a recipe, and its export."""
    stated = {"training.steps": "40", "training.threads": "1"} | (settings or {})
    recipe, _ = recipe_for(task, files_for(task, folder), overrides=stated)
    model = clearhead.train(recipe, folder / "run")
    assert describe_export(model.config) == f"possible, as {FAMILIES[task]}"
    assert export_model(folder / "run", folder / "out").family == FAMILIES[task]
    return model, folder / "out"


def test_a_language_model_writes_the_same_text(tmp_path: Path) -> None:
    model, out = exported("language-model", tmp_path)
    theirs, tokenizer = hf.AutoModelForCausalLM.from_pretrained(out), hf.AutoTokenizer.from_pretrained(out)
    for prompt in ("The river", "The dog s", "A", "¿Qué?"):
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        written = theirs.generate(ids, max_new_tokens=20, do_sample=False)[0, ids.shape[1] :].tolist()
        assert written == model.generate(prompt, max_tokens=20, temperature=0.0).tokens


def test_a_masked_language_model_fills_the_same_gaps(tmp_path: Path) -> None:
    model, out = exported("masked-language-model", tmp_path)
    theirs, tokenizer = hf.AutoModelForMaskedLM.from_pretrained(out), hf.AutoTokenizer.from_pretrained(out)
    for sentence in SENTENCES[:5]:
        ids = tokenizer(sentence, return_tensors="pt")["input_ids"]
        ids[0, 3] = tokenizer.mask_token_id
        with torch.no_grad():
            ours, expected = model.module(Inputs(ids)), theirs(ids).logits
        assert (ours - expected).abs().max() < 1e-4 * expected.abs().max()
        assert ours[0, 3].argmax() == expected[0, 3].argmax()


def test_a_classifier_finds_the_same_classes(tmp_path: Path) -> None:
    """With the same probabilities, which are calibrated."""
    model, out = exported("classify", tmp_path)
    classify = hf.pipeline("text-classification", str(out), top_k=None, device="cpu")
    texts = ["The dog crossed the sea.", "The sea saw the girl.", "Nothing known here!"]
    for ours, theirs in zip(model.classify(texts), classify(texts), strict=True):
        assert {row["label"]: row["score"] for row in theirs} == pytest.approx(ours.probabilities, abs=1e-5)


def test_a_translator_writes_the_same_translations(tmp_path: Path) -> None:
    """With the settings that the plan names: without them it learns more, and cannot be exported."""
    recipe, _ = recipe_for("translate", files_for("translate", tmp_path))
    advice = describe_export(recipe.model)
    assert advice.startswith(
        "cannot be exported: model.positions = rotary, model.query_key_norm = true; use "
    )
    options = advice.partition("; use ")[2].partition(" to export it as t5")[0].split()
    settings = dict(zip((name.removeprefix("--") for name in options[::2]), options[1::2], strict=True))
    model, out = exported("translate", tmp_path, settings)
    theirs, tokenizer = hf.AutoModelForSeq2SeqLM.from_pretrained(out), hf.AutoTokenizer.from_pretrained(out)
    for sentence in SENTENCES[:5]:
        ids = tokenizer(sentence, return_tensors="pt")["input_ids"]
        written = theirs.generate(ids, max_new_tokens=30, do_sample=False)[0]
        text = tokenizer.decode(written, skip_special_tokens=True)
        assert text == model.translate(sentence, beam=1, max_tokens=30)
