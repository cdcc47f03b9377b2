"""Conversations become ids by the chat template of the model: messages enter; ids, and which are answers, leave.

The template is rendered and its text encoded as a whole, as `transformers` does, so that the ids are the same. Only
what the template itself spells can become a special token: what a message spells is text.
"""

import re
import secrets
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise

from clearhead.errors import InputError
from clearhead.examples import ANSWER, Message
from clearhead.text.tokenizers.render import renderer_of
from clearhead.text.tokenizers.tokenizer import Tokenizer

VARIABLES = {
    "begin": "bos_token",
    "end": "eos_token",
    "padding": "pad_token",
    "unknown": "unk_token",
    "mask": "mask_token",
    "separator": "sep_token",
}
SHORT_TALK = (Message("user", "a"), Message(ANSWER, "b"))


class ChatTemplate:
    """The chat template of a tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        assert tokenizer.chat_template is not None
        self.tokenizer, self.renderer = tokenizer, renderer_of(tokenizer.chat_template)
        ids = {name: getattr(tokenizer.specials, role) for role, name in VARIABLES.items()}
        self.names = {name: tokenizer.spelling(id) for name, id in ids.items() if id is not None}
        # A special token that a message spells gets a spelling that no template can give a meaning.
        self.quoted = {spelling: secrets.token_hex(16) for spelling in tokenizer.guarded}
        self.said = {quote: spelling for spelling, quote in self.quoted.items()}

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """The ids of a conversation up to where the next answer starts."""
        return self.tokenizer.encode(self.spelled(self.render(messages, asks=True)))

    def answers(self, messages: Sequence[Message]) -> tuple[list[int], list[bool]]:
        """The ids of a conversation, and which of them the model has to write: answers, and what ends them."""
        whole = self.render(messages)
        spans = [self.span(whole, messages, at) for at, one in enumerate(messages) if one.role == ANSWER]
        known = [span for span in spans if span is not None]
        ends = [
            min(end, later)
            for (_, end), later in zip(known, [*(s for s, _ in known[1:]), len(whole)], strict=True)
        ]
        borders = [
            0,
            *(at for (start, _), end in zip(known, ends, strict=True) for at in (start, end)),
            len(whole),
        ]
        pieces = [self.spelled(whole[at:to]) for at, to in pairwise(borders)]
        found = self.tokenizer.offsets("".join(pieces))
        learned = [False] * len(found.ids)
        starts = [0, *accumulate(map(len, pieces))]
        for at in range(1, len(pieces), 2):
            self.mark(found.ids, found.offsets, learned, (starts[at], starts[at + 1]))
        return found.ids, learned

    def span(self, whole: str, messages: Sequence[Message], place: int) -> tuple[int, int] | None:
        """Where an answer starts and ends in the rendered conversation; None if the template changes its past."""
        before = self.render(messages[:place], asks=True)
        if not whole.startswith(before):
            return None
        upto = self.render(messages[: place + 1])
        return len(before), len(upto) if whole.startswith(upto) else len(whole)

    def mark(
        self, ids: list[int], offsets: list[tuple[int, int]], learned: list[bool], span: tuple[int, int]
    ) -> None:
        """Marks the tokens of an answer up to its end token; what the template writes after that is not learned."""
        for place, (start, _) in enumerate(offsets):
            if span[0] <= start < span[1]:
                learned[place] = True
                if self.tokenizer.is_special(ids[place]):
                    return

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The special tokens at which an answer is over."""
        try:
            ids, learned = self.answers(SHORT_TALK)
        except InputError:  # a template for other conversations, which says so when it is used
            return ()
        written = [id for id, is_learned in zip(ids, learned, strict=True) if is_learned]
        return tuple(written[-1:]) if written and self.tokenizer.is_special(written[-1]) else ()

    def render(self, messages: Sequence[Message], asks: bool = False) -> str:
        """The text of a conversation, in which special tokens that messages spell are quoted."""
        given = [{"role": self.quote(one.role), "content": self.quote(one.content)} for one in messages]
        return self.renderer.render(given, asks, self.names)

    def quote(self, text: str) -> str:
        """A text without the spelling of a special token."""
        return self.spellings.sub(lambda found: self.quoted[found[0]], text)

    def spelled(self, text: str) -> str:
        """A rendered text for the tokenizer: special tokens in their secret spelling, quoted ones as they were said."""
        guarded = self.tokenizer.guarded
        return self.everything.sub(lambda found: self.said.get(found[0]) or guarded[found[0]], text)

    @cached_property
    def spellings(self) -> re.Pattern[str]:
        """Matches the spelling of any special token."""
        return either(self.quoted)

    @cached_property
    def everything(self) -> re.Pattern[str]:
        """The same, and quotes."""
        return either([*self.quoted, *self.said])


def either(words: Sequence[str] | dict[str, str]) -> re.Pattern[str]:
    """Matches one of these words, the longest if several start at the same place; nothing if there are none."""
    longest_first = sorted(words, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
