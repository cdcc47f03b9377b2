"""Translations beside those of others: prompts with sources enter; the engines write or search their sentences."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.generate import Generation, Generator, Prompt, generation
from clearhead.decoding.live.engine import LiveEngine
from clearhead.decoding.live.request import Part, Request
from clearhead.decoding.live.search import Search
from clearhead.decoding.live.worker import WAITS, Steps

MOST_SENTENCES = 8  # sentences of one request in the engines, so that a long text leaves room for others


class Written:
    """A sentence that is written token by token."""

    def __init__(self, request: Request, engine: LiveEngine[Any]) -> None:
        self.request, self.engine, self.pieces = request, engine, list[str]()
        request.pass_on = self.take

    def take(self, part: Part) -> None:
        """A part has been written."""
        self.pieces.append(part.text)

    def start(self) -> None:
        """Queues it."""
        self.engine.add(self.request)

    @property
    def is_done(self) -> bool:
        """Whether nothing more comes."""
        return self.request.reason is not None

    def cancel(self) -> None:
        """Ends it, since nobody waits for it."""
        self.request.cancel()

    def result(self) -> Generation:
        """What was written."""
        if self.request.error is not None:
            raise self.request.error
        return generation("".join(self.pieces), self.request)


class Searched:
    """A sentence that is searched for."""

    def __init__(self, search: Search, waiting: deque[Search], generator: Generator) -> None:
        self.search, self.waiting, self.generator = search, waiting, generator

    def start(self) -> None:
        """Queues it."""
        self.waiting.append(self.search)

    @property
    def is_done(self) -> bool:
        """Whether nothing more comes."""
        return self.search.is_done

    def cancel(self) -> None:
        """Ends it, since nobody waits for it."""
        self.search.is_cancelled = True

    def result(self) -> Generation:
        """The best that was found."""
        if self.search.error is not None:
            raise self.search.error
        assert self.search.found
        return self.generator.read(self.search.found[0], self.search.settings)


class LiveTranslator:
    """Translates with engines that others use too."""

    def __init__(self, generator: Generator, engine: LiveEngine[Any], waiting: deque[Search]) -> None:
        self.generator, self.engine, self.waiting = generator, engine, waiting

    def translate(self, prompts: Sequence[Prompt], settings: DecodingConfig) -> Steps[list[Generation]]:
        """The best translation of every prompt, in steps that wait for the engines."""
        settings = self.generator.settle(settings)
        sentences = [part for prompt in prompts for part in prompt.parts or (prompt,)]
        texts = [self.start_of(one, settings) for one in sentences if one.source != []]
        under_way: list[Written | Searched] = []
        try:
            for text in texts:
                while len(under_way) == MOST_SENTENCES:
                    yield WAITS
                    under_way = [one for one in under_way if not one.is_done]
                text.start()
                under_way.append(text)
            while not all(text.is_done for text in under_way):
                yield WAITS
        finally:
            for text in under_way:
                text.cancel()
        found, nothing = (text.result() for text in texts), Generation("", [], "end")
        done = ([nothing if one.source == [] else next(found)] for one in sentences)
        return [best[0] for best in self.generator.joined(prompts, done)]

    def start_of(self, prompt: Prompt, settings: DecodingConfig) -> Written | Searched:
        """A sentence before its first token; with one beginning only, it is written and not searched."""
        generator, longest = self.generator, self.generator.limit(prompt)
        if settings.beam == 1:
            request = Request(prompt.ids, settings, prompt.source, longest, tokenizer=generator.tokenizer)
            return Written(request, self.engine)
        return Searched(
            Search(prompt.ids, settings, generator.end, prompt.source, longest), self.waiting, generator
        )
