"""The models and the decode thread: requests enter on the event loop; their texts leave there, part by part."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import takewhile
from typing import Any, TypeVar

import torch

from clearhead.config.decoding import DecodingConfig
from clearhead.config.serving import ServingConfig
from clearhead.decoding.live.request import Part, Request
from clearhead.decoding.live.worker import Steppable, Steps, Work, Worker
from clearhead.decoding.threads import FREE
from clearhead.errors import suggest
from clearhead.machine.load import usable_cores
from clearhead.serving.server.faults import Refused
from clearhead.serving.server.operations import Metrics
from clearhead.serving.server.schemas import MOST_TEXTS
from clearhead.serving.server.served import Asked, ServedModel

HUNG_SECONDS = 4.0  # without a beat, after which the decode thread counts as hung
PREPARERS = 2  # threads that turn texts into ids
TAKING_SECONDS = 0.002  # for the event loop to pass a step's tokens on before the next step
Result = TypeVar("Result")
Given = TypeVar("Given")
Call = Callable[[], object]
PassAtOnce = Callable[[list[tuple[int, Part]]], bool]


class Service:
    """Everything behind the routes."""

    def __init__(
        self, models: list[ServedModel], settings: ServingConfig, metrics: Metrics | None = None
    ) -> None:
        self.models = {model.name: model for model in models}
        self.settings, self.metrics = settings, metrics or Metrics()
        self.threads = ThreadPoolExecutor(PREPARERS, "prepare")
        self.schemas = ThreadPoolExecutor(
            1, "schema"
        )  # which are tried: what has none does not wait for them
        # What a step leaves for each event loop, each call once; only the decode thread touches it.
        self.outbox: dict[asyncio.AbstractEventLoop, dict[Call, None]] = {}
        self.is_taken = threading.Event()
        engines: list[Steppable] = []
        for model in models:
            engines += [*model.engines, *model.searches]
        self.worker = Worker(engines, self.flush, fixed_threads=settings.deterministic)
        self.is_warm, self.is_stopped = False, threading.Event()
        self.started = int(time.time())
        for model in models:
            self.metrics.watch(model.name, partial(getattr, model, "running"))

    def start(self) -> None:
        """Starts the decode thread and writes a token with each model, so that the first request does not wait."""
        self.worker.start()
        waiting = []
        for model in self.models.values():
            for engine in model.engines[:1]:
                done = threading.Event()
                text = Request([*engine.end[:1]] or [0], DecodingConfig(temperature=0.0, max_tokens=3))
                if model.model.translates:
                    text.source = text.prompt
                text.pass_on = lambda part, done=done: done.set() if part.reason else None  # type: ignore[misc]
                self.worker.call(partial(engine.add, text))
                waiting.append(done)
        self.is_warm = all(done.wait(120) for done in waiting)

    def stop(self) -> None:
        """Ends the threads."""
        self.is_stopped.set()
        self.worker.stop()
        for threads in (self.threads, self.schemas):
            threads.shutdown(wait=False, cancel_futures=True)

    @property
    def is_ready(self) -> bool:
        """Whether requests are answered: the decode thread is alive and beats."""
        return (
            self.is_warm and self.worker.thread.is_alive() and self.worker.seconds_since_beat < HUNG_SECONDS
        )

    def find(self, name: str) -> ServedModel:
        """A model by its name."""
        if name not in self.models:
            raise Refused(f"There is no model {name[:80]!r}. {suggest(name[:80], self.models)}", 404, "model")
        return self.models[name]

    async def prepare(self, work: Callable[[], Result], has_schema: bool = False) -> Result:
        """Does something that takes a moment, such as to encode a text, outside the event loop."""
        threads = self.schemas if has_schema else self.threads
        return await asyncio.get_running_loop().run_in_executor(threads, work)

    def post(self, loop: asyncio.AbstractEventLoop, call: Call) -> None:
        """Leaves a call for the event loop, which does it once after the step; in the decode thread."""
        self.outbox.setdefault(loop, {})[call] = None

    def flush(self) -> None:
        """Passes on what a step has left: all at once, since each call wakes the loop.

        Where a step's threads use every core, they would wait for the one whose core the loop has: the loop is first.
        """
        if not self.outbox:
            return
        self.is_taken.clear()
        for loop, calls in self.outbox.items():
            last: Call = partial(loop.call_soon, self.is_taken.set)
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(do_all, [*calls, last])
        self.outbox.clear()
        if FREE.fitting(torch.get_num_threads()) >= len(usable_cores()):
            self.is_taken.wait(TAKING_SECONDS)

    def reserve(self, model: ServedModel, count: int) -> None:
        """Makes room for texts, or refuses them: before anything is encoded."""
        most = self.settings.slots + self.settings.queue
        if count > (limit := min(MOST_TEXTS, most)):
            raise Refused(f"The request asks for {count} texts; the limit is {limit}.", field="n")
        if model.open + count > most:
            raise Refused(
                f"The queue is full: {model.open} texts are generated or wait. Try again later.",
                429,
                headers={"retry-after": "1"},
            )
        self.change_open(model, count)

    def release(self, model: ServedModel, count: int = 1) -> None:
        """Some texts are done."""
        self.change_open(model, -count)

    def change_open(self, model: ServedModel, more: int) -> None:
        """So many texts more are open, or fewer."""
        model.open += more
        self.metrics.texts.labels(model.name).set(model.open)

    async def submit(
        self, model: ServedModel, count: int, prepare: Callable[[], Asked], has_schema: bool
    ) -> "Answer":
        """Queues the texts of a request, so many; `prepare` encodes them, and tries their schema."""
        self.reserve(model, count)
        try:
            asked = await self.prepare(prepare, has_schema)
        except BaseException:
            self.release(model, count)
            raise
        return Answer(self, model, asked)

    async def compute(
        self, model: ServedModel, prepare: Callable[[], tuple[Given, Callable[[], Steps[list[Any]]]]]
    ) -> tuple[Given, list[Any]]:
        """What is read, and the result of the work with it in the decode thread; `prepare` encodes it."""
        self.reserve(model, 1)
        try:
            given, steps = await self.prepare(prepare)
            return given, await self.result(steps)
        finally:
            self.release(model)

    async def result(self, steps: Callable[[], Steps[list[Any]]]) -> list[Any]:
        """The result of some work in the decode thread."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[list[Any]] = loop.create_future()

        def settle(value: Any, error: Exception | None) -> None:
            if result.done():
                return
            if error is None:
                result.set_result(value)
            else:
                result.set_exception(error)

        work = Work(steps(), lambda value, error: self.post(loop, partial(settle, value, error)))
        self.worker.add(work)
        try:
            async with asyncio.timeout(2 * self.settings.seconds):
                return await result
        except TimeoutError:
            raise too_late() from None
        finally:
            work.is_cancelled = True


