"""Reads tokenizers that have no `tokenizer.json`: vocabulary and merge files enter, a `tokenizer.json` leaves.

The family says how to tokenise, as in `transformers`: byte-level BPE (GPT-2, RoBERTa, Qwen), WordPiece (BERT,
DistilBERT), SentencePiece (Llama 2, Mistral, T5, Marian).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Library

from clearhead.errors import TokenizerError
from clearhead.exchange.hf_folder import HuggingFaceFolder
from clearhead.exchange.tokenizers.read_sentencepiece import (
    SentencePieceModel,
    build_library,
    parse_sentencepiece,
    renumbered,
)
from clearhead.folder_files import read_json
from clearhead.text.tokenizers.fast import QWEN
from clearhead.text.tokenizers.file import LARGEST_FILE, explained

VOCABULARY, MERGES, WORDS = "vocab.json", "merges.txt", "vocab.txt"
SENTENCEPIECE = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model")
SETTINGS = "tokenizer_config.json"


@dataclass(frozen=True)
class Files:
    """A folder's vocabulary files, and what `tokenizer_config.json` says of them."""

    folder: HuggingFaceFolder
    settings: dict[str, Any]

    def has(self, *names: str) -> bool:
        """Whether all of these files exist."""
        return all(self.folder.find(name) for name in names)

    def text(self, name: str) -> str:
        """A text file."""
        try:
            return self.content(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise TokenizerError(
                f"{self.folder.path / name} is not UTF-8 at byte {error.start}, so it is not a vocabulary."
            ) from None

    def content(self, name: str) -> bytes:
        """The bytes of a file, if it is not too large for a tokenizer."""
        path = self.folder.find(name)
        assert path is not None
        if path.stat().st_size > LARGEST_FILE:
            raise TokenizerError(f"{path} is larger than {LARGEST_FILE >> 20} MB: this is not a tokenizer.")
        return path.read_bytes()

    def table(self, name: str) -> dict[str, int]:
        """A vocabulary in JSON: tokens and their ids."""
        path = self.folder.find(name)
        assert path is not None
        table = read_json(path)
        if not isinstance(table, dict) or not all(type(value) is int for value in table.values()):
            raise TokenizerError(f"{path} is not a table of tokens and their ids.\nCopy the file again.")
        return table

    def merges(self) -> list[tuple[str, str]]:
        """The pairs of tokens that are merged, in order."""
        pairs = []
        for number, line in enumerate(self.text(MERGES).split("\n"), 1):
            if not line.strip() or (number == 1 and line.startswith("#version")):
                continue
            words = line.rstrip("\r").split(" ")
            if len(words) != 2:
                raise TokenizerError(
                    f"{self.folder.path / MERGES}, line {number}: {line!r} is not two tokens."
                )
            pairs.append((words[0], words[1]))
        return pairs

    def special(self, key: str, default: str) -> str:
        """How a special token is spelled."""
        return spelling(self.settings.get(key)) or default

    def sentencepiece(self) -> SentencePieceModel:
        """The SentencePiece model."""
        name = next(name for name in SENTENCEPIECE if self.folder.find(name))
        return parse_sentencepiece(self.content(name), str(self.folder.path / name))


def spelling(value: Any) -> str | None:
    """A special token in tokenizer_config.json, which is a text or an object with it."""
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) and text else None


def byte_pairs(files: Files) -> Library:
    """Byte-level BPE with the word pattern of GPT-2."""
    library = Library(models.BPE(files.table(VOCABULARY), files.merges()))
    spaced = files.settings.get("add_prefix_space") is True
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    library.decoder = decoders.ByteLevel()
    end = files.special("eos_token", "<|endoftext|>")
    add_specials(library, end, files.special("bos_token", end), files.special("pad_token", end))
    return library


def roberta(files: Files) -> Library:
    """The same with begin and end tokens."""
    library = Library(models.BPE(files.table(VOCABULARY), files.merges()))
    spaced = files.settings.get("add_prefix_space") is True
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    library.decoder = decoders.ByteLevel()
    begin, end = files.special("cls_token", "<s>"), files.special("sep_token", "</s>")
    padding, mask = files.special("pad_token", "<pad>"), files.special("mask_token", "<mask>")
    add_specials(library, begin, padding, end, files.special("unk_token", "<unk>"))
    library.add_special_tokens([AddedToken(mask, special=True, normalized=False, lstrip=True)])
    set_template(library, begin, end)
    return library


def qwen(files: Files) -> Library:
    """Byte-level BPE of composed characters, with the word pattern of GPT-4 but for single digits."""
    library = Library(models.BPE(files.table(VOCABULARY), files.merges()))
    library.normalizer = normalizers.NFC()
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    library.decoder = decoders.ByteLevel()
    end = files.special("eos_token", "<|endoftext|>")
    add_specials(library, end, files.special("pad_token", end))
    return library


