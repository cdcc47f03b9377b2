"""A model trained on conversations tells `transformers` how to write one: the same ids as ours."""

from pathlib import Path

import transformers as hf

from clearhead import model_folder
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.examples import Conversation, Message
from clearhead.exchange.exporting import export_model
from clearhead.exchange.exporting_gguf import export_gguf
from clearhead.exchange.tokenizers.chat_template import chat_template
from clearhead.exchange.weights.read_gguf import read_gguf
from clearhead.model_folder import Bundle
from clearhead.text.tokenizers.conversations import encode, encode_prompt
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.exchange.test_exporting import TEXTS, made_here, randomised

MESSAGES = [
    Message("system", "Be 'kind' {{ and }} \"short\"."),
    Message("user", "¿Qué?"),
    Message("assistant", "12 words"),
    Message("user", " more\n"),
]


def test_the_template_writes_what_training_reads(tmp_path: Path) -> None:
    plain = Tokenizer.train(TEXTS, TokenizerConfig(vocabulary=300))
    assert chat_template(plain) is None
    tokenizer = plain.with_markers({"system": "<system>", "user": "<it's>", "assistant": "<assistant>"})
    model = randomised(made_here({"vocabulary": tokenizer.size, "feedforward": "swiglu"}))
    model_folder.save(tmp_path / "ours", Bundle(model, tokenizer))
    export_model(tmp_path / "ours", tmp_path / "theirs")
    other = hf.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    rows = [{"role": message.role, "content": message.content} for message in MESSAGES]
    begin, ours = tokenizer.specials.begin, encode(tokenizer, [Conversation(tuple(MESSAGES))])[0].tolist()
    assert other.apply_chat_template(rows, return_dict=False) == [begin, *ours]
    opened = encode_prompt(tokenizer, "<it's>¿Qué?<assistant>")
    asked = other.apply_chat_template(rows[1:2], add_generation_prompt=True, return_dict=False)
    assert asked == [begin, *opened]
    export_gguf(tmp_path / "ours", tmp_path / "x.gguf")
    assert read_gguf(tmp_path / "x.gguf")[0]["tokenizer.chat_template"] == other.chat_template
