"""Writes a tokenizer of ours for `transformers`: `tokenizer.json`, and `tokenizer_config.json` beside it."""

import json
from pathlib import Path
from typing import Any

from clearhead.config.model import ModelConfig
from clearhead.data.frames import input_frame, prompt_frame, target_frame
from clearhead.exchange.hf_folder import write_json
from clearhead.exchange.tokenizers.chat_template import chat_template
from clearhead.exchange.tokenizers.read import TOKENIZER
from clearhead.exchange.tokenizers.read_vocabulary import SETTINGS
from clearhead.text.tokenizers.fast import QWEN
from clearhead.text.tokenizers.roles import framing_processor
from clearhead.text.tokenizers.tokenizer import Tokenizer

# The keys of `tokenizer_config.json` for the roles of special tokens: in every model, in those that generate, and
# in encoders.
KEYS_OF_ALL = {"padding": "pad_token", "unknown": "unk_token", "mask": "mask_token"}
KEYS_OF_GENERATORS = {"begin": "bos_token", "end": "eos_token", "separator": "sep_token"}
KEYS_OF_ENCODERS = {"begin": "cls_token", "end": "sep_token"}


def write_tokenizer(place: Path, tokenizer: Tokenizer, config: ModelConfig) -> None:
    """`tokenizer.json`, which frames a text as in training, and the settings that name its special tokens."""
    document = framed_document(tokenizer, config)
    keys = KEYS_OF_ALL | (KEYS_OF_ENCODERS if config.shape == "encoder" else KEYS_OF_GENERATORS)
    ids = {key: getattr(tokenizer.specials, role) for role, key in keys.items()}
    if config.shape == "encoder-decoder" and ids["unk_token"] is None:
        ids["unk_token"] = tokenizer.specials.end  # never used, but CTranslate2 demands one
    names = {key: tokenizer.spelling(number) for key, number in ids.items() if number is not None}
    inputs = ["input_ids", *(["token_type_ids"] if config.token_types > 1 else []), "attention_mask"]
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config.context or 1 << 30,
        "clean_up_tokenization_spaces": False,
        "model_input_names": inputs,
    }
    place.mkdir(parents=True, exist_ok=True)
    (place / TOKENIZER).write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    chat = chat_template(tokenizer)
    write_json(place / SETTINGS, settings | names | ({} if chat is None else {"chat_template": chat}))


def framed_document(tokenizer: Tokenizer, config: ModelConfig) -> dict[str, Any]:
    """The content of `tokenizer.json` with what is put around a text; if it says nothing, as in training."""
    document: dict[str, Any] = json.loads(tokenizer.document)
    if not document.get("post_processor"):
        document["post_processor"] = template(tokenizer, config)
    return document


def template(tokenizer: Tokenizer, config: ModelConfig) -> dict[str, Any] | None:
    """The special tokens around a text: a begin token before a prompt, begin and end around any other input."""
    specials = tokenizer.specials
    if specials.begin is specials.end is specials.separator is None:
        return None
    is_prompt = config.shape == "decoder" and config.head != "classifier"
    frame = (prompt_frame if is_prompt else input_frame)(specials)
    before, after = ({str(tokenizer.spelling(id)): id for id in ids} for ids in (frame.before, frame.after))
    return framing_processor(before, after)


def special_token_ids(config: ModelConfig, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """The ids of special tokens for `config.json`, where `transformers` has defaults of its own."""
    if tokenizer is None:
        start = 0 if config.shape == "encoder-decoder" else None
        keys = ("bos_token_id", "eos_token_id", "forced_eos_token_id")
        return dict.fromkeys(keys) | {"pad_token_id": start, "decoder_start_token_id": start}
    specials = tokenizer.specials
    frame = target_frame(specials) if config.shape == "encoder-decoder" else None
    end = specials.end if frame is None else frame.after[0]
    ids = {"bos_token_id": specials.begin, "eos_token_id": end, "pad_token_id": specials.padding}
    if frame is not None:
        ids |= {"decoder_start_token_id": frame.before[0], "forced_eos_token_id": None}
        ids["pad_token_id"] = end if specials.padding is None else specials.padding
    return ids


def unsuitable_families(tokenizer: Tokenizer | None) -> tuple[str, ...]:
    """Families for which `transformers` rebuilds the tokenizer its own way and ignores part of `tokenizer.json`."""
    if tokenizer is None or json.dumps(QWEN) in json.dumps(json.loads(tokenizer.document)["pre_tokenizer"]):
        return ()
    return ("qwen2",)
