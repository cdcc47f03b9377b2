"""The tokenizers of a folder of Hugging Face, with the roles of their special tokens.

A `tokenizer.json` is taken as it is; where there is none, one is made from the vocabulary files. What begins
and what ends a text is what the tokenizer itself puts there; for a language model, whose tokenizers often put
nothing, it is what `tokenizer_config.json` says.
"""

import json
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer as Library

from clearhead.config.model import ModelConfig
from clearhead.data.frames import target_frame
from clearhead.errors import TokenizerError
from clearhead.exchange.folder import Folder, check_no_code
from clearhead.exchange.vocabularies import SETTINGS, Files, add_specials, convert, convert_marian, spelling
from clearhead.text.roles import Document, find_roles, state_roles
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.tokenizer_file import explained, read_text

TOKENIZER = "tokenizer.json"
TARGET = "target"  # the folder of the target's tokenizer, where source and target differ
# The keys of their settings for each role, the most telling first.
KEYS = {
    "begin": ("cls_token", "bos_token"),
    "end": ("sep_token", "eos_token"),
    "padding": ("pad_token",),
    "unknown": ("unk_token",),
    "mask": ("mask_token",),
    "separator": ("sep_token",),
}
KEYS_OF_WRITERS = KEYS | {"begin": ("bos_token",), "end": ("eos_token",)}
ENDS = ("begin", "end")
SAMPLE = "a"
Pair = tuple[Tokenizer | None, Tokenizer | None]


def find_tokenizers(folder: Folder, config: Mapping[str, Any], ours: ModelConfig) -> Pair:
    """The tokenizer of the text or the target, and that of the source where it is another."""
    settings = folder.table("special_tokens_map.json") | folder.table(SETTINGS)
    check_no_code(SETTINGS, settings)
    files, family = Files(folder, settings), str(config.get("model_type"))
    target, source = read_target(folder), None
    path = folder.find(TOKENIZER)
    document = read_text(path) if path is not None else convert(files, family)
    if target is not None:
        source = document
    elif document is None and family == "marian":
        source, target = convert_marian(files) or (None, None)
    else:
        target = document
    if target is None:
        return None, None
    made = with_stated_roles(target, settings, ours)
    made_source = None if source is None else with_stated_roles(source, settings, ours)
    if ours.shape != "encoder-decoder":
        return made, made_source
    start = "decoder_start_token_id"  # in newer files it stands beside the config
    stated = config.get(start, folder.table("generation_config.json").get(start))
    return with_start(made, made_source, stated)


def read_target(folder: Folder) -> str | None:
    """The tokenizer of the target in a folder that `export` wrote for two tokenizers."""
    path = folder.find(f"{TARGET}/{TOKENIZER}")
    return None if path is None else read_text(path)


def with_stated_roles(text: str, settings: Mapping[str, Any], ours: ModelConfig) -> Tokenizer:
    """A tokenizer whose special tokens have the roles that its own files give them."""
    with explained(f"{TOKENIZER} is broken"):
        document: Document = json.loads(text)
        if any(token.get("roles") for token in document.get("added_tokens") or []):
            return Tokenizer(text, TOKENIZER)
        library = Library.from_str(text)
        keys = KEYS_OF_WRITERS if ours.shape == "decoder" else KEYS
        named = {role: first_known(names, settings, library) for role, names in keys.items()}
        stated = {role: name for role, name in named.items() if name is not None}
        roles = find_roles(document) | stated
        if ours.shape != "decoder":
            ends = around(library) or only_ends(stated) or only_ends(roles)
            roles = {role: name for role, name in roles.items() if role not in ENDS} | ends
        return with_roles(text, roles)


def with_roles(text: str, roles: Mapping[str, str]) -> Tokenizer:
    """A tokenizer with exactly these roles; their tokens become special ones where they are not."""
    document: Document = json.loads(text)
    added = {token["content"] for token in document.get("added_tokens") or []}
    if missing := [name for name in dict.fromkeys(roles.values()) if name not in added]:
        library = Library.from_str(text)
        add_specials(library, *missing)
        document = json.loads(library.to_str())
    return Tokenizer(json.dumps(state_roles(document, roles), ensure_ascii=False), TOKENIZER)


def only_ends(roles: Mapping[str, str]) -> dict[str, str]:
    """What begins and what ends a text."""
    return {role: name for role, name in roles.items() if role in ENDS}


def first_known(keys: tuple[str, ...], settings: Mapping[str, Any], library: Library) -> str | None:
    """The token that the first of these keys names, if the vocabulary has it and it is no piece of text."""
    added = {token.content for token in library.get_added_tokens_decoder().values()}
    for key in keys:
        name = spelling(settings.get(key))
        if name and (name in added or (name[0] in "<[" and library.token_to_id(name) is not None)):
            return name
    return None


def around(library: Library) -> dict[str, str]:
    """The tokens that a tokenizer puts before and after a text, by their roles."""
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
            f"This tokenizer puts {before} tokens before a text and {extra - before} after it.\n"
            "At most one of each is known here."
        )
    ends = {"begin": ids[:before], "end": ids[before + len(bare) :]}
    return {role: str(library.id_to_token(found[0])) for role, found in ends.items() if found}


def with_start(target: Tokenizer, source: Tokenizer | None, start: object) -> Pair:
    """A translator's tokenizers, of which the target's begins where their config says that writing begins."""
    if type(start) is not int or target_frame(target.specials).before == (start,):
        return target, source
    name = target.spelling(start) if start >= 0 else None
    if name is None:
        raise TokenizerError(
            f"config.json: decoder_start_token_id = {start}, but the tokenizer has no such token.\n"
            "The tokenizer is of another model."
        )
    roles = find_roles(json.loads(target.document)) | {"begin": name}
    return with_roles(target.document, roles), source or target
