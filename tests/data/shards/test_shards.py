"""Shards read back what was written, notice damage, and stay small."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.shards.manifest import FORMAT, Account
from clearhead.data.shards.ragged import EncodedExamples
from clearhead.data.shards.reading import Shards
from clearhead.data.shards.writing import ShardWriter
from clearhead.errors import DataError

lists = st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=5), min_size=1, max_size=12)


def encoded(examples: list[list[int]], labels: list[int] | None = None) -> EncodedExamples:
    ids = np.array([token for example in examples for token in example], np.int32)
    counts = np.array([len(example) for example in examples])
    hashes = np.array([[hash(tuple(example)) & 0xFFFF] for example in examples], np.uint64)
    return EncodedExamples((ids,), (counts,), hashes, None if labels is None else np.array(labels))


def written(folder: Path, examples: list[list[int]], shard_tokens: int = 8, vocabulary: int = 100) -> Shards:
    writer = ShardWriter(folder, ("text",), vocabulary, shard_tokens)
    for number, example in enumerate(examples):
        writer.add(encoded([example], [number % 3]))
    writer.finish(Account(lines=len(examples)), ["a", "b", "c"])
    return Shards.open(folder)


@given(examples=lists, shard_tokens=st.integers(1, 40), data=st.data())
def test_what_is_read_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    examples: list[list[int]],
    shard_tokens: int,
    data: st.DataObject,
) -> None:
    shards = written(tmp_path_factory.mktemp("shards"), examples, shard_tokens)
    wanted = np.array(data.draw(st.lists(st.integers(0, len(examples) - 1), min_size=1, max_size=9)))
    ids, counts = shards.column("text").gather(wanted)
    assert ids.tolist() == [token for index in wanted for token in examples[index]]
    assert counts.tolist() == [len(examples[index]) for index in wanted]
    assert shards.labels(wanted).tolist() == [index % 3 for index in wanted]
    assert shards.examples == len(examples)
    assert shards.manifest.account.lines == len(examples)
    shards.verify()


@pytest.mark.parametrize(("vocabulary", "size"), [(300, 2), (65_536, 2), (65_537, 4)])
def test_ids_take_two_bytes_where_they_can(tmp_path: Path, vocabulary: int, size: int) -> None:
    shards = written(tmp_path, [[vocabulary - 1]], vocabulary=vocabulary)
    (ids,) = shards.column("text").pieces
    assert ids.itemsize == size
    assert int(ids[0]) == vocabulary - 1


def test_large_arrays_are_mapped_and_not_loaded(tmp_path: Path) -> None:
    shards = written(tmp_path, [list(range(100))] * 200, shard_tokens=1 << 20)
    (ids,) = shards.column("text").pieces
    assert isinstance(ids, np.memmap)


def test_a_truncated_shard_is_noticed_when_it_is_opened(tmp_path: Path) -> None:
    written(tmp_path, [[1, 2, 3]] * 9)
    victim = tmp_path / "00001.text.ids.npy"
    victim.write_bytes(victim.read_bytes()[:-2])
    with pytest.raises(DataError, match=r"00001.text.ids.npy has \d+ bytes; it should have \d+ bytes"):
        Shards.open(tmp_path)


def test_a_missing_shard_is_noticed_when_it_is_opened(tmp_path: Path) -> None:
    written(tmp_path, [[1, 2, 3]] * 9)
    (tmp_path / "00002.hashes.npy").unlink()
    with pytest.raises(DataError, match=r"00002.hashes.npy is missing.*\nDelete the folder"):
        Shards.open(tmp_path)


@pytest.mark.parametrize("name", ["00000.text.ids.npy", "00001.text.borders.npy", "00001.labels.npy"])
def test_a_flipped_bit_is_noticed_by_verify(tmp_path: Path, name: str) -> None:
    shards = written(tmp_path, [[1, 2, 3]] * 9)
    victim = bytearray((tmp_path / name).read_bytes())
    victim[-3] ^= 4
    (tmp_path / name).write_bytes(victim)
    Shards.open(tmp_path)
    with pytest.raises(DataError, match=f"{name} has changed since it was written"):
        shards.verify()


def test_a_folder_without_a_manifest_is_nothing(tmp_path: Path) -> None:
    written(tmp_path, [[1]])
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(DataError, match="contains no complete prepared data"):
        Shards.open(tmp_path)


def test_a_manifest_that_is_cut_or_of_another_format_is_refused(tmp_path: Path) -> None:
    written(tmp_path, [[1]])
    manifest = tmp_path / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text[:50])
    with pytest.raises(DataError, match="contains no complete prepared data"):
        Shards.open(tmp_path)
    manifest.write_text(text.replace(f'"format": {FORMAT}', '"format": 99'))
    with pytest.raises(DataError, match=f"has format 99; this version reads {FORMAT}"):
        Shards.open(tmp_path)


def test_a_split_without_examples_is_a_folder_without_shards(tmp_path: Path) -> None:
    ShardWriter(tmp_path, ("text",), 100, 8).finish(Account())
    shards = Shards.open(tmp_path)
    assert shards.examples == 0
    assert shards.column("text").tokens == 0
