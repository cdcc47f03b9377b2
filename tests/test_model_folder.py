"""The model folder: what goes in comes out, a kill leaves the old or the new, and damage is named."""

import contextlib
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from clearhead import folder_files, model_folder, storage
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.errors import ClearheadError, ModelFolderError
from clearhead.folder_files import changed_files, read_checksums
from clearhead.model_folder import Bundle, Calibration, load, save
from clearhead.models.build import FAMILIES, build
from clearhead.models.model import Model
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.models.cases import CASES, B, N, configure, randomise, read, some_ids, some_source

KEPT = [
    name
    for name in CASES
    if any(
        name.endswith(f": {kind}")
        for kind in ("shared", "own tables", "own head", "bert", "kept", "biases", "additive learned",
                     "stretched", "scaled_dot relative", "head classifier", "head none", "no limit")
    )
]  # fmt: skip


def make(shape: str = "decoder", seed: int = 1, **settings: Any) -> Model:
    return randomise(build(configure(shape, settings)), seed)


def weights(model: Model) -> dict[str, torch.Tensor]:
    return {name: weight.detach() for name, weight in model.named_parameters()}


def is_same(one: Model, other: Model) -> bool:
    """Whether two models are equal to the last bit."""
    mine, theirs = weights(one), weights(other)
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


