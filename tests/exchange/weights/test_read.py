"""A safetensors header is believed only where it accounts for every byte of its file."""

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from clearhead.errors import ModelFolderError
from clearhead.exchange.hf_folder import HuggingFaceFolder
from clearhead.exchange.weights.read import read_safetensors, read_weights
from tests.exchange.folders import entry, safetensors


def refused(path: Path) -> str:
    with pytest.raises(ModelFolderError) as error:
        read_safetensors(path)
    assert str(path) in str(error.value)
    return str(error.value)


TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16]


@pytest.mark.parametrize("dtype", TYPES)
def test_what_safetensors_writes_is_read_to_the_last_bit(dtype: torch.dtype, tmp_path: Path) -> None:
    tensors = {
        "a": torch.randn(3, 5),
        "b.c": torch.randn(7),
        "empty": torch.zeros(0, 4),
        "one": torch.ones(()),
    }
    tensors = {name: (X * 100).to(dtype) for name, X in tensors.items()}
    save_file(tensors, tmp_path / "x.safetensors", metadata={"format": "pt"})
    found = read_safetensors(tmp_path / "x.safetensors")
    assert found.keys() == tensors.keys()
    for name, X in tensors.items():
        assert (found[name].shape, found[name].dtype) == (X.shape, X.dtype)
        assert torch.equal(found[name].read(), X)


