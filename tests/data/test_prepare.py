"""From a recipe to batches: what is in the files is what the model is given, and nothing is made twice."""

import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from clearhead.config.data import DataConfig
from clearhead.config.model import ModelConfig
from clearhead.config.run import RunConfig
from clearhead.config.tasks import Task
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.data import tokenizers
from clearhead.data.batching.batches import IGNORE
from clearhead.data.prepare import Prepared, prepare
from clearhead.data.progress import PreparationProgress
from clearhead.data.shards import splits
from clearhead.data.tokenizers import Tokenizers, sample
from clearhead.errors import ConfigError, DataError, TokenizerError
from clearhead.text.sources.read import read
from clearhead.text.tokenizers.tokenizer import Tokenizer

NEWS = ["the dog sleeps", "a cat eats a fish", "the dog eats", "no news today", "a fish sleeps"]


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def run_of(
    task: Task, data: DataConfig, context: int = 16, kind: str = "byte", **tokenizer: object
) -> RunConfig:
    settings = TokenizerConfig.model_validate({"kind": kind, **tokenizer})
    shape = {"translate": "encoder-decoder", "language-model": "decoder"}.get(task, "encoder")
    model = ModelConfig.model_validate({"shape": shape, "context": context})
    return RunConfig(task=task, data=data, tokenizer=settings, model=model)


def texts_of(prepared: Prepared, ids: torch.Tensor, counts: torch.Tensor | None) -> list[str]:
    """The rows as text again."""
    limits = [ids.shape[1]] * len(ids) if counts is None else counts.tolist()
    decode = prepared.tokenizers.target.decode
    return [decode(row[:count].numpy()) for row, count in zip(ids, limits, strict=True)]


def test_a_language_model_is_given_the_file(tmp_path: Path) -> None:
    source = write(tmp_path / "news.txt", NEWS)
    prepared = prepare(run_of("language-model", DataConfig(train=source, validation=0.0)))
    tokens = [0]
    for batch in prepared.batches("train", 64, shuffle=False).epoch():
        assert batch.targets is not None
        tokens += batch.targets[batch.targets != IGNORE].tolist()
    assert prepared.tokenizers.target.decode(tokens[1:]) == "".join(f"{line}\n" for line in NEWS)
    assert tokens[-1] == prepared.tokenizers.target.specials.end


def test_documents_can_be_kept_apart(tmp_path: Path) -> None:
    source = write(tmp_path / "news.txt", NEWS)
    data = DataConfig(train=source, validation=0.0, documents="line", document_masks=True)
    prepared = prepare(run_of("language-model", data, context=40))
    (batch,) = prepared.batches("train", 4000, shuffle=False).epoch()
    assert batch.documents is not None
    begin = torch.tensor(prepared.tokenizers.target.specials.begin)
    changes = torch.diff(batch.documents[0]) == 1
    assert torch.equal(changes, batch.inputs[0, 1:] == begin)


def test_a_translator_is_given_the_pairs(tmp_path: Path) -> None:
    source = write(tmp_path / "a.es", NEWS)
    target = write(tmp_path / "a.en", [text.upper() for text in NEWS])
    prepared = prepare(run_of("translate", DataConfig(train=(source, target), validation=0.0), context=32))
    seen = []
    for batch in prepared.batches("train", 60).epoch():
        assert batch.source is not None
        sources = texts_of(prepared, batch.source, batch.source_counts)
        seen += list(zip(sources, texts_of(prepared, batch.inputs, batch.counts), strict=True))
    assert sorted(seen) == sorted((text, text.upper()) for text in NEWS)


def test_source_and_target_may_have_tokenizers_of_their_own(tmp_path: Path) -> None:
    source = write(tmp_path / "a.es", ["uno dos"] * 3)
    target = write(tmp_path / "a.en", ["one two three"] * 3)
    data = DataConfig(train=(source, target), validation=0.0)
    prepared = prepare(run_of("translate", data, kind="word", shared=False))
    assert prepared.tokenizers.source.size == prepared.tokenizers.target.size - 1
    assert prepared.tokenizers.source.encode("three") == [prepared.tokenizers.source.specials.unknown]


