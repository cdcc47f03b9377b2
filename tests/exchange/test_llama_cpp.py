"""llama.cpp itself runs what `export` writes: the same ids for two hundred hard lines, the same logits, the same text.

`llama-cpp-python` is compiled for many minutes when it is installed, so that set-up omits it:
pip install -c constraints.txt llama-cpp-python
"""

import json
import unicodedata
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers, trainers

import clearhead
from clearhead import model_folder
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.exchange.exporting_gguf import export_gguf
from clearhead.exchange.importing import import_model
from clearhead.exchange.tokenizers.gguf_splits import GROUPS
from clearhead.exchange.weights.write_gguf import NumberType
from clearhead.model_folder import Bundle
from clearhead.models.inputs import Inputs
from clearhead.text.tokenizers.tokenizer import Tokenizer
from clearhead.training.recipes.suggest import recipe_for
from tests.exchange.test_exporting import made_here, randomised
from tests.exchange.test_exporting_gguf import OURS, document_of
from tests.exchange.test_gguf import scores, write
from tests.exchange.tiny import llama, random
from tests.exchange.torture import lines

llama_cpp = pytest.importorskip(
    "llama_cpp", reason="llama-cpp-python is not installed, so that nothing proves GGUF files here"
)
PROMPTS = [
    "The river",
    "It was",
    "She said: don't",
    "12 boats",
    "¿Qué?",
    "A",
    "the the the",
    "\n",
    "In 1999, ",
    "over",
]


FLOAT32 = 0  # of keys and values in its cache, which by default have half the bits


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The file, opened by llama.cpp."""
    settings = {"n_ctx": 64, "n_threads": 1, "verbose": False, "logits_all": True}
    with closing(llama_cpp.Llama(str(path), **settings, type_k=FLOAT32, type_v=FLOAT32)) as model:
        yield model


def logits(model: Any, ids: list[int]) -> torch.Tensor:
    """The logits of llama.cpp for every position."""
    model.reset()
    model.eval(ids)
    return torch.from_numpy(np.array(model.scores[: len(ids)]))


def greedy(model: Any, ids: list[int], count: int) -> list[int]:
    """The tokens that llama.cpp writes when it always takes the likeliest, until the end token."""
    model.reset()
    written: list[int] = []
    for token in model.generate(ids, temp=0.0):
        written.append(token)
        if len(written) == count or token == model.token_eos():
            break
    return written


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text with a pattern that a small model learns in seconds."""
    path = tmp_path_factory.mktemp("book") / "book.txt"
    nouns, verbs = ["river", "boat", "girl", "dog", "bridge", "old man"], ["saw", "crossed", "loved", "left"]
    rows = [
        f"The {a} {verb} the {b}, and in {1900 + i} it's over: “¿Qué?” — naïve, isn't it?"
        for i, (a, b) in enumerate((a, b) for a in nouns for b in nouns)
        for verb in verbs
    ]
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


TRAINED: dict[str, dict[str, Any]] = {"as train makes it": {}, "swiglu": {"model.feedforward": "swiglu"}}


@pytest.fixture(scope="module", params=TRAINED)
def trained(request: pytest.FixtureRequest, book: Path) -> Path:
    """A language model trained here without a recipe."""
    own = {"training.steps": 40, "training.threads": 1, "model.d": 64, "tokenizer.kind": "bpe"}
    stated = {key: str(value) for key, value in (own | TRAINED[request.param]).items()}
    recipe, _ = recipe_for("language-model", [str(book)], overrides=stated)
    out = book.parent / f"run-{len(TRAINED[request.param])}"
    clearhead.train(recipe, out)
    return out


