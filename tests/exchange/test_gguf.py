"""GGUF files, written by the `gguf` package as llama.cpp's converter does, become the models they were made from."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import sentencepiece
import torch
from torch import Tensor

from clearhead import model_folder
from clearhead.errors import ConfigError, ModelFolderError, TokenizerError
from clearhead.exchange.families import import_gguf
from clearhead.exchange.families.gguf_names import LLAMA_INNER, LLAMA_OUTER
from clearhead.exchange.families.import_gguf import llama3_divisors
from clearhead.exchange.importing import import_model
from clearhead.exchange.tokenizers.read_sentencepiece import parse_sentencepiece
from clearhead.exchange.weights.read_gguf import read_gguf
from clearhead.models.inputs import Inputs
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.exchange.tiny import TOKENS, pair
from tests.exchange.tokenizers.test_read_vocabulary import LLAMA, trained
from tests.narrow import transformer
from tests.text.tokenizers.foreign import written

TYPES = gguf.GGMLQuantizationType
NAMES = {f"model.layers.{{i}}.{theirs}": f"blk.{{i}}.{ours}" for ours, theirs in LLAMA_INNER.items()}
NAMES |= {theirs: ours for ours, theirs in LLAMA_OUTER.items()}


def permuted(W: Tensor, h: int) -> Tensor:
    """The order of rows in which llama.cpp keeps W_q and W_k: the pairs that are turned stand side by side."""
    return W.reshape(h, 2, W.shape[0] // h // 2, *W.shape[1:]).swapaxes(1, 2).reshape(W.shape)


def gguf_name(name: str) -> str:
    stem, _, ending = name.rpartition(".")
    parts = stem.split(".")
    if parts[:2] == ["model", "layers"]:
        number = parts[2]
        return NAMES[stem.replace(f".{number}.", ".{i}.", 1)].format(i=number) + f".{ending}"
    return f"{NAMES[stem]}.{ending}"


def write(
    path: Path,
    name: str,
    kind: TYPES = TYPES.F32,
    architecture: str = "llama",
    more: Callable[[gguf.GGUFWriter], object] = lambda writer: None,
) -> Path:
    """The GGUF file of a tiny model."""
    both = pair(name)
    config, writer = both.config, gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    writer.add_key_length(width)
    writer.add_rope_dimension_count(width)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    more(writer)
    for theirs, X in both.weights.items():
        if architecture == "llama" and ".q_proj." in theirs:
            X = permuted(X, config["num_attention_heads"])
        if architecture == "llama" and ".k_proj." in theirs:
            X = permuted(X, config["num_key_value_heads"])
        is_quantised = X.ndim == 2 and kind not in (TYPES.F32, TYPES.F16) and X.shape[-1] % 32 == 0
        if is_quantised:
            writer.add_tensor(gguf_name(theirs), gguf.quants.quantize(X.numpy(), kind), raw_dtype=kind)
        else:
            as_is = X.numpy().astype(np.float16) if kind == TYPES.F16 and X.ndim == 2 else X.numpy()
            writer.add_tensor(gguf_name(theirs), as_is)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@torch.no_grad()
def assert_logits(folder: Path, name: str, tolerance: float = 1e-4) -> None:
    tokens = torch.randint(2, TOKENS, (2, 13), generator=torch.Generator().manual_seed(1))
    ours, theirs = model_folder.load(folder).module(Inputs(tokens)), pair(name).theirs(tokens).logits
    assert (ours - theirs).abs().max() <= tolerance * max(1.0, float(theirs.abs().max()))


def linear(writer: gguf.GGUFWriter) -> None:
    writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    writer.add_rope_scaling_factor(2.5)


@pytest.mark.parametrize(
    ("name", "architecture", "more"),
    [
        ("llama2", "llama", lambda writer: None),
        ("llama-linear", "llama", linear),
        ("mistral", "llama", lambda writer: writer.add_sliding_window(5)),
        ("qwen2", "qwen2", lambda writer: None),
        ("qwen3", "qwen3", lambda writer: None),
    ],
)
def test_a_file_gives_their_logits(name: str, architecture: str, more: Any, tmp_path: Path) -> None:
    import_model(write(tmp_path / "x.gguf", name, architecture=architecture, more=more), tmp_path / "ours")
    assert_logits(tmp_path / "ours", name)


def test_without_the_right_order_of_rows_the_logits_would_differ(tmp_path: Path) -> None:
    import_model(write(tmp_path / "x.gguf", "llama2", architecture="llama"), tmp_path / "ours")
    loaded, expected = (
        model_folder.load(tmp_path / "ours").module.state_dict(),
        pair("llama2").ours.state_dict(),
    )
    assert all(torch.equal(loaded[key], X) for key, X in expected.items())
    W = pair("llama2").weights["model.layers.0.self_attn.q_proj.weight"]
    assert not torch.equal(permuted(W, 6), W)


@pytest.mark.parametrize("kind", [TYPES.F16, TYPES.Q8_0, TYPES.Q4_0])
def test_quantised_files_become_numbers(kind: TYPES, tmp_path: Path) -> None:
    path = write(tmp_path / "x.gguf", "llama-32", kind)
    import_model(path, tmp_path / "ours")
    weights = model_folder.load(tmp_path / "ours").module.state_dict()
    gap = {TYPES.F16: 1e-3, TYPES.Q8_0: 0.02, TYPES.Q4_0: 0.2}[kind]
    for key, X in pair("llama-32").ours.state_dict().items():
        assert (weights[key] - X).abs().max() <= gap * float(X.abs().max()), key


def test_the_stretch_of_llama_3_is_recognised(tmp_path: Path) -> None:
    def add(writer: gguf.GGUFWriter) -> None:
        writer.add_tensor(
            "rope_freqs.weight", llama3_divisors(pair("llama3-long").config["rope_parameters"], 5).numpy()
        )

    foreign = import_model(write(tmp_path / "x.gguf", "llama3-long", more=add), tmp_path / "ours")
    ours = transformer(pair("llama3-long").ours.config)
    assert foreign.config.rotary_scaling == ours.rotary_scaling
    assert_logits(tmp_path / "ours", "llama3-long")


def test_a_stretch_of_1_is_none(tmp_path: Path) -> None:
    def add(writer: gguf.GGUFWriter) -> None:
        writer.add_tensor("rope_freqs.weight", np.ones(3, np.float32))

    assert (
        import_model(write(tmp_path / "x.gguf", "llama2", more=add), tmp_path / "ours").config.rotary_scaling
        is None
    )


def test_any_other_stretch_is_refused(tmp_path: Path) -> None:
    def other(writer: gguf.GGUFWriter) -> None:
        writer.add_tensor("rope_freqs.weight", np.array([1, 2, 3, 4, 5], np.float32))

    with pytest.raises(ModelFolderError, match=r"rope_freqs\.weight is not the rotary scaling of Llama 3"):
        import_model(write(tmp_path / "x.gguf", "llama3", more=other), tmp_path / "ours")
    yarn = write(
        tmp_path / "y.gguf", "llama2", more=lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    )
    with pytest.raises(ConfigError, match="rope_type = 'yarn' is unsupported"):
        import_model(yarn, tmp_path / "ours")


def levels(style: str, pre: str | None = None) -> Callable[[gguf.GGUFWriter], None]:
    """A byte-level vocabulary as llama.cpp writes it down, with its own split or another."""
    document = json.loads(written(style))
    model, added = document["model"], {token["content"]: token["id"] for token in document["added_tokens"]}
    ids = model["vocab"] | added
    names = sorted(ids, key=ids.__getitem__)

    def add(writer: gguf.GGUFWriter) -> None:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(pre or {"gpt2": "gpt-2", "qwen2": "qwen2"}[style])
        writer.add_token_list(names)
        writer.add_token_types([3 if name in added else 1 for name in names])
        writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in model["merges"]])
        writer.add_eos_token_id(ids["<|endoftext|>"])

    return add


def scores(writer: gguf.GGUFWriter) -> None:
    """A SentencePiece model, the same way."""
    pieces = parse_sentencepiece(trained("bpe", **LLAMA), "x").pieces
    writer.add_tokenizer_model("llama")
    writer.add_token_list([piece.text for piece in pieces])
    writer.add_token_types([piece.kind for piece in pieces])
    writer.add_token_scores([piece.score for piece in pieces])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


SAMPLES = ("It's the chicken, 12,345.67 naïve!", " two  spaces\n", "日本語", "")


@pytest.mark.parametrize("style", ["gpt2", "qwen2"])
def test_a_byte_level_tokenizer_comes_along(style: str, tmp_path: Path) -> None:
    import_model(write(tmp_path / "x.gguf", "llama-tokens", more=levels(style)), tmp_path / "ours")
    tokenizer, expected = model_folder.load(tmp_path / "ours").tokenizer, Tokenizer(written(style))
    assert tokenizer is not None
    for text in SAMPLES:
        assert tokenizer.encode(text) == expected.encode(text)
        assert tokenizer.decode(tokenizer.encode(text)) == expected.decode(expected.encode(text))
    assert tokenizer.specials.end == expected.specials.end


def test_a_sentencepiece_tokenizer_comes_along(tmp_path: Path) -> None:
    import_model(write(tmp_path / "x.gguf", "llama-tokens", more=scores), tmp_path / "ours")
    tokenizer = model_folder.load(tmp_path / "ours").tokenizer
    assert tokenizer is not None
    processor = sentencepiece.SentencePieceProcessor(model_proto=trained("bpe", **LLAMA))
    for text in SAMPLES:
        assert tokenizer.encode(text) == processor.encode(text)
        assert tokenizer.decode(tokenizer.encode(text)) == processor.decode(processor.encode(text))
    assert (tokenizer.specials.begin, tokenizer.specials.end, tokenizer.specials.unknown) == (1, 2, 0)


@pytest.mark.parametrize(
    ("kind", "pre", "reason"),
    [("gpt2", "chameleon", "splits text as 'chameleon'"), ("bert", "default", "of the kind 'bert'")],
)
def test_a_tokenizer_that_is_not_known_is_refused_by_name(
    kind: str, pre: str, reason: str, tmp_path: Path
) -> None:
    def add(writer: gguf.GGUFWriter) -> None:
        writer.add_tokenizer_model(kind)
        writer.add_tokenizer_pre(pre)
        writer.add_token_list(["a"])

    path = write(tmp_path / "x.gguf", "llama2", more=add)
    with pytest.raises(TokenizerError, match=reason) as error:
        import_model(path, tmp_path / "ours")
    assert "--no-tokenizer" in str(error.value)
    import_model(path, tmp_path / "ours", has_tokenizer=False)
    assert model_folder.load(tmp_path / "ours").tokenizer is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("llama.attention.head_count", 0),
        ("llama.attention.head_count_kv", "2"),
        ("llama.attention.key_length", -4),
        ("llama.embedding_length", [3, 4]),
        ("llama.rope.freq_base", float("nan")),
        ("llama.attention.layer_norm_rms_epsilon", True),
        ("llama.attention.sliding_window", "wide"),
    ],
)
def test_metadata_that_cannot_be_is_refused(
    key: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata, tensors = read_gguf(write(tmp_path / "x.gguf", "llama2"))
    monkeypatch.setattr(import_gguf, "read_gguf", lambda path: (metadata | {key: value}, tensors))
    with pytest.raises(ModelFolderError, match="must be a number above 0"):
        import_model(tmp_path / "x.gguf", tmp_path / "ours")


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.gguf", "llama2", architecture="mamba")
    with pytest.raises(
        ModelFolderError,
        match=r"architecture 'mamba', which is unsupported.\nSupported in GGUF files: llama, qwen2, qwen3, gpt2",
    ):
        import_model(path, tmp_path / "ours")


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def file_of(tensors: int, keys: int, rest: bytes, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + rest


KEY = text("general.architecture")
LIES = {
    "no magic": (b"GGML" + bytes(40), "it does not start with GGUF"),
    "nothing": (b"", "it claims 4 bytes at 0, but 0 are left"),
    "version": (file_of(0, 0, b"", version=9), "it has version 9"),
    "keys without end": (file_of(0, 1 << 60, b""), "claims 8 bytes at 24"),
    "a text without end": (file_of(0, 1, struct.pack("<Q", 1 << 62)), "claims 4611686018427387904 bytes"),
    "an array without end": (
        file_of(0, 1, KEY + struct.pack("<IIQ", 9, 4, 1 << 60)),
        "it claims an array of 1152921504606846976 values",
    ),
    "an array of arrays": (file_of(0, 1, KEY + struct.pack("<IIQ", 9, 9, 1)), "an array of arrays"),
    "an unknown type of value": (file_of(0, 1, KEY + struct.pack("<I", 77)), "not a valid GGUF file"),
    "too many axes": (file_of(1, 0, text("x") + struct.pack("<I", 1 << 31)), "x has 2147483648 axes"),
    "a tensor past the end": (
        file_of(1, 0, text("x") + struct.pack("<IQIQ", 1, 1000, 0, 0)),
        "x ends at byte 4064 of",
    ),
    "a tensor of more than all memory": (
        file_of(1, 0, text("x") + struct.pack("<IQQIQ", 2, 1 << 60, 1 << 60, 0, 0)),
        "x ends at byte",
    ),
    "an unknown type of tensor": (
        file_of(1, 0, text("x") + struct.pack("<IQIQ", 1, 1, 4242, 0)),
        "4242 is not a valid GGMLQuantizationType",
    ),
    "half a block": (
        file_of(1, 0, text("x") + struct.pack("<IQIQ", 1, 33, 8, 0)),
        "does not divide into blocks of 32",
    ),
    "no alignment": (
        file_of(0, 1, text("general.alignment") + struct.pack("<II", 4, 0)),
        "general.alignment = 0",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_file_that_misleads_is_refused(lie: str, tmp_path: Path) -> None:
    content, reason = LIES[lie]
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(ModelFolderError, match=r"x\.gguf is not a valid GGUF file: ") as error:
        read_gguf(tmp_path / "x.gguf")
    assert reason in str(error.value)
