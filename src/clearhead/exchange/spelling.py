"""Whether a tokenizer can spell what it knows: a tokenizer enters; a warning leaves if it makes words unknown.

A vocabulary of capitals whose tokenizer lowercases every text looks complete, and reads nothing.
"""

from clearhead.text.tokenizers.tokenizer import Tokenizer

MOST_WORDS = 500
OF_PARTS = "#▁Ġ"  # marks before the tokens of WordPiece, SentencePiece and byte-level BPE


def describe_unknown_words(tokenizer: Tokenizer) -> str | None:
    """A warning if most words of the vocabulary, given as text, become unknown tokens."""
    spelled = (tokenizer.spelling(number) or "" for number in range(tokenizer.size))
    words = list(dict.fromkeys(word for token in spelled if (word := token.lstrip(OF_PARTS)).isalpha()))
    words = words[:: max(1, len(words) // MOST_WORDS)]
    unknown = [word for word, ids in zip(words, tokenizer.encode_batch(words), strict=True)
               if tokenizer.counts_unknown(ids)]  # fmt: skip
    if 2 * len(unknown) <= len(words):
        return None
    return (
        f"the tokenizer makes {len(unknown)} of {len(words)} words of its own vocabulary unknown, such as "
        f"{unknown[0]!r}, and so most text; if it should not lowercase, set do_lower_case = false in "
        "tokenizer_config.json and import again"
    )
