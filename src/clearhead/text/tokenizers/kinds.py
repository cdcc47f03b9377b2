"""How each kind of tokenizer is learned from text: one function a kind, then one table.

Texts and settings enter; a tokenizer of the `tokenizers` library leaves. Texts are read once, in a stream;
what is kept is the count of each word. The same texts give the same tokenizer.

bpe follows Sennrich et al. 2016 on bytes (Radford et al. 2019), wordpiece Schuster and Nakajima 2012,
unigram Kudo 2018.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import product, repeat

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Library

from clearhead.config.tokenizer import TokenizerConfig
from clearhead.text.tokenizers.roles import SPELLINGS, Document

LETTER = r"[\p{L}\p{M}\p{N}_]"
# A word may contain apostrophes and hyphens, and end like "friends'": don't, T-shirt; other marks are tokens.
WORD_ALONE = rf"{LETTER}+(?:['’-]{LETTER}+)*(?:(?<=s)['’])?"
WORD = rf"{WORD_ALONE}|[^\s\p{{L}}\p{{M}}\p{{N}}_]"
CONTINUES = "##"
CLOSING, OPENING = ".,;:!?…%)]}»”", "([{¿¡«“"
LETTERS = "ACGTN"
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
RUN = 1 << 12  # copies of one word handed over at once
# The time to join pairs grows with the square of a word's length, and no real word is as long as this.
LONG_WORD = re.compile(r"(\S{256}|\s{256})")

FORMS = {"none": (), "nfc": (normalizers.NFC(),), "nfkc": (normalizers.NFKC(),)}

Train = Callable[[Iterable[str], TokenizerConfig], Library]


def specials(config: TokenizerConfig) -> list[str]:
    """The special tokens of a new tokenizer, in the order of their ids."""
    return [name for role, name in SPELLINGS.items() if role != "unknown" or config.has_unknowns]


def bpe(texts: Iterable[str], config: TokenizerConfig) -> Library:
    """Bytes, and the pairs that were most often side by side, joined again and again."""
    library = _byte_level(models.BPE(), config)
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary,
        min_frequency=config.minimum_frequency,
        special_tokens=specials(config),
        initial_alphabet=BYTES,
        show_progress=False,
    )
    library.train_from_iterator(in_short_words(texts), trainer)
    return library


def unigram(texts: Iterable[str], config: TokenizerConfig) -> Library:
    """Bytes, and the pieces that make the text likeliest when each is drawn on its own."""
    library = _byte_level(models.Unigram(), config)
    trainer = trainers.UnigramTrainer(
        vocab_size=config.vocabulary,
        special_tokens=specials(config),
        initial_alphabet=BYTES,
        show_progress=False,
    )
    library.train_from_iterator(texts, trainer)
    return _steadied(library, len(specials(config)))


def byte(texts: Iterable[str], config: TokenizerConfig) -> Library:
    """The 256 bytes; there is nothing to learn."""
    vocabulary = _numbered([*specials(config), *BYTES])
    return _with_specials(_byte_level(models.BPE(vocab=vocabulary, merges=[]), config, words=False), config)


def character(texts: Iterable[str], config: TokenizerConfig) -> Library:
    """The characters of the text, the most frequent first."""
    normalizer, counts = _normalizer(config), Counter[str]()
    for text in texts:
        counts.update(normalizer.normalize_str(text) if normalizer else text)
    bytes_ = [f"<0x{number:02X}>" for number in range(256)] if config.byte_fallback else []
    first = [*specials(config), *bytes_]
    learned = _most_frequent(counts, config, config.vocabulary - len(first))
    unknown = None if config.byte_fallback else SPELLINGS["unknown"]
    model = models.BPE(
        vocab=_numbered([*first, *learned]), merges=[], unk_token=unknown, byte_fallback=config.byte_fallback
    )
    library = Library(model)
    _set_normalizer(library, normalizer)
    library.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return _with_specials(library, config)


def word(texts: Iterable[str], config: TokenizerConfig) -> Library:
    """The words of the text, the most frequent first."""
    library = _in_words(models.WordLevel(unk_token=SPELLINGS["unknown"]), config)
    trainer = trainers.WordLevelTrainer(
        vocab_size=config.vocabulary,
        min_frequency=config.minimum_frequency,
        special_tokens=specials(config),
        show_progress=False,
    )
    library.train_from_iterator(texts, trainer)
    return library


def wordpiece(texts: Iterable[str], config: TokenizerConfig) -> Library:
    """The letters of the text, first in a word or not, and what is often joined from them.

    The library numbers the letters that continue a word in the order of a hash table, and breaks ties by
    those numbers. So words are counted first, and the letters given to it in order.
    """
    library = _in_words(models.WordPiece(unk_token=SPELLINGS["unknown"]), config)
    words = _count_words(in_short_words(texts), library)
    counts = Counter[str]()
    for spelling, number in words.items():
        counts.update(dict.fromkeys(spelling, number))
    letters = sorted(_most_frequent(counts, config, config.vocabulary // 4))
    alphabet = [*letters, *(CONTINUES + letter for letter in letters)]
    spelled = Counter({word: count for word, count in words.items() if set(word) <= set(letters)})
    trainer = trainers.WordPieceTrainer(
        vocab_size=config.vocabulary,
        min_frequency=config.minimum_frequency,
        special_tokens=[*specials(config), *alphabet],
        continuing_subword_prefix=CONTINUES,
        show_progress=False,
    )
    learner = Library(models.WordPiece(unk_token=SPELLINGS["unknown"]))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learner.train_from_iterator(_copies(spelled), trainer)
    library.model = learner.model
    return _with_specials(library, config)


def dna(texts: Iterable[str], config: TokenizerConfig) -> Library:
    """All groups of k letters, and the single letters for what is left over; there is nothing to learn."""
    groups = ["".join(letters) for letters in product("ACGT", repeat=config.k)] if config.k > 1 else []
    vocabulary = _numbered([*specials(config), *LETTERS, *groups])
    if groups:
        library = Library(models.WordLevel(vocab=vocabulary, unk_token=SPELLINGS["unknown"]))
        library.pre_tokenizer = pre_tokenizers.Split(Regex(rf"[ACGT]{{{config.k}}}|[\s\S]"), "isolated")
    else:  # pairs that are never joined are single letters, five times as fast as words of one letter
        library = Library(models.BPE(vocab=vocabulary, merges=[], unk_token=SPELLINGS["unknown"]))
    library.normalizer = normalizers.Sequence(
        [normalizers.Replace(letter.lower(), letter) for letter in LETTERS]
    )
    library.decoder = decoders.Fuse()
    return _with_specials(library, config)


KINDS: dict[str, Train] = {
    "bpe": bpe,
    "wordpiece": wordpiece,
    "unigram": unigram,
    "word": word,
    "character": character,
    "byte": byte,
    "dna": dna,
}


def _byte_level(model: models.Model, config: TokenizerConfig, words: bool = True) -> Library:
    library = Library(model)
    _set_normalizer(library, _normalizer(config))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=words)
    library.decoder = decoders.ByteLevel()
    return library


def _in_words(model: models.Model, config: TokenizerConfig) -> Library:
    """Words and punctuation marks; decoding puts one space between them, and none where none is written."""
    library = Library(model)
    _set_normalizer(library, _normalizer(config))
    library.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), "removed", invert=True)
    spaced = decoders.WordPiece(prefix=CONTINUES, cleanup=False)
    closed = decoders.Replace(Regex(f"^ (?=[{re.escape(CLOSING)}])"), "")
    opened = [decoders.Replace(f"{mark} ", mark) for mark in OPENING]
    library.decoder = decoders.Sequence([spaced, closed, decoders.Fuse(), *opened])
    return library


def _normalizer(config: TokenizerConfig) -> normalizers.Normalizer | None:
    steps = list[normalizers.Normalizer](FORMS[config.normalization])
    if config.lowercase:
        steps.append(normalizers.Lowercase())
    return normalizers.Sequence(steps) if len(steps) > 1 else steps[0] if steps else None


def _set_normalizer(library: Library, normalizer: normalizers.Normalizer | None) -> None:
    if normalizer is not None:
        library.normalizer = normalizer


def _with_specials(library: Library, config: TokenizerConfig) -> Library:
    library.add_special_tokens(specials(config))
    return library


def _numbered(pieces: list[str]) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(pieces)}


def _most_frequent(counts: Counter[str], config: TokenizerConfig, most: int) -> list[str]:
    often = [piece for piece, count in counts.items() if count >= config.minimum_frequency]
    return sorted(often, key=lambda piece: (-counts[piece], piece))[: max(0, most)]


def _count_words(texts: Iterable[str], library: Library) -> Counter[str]:
    counts = Counter[str]()
    for text in texts:
        normal = library.normalizer.normalize_str(text) if library.normalizer else text
        counts.update(word for word, _ in library.pre_tokenizer.pre_tokenize_str(normal))
    return counts


def in_short_words(texts: Iterable[str]) -> Iterator[str]:
    """The texts, split inside words that are too long to learn from; texts are encoded as they are."""
    for text in texts:
        yield from filter(None, LONG_WORD.split(text))


def _copies(words: Counter[str]) -> Iterator[str]:
    """Each word as often as it was counted, which is how the library learns a count."""
    for spelling, number in sorted(words.items()):
        for start in range(0, number, RUN):
            yield " ".join(repeat(spelling, min(RUN, number - start)))


def _steadied(library: Library, first: int) -> Library:
    """The same unigram model without the noise of sums taken in the order of a hash table.

    Scores are rounded to four decimals. Bytes that were not seen get scores just above the least in an order
    that changes; they all get the least. Then pieces are put in the order of score and spelling.
    """
    document: Document = json.loads(library.to_str())
    pieces = [(piece, round(score, 4)) for piece, score in document["model"]["vocab"]]
    specials, learned = pieces[:first], pieces[first:]
    least = min(score for _, score in learned)
    unseen = least + len(BYTES) * 1e-4
    learned = [(piece, least if len(piece) == 1 and score <= unseen else score) for piece, score in learned]
    learned.sort(key=lambda pair: (-pair[1], pair[0]))
    document["model"]["vocab"] = [*specials, *learned]
    return Library.from_str(json.dumps(document))
