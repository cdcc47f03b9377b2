"""`tokenizer.json`, ours and of other projects: the roles in it, and files that are broken or hostile."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import transformers
from hypothesis import given
from tokenizers import Tokenizer as Library

from clearhead.errors import TokenizerError
from clearhead.text.tokenizers.file import LARGEST_FILE
from clearhead.text.tokenizers.kinds import KINDS
from clearhead.text.tokenizers.roles import Specials
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.text.texts import ANY_TEXT, CORPUS, trained
from tests.text.tokenizers.foreign import STYLES, TEXTS, written

KNOWN = {style: Tokenizer(written(style)) for style in STYLES}


@given(ANY_TEXT)
@pytest.mark.parametrize("style", STYLES)
def test_files_of_other_projects_give_the_same_ids_and_texts(style: str, text: str) -> None:
    """Without what spells a special token, the bare library gives the same ids; and always the same texts."""
    tokenizer, library = KNOWN[style], Library.from_str(written(style))
    for special in library.get_added_tokens_decoder().values():
        text = text.replace(special.content, "")
    ids = library.encode(text, add_special_tokens=False).ids
    if not any(name in text for name in ("[UNK]", "<unk>")):
        assert tokenizer.encode(text) == ids
        assert tokenizer.encode_batch([text])[0].tolist() == ids
    assert tokenizer.decode(ids) == library.decode(ids)
    assert tokenizer.decode(ids, keep_special=True) == library.decode(ids, skip_special_tokens=False)


@given(ANY_TEXT)
@pytest.mark.parametrize("style", STYLES)
def test_their_special_tokens_are_out_of_reach_too(style: str, text: str) -> None:
    tokenizer = KNOWN[style]
    special = {token for token in range(tokenizer.size) if tokenizer.is_special(token)}
    forbidden = (special | tokenizer.specials.ids) - {tokenizer.specials.unknown}
    assert forbidden.isdisjoint(tokenizer.encode(text))
    spelled = " ".join(tokenizer.spelling(token) or "" for token in sorted(forbidden))
    assert forbidden.isdisjoint(tokenizer.encode(spelled + text))
    assert forbidden <= set(tokenizer.encode(spelled, allow_special=True))


@given(ANY_TEXT)
@pytest.mark.parametrize("style", STYLES)
def test_their_offsets_slice_the_text(style: str, text: str) -> None:
    encoded = KNOWN[style].offsets(text)
    assert encoded.ids == KNOWN[style].encode(text)
    assert all(0 <= start <= end <= len(text) for start, end in encoded.offsets)
    starts = [start for start, _ in encoded.offsets]
    assert starts == sorted(starts)


@pytest.mark.parametrize(
    ("style", "roles"),
    [
        ("gpt2", {"begin": "<|endoftext|>", "end": "<|endoftext|>"}),
        (
            "bert",
            {"begin": "[CLS]", "end": "[SEP]", "padding": "[PAD]", "unknown": "[UNK]", "mask": "[MASK]"},
        ),
        (
            "roberta",
            {"begin": "<s>", "end": "</s>", "padding": "<pad>", "unknown": "<unk>", "mask": "<mask>"},
        ),
        ("t5", {"end": "</s>", "padding": "<pad>", "unknown": "<unk>"}),
        ("llama", {"begin": "<s>", "end": "</s>", "unknown": "<unk>"}),
        ("joined", {"unknown": "[UNK]"}),
    ],
)
def test_roles_are_found_in_files_of_other_projects(style: str, roles: dict[str, str]) -> None:
    tokenizer = KNOWN[style]
    others = ("separator", "framing", "between")
    found = {role: token for role, token in vars(tokenizer.specials).items() if role not in others}
    assert {role: tokenizer.spelling(token) for role, token in found.items() if token is not None} == roles


def test_the_post_processor_says_what_stands_around_a_text() -> None:
    document = json.loads(written("bert"))
    text = {"Sequence": {"id": "A", "type_id": 0}}
    second = {"Sequence": {"id": "B", "type_id": 0}}

    def special(name: str) -> dict[str, Any]:
        return {"SpecialToken": {"id": name, "type_id": 0}}

    document["post_processor"] = {
        "type": "Sequence",
        "processors": [
            {
                "type": "TemplateProcessing",
                "single": [special("[MASK]"), text, special("[PAD]")],
                "pair": [special("[MASK]"), text, special("[CLS]"), second, special("[PAD]")],
                "special_tokens": {
                    name: {"id": name, "ids": [number], "tokens": [name]}
                    for name, number in (("[MASK]", 4), ("[PAD]", 0), ("[CLS]", 2))
                },
            }
        ],
    }
    specials = Tokenizer(json.dumps(document)).specials
    assert (specials.begin, specials.end, specials.separator) == (4, 0, 2)
    document["post_processor"] = {"type": "RobertaProcessing", "sep": ["[MASK]", 4], "cls": ["[PAD]", 0]} | {
        "trim_offsets": True,
        "add_prefix_space": True,
    }
    specials = Tokenizer(json.dumps(document)).specials
    assert (specials.begin, specials.end, specials.separator) == (0, 4, 4)


def test_a_role_can_be_named(tmp_path: Path) -> None:
    gpt2 = KNOWN["gpt2"]
    with pytest.raises(
        TokenizerError, match=r"No added token is spelled '<s>' \(padding\). Known: <\|endoftext\|>"
    ):
        gpt2.with_roles(padding="<s>")
    with pytest.raises(
        TokenizerError, match=r"'start' is not the role of a special token.* Known: begin, end"
    ):
        gpt2.with_roles(start="<|endoftext|>")
    padded = gpt2.with_roles(padding="<|endoftext|>")
    assert padded.specials == Specials(begin=400, end=400, padding=400, framing=((), ()))
    assert padded.encode("It's") == gpt2.encode("It's")

    t5 = KNOWN["t5"]
    with pytest.raises(
        TokenizerError, match=r"has no begin token. Name one with `tokenizer.with_roles\(begin="
    ):
        t5.encode("It's", begin=True)
    named = t5.with_roles(begin="<pad>")
    assert named.encode("It's", begin=True)[0] == named.specials.padding == t5.specials.padding
    assert named.specials.unknown == t5.specials.unknown
    named.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path).specials == named.specials
    assert (
        Library.from_file(str(tmp_path / "tokenizer.json")).to_str()
        == Library.from_str(written("t5")).to_str()
    )


@pytest.mark.parametrize("style", STYLES)
def test_a_file_is_saved_as_it_was_loaded(style: str, tmp_path: Path) -> None:
    source = tmp_path / "source.json"
    source.write_text(written(style), encoding="utf-8")
    Tokenizer.load(source).save(tmp_path / "new" / "tokenizer.json")
    assert (tmp_path / "new" / "tokenizer.json").read_bytes() == source.read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_ours_come_back_from_a_file_and_load_elsewhere(kind: str, tmp_path: Path) -> None:
    tokenizer = trained(kind)
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path)
    assert (again.digest, again.specials, again.size) == (
        tokenizer.digest,
        tokenizer.specials,
        tokenizer.size,
    )
    elsewhere = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    for text in [*CORPUS, *TEXTS]:
        text = text.replace("<s>", "").replace("</s>", "")
        ids = elsewhere.encode(text, add_special_tokens=False)
        assert tokenizer.encode(text) == again.encode(text) == ids
        assert tokenizer.decode(ids) == elsewhere.decode(ids, skip_special_tokens=True)


def test_nothing_is_cut_or_padded_because_a_file_says_so() -> None:
    library = Library.from_str(written("bert"))
    library.enable_truncation(3)
    library.enable_padding(length=30)
    tokenizer = Tokenizer(library.to_str())
    assert tokenizer.encode(TEXTS[0]) == KNOWN["bert"].encode(TEXTS[0])
    assert len(tokenizer.encode(TEXTS[0])) > 3
    assert len(tokenizer.encode_batch(["the"], allow_special=True)[0]) == 1


def test_older_files_load() -> None:
    """Without keys that came later, and with merges as strings."""
    document = json.loads(written("gpt2"))
    del document["pre_tokenizer"]["use_regex"], document["truncation"], document["normalizer"]
    document["model"]["merges"] = [" ".join(merge) for merge in document["model"]["merges"]]
    old = Tokenizer(json.dumps(document))
    for text in TEXTS:
        assert old.encode(text) == old.encode_batch([text])[0].tolist() == KNOWN["gpt2"].encode(text)


BROKEN = {
    "empty": "",
    "text": "hello",
    "a list": "[]",
    "an empty object": "{}",
    "no model": '{"version": "1.0", "model": null}',
    "a strange model": '{"version": "1.0", "model": {"type": "Pickle", "vocab": {}}}',
    "deep": "[" * 100_000,
    "deep in a key": '{"version": "1.0", "model": ' + '{"a":' * 100_000,
    "negative": '{"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": -1}, "unk_token": "a"}}',
    "no pieces": '{"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}}',
    "a merge of nothing": '{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}}',
    "far ids": '{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 4000000000}, "merges": []}}',
    "a panic": json.dumps(
        json.loads(written("joined")) | {"decoder": {"type": "Strip", "content": "A", "start": 0, "stop": 9}}
    ),
    "an unknown out of reach": '{"model": {"type": "Unigram", "vocab": [["a", 0]], "unk_id": 7}}',
    "a bad expression": json.dumps(
        json.loads(written("joined"))
        | {
            "pre_tokenizer": {
                "type": "Split",
                "pattern": {"Regex": "(("},
                "behavior": "Isolated",
                "invert": False,
            }
        }
    ),
    "roles that are none": json.dumps(
        json.loads(written("gpt2"))
        | {"added_tokens": [json.loads(written("gpt2"))["added_tokens"][0] | {"roles": 5}]}
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_file_says_which_and_why(broken: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(BROKEN[broken], encoding="utf-8")
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(tmp_path / "tokenizer.json")
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "tokenizer.json"))
    assert (
        "is not a tokenizer.json" in message
        or "is damaged" in message
        or "fails" in message
        or "ids" in message
    )


def test_a_file_that_knows_only_its_own_words_loads() -> None:
    closed = '{"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "c"}}'
    tokenizer = Tokenizer(closed)
    assert tokenizer.encode("b") == [1]
    assert tokenizer.specials == Specials()
    with pytest.raises(TokenizerError, match="This text cannot be encoded: WordLevel error: Missing"):
        tokenizer.encode("d")


def test_a_file_that_is_missing_or_no_text_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        TokenizerError, match=r"nothing/tokenizer.json is not a file. A tokenizer is read from"
    ):
        Tokenizer.load(tmp_path / "nothing" / "tokenizer.json")
    with pytest.raises(TokenizerError, match=r"tokenizer.json is not a file"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(TokenizerError, match="is not UTF-8 at byte 7"):
        Tokenizer.load(tmp_path)
    os.mkfifo(tmp_path / "pipe")  # reading it would wait for ever
    with pytest.raises(TokenizerError, match="pipe is not a file"):
        Tokenizer.load(tmp_path / "pipe")
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with pytest.raises(TokenizerError, match=r"huge\.json is larger than 128 MB"):
        Tokenizer.load(tmp_path / "huge.json")


def test_saving_leaves_the_old_file_or_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "tokenizer.json"
    trained("byte").save(place)
    trained("dna").save(place)
    assert Tokenizer.load(place).digest == trained("dna").digest

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TokenizerError, match=r"tokenizer.json cannot be written: No space left on device"):
        trained("byte").save(place)
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]
    assert Tokenizer.load(place).digest == trained("dna").digest
