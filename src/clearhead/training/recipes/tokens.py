"""The tokenizer for some data: a sample enters; the kind and the size of a vocabulary leave."""

import math

from clearhead.config.tokenizer import TokenizerConfig
from clearhead.examples import Kind
from clearhead.training.recipes.choices import Choices
from clearhead.training.recipes.data_sample import DataSample

FEW_CHARACTERS = 50_000  # with fewer there is too little text to learn tokens from
KNOWN = 0.85  # the share of known words in unseen texts from which words are the tokens of a classifier
FEWEST_TOKENS, MOST_TOKENS = 512, 32_768  # bytes are 256 of them


def choose_tokenizer(choices: Choices, kind: Kind, sample: DataSample) -> float:
    """Chooses the tokenizer, with larger tokens for more text; returns the characters per token."""
    amount = sample.amount
    if sample.is_dna and kind != "pair":
        choices.choose("the letters are A, C, G, T and N", tokenizer__kind="dna")
        if is_aligned_dna(choices, kind, sample):
            choices.choose(
                "all sequences have the same length, so groups of three letters line up", tokenizer__k=3
            )
    elif kind == "labelled" and choices.get("tokenizer.kind") in (None, "word"):
        words = {"vocabulary": MOST_TOKENS} | choices.table.get("tokenizer", {}) | {"kind": "word"}
        known, length = sample.try_tokenizer(TokenizerConfig.model_validate(words))
        if known >= KNOWN or choices.has("tokenizer.kind"):
            reason = f"{math.floor(100 * known)} % of the words of unseen texts are known"
            choices.choose(reason, tokenizer__kind="word", tokenizer__vocabulary=MOST_TOKENS)
            return length
    elif sample.characters < FEW_CHARACTERS and kind != "labelled":
        letters = "character" if sample.outside_ascii > 0.1 else "byte"
        choices.choose(f"{amount} are too few to learn larger tokens", tokenizer__kind=letters)
    if choices.get("tokenizer.kind") in ("byte", "dna"):
        return float(choices.get("tokenizer.k") or 1) if choices.get("tokenizer.kind") == "dna" else 1.0
    choices.choose("words and parts of words; nothing is unknown", tokenizer__kind="bpe")
    learnable = (1.2 if kind == "text" else 2.4) * math.sqrt(sample.characters)
    wanted = 1 << round(math.log2(max(learnable, 1)))
    vocabulary = max(FEWEST_TOKENS, min(MOST_TOKENS, wanted))
    reason = f"as many as {amount} show often enough"
    if wanted != vocabulary:
        reason = "more would take long to learn" if wanted > vocabulary else "the smallest useful number"
    choices.choose(reason, tokenizer__vocabulary=vocabulary)
    is_learned = choices.get("tokenizer.kind") != "character"
    return characters_per_token(choices.get("tokenizer.vocabulary")) if is_learned else 1.0


def is_aligned_dna(choices: Choices, kind: Kind, sample: DataSample) -> bool:
    """Whether the class of DNA may depend on positions."""
    return kind == "labelled" and choices.get("tokenizer.kind") == "dna" and sample.lines_up


def characters_per_token(vocabulary: int) -> float:
    """The approximate length of a token in a vocabulary of this size."""
    return max(1.0, 0.5 * math.log2(vocabulary / 32))