# What misleads, and the reason that the library gives.
LIES: dict[str, tuple[bytes, str]] = {
    "overlap": (
        safetensors({"a": entry(0, 8, [2]), "b": entry(4, 12, [2])}, bytes(12)),
        "invalid offset for tensor `b`",
    ),
    "the same bytes twice": (
        safetensors({"a": entry(0, 8, [2]), "b": entry(0, 8, [2])}, bytes(8)),
        "invalid offset for tensor",
    ),
    "gap": (
        safetensors({"a": entry(0, 8, [2]), "b": entry(12, 20, [2])}, bytes(20)),
        "invalid offset for tensor `b`",
    ),
    "more than the file": (safetensors({"a": entry(0, 4000, [1000])}, bytes(8)), "file not fully covered"),
    "more bytes than the header": (safetensors({"a": entry(0, 8, [2])}, bytes(9)), "file not fully covered"),
    "a shape that is larger": (
        safetensors({"a": entry(0, 8, [1 << 40])}, bytes(8)),
        "invalid shape, data type, or offset",
    ),
    "a negative size": (safetensors({"a": entry(0, 8, [-2])}, bytes(8)), "integer `-2`, expected usize"),
    "a size that is true": (safetensors({"a": entry(0, 4, [True])}, bytes(4)), "expected usize"),
    "offsets that fall": (safetensors({"a": entry(8, 0, [2])}, bytes(8)), "invalid offset for tensor `a`"),
    "an unknown type": (safetensors({"a": entry(0, 8, [2], "F31")}, bytes(8)), "unknown variant `F31`"),
    "a type that torch lacks": (
        safetensors({"a": entry(0, 6, [8], "F6_E2M3")}, bytes(6)),
        "Dtype not understood: F6_E2M3",
    ),
    "no offsets": (safetensors({"a": {"dtype": "F32", "shape": [2]}}, bytes(8)), "missing field"),
    "a list": (safetensors([1, 2]), "invalid type: sequence"),
    "a tensor that is a number": (safetensors({"a": 7}), "invalid type: integer `7`"),
    "no JSON": (safetensors(b"{{{{"), "invalid JSON in header"),
    "a header without end": (safetensors(b"[" * 100_000), "invalid JSON in header"),
    "tables without end": (safetensors(b'{"a":' * 100_000), "invalid JSON in header"),
    "a header longer than the file": (safetensors({}, length=1 << 50), "header too large"),
    "a name twice": (
        safetensors(
            b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
            b'"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
            bytes(8),
        ),
        "invalid offset for tensor `a`",
    ),
    "nothing": (b"", "header too small"),
    "a pickle": (pickle.dumps({"a": 1}) + bytes(100), "is a pickle under another name"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_misleads_is_refused(lie: str, tmp_path: Path) -> None:
    content, reason = LIES[lie]
    (tmp_path / "model.safetensors").write_bytes(content)
    assert reason in refused(tmp_path / "model.safetensors")


@given(place=st.integers(0, 400), byte=st.integers(0, 255))
def test_a_changed_byte_gives_a_tensor_or_a_refusal(
    place: int, byte: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("x") / "x.safetensors"
    content = bytearray(safetensors({"a": entry(0, 24, [2, 3]), "b": entry(24, 32, [2])}, bytes(32)))
    content[place % len(content)] = byte
    path.write_bytes(content)
    try:
        found = read_safetensors(path)
    except ModelFolderError:
        return
    assert sum(stored.read().nbytes for stored in found.values()) == 32


def shards(folder: Path, places: Any, **files: dict[str, torch.Tensor]) -> HuggingFaceFolder:
    for name, tensors in files.items():
        save_file(tensors, folder / f"{name}.safetensors")
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return HuggingFaceFolder(folder)


def test_shards_are_read_together(tmp_path: Path) -> None:
    A, B = torch.randn(2, 3), torch.randn(4)
    folder = shards(tmp_path, {"a": "x.safetensors", "b": "y.safetensors"}, x={"a": A}, y={"b": B})
    found = read_weights(folder)
    assert torch.equal(found["a"].read(), A)
    assert torch.equal(found["b"].read(), B)


@pytest.mark.parametrize(
    "name",
    [
        "../x.safetensors",
        "/etc/x.safetensors",
        "sub/x.safetensors",
        "..\\x.safetensors",
        "C:x.safetensors",
        "x.bin",
        "x.safetensors\0",
        "",
        7,
        None,
        ["x.safetensors"],
    ],
)
def test_an_index_names_files_of_its_own_folder_only(name: Any, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    save_file({"a": torch.ones(1)}, tmp_path / "x.safetensors")
    folder = shards(inner, {"a": name}, x={"a": torch.ones(1)})
    with pytest.raises(ModelFolderError, match=r"not the name of a \.safetensors file beside it") as error:
        read_weights(folder)
    assert "An index may only name files in its own folder." in str(error.value)


def test_a_link_in_an_index_is_not_followed(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    save_file({"a": torch.ones(1)}, tmp_path / "x.safetensors")
    folder = shards(inner, {"a": "x.safetensors"})
    (inner / "x.safetensors").symlink_to(tmp_path / "x.safetensors")
    with pytest.raises(ModelFolderError, match=r"is a symlink to .*, outside the folder"):
        read_weights(folder)


@pytest.mark.parametrize(
    ("places", "reason"),
    [
        ({"a": "x", "b": "y", "c": "y", "d": "z"}, "names z.safetensors, which does not exist"),
        ({"a": "x", "b": "y"}, "says that c is in None, but it is in y.safetensors"),
        ({"a": "y", "b": "y", "c": "y"}, "says that a is in y.safetensors, but it is in None"),
        (
            {"a": "x", "b": "y", "c": "y", "d": "x"},
            "says that d is in x.safetensors, but it is in None",
        ),
        ({}, "has no weight_map"),
    ],
)
def test_shards_that_do_not_belong_together_are_refused(
    places: dict[str, str], reason: str, tmp_path: Path
) -> None:
    both = {"x": {"a": torch.ones(1)}, "y": {"b": torch.ones(1), "c": torch.ones(1)}}
    folder = shards(tmp_path, {name: f"{file}.safetensors" for name, file in places.items()}, **both)
    with pytest.raises(ModelFolderError) as error:
        read_weights(folder)
    assert reason in str(error.value)


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    one, two = torch.ones(1), torch.ones(1)
    places = {"a": "y.safetensors", "b": "y.safetensors", "c": "x.safetensors"}
    folder = shards(tmp_path, places, x={"a": one, "c": two}, y={"b": one, "a": two})
    with pytest.raises(ModelFolderError, match="A tensor is in two shards"):
        read_weights(folder)


class Evil:
    """What a pickle may do when it is opened by anyone who trusts it."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, ("evil",)


def test_a_pickle_needs_a_flag_and_gives_tensors_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, A = HuggingFaceFolder(tmp_path), torch.randn(2, 3)
    torch.save({"a": A}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelFolderError, match=r"weights in a pickle \(pytorch_model.bin\)") as error:
        read_weights(folder)
    assert "--allow-pickle" in str(error.value)
    assert torch.equal(read_weights(folder, allow_pickle=True)["a"].read(), A)
    torch.save({"a": A}, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    assert torch.equal(read_weights(folder, allow_pickle=True)["a"].read(), A)
    torch.save({"a": A, "b": Evil()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelFolderError, match="is not a plain pickle of tensors"):
        read_weights(folder, allow_pickle=True)
    assert not (tmp_path / "evil").exists()
    torch.save([A], tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelFolderError, match="contains more than a table of tensors"):
        read_weights(folder, allow_pickle=True)
    (tmp_path / "pytorch_model.bin").write_bytes(b"garbage")
    with pytest.raises(ModelFolderError, match="is not a plain pickle of tensors"):
        read_weights(folder, allow_pickle=True)


def test_a_folder_without_weights_says_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "readme.md").touch()
    with pytest.raises(
        ModelFolderError, match=r"no model.safetensors and no index of shards.\nIt contains: readme"
    ):
        read_weights(HuggingFaceFolder(tmp_path))