def test_a_classifier_is_given_texts_and_labels_by_name(tmp_path: Path) -> None:
    rows = [("dogs bark", "yes"), ("cats bark", "no"), ("fish bark", "never"), ("wolves bark", "yes")]
    source = write(tmp_path / "a.tsv", [f"{text}\t{label}" for text, label in rows])
    other = write(tmp_path / "b.tsv", ["foxes bark\tyes", "trees bark\tno"])
    prepared = prepare(run_of("classify", DataConfig(train=source, validation=other)))
    assert prepared.labels == ("never", "no", "yes")
    for split, expected in (("train", rows), ("validation", [("foxes bark", "yes"), ("trees bark", "no")])):
        seen = []
        for batch in prepared.batches(split, 30).epoch():  # type: ignore[arg-type]
            assert batch.labels is not None
            names = [prepared.labels[number] for number in batch.labels.tolist()]
            seen += list(zip(texts_of(prepared, batch.inputs, batch.counts), names, strict=True))
        assert sorted(seen) == sorted(expected)


def test_a_masked_model_is_given_all_of_the_text_in_parts(tmp_path: Path) -> None:
    source = write(tmp_path / "news.txt", NEWS)
    prepared = prepare(run_of("masked-language-model", DataConfig(train=source, validation=0.0), context=10))
    pieces = []
    for batch in prepared.batches("train", 30, shuffle=False).epoch():
        assert batch.targets is not None
        original = torch.where(batch.targets != IGNORE, batch.targets, batch.inputs)
        pieces += texts_of(prepared, original, batch.counts)
    assert sorted(pieces, key=len)[-1] != ""
    assert sorted("".join(pieces)) == sorted("".join(f"{line}\n" for line in NEWS))
    assert prepared.audit.splits["train"].divided == 1


@pytest.mark.notes("N2")
@pytest.mark.parametrize("task", get_args(Task))
def test_every_id_of_a_batch_picks_its_row_of_the_embedding(task: Task, tmp_path: Path) -> None:
    """A token becomes a vector by its id: one-hot times E is row `id` of E, for all ids of a batch."""
    ending = ".txt" if "language-model" in task else ".tsv"
    lines = NEWS if ending == ".txt" else [f"{text}\t{text[:3]}" for text in NEWS]
    data = DataConfig(train=write(tmp_path / f"news{ending}", lines), validation=0.0)
    prepared = prepare(run_of(task, data))
    E = torch.randn(prepared.tokenizers.target.size, 5, dtype=torch.float64)
    for batch in prepared.batches("train", 40).epoch():
        for ids in (batch.inputs, batch.source):
            if ids is not None:
                one_hot = torch.nn.functional.one_hot(ids, len(E)).double()
                assert torch.equal(one_hot @ E, E[ids])


def test_nothing_is_made_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "news.txt", NEWS * 50)
    run = run_of("language-model", DataConfig(train=source, validation=0.1), kind="bpe", vocabulary=300)
    first: list[PreparationProgress] = []
    before = prepare(run, first.append)
    assert {progress.stage for progress in first} == {"tokenizer", "train"}
    again: list[PreparationProgress] = []
    after = prepare(run, again.append)
    assert again == []
    assert after.tokenizers.target.digest == before.tokenizers.target.digest
    assert after.splits["train"].folder == before.splits["train"].folder


def test_the_name_of_a_file_does_not_matter_but_its_content_and_the_settings_do(tmp_path: Path) -> None:
    run = run_of("language-model", DataConfig(train=write(tmp_path / "a.txt", NEWS), validation=0.0))
    folder = prepare(run).splits["train"].folder
    copy = DataConfig(train=write(tmp_path / "b.txt", NEWS), validation=0.0)
    assert prepare(run.replace(data=copy)).splits["train"].folder == folder
    changed = DataConfig(train=write(tmp_path / "b.txt", NEWS[:-1]), validation=0.0)
    assert prepare(run.replace(data=changed)).splits["train"].folder != folder
    other = run.replace(data=DataConfig(train=str(tmp_path / "a.txt"), validation=0.0, documents="line"))
    assert prepare(other).splits["train"].folder != folder
    by_character = run.replace(tokenizer=TokenizerConfig(kind="character"))
    assert prepare(by_character).splits["train"].folder != folder


@pytest.mark.parametrize("damage", ["truncate", "flip", "remove"])
def test_damaged_shards_are_made_again(tmp_path: Path, damage: str) -> None:
    run = run_of("language-model", DataConfig(train=write(tmp_path / "a.txt", NEWS), validation=0.0))
    shards = prepare(run).splits["train"]
    file = shards.folder / "00000.text.ids.npy"
    whole = file.read_bytes()
    if damage == "remove":
        file.unlink()
    else:
        file.write_bytes(whole[:-4] if damage == "truncate" else whole[:-1] + bytes([whole[-1] ^ 1]))
    assert prepare(run).splits["train"].folder == shards.folder
    assert file.read_bytes() == whole


