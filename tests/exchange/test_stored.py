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

from clearhead.errors import CheckpointError
from clearhead.exchange.folder import Folder
from clearhead.exchange.stored import TYPES, find_weights, read_safetensors
from tests.exchange.folders import entry, safetensors


def refused(path: Path) -> str:
    with pytest.raises(CheckpointError) as error:
        read_safetensors(path)
    assert str(path) in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("dtype", [dtype for dtype in TYPES.values() if dtype.itemsize > 1])
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


LIES: dict[str, tuple[bytes, str]] = {
    "overlap": (
        safetensors({"a": entry(0, 8, [2]), "b": entry(4, 12, [2])}, bytes(12)),
        "b overlaps the tensor before it (byte",
    ),
    "the same bytes twice": (
        safetensors({"a": entry(0, 8, [2]), "b": entry(0, 8, [2])}, bytes(8)),
        "b overlaps the tensor before it (byte",
    ),
    "gap": (
        safetensors({"a": entry(0, 8, [2]), "b": entry(12, 20, [2])}, bytes(20)),
        "b leaves a gap before it (byte",
    ),
    "more than the file": (safetensors({"a": entry(0, 4000, [1000])}, bytes(8)), "the header speaks of"),
    "more bytes than the header": (safetensors({"a": entry(0, 8, [2])}, bytes(9)), "the header speaks of"),
    "a shape that is larger": (
        safetensors({"a": entry(0, 8, [1 << 40])}, bytes(8)),
        "a of shape [1099511627776] and type F32 has 4398046511104 bytes, but its header gives it 8.",
    ),
    "a negative size": (safetensors({"a": entry(0, 8, [-2])}, bytes(8)), "which cannot be read"),
    "a size that is true": (safetensors({"a": entry(0, 4, [True])}, bytes(4)), "which cannot be read"),
    "offsets that fall": (safetensors({"a": entry(8, 0, [2])}, bytes(8)), "its header gives it -8"),
    "an unknown type": (safetensors({"a": entry(0, 8, [2], "F31")}, bytes(8)), "A tensor has a dtype of F64"),
    "no offsets": (safetensors({"a": {"dtype": "F32", "shape": [2]}}, bytes(8)), "which cannot be read"),
    "a list": (safetensors([1, 2]), "the header is not a table of tensors"),
    "a tensor that is a number": (safetensors({"a": 7}), "which cannot be read"),
    "no JSON": (safetensors(b"{{{{"), "is not a whole safetensors file"),
    "a header without end": (safetensors(b"[" * 100_000), "is not a whole safetensors file"),
    "a header longer than the file": (safetensors({}, length=1 << 50), "a header of 1125899906842624 bytes"),
    "a name twice": (
        safetensors(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":1}', bytes(4)),
        "a name stands twice in its header",
    ),
    "nothing": (b"", "a header of 0 bytes in a file of 0"),
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
    except CheckpointError:
        return
    assert sum(stored.read().nbytes for stored in found.values()) == 32


def shards(folder: Path, places: Any, **files: dict[str, torch.Tensor]) -> Folder:
    for name, tensors in files.items():
        save_file(tensors, folder / f"{name}.safetensors")
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return Folder(folder)


def test_shards_are_read_together(tmp_path: Path) -> None:
    A, B = torch.randn(2, 3), torch.randn(4)
    folder = shards(tmp_path, {"a": "x.safetensors", "b": "y.safetensors"}, x={"a": A}, y={"b": B})
    found = find_weights(folder)
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
    with pytest.raises(CheckpointError, match=r"not the name of a \.safetensors file beside it") as error:
        find_weights(folder)
    assert "An index may only name files of its own folder." in str(error.value)


def test_a_link_in_an_index_is_not_followed(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    save_file({"a": torch.ones(1)}, tmp_path / "x.safetensors")
    folder = shards(inner, {"a": "x.safetensors"})
    (inner / "x.safetensors").symlink_to(tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match=r"is a link to .*, outside of its folder"):
        find_weights(folder)


@pytest.mark.parametrize(
    ("places", "reason"),
    [
        ({"a": "x", "b": "y", "c": "y", "d": "z"}, "names z.safetensors, which is not there"),
        ({"a": "x", "b": "y"}, "says that c stands in None, but it stands in y.safetensors"),
        ({"a": "y", "b": "y", "c": "y"}, "says that a stands in y.safetensors, but it stands in None"),
        (
            {"a": "x", "b": "y", "c": "y", "d": "x"},
            "says that d stands in x.safetensors, but it stands in None",
        ),
        ({}, "has no weight_map"),
    ],
)
def test_shards_that_do_not_belong_together_are_refused(
    places: dict[str, str], reason: str, tmp_path: Path
) -> None:
    both = {"x": {"a": torch.ones(1)}, "y": {"b": torch.ones(1), "c": torch.ones(1)}}
    folder = shards(tmp_path, {name: f"{file}.safetensors" for name, file in places.items()}, **both)
    with pytest.raises(CheckpointError) as error:
        find_weights(folder)
    assert reason in str(error.value)


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    one, two = torch.ones(1), torch.ones(1)
    places = {"a": "y.safetensors", "b": "y.safetensors", "c": "x.safetensors"}
    folder = shards(tmp_path, places, x={"a": one, "c": two}, y={"b": one, "a": two})
    with pytest.raises(CheckpointError, match="A tensor stands in two shards"):
        find_weights(folder)


class Evil:
    """What a pickle may do when it is opened by anyone who trusts it."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, ("evil",)


def test_a_pickle_needs_a_flag_and_gives_tensors_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, A = Folder(tmp_path), torch.randn(2, 3)
    torch.save({"a": A}, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"weights in a pickle \(pytorch_model.bin\)") as error:
        find_weights(folder)
    assert "--allow-pickle" in str(error.value)
    assert torch.equal(find_weights(folder, allow_pickle=True)["a"].read(), A)
    torch.save({"a": A}, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    assert torch.equal(find_weights(folder, allow_pickle=True)["a"].read(), A)
    torch.save({"a": A, "b": Evil()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="is not a plain pickle of tensors"):
        find_weights(folder, allow_pickle=True)
    assert not (tmp_path / "evil").exists()
    torch.save([A], tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="holds more than a table of tensors"):
        find_weights(folder, allow_pickle=True)
    (tmp_path / "pytorch_model.bin").write_bytes(b"garbage")
    with pytest.raises(CheckpointError, match="is not a plain pickle of tensors"):
        find_weights(folder, allow_pickle=True)


def test_a_folder_without_weights_says_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "readme.md").touch()
    with pytest.raises(
        CheckpointError, match=r"no model.safetensors and no index of shards.\nIt holds: readme"
    ):
        find_weights(Folder(tmp_path))