def bert(files: Files) -> Library:
    """WordPiece: words, and continuations that start with ##."""
    words = files.text(WORDS).replace("\r\n", "\n").removesuffix("\n").split("\n")
    unknown = files.special("unk_token", "[UNK]")
    library = Library(
        models.WordPiece({word: number for number, word in enumerate(words)}, unk_token=unknown)
    )
    accents = files.settings.get("strip_accents")
    library.normalizer = normalizers.BertNormalizer(
        handle_chinese_chars=files.settings.get("tokenize_chinese_chars", True) is not False,
        strip_accents=accents if isinstance(accents, bool) else None,
        lowercase=files.settings.get("do_lower_case", True) is not False,
    )
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()
    begin, end = files.special("cls_token", "[CLS]"), files.special("sep_token", "[SEP]")
    padding, mask = files.special("pad_token", "[PAD]"), files.special("mask_token", "[MASK]")
    add_specials(library, padding, unknown, begin, end, mask)
    set_template(library, begin, end, types=True)
    return library


def llama(files: Files) -> Library:
    """SentencePiece with a begin token."""
    library = build_library(files.sentencepiece())
    add_specials(library, files.special("unk_token", "<unk>"), files.special("eos_token", "</s>"))
    set_template(library, files.special("bos_token", "<s>"), None)
    return library


def t5(files: Files) -> Library:
    """SentencePiece with an end token and sentinel tokens, numbered backwards."""
    library = build_library(files.sentencepiece())
    count = files.settings.get("extra_ids", 100)
    sentinels = [
        f"<extra_id_{i}>" for i in range(count if type(count) is int and 0 <= count <= 1000 else 100)
    ]
    add_specials(library, *reversed(sentinels))
    set_template(library, None, files.special("eos_token", "</s>"))
    return library


CONVERTERS: dict[str, tuple[tuple[str, ...], Callable[[Files], Library]]] = {
    "gpt2": ((VOCABULARY, MERGES), byte_pairs),
    "qwen2": ((VOCABULARY, MERGES), qwen),
    "qwen3": ((VOCABULARY, MERGES), qwen),
    "roberta": ((VOCABULARY, MERGES), roberta),
    "bert": ((WORDS,), bert),
    "distilbert": ((WORDS,), bert),
    "llama": ((), llama),
    "mistral": ((), llama),
    "t5": ((), t5),
}


def convert_vocabulary(files: Files, family: str) -> str | None:
    """The `tokenizer.json` of a family's vocabulary files, or None if they do not exist."""
    if family not in CONVERTERS:
        return None
    needed, convert = CONVERTERS[family]
    found = files.has(*needed) if needed else any(files.has(name) for name in SENTENCEPIECE)
    if not found:
        return None
    with explained(f"The vocabulary of {files.folder.path} cannot be read"):
        library = convert(files)
        add_stated(library, files)
        return library.to_str()


def convert_marian(files: Files) -> tuple[str, str] | None:
    """The tokenizers of source and target, from two SentencePiece models and their shared ids."""
    if not files.has("source.spm", "target.spm", VOCABULARY):
        return None
    made = []
    for side in ("source", "target"):
        is_own = side == "target" and files.settings.get("separate_vocabs") is True
        ids = files.table("target_vocab.json" if is_own and files.has("target_vocab.json") else VOCABULARY)
        name = f"{side}.spm"
        with explained(f"{files.folder.path / name} cannot be read"):
            library = build_library(
                renumbered(parse_sentencepiece(files.content(name), str(files.folder.path / name)), ids)
            )
            set_template(library, None, files.special("eos_token", "</s>"))
            made.append(library.to_str())
    return made[0], made[1]


def add_specials(library: Library, *names: str) -> None:
    """Adds special tokens; one that is in the vocabulary keeps its id."""
    library.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])


def add_stated(library: Library, files: Files) -> None:
    """Adds the tokens listed beside the vocabulary, which must get the ids stated there."""
    stated: dict[int, tuple[str, bool]] = {}
    for text, number in files.folder.table("added_tokens.json").items():
        stated[number] = (text, False)
    for number, token in (files.settings.get("added_tokens_decoder") or {}).items():
        stated[int(number)] = (token["content"], token.get("special", False) is True)
    for number in sorted(stated):
        text, special = stated[number]
        token = AddedToken(text, special=special, normalized=False)
        library.add_special_tokens([token]) if special else library.add_tokens([token])
        if library.token_to_id(text) != number:
            raise TokenizerError(
                f"The added token {text!r} must have the id {number}, but the vocabulary gives it "
                f"{library.token_to_id(text)}.\nThe tokenizer's files are of different models."
            )


def set_template(library: Library, begin: str | None, end: str | None, types: bool = False) -> None:
    """Sets the special tokens before, after and between texts."""
    add_specials(library, *(name for name in (begin, end) if name))
    before, after = f"{begin} " if begin else "", f" {end}" if end else ""
    second = ":1" if types else ""
    middle = f"{after} " if end else " "
    library.post_processor = processors.TemplateProcessing(
        single=f"{before}$A{after}",
        pair=f"{before}$A{middle}$B{second}{after}{second if end else ''}",
        special_tokens=[(name, library.token_to_id(name)) for name in (begin, end) if name],
    )
