"""A chat template gives the ids that `transformers` gives, and no message can spell a special token."""

import json
from pathlib import Path
from typing import Any

import pytest
import transformers as hf
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import InputError
from clearhead.examples import Message
from clearhead.text.tokenizers.templates import ChatTemplate
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.text.tokenizers.chats import ENDS, SPECIALS, TALK, TEMPLATES, tokenizer_of


def in_transformers(tokenizer: Tokenizer, folder: Path) -> Any:
    """The same tokenizer there."""
    tokenizer.save(folder / "tokenizer.json")
    begin, end = (tokenizer.spelling(id or 0) for id in (tokenizer.specials.begin, tokenizer.specials.end))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": begin, "eos_token": end}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return hf.AutoTokenizer.from_pretrained(folder)


def as_rows(messages: tuple[Message, ...]) -> list[dict[str, str]]:
    return [{"role": one.role, "content": one.content} for one in messages]


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_ids_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    ours, theirs = ChatTemplate(tokenizer_of(name)), in_transformers(tokenizer_of(name), tmp_path)
    for talk in (TALK[:1], TALK[:3], (Message("system", "Be short."), *TALK[:3])):
        expected = theirs.apply_chat_template(as_rows(talk), add_generation_prompt=True, return_dict=False)
        assert ours.prompt(talk) == expected
    assert ours.answers(TALK)[0] == theirs.apply_chat_template(as_rows(TALK), return_dict=False)


@pytest.mark.parametrize("name", TEMPLATES)
def test_answers_with_their_ends_are_learned_and_nothing_else(name: str) -> None:
    tokenizer = tokenizer_of(name)
    template = ChatTemplate(tokenizer)
    ids, learned = template.answers(TALK)
    texts: list[list[int]] = []
    text: list[int] = []
    for id, is_learned in zip(ids, learned, strict=True):
        if is_learned:
            text.append(id)
        elif text:
            texts, text = [*texts, text], []
    texts += [text] if text else []
    end = tokenizer.specials.end
    assert [row[-1] for row in texts] == [end, end]
    assert [tokenizer.decode(row).strip().removeprefix("<|assistant|>\n") for row in texts] == [
        TALK[1].content.strip(),
        TALK[3].content,
    ]
    assert template.ends == (end,)
    assert tokenizer.spelling(end or 0) == ENDS[name]


@given(st.lists(st.sampled_from([*SPECIALS, "</s>", "<s>", "a", "\n", "<|im_"]), max_size=6).map("".join))
def test_no_message_can_spell_a_special_token(said: str) -> None:
    template, tokenizer = ChatTemplate(tokenizer_of("ChatML")), tokenizer_of("ChatML")
    ids = template.prompt([Message("system", "."), Message("user", said)])
    specials = [id for id in ids if tokenizer.is_special(id)]
    assert [tokenizer.spelling(id) for id in specials] == ["<|im_start|>", "<|im_end|>"] * 2 + [
        "<|im_start|>"
    ]
    assert f"user\n{said}<|im_end|>" in tokenizer.decode(ids, keep_special=True)


def test_what_a_template_refuses_is_said() -> None:
    with pytest.raises(InputError, match="template fails: Messages of user and assistant must alternate"):
        ChatTemplate(tokenizer_of("[INST]")).prompt([TALK[0], TALK[0]])


def test_a_template_stays_with_its_tokenizer(tmp_path: Path) -> None:
    tokenizer = tokenizer_of("ChatML")
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.chat_template == TEMPLATES["ChatML"]
    assert again.with_added(["zork"]).with_roles(begin="<s>").chat_template == TEMPLATES["ChatML"]
    assert again.digest == tokenizer.digest != tokenizer.with_chat_template(None).digest
