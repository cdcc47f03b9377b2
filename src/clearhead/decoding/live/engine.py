"""An engine for texts that come and go: a step reads a chunk of prompts and writes a token of every text.

Long prompts are read a chunk at a time between the steps of the others, which do not stall. Prompts that begin like
earlier ones are read from there on. Where few texts run, guessed tokens are checked several at a time. What goes wrong
with one text ends that text: the others are then computed one by one.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, cast

import torch
from torch import Tensor

from clearhead.decoding.engine import Draft, Engine, S, Stepper, Token, alternatives, pad
from clearhead.decoding.live.prefixes import Prefixes
from clearhead.decoding.live.request import Request
from clearhead.decoding.sampling import log_probabilities
from clearhead.decoding.stopping import Reason
from clearhead.layers.cache import DecoderState

CHUNK = 64  # tokens of prompts in one step: of 128 the slowest steps took four times as long as the median
GUESSED_ROWS = 4  # texts side by side, up to which guesses pay


@dataclass
class Reading(Generic[S]):
    """A prompt that is being read: its state has the first `done` tokens."""

    text: Request
    state: S
    done: int

    def chunk(self, size: int) -> list[int]:
        """The tokens up to the next border."""
        return self.text.prompt[self.done : (self.done // size + 1) * size]

    @property
    def is_over(self) -> bool:
        """Whether the whole prompt has been read."""
        return self.done == len(self.text.prompt)


class LiveEngine(Engine[S]):
    """Writes requests side by side, up to `slots` at a time; several engines may share those that wait."""

    def __init__(
        self,
        model: Stepper[S],
        end: Sequence[int],
        context: int | None,
        slots: int,
        waiting: deque[Draft] | None = None,
        prefixes: Prefixes | None = None,
        guesses: bool = True,
    ) -> None:
        super().__init__(model, end, context, slots)
        self.waiting = deque() if waiting is None else waiting
        self.prefixes, self.guesses = prefixes, guesses
        self.chunk = CHUNK if prefixes is None else prefixes.chunk
        self.long: Reading[S] | None = None  # the prompt that takes more than one step
        self.steps = 0

    @property
    def is_busy(self) -> bool:
        """Whether there is something to do."""
        return bool(self.waiting or self.running or self.long)

    @torch.inference_mode()
    def step(self) -> list[tuple[Draft, Token]]:
        """One more token of every text that is written, then a chunk of the prompts that wait."""
        self.steps += 1
        self.leave()
        return [*self.extend(), *self.read()]

    @property
    def keeps_room(self) -> bool:
        """Whether the state stays when all texts have left: there are at most `slots` texts of `context` tokens.

        The C library does not always find a place for new room where the old was, so that the process would grow with
        some pauses. A memory would keep the width of its longest source; and in deterministic mode, whose engines have
        one slot, nothing may depend on earlier texts.
        """
        is_bounded = self.slots > 1 and self.context is not None
        return is_bounded and isinstance(self.state, DecoderState) and self.state.memory is None

    # Writing.

    def extend(self) -> list[tuple[Draft, Token]]:
        """One more token of every text, or several where guesses were right."""
        if self.state is None or not self.running:
            return []
        texts = cast(list[Request], self.running)
        guesses = [self.guess(text) for text in texts]
        tokens, counts = pad([[text.ids[-1], *guess] for text, guess in zip(texts, guesses, strict=True)])
        try:
            Z = self.model.step(tokens, self.state, counts, last=tokens.shape[1] == 1)  # (b, n, vocabulary)
        except Exception:
            return self.extend_each(texts)
        if tokens.shape[1] == 1:
            return self.choose(texts, Z[:, 0])
        return self.accept(texts, guesses, Z)

    def guess(self, text: Request) -> list[int]:
        """What might follow, for a text whose next token is the likeliest one."""
        is_open = isinstance(self.state, DecoderState) and self.state.can_truncate
        if not self.guesses or not is_open or len(self.running) > GUESSED_ROWS:
            return []
        if text.settings.temperature or text.grammar is not None:
            return []
        text.lookup.extend(text.ids[len(text.lookup.ids) - len(text.prompt) :])
        return text.lookup.guess(max(0, self.room(text) - 1))

    def accept(self, texts: list[Request], guesses: list[list[int]], Z: Tensor) -> list[tuple[Draft, Token]]:
        """Takes the tokens that the logits Z (b, n, vocabulary) give, as long as they are those that were guessed."""
        written: list[tuple[Draft, Token]] = []
        rows = list(range(len(texts)))
        for place in range(Z.shape[1]):
            written += self.choose([texts[row] for row in rows], Z[rows, place])
            rows = [
                row
                for row in rows
                if texts[row].reason is None and guesses[row][place : place + 1] == texts[row].ids[-1:]
            ]
            if not rows:
                break
        counts = [sum(text is one for one, _ in written) for text in texts]
        for text, guess, count in zip(texts, guesses, counts, strict=True):
            if guess:
                text.lookup.learn(count - 1)
        assert isinstance(self.state, DecoderState)
        self.state.truncate(torch.tensor([len(text.prompt) + len(text.ids) - 1 for text in texts]))
        return written

    def extend_each(self, texts: list[Request]) -> list[tuple[Draft, Token]]:
        """One more token of every text by itself, so that only those fail that cannot be continued."""
        state, self.state, self.running = self.state, None, []
        assert state is not None
        written: list[tuple[Draft, Token]] = []
        for row, text in enumerate(texts):
            alone = state.copy(torch.tensor([row]))
            try:
                Z = self.model.step(torch.tensor([text.ids[-1:]]), alone, last=True)[:, 0]
            except Exception as error:
                text.fail(error)
                continue
            self.take_in([text], alone)
            written += self.choose([text], Z)
        return written

    def choose(self, texts: Sequence[Draft], logits: Tensor) -> list[tuple[Draft, Token]]:
        """The next token of each text from its logits (b, vocabulary); those for which there is none fail."""
        try:
            return super().choose(list(texts), logits)
        except Exception as error:
            if len(texts) == 1:
                assert isinstance(texts[0], Request)
                texts[0].fail(error)
                return []
            return [
                one for row, text in enumerate(texts) for one in self.choose([text], logits[row : row + 1])
            ]

    def why_done(self, text: Draft, now: float) -> Reason | None:
        """The reason to stop after the last token, or None; the token is passed on."""
        assert isinstance(text, Request)
        if text.reason is not None:  # cancelled while the token was computed
            return text.reason
        try:
            return text.report(text.tokens[-1], super().why_done(text, now))
        except Exception as error:  # such as a token that cannot be decoded
            text.fail(error)
            return "error"

    def give_up(self, error: Exception) -> None:
        """Ends every text that is read or written, after an error that belongs to none of them."""
        texts = [*cast(list[Request], self.running), *([self.long.text] if self.long else [])]
        self.running, self.state, self.long = [], None, None
        for text in texts:
            if text.reason is None:
                text.fail(error)

    # Reading.

    def read(self) -> list[tuple[Draft, Token]]:
        """Reads the next chunk of a long prompt, and short prompts together; the first token of those that are over."""
        short = list(self.admit(self.slots - len(self.running) - (self.long is not None)))
        long, self.long = self.long, None
        try:
            written = self.read_together(short) if short else []
            if long is not None and long.text.reason is None:
                written += self.read_together([long])
        except Exception as error:  # of none of them: none can be continued
            for reading in [*short, *([] if long is None else [long])]:
                if reading.text.reason is None:
                    reading.text.fail(error)
            raise
        return written

    def admit(self, room: int) -> Iterator[Reading[S]]:
        """Starts to read the prompts that wait: as many short ones as fit a chunk, and one long one."""
        later: list[Draft] = []
        budget = self.chunk
        while self.waiting and room > 0 and budget > 0:
            text = cast(Request, self.waiting.popleft())
            if text.reason is not None:
                continue
            known = self.known(text)
            left = len(text.prompt) - len(known) * self.chunk
            if left > self.chunk and self.long is not None:
                later.append(text)
                continue
            try:
                reading = self.start(text, known)
            except Exception as error:
                text.fail(error)
                continue
            text.start_clock()
            room -= 1
            if left > self.chunk:
                self.long = reading
            else:
                budget -= left
                yield reading
        self.waiting.extendleft(reversed(later))

    def capacity(self, text: Request) -> int:
        """How many tokens prompt and text may have together."""
        limit = self.limit(text)
        return len(text.prompt) + text.settings.max_tokens if limit is None else limit

    def known(self, text: Request) -> list[bytes]:
        """The chunks that are known of the beginning of a prompt, unless its tokens need scores."""
        if self.prefixes is None or text.source is not None or text.is_scored:
            return []
        return self.prefixes.find(text.salt, text.prompt)

    def start(self, text: Request, known: Sequence[bytes]) -> Reading[S]:
        """Starts to read a prompt after what is known of it; a source is encoded here."""
        source = None if text.source is None else torch.tensor([text.source])
        state = self.model.start(1, self.capacity(text), source)
        text.reused = 0 if self.prefixes is None else self.prefixes.fill(state, known)
        return Reading(text, state, text.reused)

    def read_together(self, readings: list[Reading[S]]) -> list[tuple[Draft, Token]]:
        """Reads a chunk of each prompt; those that are over join the texts that are written."""
        try:
            state, Z = self.read_chunk(readings)
        except Exception as error:
            if len(readings) == 1:
                readings[0].text.fail(error)
                return []
            return [one for reading in readings for one in self.read_together([reading])]
        if not readings[0].is_over:  # a long prompt, which is read by itself
            readings[0].state, self.long = state, readings[0]
            return []
        texts = [reading.text for reading in readings]
        if self.prefixes is not None:
            for row, text in enumerate(texts):
                self.prefixes.keep(text.salt, text.prompt, state, row)
        for text in texts:
            if text.only_reads:
                text.finish("length")
        if rows := [row for row, text in enumerate(texts) if text.reason is None]:
            if len(rows) < len(texts):
                state.select(torch.tensor(rows))
            texts = [texts[row] for row in rows]
            self.take_in(texts, state)
            return self.choose(texts, Z[rows])
        return []

    def read_chunk(self, readings: list[Reading[S]]) -> tuple[S, Tensor]:
        """Adds a chunk of each prompt to their common state; the logits after it (b, vocabulary)."""
        chunks = [reading.chunk(self.chunk) for reading in readings]
        if len(readings) == 1:
            state = readings[0].state
        else:  # copies, so that after an error each can still be read by itself
            state = readings[0].state.copy(torch.tensor([0]))
            for reading in readings[1:]:
                state.join(reading.state)
        tokens, counts = pad(chunks)
        is_scored = any(reading.text.is_scored for reading in readings)
        Z = self.model.step(tokens, state, counts, last=not is_scored)
        for row, (reading, chunk) in enumerate(zip(readings, chunks, strict=True)):
            reading.done += len(chunk)
            if reading.text.is_scored:
                score(reading, Z[row, : len(chunk)])
        if is_scored:
            Z = torch.stack([Z[row, len(chunk) - 1] for row, chunk in enumerate(chunks)])[:, None]
        return state, Z[:, -1]


def score(reading: Reading[S], Z: Tensor) -> None:
    """Adds the log-probabilities of the prompt's tokens after each of those just read, from logits (n, vocabulary)."""
    text, log_P = reading.text, log_probabilities(Z.float())
    following = text.prompt[reading.done - len(Z) + 1 : reading.done + 1]
    for row, id in zip(log_P, following, strict=False):  # nothing follows the last token
        text.scores.append(Token(id, float(row[id]), alternatives(row, text.settings.logprobs)))
