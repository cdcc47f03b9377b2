"""One model of the server: bodies of requests enter; drafts for its engines, or work in steps, leave."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeVar

from torch import Tensor

from clearhead.api import Model
from clearhead.config.decoding import DecodingConfig
from clearhead.config.serving import ServingConfig
from clearhead.data.chats import can_chat
from clearhead.decoding.engine import Draft
from clearhead.decoding.generate import SEARCHED_ROWS, Generation, Generator, Prompt
from clearhead.decoding.live.engine import CHUNK, LiveEngine
from clearhead.decoding.live.grammar import JsonGrammar
from clearhead.decoding.live.prefixes import Prefixes
from clearhead.decoding.live.request import Request
from clearhead.decoding.live.search import LiveSearch, Search
from clearhead.decoding.live.translations import LiveTranslator
from clearhead.decoding.live.worker import Steps
from clearhead.decoding.read import Answer, LabelItem, Reader
from clearhead.decoding.steppers.kernels import ready
from clearhead.decoding.steppers.switching import SwitchingStepper, stepper_of
from clearhead.errors import ClearheadError
from clearhead.serving.server.faults import Refused
from clearhead.serving.server.schemas import (
    ChatBody,
    ClassifyBody,
    CompletionBody,
    EmbeddingBody,
    Inputs,
    Sampling,
    TranslateBody,
)

Item = TypeVar("Item")
Row = TypeVar("Row")
SHRINKAGE = 2  # how much shorter normalisation may make a text
TOKENS_OF_A_STEP = 512  # read between two steps of the engines, or a single text


@dataclass
class Asked:
    """The texts that a request asks for: how each is started, and what is shown of it."""

    prompts: list[Prompt]
    drafts: list[Request]
    n: int  # texts for each prompt
    echoed: list[str] = field(default_factory=list)  # the text of each prompt, where it is shown
    shows_logprobs: bool = False

    @property
    def prompt_tokens(self) -> int:
        """How many tokens the prompts have."""
        return sum(len(prompt.ids) for prompt in self.prompts)

    @property
    def reused_tokens(self) -> int:
        """How many of them were known, for the first text of each prompt."""
        return sum(draft.reused for draft in self.drafts[:: self.n])


class ServedModel:
    """A model with its engines; in deterministic mode an engine for each text."""

    def __init__(self, name: str, model: Model, settings: ServingConfig) -> None:
        self.name, self.model, self.settings = name, model, settings
        self.tokenizer = model.tokenizer
        self.reader = Reader(model.bundle)
        self.generator: Generator | None = None
        self.waiting: deque[Draft] = deque()
        self.engines: list[LiveEngine[Any]] = []
        self.wanted: deque[Search] = deque()
        self.searches: list[LiveSearch[Any]] = []
        self.open = 0  # texts that were asked for and are not done
        if model.module.generates:
            self.add_engines()

    def add_engines(self) -> None:
        """The generator and its engines."""
        is_fixed = self.settings.deterministic
        stepper = stepper_of(self.model.module, "as they are" if is_fixed else "fixed")
        self.generator = Generator(self.model.bundle, stepper)
        count, slots = (self.settings.slots, 1) if is_fixed else (1, self.settings.slots)
        prefixes, context = Prefixes(CHUNK), self.model.config.context
        self.engines = [
            LiveEngine(stepper, self.generator.end, context, slots, self.waiting, prefixes, not is_fixed)
            for _ in range(count)
        ]
        if self.model.translates:
            rows = 1 if is_fixed else SEARCHED_ROWS
            self.searches = [LiveSearch(stepper, rows, self.wanted) for _ in range(count)]

    def prepare(self) -> None:
        """Loads the compiled step, where it was made before: under load that would come later, with its memory."""
        stepper = self.engines[0].model if self.engines else None
        if isinstance(stepper, SwitchingStepper) and ready.is_cached():
            stepper.prepare()

    @property
    def tasks(self) -> list[str]:
        """What the model can be asked for."""
        config = self.model.config
        found = []
        if self.generator is not None and not self.model.translates:
            found.append("completions")
            if can_chat(self.tokenizer):
                found.append("chat")
        if self.model.translates:
            found.append("translate")
        if config.head == "classifier":
            found.append("classify")
        return [*found, "embeddings"]

    @property
    def running(self) -> int:
        """Texts that have a slot."""
        written = sum(len(engine.running) + (engine.long is not None) for engine in self.engines)
        return written + sum(len(search.active) for search in self.searches)

    def writer(self, task: str) -> Generator:
        """The generator, for a task that the model has."""
        if task not in self.tasks or self.generator is None:
            known = ", ".join(self.tasks)
            raise Refused(f"The model {self.name!r} is not for {task}; it is for {known}.", field="model")
        return self.generator

    # Drafts.

    def completions(self, body: CompletionBody, salt: bytes) -> Asked:
        """The texts of `/v1/completions`."""
        generator = self.writer("completions")
        given = listed(body.prompt)
        prompts = [each(place, len(given), self.prompt, one) for place, one in enumerate(given)]
        max_tokens = 16 if body.max_tokens is None else body.max_tokens
        if max_tokens == 0 and not body.echo:
            raise Refused("max_tokens = 0 asks for nothing without echo = true.", field="max_tokens")
        asked = self.asked(generator, prompts, body, max_tokens, body.logprobs, salt)
        if body.response_format is not None:
            self.constrain(asked, body.response_format.schema_of_answer)
        if body.echo:
            asked.echoed = [
                one if isinstance(one, str) else self.tokenizer.decode(one, keep_special=True)
                for one in given
            ]
            for draft in asked.drafts:
                draft.is_scored = body.logprobs is not None
                draft.only_reads = max_tokens == 0
        asked.shows_logprobs = body.logprobs is not None
        return asked

    def chat(self, body: ChatBody, salt: bytes) -> Asked:
        """The texts of `/v1/chat/completions`."""
        generator = self.writer("chat")
        if body.most_tokens == 0:
            raise Refused("max_tokens = 0 leaves no room for an answer.", field="max_tokens")
        messages = [message.message for message in body.messages]
        self.check_size(sum(len(message.content) for message in messages))
        prompt = generator.ask(messages)
        max_tokens = body.most_tokens or self.settings.max_tokens
        shown = body.top_logprobs if body.logprobs else None
        asked = self.asked(generator, [prompt], body, max_tokens, shown, salt)
        if body.response_format is not None:
            self.constrain(asked, body.response_format.schema_of_answer)
        asked.shows_logprobs = body.logprobs
        return asked

    def prompt(self, given: str | list[int]) -> Prompt:
        """A prompt from its text or its ids."""
        generator = self.writer("completions")
        if not isinstance(given, str):
            return self.model.prompt_of(given)
        self.check_size(len(given))
        return generator.prompt(given, chat=False)

    @cached_property
    def most_characters(self) -> int | None:
        """More than any text has that the model can read; None if there is no limit."""
        longest = self.reader.lengths.longest
        if longest is None:
            return None
        tokenizer = self.reader.tokenizer
        widest = max(len(tokenizer.spelling(id) or "") for id in range(tokenizer.size))
        return longest * widest * SHRINKAGE

    def check_size(self, characters: int) -> None:
        """Rejects what cannot fit, before it is encoded: a long word takes seconds."""
        if self.most_characters is not None and characters > self.most_characters:
            longest = self.reader.lengths.longest
            raise Refused(
                f"The text has {characters:,} characters, but this model can read {longest} tokens."
            )

    def check_max_tokens(self, wanted: int) -> None:
        """Rejects a longer text than this server writes."""
        if wanted > self.settings.max_tokens:
            raise Refused(
                f"max_tokens = {wanted} is more than this server's {self.settings.max_tokens}.",
                field="max_tokens",
            )

    def asked(
        self,
        generator: Generator,
        prompts: list[Prompt],
        body: Sampling,
        max_tokens: int,
        logprobs: int | None,
        salt: bytes,
    ) -> Asked:
        """A draft for each text of each prompt."""
        self.check_max_tokens(max_tokens)
        if body.min_tokens > max_tokens:
            raise Refused(
                f"min_tokens = {body.min_tokens} is more than the {max_tokens} that the text may have.",
                field="min_tokens",
            )
        settings = DecodingConfig(
            max_tokens=max(1, max_tokens),
            min_tokens=body.min_tokens,
            beam=1,
            temperature=body.temperature,
            top_p=body.top_p if body.top_p < 1 else None,
            top_k=body.top_k,
            min_p=body.min_p,
            presence_penalty=body.presence_penalty,
            frequency_penalty=body.frequency_penalty,
            repetition_penalty=body.repetition_penalty,
            logit_bias={int(id): bias for id, bias in body.logit_bias.items()},
            stop=body.stops,
            seconds=self.settings.seconds,
            logprobs=logprobs or 0,
        )
        settings.check_ids(self.model.config.vocabulary)
        drafts = [
            self.draft(generator, prompt, settings, body.seed, place, salt)
            for prompt in prompts
            for place in range(body.n)
        ]
        return Asked(prompts, drafts, body.n)

    def draft(
        self,
        generator: Generator,
        prompt: Prompt,
        settings: DecodingConfig,
        seed: int | None,
        place: int,
        salt: bytes,
    ) -> Request:
        """The draft of one text; the texts of a prompt draw by seeds of their own."""
        own = None if seed is None else (seed + place * 0x9E3779B97F4A7C15) % (1 << 62)
        return Request(
            prompt.ids,
            settings if own is None else settings.model_copy(update={"seed": own}),
            prompt.source,
            generator.limit(prompt),
            ends=generator.ends([prompt]),
            tokenizer=self.tokenizer,
            salt=salt,
        )

    def constrain(self, asked: Asked, schema: dict[str, Any] | None) -> None:
        """Keeps each text to a JSON schema."""
        if schema is None:
            return
        for draft in asked.drafts:
            draft.grammar = JsonGrammar(
                self.tokenizer, self.model.config.vocabulary, draft.ends or (), schema
            )

    # Work in steps.

    def embeddings(self, body: EmbeddingBody) -> tuple[list[list[int]], Callable[[], Steps[list[Tensor]]]]:
        """The ids of each text, and the work that gives a vector for each."""
        rows = self.rows(body.input)
        return rows, lambda: in_steps(rows, list(map(len, rows)), self.reader.embed)

    def classes(self, body: ClassifyBody) -> tuple[list[list[int]], Callable[[], Steps[list[Answer]]]]:
        """The ids of each text, and the work that gives the labels of each; two texts have a tab between them."""
        self.reader.check_classes()
        texts = listed(body.input)
        items = [
            each(place, len(texts), partial(self.item, truncate=body.truncate), one)
            for place, one in enumerate(texts)
        ]
        rows = [item.ids for item in items]
        return rows, lambda: in_steps(items, list(map(len, rows)), self.reader.classify)

    def item(self, one: str | list[int], truncate: bool) -> LabelItem:
        """A text, or its ids, as a classifier reads it."""
        if not isinstance(one, str):
            if self.reader.config.labels == "each-word":
                raise Refused("This model labels words, which ids do not show. Give the text.", field="input")
            return LabelItem(self.rows([one])[0])
        if not truncate:
            self.check_size(len(one))
        return self.reader.line_item(one, truncate)

    def rows(self, given: Inputs, truncate: bool = False) -> list[list[int]]:
        """The framed ids of texts to read."""

        def ids(one: str | list[int]) -> list[int]:
            if isinstance(one, str):
                if not truncate:
                    self.check_size(len(one))
                return self.reader.ids(one, truncate)
            size = (
                self.model.config.vocabulary_encoder
                if self.model.translates
                else self.model.config.vocabulary
            )
            if wrong := [id for id in one if id >= size]:
                raise Refused(
                    f"input contains the id {wrong[0]}, but the model has ids 0 to {size - 1}.", field="input"
                )
            return self.reader.framed(one)

        texts = listed(given)
        return [each(place, len(texts), ids, one) for place, one in enumerate(texts)]

    def translations(self, body: TranslateBody) -> tuple[list[Prompt], Callable[[], Steps[list[Generation]]]]:
        """The sentences of each text, and the work that translates them."""
        generator = self.writer("translate")
        self.check_max_tokens(body.max_tokens or 0)
        texts = listed(body.input)

        def prompt(text: Any) -> Prompt:
            return generator.prompt(text, body.split_sentences)

        prompts = [each(place, len(texts), prompt, text) for place, text in enumerate(texts)]
        settings = DecodingConfig(
            beam=body.beam,
            length_penalty=body.length_penalty,
            max_tokens=min(body.max_tokens or 256, self.settings.max_tokens),
            seconds=self.settings.seconds,
        )
        translator = LiveTranslator(generator, self.engines[0], self.wanted)
        return prompts, lambda: translator.translate(prompts, settings)


def listed(given: Inputs) -> list[Any]:
    """A single text or sequence of ids as a list of one."""
    return [given] if isinstance(given, str) or isinstance(given[0], int) else list(given)


def each(place: int, count: int, prepare: Callable[[Any], Any], given: Any) -> Any:
    """Prepares one of several texts; an error says which."""
    try:
        return prepare(given)
    except ClearheadError as error:
        raise Refused(f"text {place}: {error}" if count > 1 else str(error)) from None


def in_steps(
    rows: Sequence[Row], lengths: Sequence[int], work: Callable[[Sequence[Row]], Iterable[Item]]
) -> Steps[list[Item]]:
    """The results of some work, a few rows in each step; their lengths are in tokens."""
    done: list[Item] = []
    while len(done) < len(rows):
        count, tokens = 1, lengths[len(done)]
        for length in lengths[len(done) + 1 :]:
            if (tokens := tokens + length) > TOKENS_OF_A_STEP:
                break
            count += 1
        done += work(rows[len(done) : len(done) + count])
        yield None
    return done
