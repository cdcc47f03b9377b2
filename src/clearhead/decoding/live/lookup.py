"""Guesses the next tokens of a text from what it has already said: ids enter, and those that followed last time leave.

Texts repeat themselves and their prompts: names, quotations, code. A guess costs little to check, since a model reads
several tokens nearly as fast as one, and a wrong one changes nothing (prompt lookup decoding; Saxena, 2023).
"""

from collections.abc import Sequence

LENGTHS = (3, 2)  # tokens that must have occurred before, the longest first
MOST_GUESSED = 6
LONGEST_PAUSE = 64  # steps without a guess after many wrong ones


class Lookup:
    """Where each short sequence of tokens was last followed by something."""

    def __init__(self, ids: Sequence[int] = ()) -> None:
        self.ids: list[int] = []
        self.places: dict[tuple[int, ...], int] = {}  # the place after a sequence
        self.pause = self.waits = 0
        self.extend(ids)

    def extend(self, ids: Sequence[int]) -> None:
        """Adds tokens to the text."""
        for id in ids:
            for length in LENGTHS:  # what precedes the new token is now followed by something
                if len(self.ids) >= length:
                    self.places[tuple(self.ids[-length:])] = len(self.ids)
            self.ids.append(id)

    def guess(self, most: int) -> list[int]:
        """What might follow: at most so many tokens, and none for a while after wrong guesses."""
        if self.waits:
            self.waits -= 1
            return []
        for length in LENGTHS:
            place = self.places.get(tuple(self.ids[-length:]))
            if place is not None:
                return self.ids[place : place + min(most, MOST_GUESSED)]
        return []

    def learn(self, accepted: int) -> None:
        """Pauses twice as long after each guess of which nothing was right."""
        self.pause = 0 if accepted else min(LONGEST_PAUSE, 2 * self.pause + 1)
        self.waits = self.pause
