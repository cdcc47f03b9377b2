"""What comes before and after a sequence: the beginning and end tokens (N8).

The ids of a tokenizer's special tokens enter; the frame of each column of a task leaves. Training,
evaluation and decoding frame by these same rules:

    language model       begin text end begin text end …
    prompt               begin text
    classifier, masked   begin text end
    two texts            begin text between text end, where the tokenizer's file says what is between; otherwise end
    source               begin source end
    target               begin target end, of which the decoder is given all but the last and predicts all
                         but the first

A tokenizer of another project states in its own file what it puts around a text; prompts and inputs are framed by
that. Where it puts nothing before a text (GPT-2, SmolLM), documents of a language model have one token between them.
Where it lacks a role, the nearest one takes its place: a separator for the end (BERT), the padding for the beginning
of a target (Marian, T5), the end for the beginning of a text (GPT-2).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.errors import TokenizerError
from clearhead.text.tokenizers.roles import Specials


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
    """The frame of a language model's document: begin and end, or the one that exists."""
    end = _first(specials.end, specials.separator)
    begin = _first(specials.begin, end)
    if specials.framing is not None:
        before, _ = specials.framing
        begin = _first(*before) if before else _first(end, begin)
    if begin is None:
        raise TokenizerError(
            "The tokenizer has neither a beginning nor an end token, so packed documents would run into "
            "each other.\nGive it one of them, with `tokenizer.with_roles`."
        )
    return Frame((begin,), () if end is None or end == begin else (end,))


def prompt_frame(specials: Specials) -> Frame:
    """The frame of a text that a language model continues: nothing follows it."""
    return Frame(document_frame(specials).before if specials.framing is None else specials.framing[0])


def input_frame(specials: Specials) -> Frame:
    """The frame of what an encoder reads: begin and end, as far as such tokens exist."""
    if specials.framing is not None:
        return Frame(*specials.framing)
    end = _first(specials.end, specials.separator)
    return Frame(_tuple(specials.begin), _tuple(end))


def pair_frames(specials: Specials) -> tuple[Frame, Frame]:
    """The frames of two texts that are read one after the other; what is between them belongs to the first."""
    frame = input_frame(specials)
    between = (
        specials.between or frame.after or _tuple(_first(specials.separator, specials.end, specials.begin))
    )
    if not between:
        raise TokenizerError(
            "The tokenizer has no token to put between two texts.\nName one with `tokenizer.with_roles(separator=…)`."
        )
    return Frame(frame.before, between), Frame((), frame.after)


def target_frame(specials: Specials) -> Frame:
    """The frame of what a decoder writes: a first token to start from, and the end that it learns to predict."""
    begin = _first(specials.begin, specials.padding, specials.end)
    end = _first(specials.end, specials.separator)
    if begin is None or end is None:
        missing = "a beginning" if end is not None else "an end"
        raise TokenizerError(
            f"The target tokenizer has no token for {missing}, which a decoder needs.\n"
            "Name one with `tokenizer.with_roles`."
        )
    return Frame((begin,), (end,))


def _first(*ids: int | None) -> int | None:
    return next((id for id in ids if id is not None), None)


def _tuple(id: int | None) -> tuple[int, ...]:
    return () if id is None else (id,)
