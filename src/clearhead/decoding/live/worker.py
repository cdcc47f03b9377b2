"""The decode thread: engines and other work enter, and each takes a step in turn, so that nobody waits for long.

Whoever calls from another thread leaves a call, which runs between two steps. The thread beats before each step: a beat
that is old means that the step hangs.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from clearhead.decoding.threads import free_cores

log = logging.getLogger(__name__)

IDLE_SECONDS = 0.5  # between two beats while nothing is to be done
MOST_AT_ONCE = 4  # works that compute something in turn
WAITS = "waits"
Outcome = TypeVar("Outcome")
Steps = Generator[str | None, None, Outcome]  # of a work


@dataclass(eq=False)
class Work:
    """Something else to compute than texts token by token, in steps; `pass_on` receives its result or its error.

    A step that yields `WAITS` has computed nothing: it waits for an engine.
    """

    steps: Steps[Any]
    pass_on: Callable[[Any, Exception | None], None]
    is_cancelled: bool = False


class Steppable(Protocol):
    """An engine: something that takes steps while it is busy."""

    @property
    def is_busy(self) -> bool:
        """Whether there is something to do."""

    def step(self) -> Any:
        """Does a part of it."""

    def give_up(self, error: Exception) -> None:
        """Ends everything, after an error that belongs to nobody."""


class Worker:
    """Runs engines and works in one thread; with `fixed_threads` of PyTorch, the load changes no bits."""

    def __init__(
        self,
        engines: Sequence[Steppable],
        after_step: Callable[[], None] = lambda: None,
        fixed_threads: bool = False,
    ) -> None:
        self.engines, self.after_step, self.fixed_threads = engines, after_step, fixed_threads
        self.calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.works: deque[Work] = deque()
        self.beat = time.monotonic()
        self.is_ending = False
        self.thread = threading.Thread(target=self.run, name="decode", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self.thread.start()

    def stop(self) -> None:
        """Ends the thread after its step."""
        self.is_ending = True
        self.call(lambda: None)
        self.thread.join(10)

    def call(self, do: Callable[[], None]) -> None:
        """Does something in the thread, between two steps."""
        self.calls.put(do)

    def add(self, work: Work) -> None:
        """Queues a work; from any thread."""
        self.call(lambda: self.works.append(work))

    @property
    def seconds_since_beat(self) -> float:
        """How long the current step has taken, or the thread has been dead."""
        return time.monotonic() - self.beat

    @property
    def is_busy(self) -> bool:
        """Whether there is something to compute."""
        return bool(self.works) or any(engine.is_busy for engine in self.engines)

    def run(self) -> None:
        """Takes steps until `stop` is called."""
        while not self.is_ending:
            self.beat = time.monotonic()
            self.answer_calls()
            with nullcontext() if self.fixed_threads else free_cores():
                for engine in self.engines:
                    if engine.is_busy:
                        self.step(engine)
                self.advance_works()
            self.after_step()

    def answer_calls(self) -> None:
        """Does what others have asked for; waits for it if there is nothing else to do."""
        try:
            do = self.calls.get(timeout=0 if self.is_busy else IDLE_SECONDS)
            while True:
                try:
                    do()
                except Exception:
                    log.exception("a call into the decode thread failed")
                do = self.calls.get_nowait()
        except Empty:
            pass

    def advance_works(self) -> None:
        """A step of every work that waits for an engine, and of some of those that compute."""
        computed = 0
        for work in list(self.works):
            computed += self.advance(work) != WAITS
            if computed == MOST_AT_ONCE:
                break

    def step(self, engine: Steppable) -> None:
        """A step of an engine; an error that belongs to no text ends all that it runs."""
        self.beat = time.monotonic()
        try:
            engine.step()
        except Exception as error:
            log.exception("a step of the engine failed")
            engine.give_up(error)

    def advance(self, work: Work) -> Any:
        """The next step of a work: what it yields."""
        self.beat = time.monotonic()
        result, error = None, None
        try:
            if not work.is_cancelled:
                return next(work.steps)
            work.steps.close()
        except StopIteration as end:
            result = end.value
        except Exception as fault:
            error = fault
        self.works.remove(work)
        work.pass_on(result, error)
        return None
