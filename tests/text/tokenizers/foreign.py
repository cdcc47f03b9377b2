"""Tokenizers as other projects write them, built by the libraries of those projects from a little text."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import transformers
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

TEXTS = [
    "The chicken didn't cross the road because it was too tired. It's eating, we're reading!",
    "Todavía no tengo hambre; ¿tienes un coche? 12,345.67 euros (about 13000 dollars) in 2024.",
    "def forward(self, X):\n    return self.W_o(join(A @ V))\n\n\tprint('naïve café', 日本語, ελληνικά)",
] * 3


def _learned(library: Library, trainer: trainers.Trainer) -> dict[str, Any]:
    library.train_from_iterator(TEXTS, trainer)
    model: dict[str, Any] = json.loads(library.to_str())["model"]
    return model


@cache
def _pairs() -> tuple[dict[str, int], list[Any]]:
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    model = _learned(
        library, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    )
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def _backend(tokenizer: Any) -> str:
    return str(tokenizer.backend_tokenizer.to_str())


def gpt2() -> str:
    vocabulary, merges = _pairs()
    ends = {"<|endoftext|>": len(vocabulary)}
    return _backend(transformers.GPT2Tokenizer(vocab=vocabulary | ends, merges=merges))


def qwen2() -> str:
    vocabulary, merges = _pairs()
    ends = {"<|endoftext|>": len(vocabulary)}
    return _backend(transformers.Qwen2Tokenizer(vocab=vocabulary | ends, merges=merges))


def roberta() -> str:
    vocabulary, merges = _pairs()
    names = ["<s>", "<pad>", "</s>", "<unk>", *vocabulary, "<mask>"]
    numbered = {name: number for number, name in enumerate(names)}
    return _backend(transformers.RobertaTokenizer(vocab=numbered, merges=merges))


def bert() -> str:
    library = Library(models.WordPiece(unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer()
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=names, show_progress=False)
    return _backend(transformers.BertTokenizer(vocab=_learned(library, trainer)["vocab"]))


def t5() -> str:
    library = Library(models.Unigram())
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    names = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=150, special_tokens=names, unk_token="<unk>", show_progress=False
    )
    pieces = [(piece, score) for piece, score in _learned(library, trainer)["vocab"]]
    return _backend(transformers.T5Tokenizer(vocab=pieces, extra_ids=3))


def llama() -> str:
    library = Library(models.BPE(byte_fallback=True))
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    model = _learned(library, trainers.BpeTrainer(vocab_size=500, special_tokens=names, show_progress=False))
    merges = [tuple(merge) for merge in model["merges"]]
    return _backend(transformers.LlamaTokenizer(vocab=model["vocab"], merges=merges))


def suffixed() -> str:
    """Words that end in </w>, as in the first GPT and in CLIP."""
    library = Library(models.BPE(end_of_word_suffix="</w>", unk_token="<unk>"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.decoder = decoders.BPEDecoder()
    trainer = trainers.BpeTrainer(
        vocab_size=200, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False
    )
    library.train_from_iterator(TEXTS, trainer)
    return str(library.to_str())


def joined() -> str:
    """Words without any decoder: the library joins them by spaces."""
    library = Library(models.WordLevel(unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.train_from_iterator(
        TEXTS, trainers.WordLevelTrainer(special_tokens=["[UNK]"], show_progress=False)
    )
    return str(library.to_str())


def speech() -> str:
    """Letters of a speech recogniser, whose decoder must see the whole text."""
    names = ["<pad>", "|", *"abcdefghijklmnopqrstuvwxyz", "<unk>"]
    library = Library(models.BPE(vocab={n: i for i, n in enumerate(names)}, merges=[], unk_token="<unk>"))
    library.normalizer = normalizers.Replace(" ", "|")
    library.decoder = decoders.CTC()
    return str(library.to_str())


STYLES: dict[str, Callable[[], str]] = {
    "gpt2": gpt2,
    "qwen2": qwen2,
    "roberta": roberta,
    "bert": bert,
    "t5": t5,
    "llama": llama,
    "suffixed": suffixed,
    "joined": joined,
    "speech": speech,
}


@cache
def written(style: str) -> str:
    """The `tokenizer.json` of a style."""
    return STYLES[style]()
