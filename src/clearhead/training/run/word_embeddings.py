"""Embeddings that start from word vectors: a new model and a vectors folder enter; the rows of known words are set.

A token's row becomes the vector of the word that it spells, scaled so that the table as a whole is as large as the
random one that it replaces: directions carry the meaning, and the first logits stay as large as ever.
"""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from clearhead import vector_folder
from clearhead.config.training import TrainingConfig
from clearhead.data.tokenizers import Tokenizers
from clearhead.errors import ConfigError, first_few
from clearhead.models.model import Model
from clearhead.text.tokenizers.tokenizer import Tokenizer
from clearhead.training.checkpoints.files import list_checkpoints
from clearhead.training.run.folder import CHECKPOINTS
from clearhead.vector_folder import VectorTable

EMBEDDINGS = "tokens.weight"  # how the names of embedding tables end


def load_vectors(training: TrainingConfig, out: Path | None) -> VectorTable | None:
    """The vectors that the settings name; None if there are none, or if they are missing and a resumed run needs none.

    All weights that are trained are in the checkpoint; only frozen ones are set again.
    """
    if training.embeddings_from is None:
        return None
    folder = Path(training.embeddings_from)
    resumes = out is not None and bool(list_checkpoints(out / CHECKPOINTS))
    if resumes and not training.frozen and not folder.exists():
        return None
    return vector_folder.load(folder)


def set_embeddings(model: Model, tokenizers: Tokenizers, table: VectorTable, folder: str) -> list[str]:
    """Sets the rows of known words in every table of token embeddings; notes say how many, and which are missing."""
    notes = []
    for name, weight in model.named_parameters():
        if name.endswith(EMBEDDINGS):
            tokenizer = tokenizers.source if name.startswith("encoder.") else tokenizers.target
            notes.append(f"{name}: {set_rows(weight, table, tokenizer, folder)}")
    return notes


@torch.no_grad()
def set_rows(weight: Tensor, table: VectorTable, tokenizer: Tokenizer, folder: str) -> str:
    """Sets the rows of one table; what was found, in words."""
    if weight.shape[1] != table.width:
        raise ConfigError(
            f"training.embeddings_from = {folder!r}: its vectors have {table.width} numbers, but the embeddings of the "
            f"model have {weight.shape[1]}.\n"
            f"Set model.d = {table.width}, or train vectors with --width {weight.shape[1]}."
        )
    places = {word: row for row, word in enumerate(table.words)}
    ids, rows, missing = [], [], []
    for id, word in words_of(tokenizer):
        row = places.get(word, places.get(word.lower()))
        if row is None:
            missing.append(word)
        else:
            ids.append(id)
            rows.append(row)
    if not ids:
        raise ConfigError(
            f"training.embeddings_from = {folder!r}: none of the {tokenizer.size:,} tokens is a word with a vector.\n"
            "Use tokenizer.kind = 'word', or vectors of words in this language."
        )
    E = table.E[rows]
    weight[ids] = (E * (weight.std() / E.std().clamp(min=1e-12))).to(weight)
    rest = (
        f"; without one, and random at first: {first_few([repr(word) for word in missing])}"
        if missing
        else ""
    )
    return (
        f"{len(ids):,} of {len(ids) + len(missing):,} tokens start from their word's vector in {folder}{rest}"
    )


def words_of(tokenizer: Tokenizer) -> Iterator[tuple[int, str]]:
    """The tokens that are not special, and what each spells."""
    for id in range(tokenizer.size):
        if not tokenizer.is_special(id):
            yield id, tokenizer.piece(id).strip()
