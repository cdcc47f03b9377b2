"""Reads tokenizers: a Hugging Face folder enters, tokenizers with the roles of their special tokens leave.

A `tokenizer.json` is used as it is; if there is none, one is made from the vocabulary files. The begin and end tokens
are those that the tokenizer adds itself; for a language model, whose tokenizer often adds none, they come from
`tokenizer_config.json`. Its post-processor always says what is put around a text, be it nothing.
"""

import json
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer as Library

from clearhead.config.model import ModelConfig
from clearhead.data.frames import target_frame
from clearhead.errors import TokenizerError
from clearhead.exchange.hf_folder import HuggingFaceFolder, check_no_code
from clearhead.exchange.tokenizers.chat_template import find_chat_template, with_template
from clearhead.exchange.tokenizers.read_vocabulary import (
    SETTINGS,
    Files,
    add_specials,
    convert_marian,
    convert_vocabulary,
    spelling,
)
from clearhead.text.tokenizers.file import explained, read_text
from clearhead.text.tokenizers.roles import Document, find_framing, find_roles, framing_processor, state_roles
from clearhead.text.tokenizers.tokenizer import Tokenizer

TOKENIZER = "tokenizer.json"
TARGET = "target"  # the folder of the target's tokenizer, if source and target differ
# The keys of tokenizer_config.json for each role, the most specific first.
KEYS = {
    "begin": ("cls_token", "bos_token"),
    "end": ("sep_token", "eos_token"),
    "padding": ("pad_token",),
    "unknown": ("unk_token",),
    "mask": ("mask_token",),
    "separator": ("sep_token",),
}
KEYS_OF_DECODERS = KEYS | {"begin": ("bos_token",), "end": ("eos_token",)}
ENDS = ("begin", "end")
FLAGS = {"bos_token": "add_bos_token", "eos_token": "add_eos_token"}  # whether each is put around a text
SAMPLE = "a"
Pair = tuple[Tokenizer | None, Tokenizer | None]


def read_tokenizers(folder: HuggingFaceFolder, config: Mapping[str, Any], ours: ModelConfig) -> Pair:
    """The tokenizer of the text or the target, and that of the source if it is another."""
    settings = folder.table("special_tokens_map.json") | folder.table(SETTINGS)
    check_no_code(SETTINGS, settings)
    files, family = Files(folder, settings), str(config.get("model_type"))
    target, source = read_target(folder), None
    path = folder.find(TOKENIZER)
    document = read_text(path) if path is not None else convert_vocabulary(files, family)
    if target is not None:
        source = document
    elif document is None and family == "marian":
        source, target = convert_marian(files) or (None, None)
    else:
        target = document
    if target is None:
        return None, None
    made = with_stated_roles(target, settings, ours, is_made=path is None and family != "marian")
    made_source = None if source is None else with_stated_roles(source, settings, ours)
    if ours.shape == "decoder":
        return with_template(made, find_chat_template(folder, settings)), made_source
    if ours.shape != "encoder-decoder":
        return made, made_source
    start = "decoder_start_token_id"  # in newer files it is beside the config
    stated = config.get(start, folder.table("generation_config.json").get(start))
    return with_start(made, made_source, stated)


def read_target(folder: HuggingFaceFolder) -> str | None:
    """The target's tokenizer, in a folder that `export` wrote with two tokenizers."""
    path = folder.find(f"{TARGET}/{TOKENIZER}")
    return None if path is None else read_text(path)


def with_stated_roles(
    text: str, settings: Mapping[str, Any], ours: ModelConfig, is_made: bool = False
) -> Tokenizer:
    """A tokenizer whose special tokens have the roles that its files give them; `is_made`: from vocabulary files."""
    with explained(f"{TOKENIZER} is damaged"):
        document: Document = json.loads(text)
        if any(token.get("roles") for token in document.get("added_tokens") or []):
            return Tokenizer(text, TOKENIZER)
        text = with_framing(text, settings, is_made)
        document, library = json.loads(text), Library.from_str(text)
        keys = KEYS_OF_DECODERS if ours.shape == "decoder" else KEYS
        named = {role: first_known(names, settings, library) for role, names in keys.items()}
        stated = {role: name for role, name in named.items() if name is not None}
        roles = find_roles(document) | stated
        if "bos_token" in settings and settings["bos_token"] is None and ours.shape == "decoder":
            roles.pop("begin", None)  # it is only named like one
        if ours.shape != "decoder":
            ends = added_ends(library) or only_ends(stated) or only_ends(roles)
            roles = {role: name for role, name in roles.items() if role not in ENDS} | ends
        return with_roles(text, roles)