def test_a_share_is_held_out(tmp_path: Path) -> None:
    lines = [f"line {number} of many" for number in range(400)]
    source = write(tmp_path / "a.txt", lines)
    data = DataConfig(train=source, validation=0.1, test=0.2, documents="line")
    prepared = prepare(run_of("language-model", data))
    counts = {split: shards.examples for split, shards in prepared.splits.items()}
    assert sum(counts.values()) == 400
    assert abs(counts["validation"] - 40) < 25
    assert abs(counts["test"] - 80) < 30
    report = prepared.audit.splits
    assert all(sum(part.overlap.values()) == 0 for part in report.values())
    assert report["train"].held_out == counts["validation"] + counts["test"]


def test_a_given_tokenizer_is_used_as_it_is(tmp_path: Path) -> None:
    mine = Tokenizer.train(["a b c"], TokenizerConfig(kind="word", minimum_frequency=1))
    run = run_of("language-model", DataConfig(train=write(tmp_path / "a.txt", ["a b d"]), validation=0.0))
    prepared = prepare(run, tokenizers=Tokenizers(mine, mine))
    assert prepared.tokenizers.target is mine
    assert prepared.audit.splits["train"].unknown == 1


def test_a_tokenizer_learns_from_a_sample_of_a_large_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"number {number}" for number in range(1000)]
    source = write(tmp_path / "a.tsv", lines)
    reader = read(source, "text", columns=[1])
    assert list(sample(reader, ("source",))) == lines
    monkeypatch.setattr(tokenizers, "TRAINING_CHARACTERS", 1200)
    some = list(sample(reader, ("source",)))
    assert 90 < len(some) < 120
    assert some[-1] > "number 9"


def test_a_sample_ends_where_the_size_of_the_files_misled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "a.txt.gz"
    packed.write_bytes(gzip.compress(b"the same again\n" * 100_000))
    monkeypatch.setattr(tokenizers, "TRAINING_CHARACTERS", 50_000)
    some = list(sample(read(packed, "text"), ("source",)))
    assert 50_000 <= sum(map(len, some)) < 60_000


def test_labels_must_be_known_from_training(tmp_path: Path) -> None:
    train = write(tmp_path / "a.tsv", ["x\tgood", "y\tbad"])
    test = write(tmp_path / "b.tsv", ["z\tugly"])
    with pytest.raises(
        DataError, match="The label 'ugly' of test does not occur in train, which has 'bad', 'good'"
    ):
        prepare(run_of("classify", DataConfig(train=train, validation=0.0, test=test)))
    with pytest.raises(
        DataError, match="All training examples have the label 'ugly'; a classifier needs at least two labels"
    ):
        prepare(run_of("classify", DataConfig(train=test, validation=0.0)))


def test_a_corpus_of_which_nothing_is_left_is_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "a.tsv", ["much too long\tfar too long"])
    run = run_of("translate", DataConfig(train=source, validation=0.0), context=8)
    with pytest.raises(
        DataError, match=r"None of 1 training examples is left: 1 too long\.\n.*model\.context = 8"
    ):
        prepare(run)


def test_a_split_that_is_not_there_is_said(tmp_path: Path) -> None:
    prepared = prepare(
        run_of("language-model", DataConfig(train=write(tmp_path / "a.txt", NEWS), validation=0.0))
    )
    with pytest.raises(DataError, match=r"There are no examples for test\.\nName a source in data\.test"):
        prepared.batches("test", 100)
    tiny = prepare(run_of("language-model", DataConfig(train=write(tmp_path / "b.txt", ["one line"]))))
    with pytest.raises(
        DataError, match=r"the share 0\.02 of so little data contains none\.\nName a larger share"
    ):
        tiny.batches("validation", 100)