def imported(kind: str, folder: Path) -> Path:
    """A Llama or a Qwen 3 of `transformers` with a tokenizer of its kind, imported."""
    document = document_of({"Llama": "llama-bpe", "Qwen3": "qwen2", "Qwen2": "qwen2"}[kind])
    tokenizer = hf.PreTrainedTokenizerFast(
        tokenizer_object=hf.convert_slow_tokenizer.Tokenizer.from_str(document)
    )
    width: dict[str, Any] = {} if kind == "Qwen2" else {"head_dim": 32}
    sizes: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "num_attention_heads": 4,
        "intermediate_size": 96,
    }
    random(llama(kind, **sizes, **width)).save_pretrained(folder / "theirs")
    tokenizer.save_pretrained(folder / "theirs")
    import_model(folder / "theirs", folder / "ours")
    return folder / "ours"


def assert_same_tokens(folder: Path, path: Path, count: int = 40) -> None:
    model = clearhead.load(folder)
    with opened(path) as theirs:
        for prompt in PROMPTS:
            ours = model.generate(prompt, max_tokens=count, temperature=0.0).tokens
            assert greedy(theirs, model.generator.prompt(prompt).ids, count) == ours, prompt


@pytest.mark.slow
def test_a_model_trained_here_writes_the_same_text(trained: Path, tmp_path: Path) -> None:
    export_gguf(trained, tmp_path / "x.gguf", "float32")
    assert_same_tokens(trained, tmp_path / "x.gguf")
    model = clearhead.load(trained)
    with opened(tmp_path / "x.gguf") as theirs:
        for prompt in PROMPTS:
            assert theirs.tokenize(prompt.encode()) == model.generator.prompt(prompt).ids
            got = b"".join(
                theirs.detokenize([token]) for token in greedy(theirs, theirs.tokenize(prompt.encode()), 40)
            )
            expected = model.generate(prompt, max_tokens=40, temperature=0.0).text
            assert got.decode(errors="replace") == expected
            completed = theirs(prompt, max_tokens=40, temperature=0.0)["choices"][0]["text"]
            assert completed == expected.rstrip("\ufffd")  # without half a character at the end


@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "Qwen3"])
def test_an_imported_model_writes_the_same_tokens(kind: str, tmp_path: Path) -> None:
    folder = imported(kind, tmp_path)
    export_gguf(folder, tmp_path / "x.gguf")
    assert_same_tokens(folder, tmp_path / "x.gguf")
    source = hf.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    with opened(tmp_path / "x.gguf") as theirs:
        for prompt in PROMPTS:
            assert theirs.tokenize(prompt.encode()) == source(prompt)["input_ids"]


TOKENIZERS = ["bpe", "byte", "gpt2", "qwen2", "llama-bpe", "smaug-bpe"]


@pytest.mark.parametrize("style", TOKENIZERS)
def test_two_hundred_hard_lines_have_the_same_ids(style: str, tmp_path: Path) -> None:
    if style in ("bpe", "byte"):
        config = TokenizerConfig.model_validate({"kind": style, "vocabulary": 900, "normalization": "none"})
        tokenizer = Tokenizer.train(lines() * 3, config)
    else:
        tokenizer = Tokenizer(document_of(style))
    model = randomised(made_here({"vocabulary": tokenizer.size, "feedforward": "swiglu"}))
    model_folder.save(tmp_path / "ours", Bundle(model, tokenizer))
    export_gguf(tmp_path / "ours", tmp_path / "x.gguf")
    assert len(lines()) == 200
    with opened(tmp_path / "x.gguf") as theirs:
        for line in lines():
            text = unicodedata.normalize("NFC", line) if style == "qwen2" else line
            ids = tokenizer.encode(text)
            assert theirs.tokenize(text.encode(), add_bos=False, special=False) == ids, line
            if len(line) < 200:  # their Python decodes at most 32 bytes per token
                assert b"".join(theirs.detokenize([token]) for token in ids) == text.encode(), line


@cache
def across_words() -> tuple[list[str], list[str]]:
    """Tokens and merges that were learned without a split into words, so that any difference of a split shows."""
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=510, initial_alphabet=alphabet, show_progress=False)
    library.train_from_iterator(lines() * 3, trainer)
    model = json.loads(library.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].__getitem__), [
        " ".join(pair) for pair in model["merges"]
    ]


