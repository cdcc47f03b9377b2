"""The digest of a model, and records that are not what they should be."""

import json
from pathlib import Path

import pytest

from clearhead import model_folder
from clearhead.decoding.continuation import ENDING, Continuation, digest_of_model
from clearhead.decoding.lines import Faults
from clearhead.errors import InputError
from clearhead.model_folder import CARD
from tests.decoding.tiny import classifier


def test_the_digest_changes_with_every_file_of_a_model_but_its_card(tmp_path: Path) -> None:
    bundle = classifier()
    bundle.card = "# A card"
    model_folder.save(tmp_path / "run" / "best", bundle)
    digest = digest_of_model(tmp_path / "run")
    assert digest == digest_of_model(tmp_path / "run" / "best")
    files = list((tmp_path / "run" / "best").iterdir())
    assert {"config.json", "model.safetensors", "tokenizer.json", "labels.json", CARD} <= {
        file.name for file in files
    }
    for file in files:
        content = file.read_bytes()
        file.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
        assert (digest_of_model(tmp_path / "run") == digest) == (file.name == CARD), file.name
        file.write_bytes(content)
    assert digest_of_model(tmp_path / "run") == digest


@pytest.mark.parametrize(
    "record",
    ["", "[]", "null", "{}", "[" * 100_000, '{"lines": -1}', '{"lines": true}', "\u00ff", "1" * 5000],
    ids=lambda record: record[:15],
)
def test_a_record_that_is_none_is_an_error(tmp_path: Path, record: str) -> None:
    output = tmp_path / "out.txt"
    output.write_text("a\n")
    (tmp_path / f"out.txt{ENDING}").write_text(record)
    with pytest.raises(InputError, match=r"is damaged, so .*\nStart again with --overwrite"):
        Continuation(output, {}, Faults()).resume(iter([b"x"]))


@pytest.mark.parametrize(
    "name", ["lines", "answers", "size", "read", "faults", "first_faults", "origin", "input", "output"]
)
@pytest.mark.parametrize("value", [None, -1, 10**30, "x", [1, 2], {"x": 1}], ids=str)
def test_a_record_with_a_wrong_value_is_an_error(tmp_path: Path, name: str, value: object) -> None:
    output = tmp_path / "out.txt"
    first = Continuation(output, {"beam": 1}, Faults("mark"))
    first.start([b"x"])
    output.write_text("a\n")
    first.start([])
    record = json.loads(first.path.read_text())
    first.path.write_text(json.dumps(record | {name: value}))
    with pytest.raises(InputError, match="--overwrite"):
        Continuation(output, {"beam": 1}, Faults("mark")).resume(iter([b"x"]))
    assert output.read_text() == "a\n"