class Answer:
    """The texts of one request while they are generated; left early, they are cancelled."""

    def __init__(self, service: Service, model: ServedModel, asked: Asked) -> None:
        self.service, self.model, self.asked = service, model, asked
        self.arrived: deque[tuple[int, Part]] = deque()  # as long as the texts at most
        self.taken: list[tuple[int, Part]] = []  # those of them that `parts` has not given yet
        self.pass_at_once: PassAtOnce = lambda arrived: False
        self.news, self.is_awaited, self.is_late = asyncio.Event(), False, False
        self.began = self.last = time.perf_counter()
        self.open = set(range(len(asked.drafts)))
        loop = asyncio.get_running_loop()
        self.timer = loop.call_later(2 * service.settings.seconds, self.look, loop)
        engine = model.engines[0]
        for place, draft in enumerate(asked.drafts):
            draft.pass_on = partial(self.pass_on, loop, place)
            service.worker.call(partial(self.add, engine.add, draft))

    def add(self, add: Callable[[Request], None], draft: Request) -> None:
        """Hands a draft to the engine, in the decode thread."""
        try:
            add(draft)
        except Exception as error:
            draft.fail(error)

    def pass_on(self, loop: asyncio.AbstractEventLoop, place: int, part: Part) -> None:
        """A part of a text has been generated, in the decode thread."""
        self.arrived.append((place, part))
        self.service.post(loop, self.take)

    def take(self) -> None:
        """Takes what has arrived: passed on at once if `parts` waits, since to wake it costs more than the writing."""
        if not self.open:
            return
        arrived = [self.arrived.popleft() for _ in range(len(self.arrived))]
        self.count(arrived)
        if not self.passes_at_once(arrived):
            self.taken += arrived
            self.news.set()

    def passes_at_once(self, arrived: list[tuple[int, Part]]) -> bool:
        """Whether nothing is before what has arrived, nothing ends with it, and it has been passed on."""
        if not self.is_awaited or self.taken or any(part.reason is not None for _, part in arrived):
            return False
        try:
            return self.pass_at_once(arrived)
        except Exception:  # whoever iterates meets it again, and ends this answer only
            return False

    async def parts(self) -> AsyncIterator[list[tuple[int, Part]]]:
        """Which texts, and what is new of them, as it comes, until all are done; the first error ends all."""
        try:
            while self.open or self.taken:
                self.is_awaited = True
                await self.news.wait()
                self.is_awaited = False
                self.news.clear()
                if self.is_late:
                    raise too_late()
                arrived, self.taken = self.taken, []
                if sound := list(takewhile(lambda one: one[1].reason != "error", arrived)):
                    yield sound
                if len(sound) < len(arrived):
                    error = self.asked.drafts[arrived[len(sound)][0]].error
                    assert error is not None
                    raise error
            asked = self.asked
            self.service.metrics.prompts(self.model.name, asked.prompt_tokens, asked.reused_tokens)
        finally:
            self.cancel()

    def look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Looks whether nothing has arrived for too long; a text that has a slot ends by itself before."""
        limit = 2 * self.service.settings.seconds
        waited = time.perf_counter() - self.last
        if waited >= limit:
            self.is_late = True
            self.news.set()
        else:
            self.timer = loop.call_later(limit - waited, self.look, loop)

    def count(self, arrived: list[tuple[int, Part]]) -> None:
        """Counts what has arrived, and frees the places of texts that are done."""
        if tokens := sum(len(part.tokens) for _, part in arrived):
            now, is_first = time.perf_counter(), self.last == self.began
            self.service.metrics.step(self.model.name, now - self.last, is_first, tokens)
            self.last = now
        if done := self.open & {place for place, part in arrived if part.reason is not None}:
            self.open -= done
            self.service.release(self.model, len(done))

    def cancel(self) -> None:
        """Ends the texts that are not done."""
        self.timer.cancel()
        for place in self.open:
            self.service.worker.call(self.asked.drafts[place].cancel)
        self.service.release(self.model, len(self.open))
        self.open.clear()
        # What would keep this answer, and this answer it, until both are searched for.
        self.pass_at_once = lambda arrived: False
        for draft in self.asked.drafts:
            draft.pass_on = ignore


def ignore(part: Part) -> None:
    """Nobody waits for this part."""


def do_all(calls: list[Call]) -> None:
    """Does what the decode thread has left."""
    for call in calls:
        call()


def too_late() -> Refused:
    """A request that has waited too long."""
    return Refused(
        "The request was not answered in time: the server is busy.", 503, headers={"retry-after": "5"}
    )
