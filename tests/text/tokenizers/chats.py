"""Chat templates in the manner of well-known models, and a tokenizer with their special tokens."""

from functools import cache

from clearhead.config.tokenizer import TokenizerConfig
from clearhead.examples import Message
from clearhead.text.tokenizers.tokenizer import Tokenizer

TEXTS = ["user assistant system hello world, how are you? It's 12 o'clock.\n\n"] * 3

CHATML = """\
{%- if messages[0].role != 'system' %}
    {{- '<|im_start|>system\\nBe kind.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
LLAMA3 = """\
{% for message in messages %}
{% set text = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim %}
{{ (bos_token if loop.first else '') + text + '<|eot_id|>' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""
ZEPHYR = """\
{% for message in messages %}
{% if message.role == 'user' %}
{{ '<|user|>\\n' + message.content + eos_token }}
{% elif message.role == 'system' %}
{{ '<|system|>\\n' + message.content + eos_token }}
{% else %}
{% generation %}{{ '<|assistant|>\\n' + message.content + eos_token }}{% endgeneration %}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""
INST = """\
{%- if messages[0]['role'] == 'system' -%}
{%- set first, rest = messages[0]['content'] + '\\n\\n', messages[1:] -%}
{%- else -%}
{%- set first, rest = '', messages -%}
{%- endif -%}
{{- bos_token -}}
{%- for message in rest -%}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
{{- raise_exception('Messages of user and assistant must alternate') -}}
{%- endif -%}
{%- if message['role'] == 'user' -%}
{{- '[INST] ' + (first if loop.first else '') + message['content'] + ' [/INST]' -}}
{%- else -%}
{{- ' ' + message['content'].strip() + eos_token -}}
{%- endif -%}
{%- endfor -%}"""
TEMPLATES = {"ChatML": CHATML, "Llama 3": LLAMA3, "Zephyr": ZEPHYR, "[INST]": INST}
ENDS = {"ChatML": "<|im_end|>", "Llama 3": "<|eot_id|>", "Zephyr": "</s>", "[INST]": "</s>"}
SPECIALS = ["<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
TALK = (
    Message("user", "hello  world\n"),
    Message("assistant", " It's 12, naïve 日本語!"),
    Message("user", "how are you?"),
    Message("assistant", "hello"),
)


@cache
def tokenizer_of(name: str) -> Tokenizer:
    """A tokenizer with the special tokens of all these models, the end of this one, and its template."""
    plain = Tokenizer.train(TEXTS, TokenizerConfig(vocabulary=330, normalization="none"))
    return plain.with_specials(SPECIALS).with_roles(end=ENDS[name]).with_chat_template(TEMPLATES[name])
