"""The report counts what is there: compared with counting by hand, whatever fits in memory at once."""

import json
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config.data import DataConfig
from clearhead.config.model import ModelConfig
from clearhead.config.run import RunConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.data import audit as module
from clearhead.data.audit import audit
from clearhead.data.frames import input_frame, target_frame
from clearhead.data.prepare import prepare
from clearhead.data.shards.encoding import ExampleEncoder, Rules, Side
from clearhead.data.shards.manifest import Account
from clearhead.data.shards.reading import Shards
from clearhead.data.shards.writing import ShardWriter
from clearhead.examples import Pair
from clearhead.text.tokenizers.tokenizer import Tokenizer

BYTE = Tokenizer.train([], TokenizerConfig(kind="byte"))
SIDES = (Side("source", BYTE, input_frame(BYTE.specials)), Side("target", BYTE, target_frame(BYTE.specials)))

few = st.text("abc", min_size=1, max_size=2)
pairs = st.lists(st.builds(Pair, few, few), min_size=1, max_size=15)

PROMISED = ("examples", "tokens", "unknown", "truncated", "dropped", "duplicates", "overlap")


def shards_of(folder: Path, examples: list[Pair]) -> Shards:
    job = ExampleEncoder(SIDES, Rules())
    writer = ShardWriter(folder, ("source", "target"), BYTE.size, shard_tokens=20)
    for encoded in job.encode(examples, lambda _: None):
        writer.add(encoded)
    writer.finish(job.account)
    return Shards.open(folder)


@given(train=pairs, test=pairs, at_once=st.integers(1, 40))
def test_repeats_are_counted_as_by_hand(
    tmp_path_factory: pytest.TempPathFactory, train: list[Pair], test: list[Pair], at_once: int
) -> None:
    folders = [tmp_path_factory.mktemp("shards") for _ in range(2)]
    splits = {"train": shards_of(folders[0], train), "test": shards_of(folders[1], test)}
    with patch.object(module, "HASHES_AT_ONCE", at_once):
        report = audit(splits).splits  # type: ignore[arg-type]
    for split, examples, other, others in (("train", train, "test", test), ("test", test, "train", train)):
        part = report[split]  # type: ignore[index]
        inputs = {pair.source for pair in others}
        assert part.duplicates == len(examples) - len(set(examples))
        assert part.overlap == {other: sum(pair.source in inputs for pair in examples)}
        assert part.conflicts == len(set(examples)) - len({pair.source for pair in examples})


@given(examples=pairs)
def test_lengths_are_counted_as_by_hand(
    tmp_path_factory: pytest.TempPathFactory, examples: list[Pair]
) -> None:
    report = audit({"train": shards_of(tmp_path_factory.mktemp("shards"), examples)}).splits["train"]
    lengths = sorted(len(pair.target) + 2 for pair in examples)
    part = report.lengths["target"]
    assert (part.shortest, part.longest) == (lengths[0], lengths[-1])
    assert part.median == lengths[(len(lengths) - 1) // 2]
    assert sum(bin.examples for bin in part.histogram) == len(examples)
    for bin in part.histogram:
        assert bin.examples == sum(bin.least <= length <= bin.most for length in lengths)
    assert report.tokens == sum(len(pair.source) + len(pair.target) for pair in examples)


def report_of(tmp_path: Path, rows: list[str], **data: object) -> dict[str, dict[str, object]]:
    file = tmp_path / "rows.tsv"
    file.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    config = DataConfig.model_validate({"train": str(file), "validation": 0.0, **data})
    model = ModelConfig(shape="encoder", context=8)
    run = RunConfig(task="classify", data=config, tokenizer=TokenizerConfig(kind="byte"), model=model)
    loaded: dict[str, dict[str, object]] = json.loads(json.dumps(prepare(run).audit.to_json()))
    return loaded


def test_the_report_says_what_became_of_every_line(tmp_path: Path) -> None:
    rows = ["bark\tdog", "meow\tcat", "bark\tdog", "bark\tfox", "how long is it\tcat", "no label", ""]
    report = report_of(tmp_path, rows, on_error="skip")["train"]
    assert {key: report[key] for key in PROMISED} == {
        "examples": 5,
        "tokens": 4 + 4 + 4 + 4 + 6,
        "unknown": 0,
        "truncated": 1,
        "dropped": 0,
        "duplicates": 1,
        "overlap": {},
    }
    assert report["lines"] == 7
    assert report["problems"] == 1
    assert report["labels"] == {"cat": 2, "dog": 2, "fox": 1}
    assert report["conflicts"] == 1
    assert report["characters"] == 30
    assert report["characters_per_token"] == 1.0
    assert "line 6" in str(report["first_problems"])


def test_the_report_says_what_was_dropped(tmp_path: Path) -> None:
    report = report_of(tmp_path, ["bark\tdog", "how long is it\tcat", "meow\tcat"], too_long="drop")["train"]
    assert (report["examples"], report["dropped"], report["truncated"]) == (2, 1, 0)
    assert report["dropped_for"] == {"too long": 1}


def test_the_report_says_what_splits_share(tmp_path: Path) -> None:
    other = tmp_path / "test.tsv"
    other.write_text("bark\tfox\nmoo\tcat\n")
    report = report_of(tmp_path, ["bark\tdog", "meow\tcat", "fox\tfox"], test=str(other))
    assert report["train"]["overlap"] == {"test": 1}
    assert report["test"]["overlap"] == {"train": 1}
    assert list(report) == ["train", "test"]


def test_an_empty_split_has_a_report(tmp_path: Path) -> None:
    ShardWriter(tmp_path, ("text",), 100, 8).finish(Account())
    report = audit({"validation": Shards.open(tmp_path)}).splits["validation"]
    assert report.examples == 0
    assert report.lengths["text"].histogram == ()
    assert report.characters_per_token == 0