def with_framing(text: str, settings: Mapping[str, Any], is_made: bool) -> str:
    """The same `tokenizer.json`, in which the post-processor says what `transformers` puts around a text.

    A file counts as it is, and one without a post-processor puts nothing there. Where it was made from vocabulary
    files, the settings may say more.
    """
    document: Document = json.loads(text)
    stated, library = find_framing(document.get("post_processor")), Library.from_str(text)
    names: dict[str, str | None] = {}
    if is_made and any(flag in settings for flag in FLAGS.values()):
        names = {
            key: first_known((key,), settings, library) for key, flag in FLAGS.items() if settings.get(flag)
        }
    elif stated is not None:
        return text
    ids = {name: id for name in names.values() if name and (id := library.token_to_id(name)) is not None}
    before, after = ({name: ids[name] for name in (names.get(key),) if name in ids} for key in FLAGS)
    if (tuple(before.values()), tuple(after.values())) == stated:
        return text
    return json.dumps(document | {"post_processor": framing_processor(before, after)}, ensure_ascii=False)


def with_roles(text: str, roles: Mapping[str, str]) -> Tokenizer:
    """A tokenizer with exactly these roles; their tokens become special tokens if they are not."""
    document: Document = json.loads(text)
    added = {token["content"] for token in document.get("added_tokens") or []}
    if missing := [name for name in dict.fromkeys(roles.values()) if name not in added]:
        library = Library.from_str(text)
        add_specials(library, *missing)
        document = json.loads(library.to_str())
    return Tokenizer(json.dumps(state_roles(document, roles), ensure_ascii=False), TOKENIZER)


def only_ends(roles: Mapping[str, str]) -> dict[str, str]:
    """The begin and end tokens among these roles."""
    return {role: name for role, name in roles.items() if role in ENDS}


def first_known(keys: tuple[str, ...], settings: Mapping[str, Any], library: Library) -> str | None:
    """The token that the first of these keys names, if it is a special token of the vocabulary."""
    added = {token.content for token in library.get_added_tokens_decoder().values()}
    for key in keys:
        name = spelling(settings.get(key))
        if name and (name in added or (name[0] in "<[" and library.token_to_id(name) is not None)):
            return name
    return None


def added_ends(library: Library) -> dict[str, str]:
    """The tokens that a tokenizer adds before and after a text, by role."""
    library.no_truncation()
    library.no_padding()
    bare = library.encode(SAMPLE, add_special_tokens=False).ids
    ids = library.encode(SAMPLE, add_special_tokens=True).ids
    extra = len(ids) - len(bare)
    before = next((at for at in range(extra + 1) if bare and ids[at : at + len(bare)] == bare), None)
    if before is None:
        return {}
    if before > 1 or extra - before > 1:
        raise TokenizerError(
            f"This tokenizer adds {before} tokens before a text and {extra - before} after it.\n"
            "At most one of each is supported."
        )
    ends = {"begin": ids[:before], "end": ids[before + len(bare) :]}
    return {role: str(library.id_to_token(found[0])) for role, found in ends.items() if found}


def with_start(target: Tokenizer, source: Tokenizer | None, start: object) -> Pair:
    """A translator's tokenizers; the target's begin token is the `decoder_start_token_id` of config.json."""
    if type(start) is not int or target_frame(target.specials).before == (start,):
        return target, source
    name = target.spelling(start) if start >= 0 else None
    if name is None:
        raise TokenizerError(
            f"config.json: decoder_start_token_id = {start}, but the tokenizer has no such token.\n"
            "The tokenizer belongs to another model."
        )
    roles = find_roles(json.loads(target.document)) | {"begin": name}
    return with_roles(target.document, roles), source or target
