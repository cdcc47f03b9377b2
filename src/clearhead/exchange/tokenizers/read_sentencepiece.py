"""Reads SentencePiece models: the bytes of a `.model` or `.spm` file enter, a tokenizer of the library leaves.

The file is a protocol buffer (`sentencepiece_model.proto`); only the few fields that matter are parsed, within
bounds. A unigram model keeps its pieces and scores. A BPE model merges the neighbours whose merged piece has the
highest score, so its merges are the ways to split each piece in two, by falling score.
Kudo and Richardson, 2018.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Library

from clearhead.errors import TokenizerError
from clearhead.text.tokenizers.file import explained

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)  # kinds of pieces, in GGUF files too
UNIGRAM, BPE = 1, 2  # algorithms
SPACE = "▁"
UNLIKELY = 10.0  # difference in log probability between the rarest piece and an unknown character

# Field numbers in the messages of the file.
PIECES, TRAINER, NORMALIZER = 1, 2, 3
TEXT, SCORE, KIND = 1, 2, 3
ALGORITHM, FALLBACK = 3, 35
CHARACTERS, PREFIX, SQUEEZE = 2, 3, 4


@dataclass(frozen=True)
class Piece:
    """A piece of text, its log probability, and its kind."""

    text: str
    score: float
    kind: int = NORMAL


@dataclass(frozen=True)
class SentencePieceModel:
    """The pieces of a model in the order of their ids, and how text is normalised for them."""

    pieces: Sequence[Piece]
    algorithm: int = UNIGRAM
    byte_fallback: bool = False
    characters: bytes = b""  # a compiled table of characters that are replaced
    prefix: bool = True  # a space is added before the text
    squeeze: bool = True  # several spaces become one, and those at the ends are removed

    def of_kind(self, *kinds: int) -> list[str]:
        """The texts of all pieces of some kinds."""
        return [piece.text for piece in self.pieces if piece.kind in kinds]


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protocol buffer: field number, and an integer or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of kind {kind} at byte {at}")
        if at + size > len(data):
            raise ValueError(f"a field that ends at byte {at + size} of {len(data)}")
        yield key >> 3, data[at : at + size]
        at += size


def varint(data: bytes, at: int) -> tuple[int, int]:
    """An integer with seven bits per byte, and where it ends."""
    value = 0
    for place in range(10):
        if at >= len(data):
            raise ValueError("a number that has no end")
        value |= (data[at] & 127) << (7 * place)
        at += 1
        if not data[at - 1] & 128:
            return value, at
    raise ValueError(f"a number that is too long at byte {at}")


def last_values(value: int | bytes | None) -> dict[int, Any]:
    """The last value of each field of a message."""
    return dict(fields(value)) if isinstance(value, bytes) else {}


def parse_sentencepiece(data: bytes, where: str) -> SentencePieceModel:
    """The model of a file."""
    with explained(f"{where} is not a SentencePiece model"):
        pieces, parts = [], dict.fromkeys((TRAINER, NORMALIZER), b"")
        for number, value in fields(data):
            if number == PIECES:
                pieces.append(piece_of(last_values(value)))
            elif number in parts and isinstance(value, bytes):
                parts[number] = value
        trainer, normalizer = last_values(parts[TRAINER]), last_values(parts[NORMALIZER])
        if not pieces:
            raise ValueError("it has no pieces")
        found = SentencePieceModel(
            pieces,
            trainer.get(ALGORITHM, UNIGRAM),
            bool(trainer.get(FALLBACK, 0)),
            normalizer.get(CHARACTERS, b""),
            bool(normalizer.get(PREFIX, 1)),
            bool(normalizer.get(SQUEEZE, 1)),
        )
    if found.algorithm not in (UNIGRAM, BPE):
        raise TokenizerError(
            f"{where} is a SentencePiece model of words or characters, which is unsupported.\n"
            "Unigram and BPE models are supported."
        )
    return found


def piece_of(values: dict[int, Any]) -> Piece:
    """One piece of a file."""
    score = struct.unpack("<f", values[SCORE])[0] if SCORE in values else 0.0
    return Piece(values[TEXT].decode("utf-8"), score, values.get(KIND, NORMAL))


def build_library(model: SentencePieceModel) -> Library:
    """The same tokenizer for the `tokenizers` library, without special tokens around a text."""
    unknown = next((i for i, piece in enumerate(model.pieces) if piece.kind == UNKNOWN), None)
    if model.algorithm == UNIGRAM:
        vocabulary = [(piece.text, piece.score) for piece in model.pieces]
        library = Library(models.Unigram(vocabulary, unk_id=unknown, byte_fallback=model.byte_fallback))
    else:
        library = Library(
            models.BPE(
                {piece.text: number for number, piece in enumerate(model.pieces)},
                merges_of(model),
                unk_token=None if unknown is None else model.pieces[unknown].text,
                fuse_unk=True,
                byte_fallback=model.byte_fallback,
            )
        )
    prepare(library, model)
    library.decoder = decoder_of(model)
    for kinds, special in (((UNKNOWN, CONTROL), True), ((USER,), False)):
        tokens = [AddedToken(text, special=special, normalized=False) for text in model.of_kind(*kinds)]
        library.add_special_tokens(tokens) if special else library.add_tokens(tokens)
    return library


def prepare(library: Library, model: SentencePieceModel) -> None:
    """Normalises a text: characters replaced, spaces squeezed and marked."""
    steps: list[normalizers.Normalizer] = []
    if model.characters:
        steps.append(normalizers.Precompiled(model.characters))
    if model.squeeze:
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
        # Pieces that cross the end of a word need the whole text.
        whole = model.algorithm == BPE or any(SPACE in text[1:] for text in model.of_kind(NORMAL))
        scheme = "always" if model.prefix else "never"
        library.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme, split=not whole)
    else:  # a mark is added before a text that starts with a space too
        steps += [normalizers.Prepend(SPACE)] if model.prefix else []
        steps.append(normalizers.Replace(" ", SPACE))
    library.normalizer = normalizers.Sequence(steps)


def decoder_of(model: SentencePieceModel) -> decoders.Decoder:
    """Turns marks into spaces and removes the one before the text."""
    steps: list[decoders.Decoder] = [decoders.Replace(" ", ""), decoders.Replace(SPACE, " ")]
    if model.byte_fallback:
        steps.append(decoders.ByteFallback())
    steps.append(decoders.Fuse())
    if model.prefix:
        steps.append(decoders.Strip(" ", 1, 0))
    return decoders.Sequence(steps)


def merges_of(model: SentencePieceModel) -> list[tuple[str, str]]:
    """Every way to split a piece into two others, those of the piece with the highest score first."""
    known = {piece.text for piece in model.pieces if piece.kind in (NORMAL, UNUSED)}
    merges = []
    for piece in sorted(model.pieces, key=lambda piece: -piece.score):
        if piece.kind == NORMAL:
            text = piece.text
            splits = ((text[:at], text[at:]) for at in range(1, len(text)))
            merges += [(left, right) for left, right in splits if left in known and right in known]
    return merges


def renumbered(model: SentencePieceModel, vocabulary: dict[str, int]) -> SentencePieceModel:
    """The same pieces under the ids of a vocabulary, as in Marian: two languages, one list of ids.

    A piece of the vocabulary that this model lacks is spelled with a space before it. No text matches it, since
    spaces have become marks by then, and the decoder removes the space again. Only a single character can match: it
    is as unlikely as an unknown one, which it would be otherwise. A piece that the vocabulary lacks gets no id, so
    that its text is split into smaller pieces.
    """
    own = {piece.text: piece for piece in model.pieces}
    least = min(piece.score for piece in model.pieces if piece.kind == NORMAL) - UNLIKELY
    numbers = sorted(vocabulary.values())
    if numbers != list(range(len(numbers))):
        raise TokenizerError("vocab.json does not number its pieces 0, 1, 2 …\nThe file is damaged.")
    pieces = []
    for text in sorted(vocabulary, key=vocabulary.__getitem__):
        if text in own:
            pieces.append(own[text])
        elif is_code(text):
            pieces.append(Piece(text, least, USER))
        else:
            kind = {"<unk>": UNKNOWN, "</s>": CONTROL, "<pad>": CONTROL}.get(text, NORMAL)
            is_matched = kind != NORMAL or len(text) == 1
            pieces.append(Piece(text if is_matched else f" {text}", least, kind))
    if not any(piece.kind == UNKNOWN for piece in pieces):
        raise TokenizerError("vocab.json has no <unk> for what it lacks.")
    return SentencePieceModel(
        pieces, model.algorithm, model.byte_fallback, model.characters, model.prefix, model.squeeze
    )


def is_code(text: str) -> bool:
    """Whether a token names the target language."""
    return text.startswith(">>") and text.endswith("<<")
