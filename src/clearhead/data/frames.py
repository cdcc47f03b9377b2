"""What stands before and after a sequence: the beginning and end tokens (N8).

The ids of a tokenizer's special tokens enter; the frame of each column of a task leaves. Training,
evaluation and decoding frame by these same rules:

    language model       begin text end begin text end …
    classifier, masked   begin text end
    source               begin source end
    target               begin target end, of which the decoder is given all but the last and predicts all
                         but the first

Where a tokenizer of another project lacks a role, its nearest relative stands in: a separator for the end
(BERT), the padding for the beginning of a target (Marian, T5), the end for the beginning of a text (GPT-2).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.errors import TokenizerError
from clearhead.text.roles import Specials


@dataclass(frozen=True)
class Frame:
    """The ids put before and after a sequence."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.before) + len(self.after)

    def wrap(self, ids: Sequence[int]) -> list[int]:
        """The sequence with its frame."""
        return [*self.before, *ids, *self.after]


def document_frame(specials: Specials) -> Frame:
    """Of a document of a language model: begin and end, or the one of them that there is."""
    begin = _first(specials.begin, specials.end, specials.separator)
    end = _first(specials.end, specials.separator)
    if begin is None:
        raise TokenizerError(
            "The tokenizer has neither a beginning nor an end token, so packed documents would run into each "
            "other. Give it one of them."
        )
    return Frame((begin,), () if end is None or end == begin else (end,))


def input_frame(specials: Specials) -> Frame:
    """Of what an encoder reads: begin and end as far as there are such tokens."""
    end = _first(specials.end, specials.separator)
    return Frame(_tuple(specials.begin), _tuple(end))


def target_frame(specials: Specials) -> Frame:
    """Of what a decoder writes: a first token to start from, and the end that it learns to predict."""
    begin = _first(specials.begin, specials.padding, specials.end)
    end = _first(specials.end, specials.separator)
    if begin is None or end is None:
        missing = "a beginning" if end is not None else "an end"
        raise TokenizerError(
            f"The tokenizer of the target has no token for {missing}: no decoder can use it."
        )
    return Frame((begin,), (end,))


def _first(*ids: int | None) -> int | None:
    return next((id for id in ids if id is not None), None)


def _tuple(id: int | None) -> tuple[int, ...]:
    return () if id is None else (id,)
