"""What `export` writes is loaded by `transformers` as it is, computes the same, and comes back the same."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
import transformers as hf
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from clearhead import model_folder
from clearhead.config.model import ModelConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.errors import ConfigError, ModelFolderError
from clearhead.exchange.exporting import export_model
from clearhead.exchange.families.choose_family import choose_family, effective_settings
from clearhead.exchange.importing import import_model
from clearhead.exchange.padding import padded_folder
from clearhead.exchange.reference import class_for
from clearhead.model_folder import Bundle, Calibration
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model
from clearhead.models.transformer.encoder import Encoder
from clearhead.models.transformer.pruned import pruned
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.exchange.tiny import ALL, TOKENS, pair
from tests.narrow import transformer
from tests.text.tokenizers.foreign import written

N, M = 11, 9
TEXTS = ["The chicken did not cross the road.", "Tengo un coche. ¿Y tú?", "12 words, or 13!"] * 3


def randomised(config: ModelConfig) -> Model:
    """A model with no number at its beginning, as after training."""
    model, generator = build(config, seed=2), torch.Generator().manual_seed(4)
    with torch.no_grad():
        for X in model.parameters():
            X.add_(torch.randn(X.shape, generator=generator) * 0.2)
    return model


def ids(n: int, vocabulary: int, seed: int = 0) -> Tensor:
    return torch.randint(4, vocabulary, (2, n), generator=torch.Generator().manual_seed(seed))


def theirs(folder: Path, config: ModelConfig) -> Any:
    """The model as `transformers` finds it by itself."""
    return getattr(hf, class_for(config)).from_pretrained(folder).eval()


@torch.no_grad()
def assert_equal_in_transformers(folder: Path, model: Model) -> None:
    config = transformer(model.config)
    other, tokens = theirs(folder, config), ids(N, config.vocabulary)
    other.config.pad_token_id = 0  # for a batch of a causal classifier
    if config.shape == "encoder-decoder":
        source = ids(M, config.vocabulary_encoder, seed=1)
        ours, expected = model(Inputs(tokens, source=source)), other(source, decoder_input_ids=tokens).logits
    elif config.head == "none":
        assert isinstance(model, Encoder)
        ours, expected = model.vectors(Inputs(tokens)), other(tokens).last_hidden_state
    else:
        ours, expected = model(Inputs(tokens)), other(tokens).logits
    assert ours.shape == expected.shape
    assert (ours - expected).abs().max() <= 1e-4 * max(1.0, float(expected.abs().max()))
    assert expected.std() > 0.05


def assert_same(one: Bundle, other: Bundle) -> None:
    assert effective_settings(transformer(one.config)) == effective_settings(transformer(other.config))
    weights = other.module.state_dict()
    assert all(torch.equal(X, weights[key]) for key, X in one.module.state_dict().items())


@pytest.mark.parametrize("name", ALL)
def test_there_and_back_is_the_identity(name: str, tmp_path: Path) -> None:
    """What came in goes out with the same logits, and comes in again with the same config and the same bits."""
    model_folder.save(tmp_path / "ours", Bundle(pair(name).ours))
    made = export_model(tmp_path / "ours", tmp_path / "theirs")
    assert_equal_in_transformers(tmp_path / "theirs", pair(name).ours)
    import_model(tmp_path / "theirs", tmp_path / "again")
    if name == "t5-1.1-tied":  # a tied head without a scale, which only version 5 of `transformers` can read
        assert made.added.keys() == {"head_scale"}
        return
    assert not made.added
    assert_same(model_folder.load(tmp_path / "ours"), model_folder.load(tmp_path / "again"))


HERE: dict[str, tuple[str, set[str], dict[str, Any]]] = {  # family, what is added, settings
    "the default": ("llama", {"feedforward", "feedforward_bias"}, {}),
    "the default with biases": ("llama", {"feedforward"}, {"feedforward_bias": True, "feedforward": "silu"}),
    "Llama": ("llama", set(), {"feedforward": "swiglu", "h_kv": 2, "tied": False}),
    "a bias of W_q": ("llama", {"attention_bias"}, {"feedforward": "swiglu", "attention_bias": "q"}),
    "biases of q, k and v": ("qwen2", set(), {"feedforward": "swiglu", "attention_bias": "qkv"}),
    "a window": ("mistral", set(), {"feedforward": "swiglu", "window": 5}),
    "norms of q and k": ("qwen3", set(), {"feedforward": "geglu", "query_key_norm": True, "h_kv": 1}),
    "the default of train": ("qwen3", set(), {"feedforward": "relu2", "query_key_norm": True}),
    "a norm of the embeddings": (
        "qwen3",
        set(),
        {"feedforward": "relu2", "query_key_norm": True, "embedding_norm": True, "tied": False},
    ),
    "a norm of scaled embeddings": (
        "llama",
        set(),
        {"feedforward": "swiglu", "embedding_norm": True, "embedding_scale": 0.1, "tied": False},
    ),
    "relu² with biases": ("llama", set(), {"feedforward": "relu2", "feedforward_bias": True}),
    "GPT without biases": (
        "gpt2",
        {"attention_bias", "feedforward_bias", "norm_bias"},
        {"positions": "learned", "norm": "layer", "norm_bias": False},
    ),
    "GPT with relu²": (
        "gpt2",
        {"attention_bias", "feedforward_bias"},
        {"positions": "learned", "norm": "layer", "feedforward": "relu2", "scale": 1.0, "tied": False},
    ),
    "an encoder": (
        "bert",
        {"attention_bias", "feedforward_bias", "token_types"},
        {
            "shape": "encoder", "positions": "learned", "norm": "layer", "norm_placement": "post",
            "embedding_norm": True, "head": "classifier", "classes": 3, "pool": "first", "pool_dense": "tanh",
        },
    ),
    "a classifier without a dense layer": (
        "eurobert",
        {"pool_dense"},
        {"shape": "encoder", "feedforward": "relu2", "head": "classifier", "classes": 3, "norm_epsilon": 1.0},
    ),
    "a masked language model": ("eurobert", set(), {"shape": "encoder", "feedforward": "relu2"}),
    "vectors": (
        "bert",
        {"attention_bias", "feedforward_bias", "token_types", "norm_bias"},
        {
            "shape": "encoder", "positions": "learned", "norm": "layer", "norm_placement": "post",
            "embedding_norm": True, "norm_bias": False, "head": "none", "pool": "last", "unit_length": True,
        },
    ),
    "the transformer of 2017": (
        "marian",
        {"attention_bias", "feedforward_bias", "head_bias"},
        {
            "shape": "encoder-decoder", "positions": "sinusoidal", "sinusoid_layout": "halves", "norm": "layer",
            "norm_placement": "post", "feedforward": "relu", "embedding_scale": 24**0.5,
        },
    ),
    "T5 with other factors": (
        "t5",
        {"scale", "head_scale"},
        {"shape": "encoder-decoder", "positions": "relative", "feedforward": "relu2", "scale": 0.3},
    ),
    "T5": (
        "t5",
        set(),
        {
            "shape": "encoder-decoder", "positions": "relative", "similarity": "dot", "context": None,
            "feedforward": "relu", "head_scale": 24**-0.5, "relative_buckets": 8, "relative_distance": 20,
        },
    ),
}  # fmt: skip


def made_here(changes: dict[str, Any]) -> ModelConfig:
    sizes = {"vocabulary": TOKENS, "context": 40, "d": 24, "h": 4, "encoder_blocks": 2, "decoder_blocks": 3}
    return ModelConfig(**(sizes | changes))


@pytest.mark.parametrize("name", HERE)
def test_a_model_of_ours_is_written_config(name: str, tmp_path: Path) -> None:
    family, added, changes = HERE[name]
    model = randomised(made_here(changes))
    model_folder.save(tmp_path / "ours", Bundle(model))
    made = export_model(tmp_path / "ours", tmp_path / "theirs")
    assert (made.family, set(made.added)) == (family, added)
    assert_equal_in_transformers(tmp_path / "theirs", model)
    import_model(tmp_path / "theirs", tmp_path / "again")
    again = model_folder.load(tmp_path / "again")
    if not added and not changes.get("embedding_norm"):  # which is in the table then
        assert_same(model_folder.load(tmp_path / "ours"), again)
    assert (again.config.pool, again.config.unit_length) == (model.config.pool, model.config.unit_length) or (
        model.config.head != "none"
    )


@pytest.mark.parametrize(
    ("changes", "family", "reasons"),
    [
        (
            {"positions": "alibi", "feedforward": "swiglu"},
            "llama",
            ["positions = 'alibi', but llama has 'rotary'"],
        ),
        (
            {"similarity": "cosine", "feedforward": "swiglu", "soft_cap": 30.0},
            "llama",
            ["similarity = 'cosine'", "soft_cap = 30.0, but llama has None"],
        ),
        ({"window": 7, "feedforward": "swiglu", "query_key_norm": True, "d_v": 5}, "qwen3", ["d_v = 5"]),
        ({"shape": "encoder", "head": "none", "query_key_norm": True}, "eurobert", ["query_key_norm = True"]),
        (
            {"shape": "encoder", "head": "classifier", "classes": 13, "feedforward": "relu2"},
            "eurobert",
            ["pool_dense = 'none', but eurobert has 'gelu'"],
        ),
        ({"shape": "encoder-decoder", "encoder_d": 32, "d_k": 6}, "t5", ["encoder_d = 32"]),
    ],
)
def test_what_no_family_has_is_named_with_the_nearest(
    changes: dict[str, Any], family: str, reasons: list[str], tmp_path: Path
) -> None:
    model = build(made_here(changes))
    model_folder.save(tmp_path / "ours", Bundle(model))
    with pytest.raises(ConfigError) as error:
        export_model(tmp_path / "ours", tmp_path / "theirs")
    assert f"The nearest is {family}, except for:" in str(error.value)
    for reason in reasons:
        assert f"model.{reason}" in str(error.value)
    assert not (tmp_path / "theirs").exists()


def test_a_pruned_model_is_exported_at_its_former_size(tmp_path: Path) -> None:
    model = randomised(made_here({"feedforward": "swiglu"}))
    smaller = pruned(model, {"decoder.0.self": [], "decoder.1.self": [1]}, {"decoder.1.ffn": [2, 3]})
    model_folder.save(tmp_path / "ours", Bundle(smaller))
    with pytest.raises(ConfigError, match=r"ours is pruned, as decoder.0.self is, .*\n.*: --pad"):
        export_model(tmp_path / "ours", tmp_path / "theirs")
    with padded_folder(tmp_path / "ours") as whole:
        assert export_model(whole, tmp_path / "theirs").family == "llama"
    assert_equal_in_transformers(tmp_path / "theirs", smaller)
    model_folder.save(tmp_path / "whole", Bundle(model))
    with padded_folder(tmp_path / "whole") as same:
        assert same == tmp_path / "whole"  # nothing to pad


def test_a_feedforward_that_no_family_has_is_named() -> None:
    with pytest.raises(
        ConfigError,
        match=r"nearest is qwen3, except for:\n  model.feedforward = 'relu', but qwen3 has 'relu2'$",
    ):
        choose_family(made_here({"feedforward": "relu", "query_key_norm": True}))


def test_a_relu_squared_is_a_gate_whose_sides_are_equal(tmp_path: Path) -> None:
    """relu(a)² = relu(a) · a; if the sides differ, it is another model, and import says so."""
    model_folder.save(tmp_path / "ours", Bundle(randomised(made_here(HERE["the default of train"][2]))))
    export_model(tmp_path / "ours", tmp_path / "theirs")
    path = tmp_path / "theirs" / "model.safetensors"
    tensors = load_file(path)
    gate, up = (tensors[f"model.layers.1.mlp.{side}_proj.weight"] for side in ("gate", "up"))
    assert torch.equal(gate, up)
    gate += 1
    save_file(tensors, path, {"format": "pt"})
    with pytest.raises(ModelFolderError, match="a gate with relu is unsupported"):
        import_model(tmp_path / "theirs", tmp_path / "again")


KINDS = ["bpe", "unigram", "wordpiece", "word", "character", "byte"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((kind, "Llama") for kind in KINDS),
        *((kind, "vectors") for kind in KINDS),
        *(("bpe", name) for name in HERE if name not in ("Llama", "vectors")),
        ("unigram", "biases of q, k and v"),
    ],
)
def test_a_tokenizer_of_ours_is_loaded_and_frames_a_text_as_ours_does(
    kind: Any, name: str, tmp_path: Path
) -> None:
    tokenizer = Tokenizer.train(TEXTS, TokenizerConfig(kind=kind, vocabulary=320))
    model = randomised(made_here(HERE[name][2] | {"vocabulary": tokenizer.size}))
    model_folder.save(tmp_path / "ours", Bundle(model, tokenizer))
    made = export_model(tmp_path / "ours", tmp_path / "theirs")
    assert (made.family == HERE[name][0]) == (name != "biases of q, k and v")
    other = hf.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    specials = tokenizer.specials
    for text in [*TEXTS[:3], "", "é x  y"]:
        after = [] if model.config.shape == "decoder" else [specials.end]
        assert other(text)["input_ids"] == [specials.begin, *tokenizer.encode(text), *after]
        bare = tokenizer.encode(text)
        assert other.decode(bare, skip_special_tokens=True) == tokenizer.decode(bare)
    assert other.pad_token_id == specials.padding
    assert "token_type_ids" not in other("a")
    import_model(tmp_path / "theirs", tmp_path / "again")
    again = model_folder.load(tmp_path / "again").tokenizer
    assert again is not None
    # What follows from the task here is stated in files for others.
    before, end = (tuple(id for id in ids if id is not None) for ids in ([specials.begin], after))
    assert again.specials == replace(specials, framing=(before, end))
    assert again.encode(TEXTS[0]) == tokenizer.encode(TEXTS[0])


@pytest.mark.parametrize("style", ["qwen2", "gpt2"])
def test_a_tokenizer_that_would_be_made_anew_is_written_for_another_family(
    style: str, tmp_path: Path
) -> None:
    """For a Qwen 2 `transformers` takes only pieces and merges from tokenizer.json, and cuts words as Qwen does."""
    tokenizer = Tokenizer(written(style))
    changes = HERE["biases of q, k and v"][2] | {"vocabulary": tokenizer.size}
    model_folder.save(tmp_path / "ours", Bundle(randomised(made_here(changes)), tokenizer))
    made = export_model(tmp_path / "ours", tmp_path / "theirs")
    assert (made.family, set(made.added)) == {
        "qwen2": ("qwen2", set()),
        "gpt2": ("llama", {"attention_bias"}),
    }[style]
    other = hf.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    for text in [*TEXTS[:3], "a1b22 \n\n x"]:
        assert other(text, add_special_tokens=False)["input_ids"] == tokenizer.encode(text)


def test_two_tokenizers_stand_in_two_folders(tmp_path: Path) -> None:
    source = Tokenizer.train(TEXTS, TokenizerConfig(kind="bpe", vocabulary=300))
    target = Tokenizer.train(TEXTS, TokenizerConfig(kind="word", vocabulary=40))
    changes = {"vocabulary": target.size, "source_vocabulary": source.size, "shared": False}
    model = randomised(made_here(HERE["the transformer of 2017"][2] | changes))
    model_folder.save(tmp_path / "ours", Bundle(model, target, source))
    export_model(tmp_path / "ours", tmp_path / "theirs")
    frame = [source.specials.begin, *source.encode(TEXTS[0]), source.specials.end]
    assert hf.AutoTokenizer.from_pretrained(tmp_path / "theirs")(TEXTS[0])["input_ids"] == frame
    other = hf.AutoTokenizer.from_pretrained(tmp_path / "theirs", subfolder="target")
    assert other.decode(target.encode(TEXTS[0])) == target.decode(target.encode(TEXTS[0]))
    written_config = hf.AutoConfig.from_pretrained(tmp_path / "theirs")
    assert written_config.decoder_start_token_id == target.specials.begin
    import_model(tmp_path / "theirs", tmp_path / "again")
    again = model_folder.load(tmp_path / "again")
    assert again.tokenizer is not None
    assert again.source_tokenizer is not None
    assert replace(again.tokenizer.specials, framing=None) == target.specials
    assert again.source_tokenizer.encode(TEXTS[1]) == source.encode(TEXTS[1])


def test_labels_go_along(tmp_path: Path) -> None:
    model = randomised(made_here(HERE["an encoder"][2]))
    model_folder.save(tmp_path / "ours", Bundle(model, labels=["good", "bad", "neither"]))
    export_model(tmp_path / "ours", tmp_path / "theirs")
    written_config = hf.AutoConfig.from_pretrained(tmp_path / "theirs")
    assert written_config.id2label == {0: "good", 1: "bad", 2: "neither"}
    import_model(tmp_path / "theirs", tmp_path / "again")
    assert model_folder.load(tmp_path / "again").labels == ["good", "bad", "neither"]


@pytest.mark.parametrize("name", ["an encoder", "a classifier without a dense layer"])
def test_probabilities_are_as_calibrated(name: str, tmp_path: Path) -> None:
    """The temperature becomes part of the last layer, since `transformers` has none."""
    model = randomised(made_here(HERE[name][2]))
    model_folder.save(tmp_path / "ours", Bundle(model, calibration=Calibration(2.5, 100)))
    export_model(tmp_path / "ours", tmp_path / "theirs")
    tokens = ids(N, TOKENS)
    with torch.no_grad():
        ours = model(Inputs(tokens)) / 2.5
        expected = theirs(tmp_path / "theirs", transformer(model.config))(tokens).logits
    assert torch.allclose(ours, expected, atol=1e-5)


def test_nothing_is_written_over(tmp_path: Path) -> None:
    model_folder.save(tmp_path / "ours", Bundle(pair("gpt2").ours))
    with pytest.raises(ModelFolderError, match="is not an empty folder"):
        export_model(tmp_path / "ours", tmp_path / "ours")
    assert model_folder.load(tmp_path / "ours").config == pair("gpt2").ours.config


CHANGES: dict[str, list[Any]] = {
    "tied": [True, False],
    "h_kv": [None, 1, 2],
    "d_k": [None, 6, 10],
    "window": [None, 4],
    "scale": [None, 1.0, 0.3],
    "query_key_norm": [True, False],
    "attention_bias": ["", "qkv", "qkvo", "k"],
    "norm_epsilon": [1e-5, 0.01, 1e-12],
    "norm_bias": [True, False],
    "final_norm": [None, True, False],
    "feedforward": ["relu", "gelu", "gelu_tanh", "silu", "relu2", "swiglu", "geglu", "geglu_tanh"],
    "d_ff": [None, 30],
    "feedforward_bias": [True, False],
    "embedding_scale": [1.0, 24**0.5, 2.0],
    "token_types": [0, 1, 2],
    "head_bias": [True, False],
    "soft_cap": [None, 5.0],
    "position_offset": [0, 2],
    "rotary_scaling": [None, {"kind": "linear", "factor": 2.0}],
}


@settings(max_examples=60)
@given(name=st.sampled_from(list(HERE)), data=st.data())
def test_whatever_is_written_computes_the_same_in_transformers(name: str, data: st.DataObject) -> None:
    """Settings by chance: refused with a reason, or the same logits there."""
    keys = data.draw(st.lists(st.sampled_from(list(CHANGES)), min_size=1, max_size=3, unique=True))
    changes = HERE[name][2] | {key: data.draw(st.sampled_from(CHANGES[key])) for key in keys}
    try:
        config = made_here(changes)
        choose_family(config)
    except ConfigError:
        return
    with TemporaryDirectory() as folder:
        model = randomised(config)
        model_folder.save(f"{folder}/ours", Bundle(model))
        export_model(f"{folder}/ours", f"{folder}/theirs")
        assert_equal_in_transformers(Path(folder) / "theirs", model)