def dna() -> Tokenizer:
    return Tokenizer.train(["ACGTAACG"], TokenizerConfig(kind="dna"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good model folder, to be damaged."""
    save(tmp_path / "model", Bundle(make()))
    return tmp_path / "model"


# What goes in comes out.


@pytest.mark.parametrize("name", KEPT)
def test_a_model_comes_back_to_the_last_bit(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    model, tokens, source = case.model(), some_ids(B, N), some_source(case)
    save(tmp_path / "model", Bundle(model))
    loaded = load(tmp_path / "model")
    assert loaded.config == case.config
    assert is_same(loaded.module, model)
    assert torch.equal(read(loaded.module, tokens, source), read(model, tokens, source))
    assert not loaded.module.training
    assert (loaded.tokenizer, loaded.labels, loaded.card) == (None, None, "")


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("shape", FAMILIES["transformer"])
def test_a_table_that_is_used_twice_is_stored_once(
    shape: str, shared: bool, tied: bool, tmp_path: Path
) -> None:
    model = make(shape, shared=shared, tied=tied, encoder_d=None, source_vocabulary=None)
    save(tmp_path / "model", Bundle(model))
    stored = load_file(tmp_path / "model" / "model.safetensors")
    tables = [name for name, weight in stored.items() if weight.shape == (23, 10)]
    has_two_stacks = shape == "encoder-decoder"
    assert len(tables) == 1 + (has_two_stacks and not shared) + (not tied)
    loaded = load(tmp_path / "model").module
    used = [
        weight for name, weight in loaded.named_parameters(remove_duplicate=False) if weight.shape == (23, 10)
    ]
    assert len({weight.data_ptr() for weight in used}) == len(tables)
    assert len(used) == 2 + has_two_stacks


def test_everything_a_model_needs_is_in_the_folder(tmp_path: Path) -> None:
    model = make("encoder", head="classifier", classes=2)
    save(tmp_path / "deep" / "model", Bundle(model, dna(), labels=["gut", "schlecht 🙁"], card="# Card\n"))
    names = sorted(path.name for path in (tmp_path / "deep" / "model").iterdir())
    assert names == [
        "card.md",
        "checksums.json",
        "config.json",
        "labels.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    loaded = load(str(tmp_path / "deep" / "model"))
    assert loaded.labels == ["gut", "schlecht 🙁"]
    assert loaded.card == "# Card\n"
    assert loaded.tokenizer is not None
    assert loaded.tokenizer.encode("GATTACA") == dna().encode("GATTACA")
    assert loaded.source_tokenizer is None
    assert json.loads((tmp_path / "deep" / "model" / "config.json").read_text())["format"] == 1


def test_who_may_read_the_config_may_read_the_weights(folder: Path) -> None:
    assert len({(folder / name).stat().st_mode for name in ("config.json", "model.safetensors")}) == 1


def test_source_and_target_may_have_their_own_tokenizers(tmp_path: Path) -> None:
    pairs = Tokenizer.train(["ACGT"], TokenizerConfig(kind="dna", k=2))
    model = make("encoder-decoder", source_vocabulary=pairs.size)
    save(tmp_path / "model", Bundle(model, dna(), pairs))
    loaded = load(tmp_path / "model")
    assert loaded.source_tokenizer is not None
    assert loaded.tokenizer is not None
    assert (loaded.source_tokenizer.size, loaded.tokenizer.size) == (pairs.size, dna().size)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_model_may_be_loaded_in_another_type(dtype: torch.dtype, folder: Path) -> None:
    expected = deepcopy(make()).to(dtype)
    loaded = load(folder, dtype).module
    assert is_same(loaded, expected)
    tokens = some_ids(B, N)
    assert torch.equal(read(loaded, tokens), read(expected, tokens))


def test_a_model_may_be_saved_in_few_bits(tmp_path: Path) -> None:
    few = deepcopy(make()).to(torch.bfloat16)
    save(tmp_path / "model", Bundle(few))
    assert is_same(load(tmp_path / "model").module, deepcopy(few).float())
    assert is_same(load(tmp_path / "model", torch.bfloat16).module, few)


def test_nothing_stays_behind_and_everyone_may_read(tmp_path: Path) -> None:
    for seed in (1, 2):
        save(tmp_path / "model", Bundle(make(seed=seed), card="old" if seed == 1 else ""))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o755
    assert is_same(load(tmp_path / "model").module, make(seed=2))
    assert not (tmp_path / "model" / "card.md").exists()  # replaced as a whole


# A kill leaves the old one or the new one.


class Killed(BaseException):
    """What a kill is to a running program: nothing after it happens."""


STEPS = [
    (os, "fsync"),
    (Path, "rename"),
    (Path, "write_text"),
    (shutil, "rmtree"),
    (model_folder, "save_file"),
]


def kill_at(step: int, patch: pytest.MonkeyPatch) -> list[str]:
    """Lets the first steps of a save happen, and no other; returns the names of those that did."""
    done: list[str] = []

    def stopping(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            if len(done) >= step:
                raise Killed
            done.append(name)
            return real(*arguments, **options)

        return run

    for owner, name in STEPS:
        patch.setattr(owner, name, stopping(name, getattr(owner, name)))
    return done


def steps_of_a_save(place: Path) -> int:
    with pytest.MonkeyPatch.context() as patch:
        done = kill_at(10**6, patch)
        save(place, Bundle(make(seed=2)))
    return len(done)


@pytest.mark.parametrize("can_exchange", [True, False])
def test_after_a_kill_the_old_or_the_new_is_there(
    can_exchange: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_exchange:
        monkeypatch.setattr(storage, "swap", lambda one, other: False)
    old, new = make(seed=1), make(seed=2)
    save(tmp_path / "count", Bundle(old))
    count = steps_of_a_save(tmp_path / "count")
    assert count >= 8
    seen = []
    for step in range(count + 1):
        place = tmp_path / f"{step}" / "model"
        save(place, Bundle(old))
        with pytest.MonkeyPatch.context() as patch:
            done = kill_at(step, patch)
            try:
                save(place, Bundle(new))
            except Killed:
                assert len(done) == step
        assert place.is_dir() or not (can_exchange and sys.platform == "linux")
        found = load(place).module
        seen.append("old" if is_same(found, old) else "new" if is_same(found, new) else "neither")
        save(place, Bundle(new))  # and a later save repairs what the kill left
        assert is_same(load(place).module, new)
        assert place.is_dir()
    assert seen == sorted(seen, reverse=True)
    assert set(seen) == {"old", "new"}


@pytest.mark.parametrize("can_exchange", [True, False])
def test_mending_leaves_one_of_them_and_nothing_else(
    can_exchange: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_exchange:
        monkeypatch.setattr(storage, "swap", lambda one, other: False)
    save(tmp_path / "count", Bundle(make(seed=1)))
    for step in range(steps_of_a_save(tmp_path / "count") + 1):
        place = tmp_path / f"{step}" / "model"
        save(place, Bundle(make(seed=1)))
        with pytest.MonkeyPatch.context() as patch:
            kill_at(step, patch)
            with contextlib.suppress(Killed):
                save(place, Bundle(make(seed=2)))
        found = load(place).module
        storage.recover(place.parent)
        assert [path.name for path in place.parent.iterdir()] == ["model"]
        assert is_same(load(place).module, found)


def test_what_was_half_removed_or_half_written_is_gone(tmp_path: Path) -> None:
    save(tmp_path / "model", Bundle(make()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)  # killed before it began
        storage.remove_atomically(tmp_path / "model")
    (tmp_path / ".note.new").write_text("half")
    assert not (tmp_path / "model").exists()
    storage.recover(tmp_path)
    assert not [*tmp_path.iterdir()]


def test_after_a_kill_of_the_first_save_there_is_nothing_or_all(tmp_path: Path) -> None:
    for step in range(steps_of_a_save(tmp_path / "count") + 1):
        place = tmp_path / f"{step}" / "model"
        with pytest.MonkeyPatch.context() as patch:
            kill_at(step, patch)
            with contextlib.suppress(Killed):
                save(place, Bundle(make(seed=2)))
        if place.exists():
            assert is_same(load(place).module, make(seed=2))
        else:
            with pytest.raises(ModelFolderError, match="does not exist"):
                load(place)


def test_an_error_while_saving_leaves_the_old_one_and_no_rubbish(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_folder, "save_file", full)
    with pytest.raises(OSError, match="No space left"):
        save(folder, Bundle(make(seed=2)))
    assert is_same(load(folder).module, make())
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


# Damage is named.


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        ModelFolderError, match=r"folder .*nowhere does not exist.\nGive a folder with config.json"
    ):
        load(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ModelFolderError, match="is a file, not a folder"):
        load(tmp_path / "file")
    with pytest.raises(
        ModelFolderError, match=r"is a file, so it cannot become a model folder.\nChoose another path"
    ):
        save(tmp_path / "file", Bundle(make()))


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_where_the_best_model_is_damaged_the_last_one_is_named(name: str, tmp_path: Path) -> None:
    tokenizer = Tokenizer.train([], TokenizerConfig(kind="byte"))
    model = make(vocabulary=tokenizer.size)
    save(tmp_path / "best", Bundle(model, tokenizer))
    whole = (tmp_path / "best" / name).read_bytes()
    (tmp_path / "best" / name).write_bytes(whole[: len(whole) // 2])
    for place in (tmp_path, tmp_path / "best"):
        with pytest.raises(ClearheadError) as caught:
            load(place)
        assert "last" not in str(caught.value)
    save(tmp_path / "last", Bundle(model, tokenizer))
    for place in (tmp_path, tmp_path / "best"):
        with pytest.raises(ClearheadError) as caught:
            load(place)
        assert str(caught.value).endswith(f"\nThe last model of this run also exists: {tmp_path / 'last'}.")
    assert is_same(load(tmp_path / "last").module, model)


PLACES = pytest.mark.parametrize(
    ("name", "other"),
    [
        ("config.json", "checksums.json, model.safetensors"),
        ("model.safetensors", "checksums.json, config.json"),
    ],
)


@PLACES
def test_a_folder_or_a_dead_link_in_the_place_of_a_file(name: str, other: str, folder: Path) -> None:
    (folder / name).unlink()
    (folder / name).symlink_to("nowhere")
    with pytest.raises(ModelFolderError, match=rf"{name} is a symlink to nowhere, which does not exist"):
        load(folder)
    (folder / name).unlink()
    (folder / name).mkdir()
    with pytest.raises(ModelFolderError, match=rf"{name} is a folder.\nPut the file itself there."):
        load(folder)


@PLACES
def test_a_missing_file(name: str, other: str, folder: Path) -> None:
    (folder / name).unlink()
    with pytest.raises(ModelFolderError, match=rf"{name} is missing.\nThe folder contains: {other}"):
        load(folder)


def damage_config(folder: Path, **changes: Any) -> None:
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 3}, r"has format 3, but this version reads formats 1 to 2.\nUpdate clearhead"),
        ({"format": "new"}, r"has format 'new'"),
        ({"similarty": "dot"}, r"config.json: model.similarty is not a setting. Did you mean similarity\?"),
        ({"norm": "whole"}, r"config.json: model.norm = 'whole' takes mean and variance"),
        ({"d": "wide"}, r"config.json: model.d = 'wide' is invalid"),
        ({"d": 12}, r"decoder.tokens.weight has shape \[23, 10\], but the config expects \[23, 12\]"),
        ({"vocabulary": 24}, r"has shape \[23, 10\], but the config expects \[24, 10\].\nconfig.json and"),
        (
            {"decoder_blocks": 3},
            r"lacks decoder.blocks.2.add_ffn.norm.weight, .* and 4 more.\nconfig.json and model",
        ),
        ({"decoder_blocks": 1}, r"contains decoder.blocks.1.* and 4 more, which the config does not know"),
        ({"tied": False}, r"lacks head.table.weight"),
    ],
)
def test_a_config_that_does_not_fit(changes: dict[str, Any], message: str, folder: Path) -> None:
    damage_config(folder, **changes)
    with pytest.raises(ModelFolderError, match=message):
        load(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"config.json is not valid JSON: .*\nThe file is damaged; copy it again"),
        ("{", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        (
            "[1]",
            r"is not a clearhead config: it has no 'format'.\nIf this is a Hugging Face folder, import it: ",
        ),
        ('{"model_type": "gpt2"}', "it has no 'format'"),
        ('{"format": 1, "d": NaN}', r"model.d = nan"),
        ("\x00", "is not valid JSON"),
    ],
)
def test_a_config_that_is_none(text: str, message: str, folder: Path) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(ModelFolderError, match=message):
        load(folder)


def test_a_config_that_is_no_text_or_endless(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "config.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelFolderError, match="is not valid JSON"):
        load(folder)
    (folder / "checksums.json").unlink()
    monkeypatch.setattr(folder_files, "LARGEST_JSON", 10)
    (folder / "config.json").write_text(" " * 11)
    with pytest.raises(ModelFolderError, match="has 11 bytes; the limit is 10"):
        load(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"d": 1 << 17, "d_k": 1 << 17, "h": 1024, "decoder_blocks": 20, "vocabulary": 1 << 24},
        {"positions": "learned", "context": 1 << 30, "d": 1 << 17},
        {"d": 1 << 60},
        {"d_k": 1 << 60},
        {"context": 1 << 70, "positions": "learned"},
    ],
)
def test_huge_settings_are_refused_before_memory_is_taken(
    changes: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = torch.empty

    def guarded(*size: Any, **options: Any) -> torch.Tensor:
        X = real(*size, **options)
        assert X.is_meta, "memory was asked for"
        return X

    monkeypatch.setattr(torch, "empty", guarded)
    damage_config(folder, **changes)
    with pytest.raises(ModelFolderError, match=r"belong to different models|is invalid"):
        load(folder)


@pytest.mark.parametrize("kept", [0, 4, 8, 20, 500, -1])
def test_truncated_weights(kept: int, folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(
        ModelFolderError, match=r"is not a complete safetensors file .*\nIt is damaged or truncated"
    ):
        load(folder)


@pytest.mark.parametrize("damage", ["unknown key", "missing key", "wrong shape", "not finite"])
def test_weights_of_another_model(damage: str, folder: Path) -> None:
    path = folder / "model.safetensors"
    stored = load_file(path)
    if damage == "unknown key":
        stored["decoder.blocks.9.self.W_q.weight"] = torch.zeros(1)
        message = r"contains decoder.blocks.9.self.W_q.weight, which the config does not know"
    elif damage == "missing key":
        del stored["decoder.blocks.1.ffn.W_2.weight"]
        message = (
            r"lacks decoder.blocks.1.ffn.W_2.weight.\nconfig.json and model.safetensors belong to different"
        )
    elif damage == "wrong shape":
        stored["decoder.norm.weight"] = torch.zeros(11)
        message = r"decoder.norm.weight has shape \[11\], but the config expects \[10\]"
    else:
        stored["decoder.norm.weight"][3] = torch.nan
        message = ""
    save_file(stored, path)
    folder_files.write_checksums(folder, model_folder.CHECKED)
    if message:
        with pytest.raises(ModelFolderError, match=message):
            load(folder)
    else:  # a model that diverged is a model; its numbers are not ours to judge
        assert weights(load(folder).module)["decoder.norm.weight"][3].isnan()


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return Path.touch, (Path(self.path),)  # type: ignore[return-value]


@pytest.mark.parametrize("way", ["torch", "old torch", "pickle"])
def test_a_pickle_under_another_name_is_not_opened(way: str, folder: Path) -> None:
    path, trap = folder / "model.safetensors", folder / "exploded"
    if way == "pickle":
        path.write_bytes(pickle.dumps(Bomb(str(trap))))
    else:
        torch.save(Bomb(str(trap)), path, _use_new_zipfile_serialization=way == "torch")
    with pytest.raises(
        ModelFolderError, match=r"is a pickle under another name.\nA pickle can run code, so it is not"
    ):
        load(folder)
    assert not trap.exists()
    pickle.loads(pickle.dumps(Bomb(str(trap))))
    assert trap.exists()  # the trap works


@pytest.mark.parametrize(
    "labels", [["a"], ["a", "b", "c"], ["a", "a"], ["a", "a", "b"], ["a", 1], {"a": 0, "b": 1}, "ab", None]
)
def test_labels_that_are_not_those_of_the_classes(labels: Any, tmp_path: Path) -> None:
    model = make("encoder", head="classifier", classes=2)
    save(tmp_path / "model", Bundle(model, labels=["a", "b"]))
    (tmp_path / "model" / "labels.json").write_text(json.dumps(labels))
    if labels is None:  # no labels are no mistake
        folder_files.write_checksums(tmp_path / "model", model_folder.CHECKED)
        assert load(tmp_path / "model").labels is None
        return
    with pytest.raises(
        ModelFolderError, match=r"labels.json must be a list of 2 different texts, one for each class"
    ):
        load(tmp_path / "model")
    with pytest.raises(ModelFolderError, match="must be a list of 2 different texts"):
        save(tmp_path / "model", Bundle(model, labels=labels))


def test_labels_of_no_classifier(tmp_path: Path) -> None:
    with pytest.raises(
        ModelFolderError, match=r"names classes, but the model is not a classifier.\nOmit the labels"
    ):
        save(tmp_path / "model", Bundle(make(), labels=["a", "b"]))
    assert not (tmp_path / "model").exists()


def test_a_tokenizer_of_another_model(tmp_path: Path) -> None:
    large = Tokenizer.train(["ACGT"], TokenizerConfig(kind="dna", k=3))
    with pytest.raises(
        ModelFolderError, match=rf"tokenizer.json has {large.size} tokens, but the model knows 23"
    ):
        save(tmp_path / "model", Bundle(make(), large))
    save(tmp_path / "model", Bundle(make(), dna()))
    large.save(tmp_path / "model" / "tokenizer.json")
    with pytest.raises(ModelFolderError, match=r"knows 23.\nThe tokenizer belongs to another model"):
        load(tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").write_text("{")
    with pytest.raises(ClearheadError, match=r"tokenizer.json"):
        load(tmp_path / "model")


def test_a_card_may_hold_anything(folder: Path) -> None:
    (folder / "card.md").write_bytes(b"caf\xe9")
    assert load(folder).card == "caf\N{REPLACEMENT CHARACTER}"


def test_loading_does_not_wait_for_the_compiler(folder: Path) -> None:
    """PyTorch imports its compiler, for two seconds, as soon as a model without memory is computed with."""
    code = f"import sys, clearhead.model_folder as c; c.load({str(folder)!r}); print('sympy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_number_of_100_000_digits_is_damage(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"d": ' + "9" * 100_000 + "}")
    with pytest.raises(ModelFolderError, match="is not valid JSON"):
        folder_files.read_json(tmp_path / "config.json")


# What changes after a folder is written is noticed.


def classifier(folder: Path) -> Path:
    model = make("encoder", head="classifier", classes=2)
    save(folder, Bundle(model, words("one two three"), labels=["a", "b"], card="# Card"))
    return folder


def words(text: str) -> Tokenizer:
    return Tokenizer.train([text], TokenizerConfig(kind="word", minimum_frequency=1))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["tokenizer.json", "labels.json", "config.json", "model.safetensors"])
def test_a_file_that_was_changed_is_named(name: str, tmp_path: Path) -> None:
    """Each of them is a good file: without its checksum it would be read."""
    folder = classifier(tmp_path / "model")
    before = (folder / name).read_bytes()
    if name == "tokenizer.json":
        words("one two four").save(folder / name)  # of equal size
    elif name == "labels.json":
        (folder / name).write_text('["b", "a"]')
    elif name == "config.json":
        damage_config(folder, pool="last")
    else:
        flip(folder / name)
    assert (folder / name).read_bytes() != before
    place = re.escape(str(folder))
    with pytest.raises(
        ModelFolderError, match=rf"^{place}/{name} is not as it was .*\n.*check {place} --accept"
    ):
        load(folder)
    assert [
        changed for changed, _ in changed_files(folder, read_checksums(folder), model_folder.CHECKED)
    ] == [name]
    folder_files.write_checksums(folder, model_folder.CHECKED)
    load(folder)


def test_a_file_that_was_added_or_removed_is_named(tmp_path: Path) -> None:
    folder = classifier(tmp_path / "model")
    words("uno dos tres").save(folder / "tokenizer-source.json")
    with pytest.raises(ModelFolderError, match=r"tokenizer-source.json was not written with this model"):
        load(folder)
    (folder / "tokenizer-source.json").unlink()
    (folder / "labels.json").unlink()
    with pytest.raises(ModelFolderError, match=r"labels.json is missing, but was written"):
        load(folder)


def test_the_card_is_for_people_to_edit(tmp_path: Path) -> None:
    folder = classifier(tmp_path / "model")
    (folder / "card.md").write_text("mine")
    assert load(folder).card == "mine"
    (folder / "card.md").unlink()
    (folder / "notes.txt").write_text("mine too")
    assert load(folder).card == ""


def test_a_folder_without_checksums_is_read(tmp_path: Path) -> None:
    folder = classifier(tmp_path / "model")
    (folder / "checksums.json").unlink()
    flip(folder / "model.safetensors")
    load(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"sha256": 3}'])
def test_damaged_checksums_are_named(text: str, tmp_path: Path) -> None:
    folder = classifier(tmp_path / "model")
    (folder / "checksums.json").write_text(text)
    with pytest.raises(ModelFolderError, match=r"checksums.json .*\nThe file is damaged; copy it again"):
        load(folder)


def test_large_weights_are_verified_by_the_check_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = classifier(tmp_path / "model")
    flip(folder / "model.safetensors")
    monkeypatch.setattr(model_folder, "LARGEST_VERIFIED", (folder / "model.safetensors").stat().st_size - 1)
    load(folder)
    assert changed_files(folder, read_checksums(folder), model_folder.CHECKED)


def test_a_folder_that_is_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, new = classifier(tmp_path / "model"), make("encoder", seed=2, head="classifier", classes=2)
    whole, count = model_folder.read_weights, 0

    def slow(*given: Any) -> tuple[Model, bool]:
        nonlocal count
        count += 1
        module = whole(*given)
        if count == 1:
            save(folder, Bundle(new, words("one two four"), labels=["c", "d"]))
        return module

    monkeypatch.setattr(model_folder, "read_weights", slow)
    loaded = load(folder)
    assert (count, loaded.labels) == (2, ["c", "d"])
    assert is_same(loaded.module, new)


def test_a_temperature_is_added_without_a_change_to_anything_else(tmp_path: Path) -> None:
    folder = classifier(tmp_path / "model")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    model_folder.add_calibration(folder, Calibration(1.25, 40))
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert after.keys() - before.keys() == {"calibration.json"}
    assert {name for name in before if after[name] != before[name]} == {"checksums.json"}
    loaded = load(folder)
    assert loaded.calibration == Calibration(1.25, 40)
    save(tmp_path / "again", loaded)
    assert load(tmp_path / "again").calibration == Calibration(1.25, 40)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"temperature": %s, "examples": 1}'])
@pytest.mark.parametrize("value", ["0", "-1", "NaN", "Infinity", '"warm"', "null"])
def test_a_damaged_temperature_is_named(text: str, value: str, tmp_path: Path) -> None:
    folder = classifier(tmp_path / "model")
    (folder / "calibration.json").write_text(text.replace("%s", value))
    with pytest.raises(ModelFolderError, match=r"calibration.json .*\nThe file is damaged; copy it again"):
        load(folder)