@pytest.mark.parametrize("name", [name for names in GROUPS.values() for name in names.split()[:2]])
def test_every_split_is_that_of_llama_cpp(name: str, tmp_path: Path) -> None:
    def add(writer: gguf.GGUFWriter) -> None:
        tokens, merges = across_words()
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(name)
        writer.add_token_list([*tokens, "<end>"])
        writer.add_token_types([1] * len(tokens) + [3])
        writer.add_token_merges(merges)
        writer.add_eos_token_id(len(tokens))
        writer.add_bos_token_id(len(tokens))

    import_model(write(tmp_path / "x.gguf", "llama-tokens", more=add), tmp_path / "ours")
    ours = model_folder.load(tmp_path / "ours").tokenizer
    assert ours is not None
    assert ours.specials.framing is not None
    with closing(llama_cpp.Llama(str(tmp_path / "x.gguf"), vocab_only=True, verbose=False)) as theirs:
        before, after = ours.specials.framing
        assert theirs.tokenize(b"a", add_bos=True) == [*before, *ours.encode("a"), *after]
        own = [line for line in lines() if theirs.tokenize(line.encode(), add_bos=False) != ours.encode(line)]
    is_cased = name in ("tekken", "gpt-4o", "llama4")  # which it approximates outside ASCII
    assert len(own) <= (5 if is_cased else 0), own


def test_pieces_with_scores_have_the_same_ids(tmp_path: Path) -> None:
    import_model(write(tmp_path / "x.gguf", "llama-tokens", more=scores), tmp_path / "ours")
    export_gguf(tmp_path / "ours", tmp_path / "again.gguf")
    ours = model_folder.load(tmp_path / "ours").tokenizer
    assert ours is not None
    for name in ("x.gguf", "again.gguf"):
        with closing(llama_cpp.Llama(str(tmp_path / name), vocab_only=True, verbose=False)) as theirs:
            own = [
                line for line in lines() if theirs.tokenize(line.encode(), add_bos=False) != ours.encode(line)
            ]
            assert own == []


@torch.no_grad()
def both_logits(name: str, kind: NumberType, place: Path) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Logits of a model of ours, and of llama.cpp for its GGUF file in `place`, and their ids."""
    tokenizer = Tokenizer.train(lines(), TokenizerConfig(vocabulary=300))
    sizes = {"d": 64, "vocabulary": tokenizer.size}
    model = randomised(made_here(OURS[name][1] | sizes))
    model_folder.save(place / "ours", Bundle(model, tokenizer))
    export_gguf(place / "ours", place / "x.gguf", kind)
    ids = tokenizer.encode(lines()[1])[:32]
    with opened(place / "x.gguf") as theirs:
        return model(Inputs(torch.tensor([ids])))[0], logits(theirs, ids), ids


@pytest.mark.parametrize(("kind", "most"), [("float32", 1e-4), ("float16", 0.02)])
@pytest.mark.parametrize("name", OURS)
def test_the_logits_are_the_same(name: str, kind: NumberType, most: float, tmp_path: Path) -> None:
    ours, theirs, _ = both_logits(name, kind, tmp_path)
    most = max(most, 0.005) if "GPT" in name else most  # its gelu is a table of float16
    assert (theirs - ours).abs().max() <= most * float(ours.abs().max())


@pytest.mark.parametrize("name", OURS)
def test_eight_bits_change_no_more_than_their_rounding(name: str, tmp_path: Path) -> None:
    """llama.cpp rounds both sides of each product, which costs about twice what rounding the weights alone does.

    How much that is depends on the model: with an unscaled softmax it is twice as much.
    """
    ours, theirs, ids = both_logits(name, "q8_0", tmp_path)
    import_model(tmp_path / "x.gguf", tmp_path / "again")
    with torch.no_grad():
        rounded = model_folder.load(tmp_path / "again").module(Inputs(torch.tensor([ids])))[0]
    by_weights, by_both = ((Z - ours).std() / ours.std() for Z in (rounded, theirs))
    assert 0 < by_weights < 0.15
    assert by_both < 2 * by_weights
