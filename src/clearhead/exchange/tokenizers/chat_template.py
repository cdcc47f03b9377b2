"""The chat template of a model trained on conversations: its tokenizer enters, a Jinja template leaves.

It writes what `text.tokenizers.conversations` encodes: a marker before every message, the end token after every answer.
"""

import json

from clearhead.data.frames import document_frame
from clearhead.examples import ANSWER
from clearhead.text.tokenizers.tokenizer import Tokenizer


def chat_template(tokenizer: Tokenizer) -> str | None:
    """The template, or None for a tokenizer without markers."""
    if ANSWER not in tokenizer.markers or tokenizer.specials.end is None:
        return None
    spelled = {role: tokenizer.spelling(marker) for role, marker in tokenizer.markers.items()}
    begin, end = (
        json.dumps(tokenizer.spelling(number), ensure_ascii=False)
        for number in (document_frame(tokenizer.specials).before[0], tokenizer.specials.end)
    )
    markers = json.dumps(spelled, ensure_ascii=False)
    answer = json.dumps(ANSWER)
    return (
        f"{{%- set markers = {markers} -%}}{{{{- {begin} -}}}}"
        "{%- for message in messages -%}{{- markers[message['role']] + message['content'] -}}"
        f"{{%- if message['role'] == {answer} -%}}{{{{- {end} -}}}}{{%- endif -%}}{{%- endfor -%}}"
        f"{{%- if add_generation_prompt -%}}{{{{- markers[{answer}] -}}}}{{%- endif -%}}"
    )
