"""How llama.cpp splits a text into words before byte-level BPE: its name for a split enters; regular expressions leave.

Each expression splits what the one before it has left; what none matches is a word too. For Llama 4, GPT-4o and tekken
these are the expressions of the models' own tokenizers, which llama.cpp approximates outside ASCII.
"""

from typing import Any

from tokenizers import Regex, pre_tokenizers

from clearhead.errors import TokenizerError, suggest
from clearhead.text.tokenizers.fast import GPT2, GPT4, QWEN

Splits = tuple[str, ...]

NUMBER = r"\p{N}"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*%s"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SENTENCES = r" ?[^(\s|.,!?…。，、।۔،)]+"
HAN = "[一-龥ࠀ-一가-퟿]+"
# The letters of alphabets with two cases; some would change if an editor composed them.
ALPHABETS = (
    r"\s?["
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"
    "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba"
    "\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45"
    "\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe"
    "\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102"
    "\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3"
    "\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
    "\U0001e900-\U0001e943"
    "]+"
)
MARKED_WORDS = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)

# The names of each split; the first of each is the one that is written.
GROUPS: dict[Splits, str] = {
    (GPT2,): "gpt-2 phi-2 mpt olmo jais exaone4 gigachat trillion granite-docling mellum modern-bert a.x-4.0 "
    "jina-es jina-de jina-v2-es jina-v2-de",
    (
        GPT4,
    ): "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 smaug-bpe dbrx glm4 chatglm-bpe",
    (QWEN,): "qwen2 deepseek-r1-qwen stablelm2 megrez hunyuan solar-open grok-2 kormo",
    (
        QWEN.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]+", r"[^\s\p{L}\p{M}\p{N}]+"),
    ): "qwen35",
    (NUMBER, GPT2): "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
    (r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"): "default",
    (r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"): "falcon",
    (r"[\r\n]", ALPHABETS, r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", HAN, r"\p{N}+"): "deepseek-llm",
    (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", HAN, NUMBER): "deepseek-coder",
    (r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", MARKED_WORDS): "deepseek-v3 hunyuan-dense joyai-llm",
    (CASED % ("", "") + r"|\p{N}" + REST,): "tekken",
    (CASED % (SHORT, SHORT) + r"|\p{N}{1,3}" + REST,): "gpt-4o llama4 kanana2",
    (SENTENCES,): "bloom poro-chat gpt3-finnish",
    (SENTENCES, NUMBER): "viking",
}
SPLITS = {name: splits for splits, names in GROUPS.items() for name in names.split()}
# A word that is a token needs no merges, and a begin token is added unless the file says otherwise.
LIKE_LLAMA_3 = (
    "llama-bpe",
    "llama3",
    "llama-v3",
    "falcon3",
    "falcon-h1",
    "pixtral",
    "midm-2.0",
    "lfm2",
    "tekken",
)


def find_splits(name: object) -> Splits:
    """The expressions of a name; an unknown one is refused."""
    if not isinstance(name, str) or name not in SPLITS:
        raise TokenizerError(
            f"its tokenizer splits text as {name!r:.60}, which is unsupported. {suggest(str(name), SPLITS)}\n"
            "Import the model's folder of safetensors with its tokenizer.json; or import this file with "
            "--no-tokenizer, and put the tokenizer.json into the model folder"
        )
    return SPLITS[name]


def pre_tokenizer_of(splits: Splits) -> pre_tokenizers.PreTokenizer:
    """The same for the `tokenizers` library, with bytes spelled as characters."""
    is_gpt2 = splits[-1] == GPT2
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=is_gpt2)
    steps = [pre_tokenizers.Split(Regex(split), "isolated") for split in (splits[:-1] if is_gpt2 else splits)]
    return pre_tokenizers.Sequence([*steps, level]) if steps else level


def splits_of(pre_tokenizer: dict[str, Any] | None) -> Splits | None:
    """The expressions of a pre-tokenizer of byte-level BPE: none if it does not split, None if it does otherwise."""
    match pre_tokenizer:
        case {"type": "ByteLevel", "add_prefix_space": False, **rest}:
            return (GPT2,) if rest.get("use_regex", True) else ()
        case {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}:
            return (str(pattern),)
        case {"type": "Digits", "individual_digits": True}:
            return (NUMBER,)
        case {"type": "Sequence", "pretokenizers": [*steps]}:
            found = [splits_of(step) for step in steps]
            is_last = [step["type"] == "ByteLevel" for step in steps]
            if None in found or is_last != [False] * (len(steps) - 1) + [True]:
                return None
            return tuple(split for splits in found if splits for split in splits)
    return None
