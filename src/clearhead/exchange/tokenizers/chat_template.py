"""Chat templates of other programs: found in the files of a model on import, written for a model of ours on export.

A model that came with one keeps it as it is. For one trained on conversations here, a template is written that says
what `text.tokenizers.conversations` encodes: a marker before every message, the end token after every answer.
"""

import json
from collections.abc import Mapping
from typing import Any

from clearhead.data.frames import prompt_frame
from clearhead.examples import ANSWER
from clearhead.exchange.hf_folder import HuggingFaceFolder
from clearhead.text.tokenizers.file import CHAT_TEMPLATE, read_text
from clearhead.text.tokenizers.tokenizer import Tokenizer


def find_chat_template(folder: HuggingFaceFolder, settings: Mapping[str, Any]) -> str | None:
    """The template of a Hugging Face folder: a file of its own, or in `tokenizer_config.json`."""
    path = folder.find(CHAT_TEMPLATE)
    return named_default(read_text(path) if path is not None else settings.get("chat_template"))


def named_default(found: object) -> str | None:
    """The template among those of a model, which may have several with names."""
    if isinstance(found, list):
        named = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}
        found = named.get("default")
    return found if isinstance(found, str) and found.strip() else None


def with_template(tokenizer: Tokenizer, template: str | None) -> Tokenizer:
    """A tokenizer with the template that it came with; its own markers say the same."""
    return tokenizer if template is None or tokenizer.markers else tokenizer.with_chat_template(template)


def chat_template(tokenizer: Tokenizer) -> str | None:
    """The template of a tokenizer, or None if it knows no conversations."""
    if tokenizer.chat_template is not None:
        return tokenizer.chat_template
    if ANSWER not in tokenizer.markers or tokenizer.specials.end is None:
        return None
    spelled = {role: tokenizer.spelling(marker) for role, marker in tokenizer.markers.items()}
    before = "".join(str(tokenizer.spelling(id)) for id in prompt_frame(tokenizer.specials).before)
    begin, end = (
        json.dumps(name, ensure_ascii=False) for name in (before, tokenizer.spelling(tokenizer.specials.end))
    )
    markers = json.dumps(spelled, ensure_ascii=False)
    answer = json.dumps(ANSWER)
    return (
        f"{{%- set markers = {markers} -%}}{{{{- {begin} -}}}}"
        "{%- for message in messages -%}{{- markers[message['role']] + message['content'] -}}"
        f"{{%- if message['role'] == {answer} -%}}{{{{- {end} -}}}}{{%- endif -%}}{{%- endfor -%}}"
        f"{{%- if add_generation_prompt -%}}{{{{- markers[{answer}] -}}}}{{%- endif -%}}"
    )
