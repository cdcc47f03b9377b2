"""The models and the decode thread: requests enter on the event loop; their texts leave there, part by part."""

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from clearhead.config.decoding import DecodingConfig
from clearhead.config.serving import ServingConfig
from clearhead.decoding.live.request import Part, Request
from clearhead.decoding.live.worker import Steppable, Steps, Work, Worker
from clearhead.errors import suggest
from clearhead.serving.server.faults import Refused
from clearhead.serving.server.operations import Metrics
from clearhead.serving.server.schemas import MOST_TEXTS
from clearhead.serving.server.served import Asked, ServedModel

HUNG_SECONDS = 4.0  # without a beat, after which the decode thread counts as hung
PREPARERS = 2  # threads that turn texts into ids
Result = TypeVar("Result")
Given = TypeVar("Given")
Call = Callable[[], None]


class Service:
    """Everything behind the routes."""

    def __init__(
        self, models: list[ServedModel], settings: ServingConfig, metrics: Metrics | None = None
    ) -> None:
        self.models = {model.name: model for model in models}
        self.settings, self.metrics = settings, metrics or Metrics()
        self.threads = ThreadPoolExecutor(PREPARERS, "prepare")
        self.outbox: list[tuple[asyncio.AbstractEventLoop, Call]] = []  # only the decode thread touches it
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
        self.threads.shutdown(wait=False, cancel_futures=True)

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

    async def prepare(self, work: Callable[[], Result]) -> Result:
        """Does something that takes a moment, such as to encode a text, outside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)

    def post(self, loop: asyncio.AbstractEventLoop, call: Call) -> None:
        """Leaves a call for the event loop; in the decode thread."""
        self.outbox.append((loop, call))

    def flush(self) -> None:
        """Passes on what a step has left: one call for all, since each wakes the loop."""
        if not self.outbox:
            return
        calls: dict[asyncio.AbstractEventLoop, list[Call]] = defaultdict(list)
        for loop, call in self.outbox:
            calls[loop].append(call)
        self.outbox = []
        for loop, each in calls.items():
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(do_all, each)

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

    async def submit(self, model: ServedModel, count: int, prepare: Callable[[], Asked]) -> "Answer":
        """Queues the texts of a request, so many; `prepare` encodes them."""
        self.reserve(model, count)
        try:
            asked = await self.prepare(prepare)
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
        # As long as the texts at most; None if nothing comes in time.
        self.arrived: asyncio.Queue[tuple[int, Part] | None] = asyncio.Queue()
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
        self.service.post(loop, partial(self.arrived.put_nowait, (place, part)))

    async def parts(self) -> AsyncIterator[tuple[int, Part]]:
        """Which text, and what is new of it, until all are done; the first error ends all."""
        try:
            while self.open:
                arrived = await self.arrived.get()
                if arrived is None:
                    raise too_late()
                place, part = arrived
                self.count(part)
                if part.reason is not None:
                    self.open.discard(place)
                    self.service.release(self.model)
                if part.reason == "error":
                    error = self.asked.drafts[place].error
                    assert error is not None
                    raise error
                yield place, part
            asked = self.asked
            self.service.metrics.prompts(self.model.name, asked.prompt_tokens, asked.reused_tokens)
        finally:
            self.cancel()

    def look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Looks whether nothing has arrived for too long; a text that has a slot ends by itself before."""
        limit = 2 * self.service.settings.seconds
        waited = time.perf_counter() - self.last
        if waited >= limit:
            self.arrived.put_nowait(None)
        else:
            self.timer = loop.call_later(limit - waited, self.look, loop)

    def count(self, part: Part) -> None:
        """Counts a part that has arrived."""
        if part.tokens:
            now, is_first = time.perf_counter(), self.last == self.began
            self.service.metrics.part(self.model.name, now - self.last, is_first, len(part.tokens))
            self.last = now

    def cancel(self) -> None:
        """Ends the texts that are not done."""
        self.timer.cancel()
        for place in self.open:
            self.service.worker.call(self.asked.drafts[place].cancel)
        self.service.release(self.model, len(self.open))
        self.open.clear()
        for draft in (
            self.asked.drafts
        ):  # which would keep this answer, and this answer them, until both are searched for
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