def test_settings_that_cannot_work_are_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "a.tsv", ["x\ty"])
    data = DataConfig(train=source, validation=0.0, too_long="split")
    with pytest.raises(ConfigError, match=r"data\.too_long = 'split' has no meaning for task = 'translate'"):
        prepare(run_of("translate", data))
    with pytest.raises(
        ConfigError, match=r"data\.too_long = 'split' .* documents are one stream of any length"
    ):
        prepare(run_of("language-model", DataConfig(train=write(tmp_path / "a.txt", NEWS), too_long="split")))
    with pytest.raises(ConfigError, match=r"model.context = 2 leaves no room .*\nUse 3 or more"):
        prepare(run_of("classify", DataConfig(train=source, validation=0.0), context=2))
    no_mask = Tokenizer(
        '{"version":"1.0","added_tokens":[],"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}'
    )
    with pytest.raises(TokenizerError, match="no mask token"):
        prepare(
            run_of(
                "masked-language-model", DataConfig(train=write(tmp_path / "a.txt", NEWS), validation=0.0)
            ),
            tokenizers=Tokenizers(no_mask, no_mask),
        )


SLOW = """
import sys, time
from pathlib import Path
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.data.shards import encoding, splits
from clearhead.data.shards.encoding import Rules, Side
from clearhead.data.frames import document_frame
from clearhead.data.shards.splits import prepare_split
from clearhead.text.sources.read import read
from clearhead.text.tokenizers.tokenizer import Tokenizer

source, pause = sys.argv[1], float(sys.argv[2])
encoding.CHUNK_CHARACTERS, splits.SHARD_TOKENS = 2000, 4000
tokenizer = Tokenizer.train([], TokenizerConfig(kind="byte"))
side = Side("text", tokenizer, document_frame(tokenizer.specials))

def tell(progress):
    print(progress.examples, flush=True)
    time.sleep(pause)

made = prepare_split(read(source, "text"), "train", (side,), Rules(packed=True), tell)
made.verify()
print(made.folder, made.examples, made.column("text").tokens)
"""


def start(source: str, pause: float) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", SLOW, source, str(pause)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )


def result(process: "subprocess.Popen[str]") -> str:
    with process:
        out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    return out.splitlines()[-1]


def test_a_killed_preparation_leaves_nothing_that_is_taken_for_whole(tmp_path: Path, cache: Path) -> None:
    source = write(tmp_path / "long.txt", NEWS * 400)
    with start(source, 0.05) as process:
        assert process.stdout is not None
        while not list(cache.glob("shards/*.partial-*/00001.*")):
            assert process.stdout.readline(), "it ended before it could be killed"
        process.send_signal(signal.SIGKILL)
    assert list(cache.glob("shards/*.partial-*"))
    assert not [path for path in cache.glob("shards/*") if path.is_dir() and ".partial-" not in path.name]

    folder, _, tokens = result(start(source, 0)).split()
    assert int(tokens) == Path(source).stat().st_size + 2
    names = sorted(path.name for path in cache.glob("shards/*"))
    assert names == [Path(folder).name, f"{Path(folder).name}.lock"]


def test_two_preparations_at_once_do_not_harm_each_other(tmp_path: Path, cache: Path) -> None:
    source = write(tmp_path / "long.txt", NEWS * 100)
    started = [start(source, 0.02), start(source, 0.02)]
    one, two = [result(process) for process in started]
    assert one == two
    assert len([path for path in cache.glob("shards/*") if path.is_dir()]) == 1


def test_an_interrupted_preparation_cleans_up(tmp_path: Path, cache: Path) -> None:
    source = write(tmp_path / "long.txt", NEWS * 400)
    with start(source, 0.05) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode != 0
    assert [path.suffix for path in cache.glob("shards/*")] == [".lock"]


def test_a_large_cache_is_checked_by_size_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a terabyte before each run would be worse than a damage that `verify` finds."""
    run = run_of("language-model", DataConfig(train=write(tmp_path / "a.txt", NEWS), validation=0.0))
    shards = prepare(run).splits["train"]
    monkeypatch.setattr(splits, "VERIFIED_BYTES", 10)
    file = shards.folder / "00000.text.ids.npy"
    ids = np.load(file)
    ids[5] += 1
    np.save(file, ids)
    again = prepare(run).splits["train"]
    with pytest.raises(DataError, match="has changed since it was written"):
        again.verify()


def test_the_report_names_the_files_of_this_run_and_not_of_the_one_that_filled_the_cache(
    tmp_path: Path,
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        source = write(tmp_path / name / "news.txt", NEWS)
        prepared = prepare(run_of("language-model", DataConfig(train=source, validation=0.2)))
        assert {tuple(report.sources) for report in prepared.audit.splits.values()} == {(source,)}
