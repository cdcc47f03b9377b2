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
# The letters of alphabets with two cases.
ALPHABETS = (
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼ"
    r"ιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲"
    r"𑢠-𑣟𞤀-𞥃]+"
)
MARKED_WORDS = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)

# The names of each split; the first of each is the one that is written.
GROUPS: dict[Splits, str] = {
    (GPT2,): "gpt-2 phi-2 mpt olmo jais exaone4 gigachat trillion granite-docling mellum modern-bert a.x-4.0 "
    "jina-es jina-de jina-v2-es jina-v2-de",
    (GPT4,): "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 smaug-bpe dbrx glm4 chatglm-bpe",
    (QWEN,): "qwen2 deepseek-r1-qwen stablelm2 megrez hunyuan solar-open grok-2 kormo",
    (QWEN.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]+", r"[^\s\p{L}\p{M}\p{N}]+"),): "qwen35",
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
LIKE_LLAMA_3 = ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken")


def find_splits(name: object) -> Splits:
    """The expressions of a name; an unknown one is refused."""
    if not isinstance(name, str) or name not in SPLITS:
        raise TokenizerError(
            f"its tokenizer splits text as {name!r:.60}, which is unsupported. {suggest(str(name), SPLITS)}\n"
            "Import the model's folder of safetensors with its tokenizer.json; or import this file with --no-tokenizer, "
            "and put the tokenizer.json into the model folder"
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
