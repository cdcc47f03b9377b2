"""What `export` writes to a GGUF file comes back the same by our own import, whose reader is another program."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead import model_folder
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.errors import ClearheadError, ConfigError, ModelFolderError, TokenizerError
from clearhead.exchange.exporting_gguf import export_gguf
from clearhead.exchange.families.choose_family import effective_settings
from clearhead.exchange.importing import import_model
from clearhead.exchange.weights.read_gguf import read_gguf
from clearhead.exchange.weights.write_gguf import NumberType
from clearhead.model_folder import Bundle
from clearhead.models.inputs import Inputs
from clearhead.text.tokenizers.fast import GPT4, QWEN
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.exchange.test_exporting import TEXTS, ids, made_here, randomised
from tests.exchange.tiny import TOKENS, pair
from tests.narrow import transformer
from tests.text.tokenizers.foreign import written

EXACT = ["gpt2", "llama2", "llama3", "llama-linear", "mistral-no-window", "qwen2", "qwen3", "llama-32"]
OURS: dict[str, tuple[str, dict[str, Any]]] = {  # architecture, settings
    "the default of train": ("qwen3", {"feedforward": "relu2", "query_key_norm": True}),
    "a norm of the embeddings": (
        "qwen3",
        {"feedforward": "relu2", "query_key_norm": True, "embedding_norm": True, "tied": False},
    ),
    "relu² with biases": ("llama", {"feedforward": "relu2", "feedforward_bias": True}),
    "swiglu": ("llama", {"feedforward": "swiglu", "h_kv": 2, "tied": False}),
    "silu without a gate": ("llama", {"feedforward": "silu"}),
    "a scale": ("llama", {"feedforward": "swiglu", "scale": 1.0}),
    "a scale and norms": ("qwen3", {"feedforward": "relu2", "query_key_norm": True, "scale": 0.3}),
    "a bias of W_q": ("llama", {"feedforward": "swiglu", "attention_bias": "q"}),
    "GPT without biases": (
        "gpt2",
        {"positions": "learned", "norm": "layer", "norm_bias": False, "feedforward": "gelu_tanh"},
    ),
}


@torch.no_grad()
def gap(one: Path, other: Path) -> float:
    """The largest difference between the logits of two model folders, as a part of the largest logit."""
    modules = [model_folder.load(folder).module for folder in (one, other)]
    X, Y = (module(Inputs(ids(11, TOKENS))) for module in modules)
    assert X.std() > 0.05
    return float((X - Y).abs().max() / X.abs().max())


def there_and_back(folder: Path, kind: NumberType | None = None) -> float:
    export_gguf(folder, folder.parent / "x.gguf", kind)
    import_model(folder.parent / "x.gguf", folder.parent / "again")
    return gap(folder, folder.parent / "again")


@pytest.mark.parametrize("name", EXACT)
def test_there_and_back_is_the_identity(name: str, tmp_path: Path) -> None:
    model_folder.save(tmp_path / "ours", Bundle(pair(name).ours))
    assert there_and_back(tmp_path / "ours") == 0.0
    one, other = (model_folder.load(tmp_path / folder) for folder in ("ours", "again"))
    weights = other.module.state_dict()
    assert all(torch.equal(X, weights[key]) for key, X in one.module.state_dict().items())
    assert effective_settings(transformer(one.config)) == effective_settings(transformer(other.config))


@pytest.mark.parametrize("name", OURS)
def test_a_model_of_ours_is_one_of_llama_cpp(name: str, tmp_path: Path) -> None:
    architecture, changes = OURS[name]
    model_folder.save(tmp_path / "ours", Bundle(randomised(made_here(changes))))
    assert there_and_back(tmp_path / "ours") < 2e-6
    assert read_gguf(tmp_path / "x.gguf")[0]["general.architecture"] == architecture


@pytest.mark.parametrize(("kind", "most"), [("float16", 0.01), ("q8_0", 0.15)])
@pytest.mark.parametrize("name", ["llama-32", "the default of train"])
def test_narrow_numbers_change_little(name: str, kind: NumberType, most: float, tmp_path: Path) -> None:
    sizes = {"d": 64, "vocabulary": TOKENS}
    model = pair(name).ours if name in EXACT else randomised(made_here(OURS[name][1] | sizes))
    model_folder.save(tmp_path / "ours", Bundle(model))
    assert 0 < there_and_back(tmp_path / "ours", kind) < most
    assert (tmp_path / "x.gguf").stat().st_size < (tmp_path / "ours" / "model.safetensors").stat().st_size


def test_a_window_becomes_the_context(tmp_path: Path) -> None:
    """llama.cpp's Llama has no window; up to its length there is no difference."""
    model_folder.save(tmp_path / "ours", Bundle(pair("mistral").ours))
    made = export_gguf(tmp_path / "ours", tmp_path / "x.gguf")
    assert made.notes[0] == "llama.cpp's graph has no window of 5: the context becomes 5"
    import_model(tmp_path / "x.gguf", tmp_path / "again")
    again = model_folder.load(tmp_path / "again")
    assert (again.config.context, transformer(again.config).window) == (5, None)
    with torch.no_grad():
        tokens = ids(5, TOKENS)
        assert torch.equal(again.module(Inputs(tokens)), pair("mistral").ours(Inputs(tokens)))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "model.feedforward = 'gelu', but there it is 'swiglu'"),
        ({"feedforward": "geglu", "query_key_norm": True}, "nearest architecture is qwen3"),
        (
            {"feedforward": "swiglu", "positions": "alibi"},
            "model.positions = 'alibi', but there it is 'rotary'",
        ),
        (
            {"feedforward": "swiglu", "query_key_norm": True, "attention_bias": "qkvo"},
            "query_key_norm = True, but there",
        ),
        (
            {"positions": "learned", "norm": "layer", "feedforward": "relu2"},
            "model.feedforward = 'relu2', but there it is 'gelu_tanh'",
        ),
        ({"shape": "encoder"}, "Only language models can be exported to GGUF"),
        ({"head": "classifier", "classes": 3}, "Only language models can be exported to GGUF"),
    ],
)
def test_what_llama_cpp_lacks_is_named(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    model_folder.save(tmp_path / "ours", Bundle(randomised(made_here(changes))))
    with pytest.raises(ConfigError) as error:
        export_gguf(tmp_path / "ours", tmp_path / "x.gguf")
    assert reason in str(error.value)
    assert not (tmp_path / "x.gguf").exists()


def with_tokenizer(tokenizer: Tokenizer, folder: Path, more: int = 0) -> Path:
    sizes = {"vocabulary": tokenizer.size + more, "feedforward": "swiglu"}
    model_folder.save(folder, Bundle(randomised(made_here(sizes)), tokenizer))
    return folder


def document_of(style: str) -> str:
    """A foreign tokenizer.json; with Llama 3's split a word that is a token may stay whole without merges."""
    if style in ("gpt2", "qwen2"):
        return written(style)
    document = json.loads(written("qwen2").replace(json.dumps(QWEN)[1:-1], json.dumps(GPT4)[1:-1]))
    document["model"]["ignore_merges"] = style == "llama-bpe"
    return json.dumps(document | {"normalizer": None})


@pytest.mark.parametrize("name", ["bpe", "byte", "gpt2", "qwen2", "llama-bpe", "smaug-bpe"])
@pytest.mark.parametrize("more", [0, 3])
def test_a_tokenizer_comes_back(name: str, more: int, tmp_path: Path) -> None:
    kinds: dict[str, Any] = {"bpe": {}, "byte": {"kind": "byte"}}
    settings = TokenizerConfig(vocabulary=300, **kinds.get(name, {}))
    tokenizer = Tokenizer.train(TEXTS, settings) if name in kinds else Tokenizer(document_of(name))
    folder = with_tokenizer(tokenizer, tmp_path / "ours", more)
    export_gguf(folder, tmp_path / "x.gguf")
    import_model(tmp_path / "x.gguf", tmp_path / "again")
    again = model_folder.load(tmp_path / "again").tokenizer
    assert again is not None
    for text in [*TEXTS, "", "é x  y\n\n\t z 1234567 it's IT'S", "日本語 🙂</s><s>", "\u0301e\u0301"]:
        normal = tokenizer.normalize(text)  # which llama.cpp leaves to its user
        assert again.encode(normal) == tokenizer.encode(text)
        assert again.decode(again.encode(normal)) == tokenizer.decode(tokenizer.encode(text))
    assert (again.specials.begin, again.specials.end) == (tokenizer.specials.begin, tokenizer.specials.end)
    # A separator would be put after every prompt by llama-cpp-python.
    assert "tokenizer.ggml.seperator_token_id" not in read_gguf(tmp_path / "x.gguf")[0]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"kind": "unigram"}, "tokenizer.kind = 'bpe'"),
        ({"kind": "word"}, "tokenizer.kind = 'bpe'"),
        ({"kind": "character"}, "tokenizer.kind = 'bpe'"),
        ({"lowercase": True}, "tokenizer.lowercase = false"),
        ({"normalization": "nfkc"}, "tokenizer.normalization = 'nfc' or 'none'"),
    ],
)
def test_a_tokenizer_that_llama_cpp_lacks_is_refused(
    settings: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    tokenizer = Tokenizer.train(TEXTS, TokenizerConfig(vocabulary=300, **settings))
    with pytest.raises(TokenizerError, match=reason):
        export_gguf(with_tokenizer(tokenizer, tmp_path / "ours"), tmp_path / "x.gguf")


def test_nothing_is_overwritten_and_nothing_left_half_written(tmp_path: Path) -> None:
    model_folder.save(tmp_path / "ours", Bundle(randomised(made_here({"feedforward": "swiglu"}))))
    (tmp_path / "x.gguf").write_text("mine")
    with pytest.raises(ModelFolderError, match="already exists"):
        export_gguf(tmp_path / "ours", tmp_path / "x.gguf")
    large = randomised(made_here({"feedforward": "swiglu"}))
    with torch.no_grad():
        large.get_parameter("decoder.blocks.2.ffn.W_2.weight").fill_(1e6)
    model_folder.save(tmp_path / "large", Bundle(large))
    with pytest.raises(ClearheadError, match=r"blk\.2\.ffn_down\.weight has numbers beyond 65504"):
        export_gguf(tmp_path / "large", tmp_path / "y.gguf", "float16")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["large", "ours", "x.gguf"]
