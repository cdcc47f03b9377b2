"""Texts to try a tokenizer on: all of Unicode, and what tokenizers are known to stumble over."""

from functools import cache

from hypothesis import strategies as st

from clearhead.config.tokenizer import TokenizerConfig
from clearhead.text.tokenizers.tokenizer import Tokenizer

FRAGMENTS = [
    *("the", "eating", "I'm", "they'LL", "x", "Straße", "naïve", "1234567", "½", "日本", "ไทย", "नमस्ते"),
    *(
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "\u00a0",
        "\u3000",
        "\u0085",
        "\u200b",
        "\u200d",
        "\ufeff",
        "\x00",
        "\x1c",
    ),
    *(".", "!?", "((", "##", "'", "’", "-", "_", "▁", "▁▁", "¿", "</w>", "|", "�", "\\xe2"),
    *(
        "e\u0301",
        "\u0301",
        "\u0323\u0301",
        "\u1100\u1161\u11a8",
        "👩\u200d👧",
        "ﬁ",
        "İ",
        "Σ",
        "K",
        "\U0001d518",
    ),
    *(
        "<s>",
        "</s>",
        "<pad>",
        "<unk>",
        "[SEP]",
        "[CLS]",
        "[UNK]",
        "<|endoftext|>",
        "<0x0A>",
        "<0xE2>",
        "<0x+F>",
    ),
    *("Ġ", "Ċ", "Ã©", "ACGT", "acgtn", "\U00011935\U00011930", "\U0010ffff", "\ue000"),
]

ANY_TEXT = st.text() | st.lists(st.sampled_from(FRAGMENTS)).map("".join)

CORPUS = [
    "The chicken didn't cross the road because it was too tired. She is eating, he eats, they eat and read.",
    "I'm not hungry yet. Todavía no tengo hambre. ¿Tienes un coche? Straße, naïve, 日本, e\u0301.",
    "def eat(x):\n    return [x, 1234567] # <0x0A> </s> ▁ <s>\n\tnaïve = {'reading': eating}\r\n",
] * 4


@cache
def trained(kind: str, **settings: object) -> Tokenizer:
    """A tokenizer of this kind, learned from a little text."""
    return Tokenizer.train(
        CORPUS, TokenizerConfig.model_validate({"kind": kind, "vocabulary": 420} | settings)
    )
