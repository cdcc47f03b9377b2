"""The decode thread: engines and other work enter, and each takes a step in turn, so that nobody waits for long.

Whoever calls from another thread leaves a call, which runs between two steps. The thread beats between steps: a beat
that is old means that a step hangs.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any

from clearhead.decoding.live.engine import LiveEngine
from clearhead.decoding.threads import free_cores

log = logging.getLogger(__name__)

IDLE_SECONDS = 0.5  # between two beats while nothing is to be done
MOST_AT_ONCE = 4  # works that take turns


@dataclass(eq=False)
class Work:
    """Something else to compute than texts token by token, in steps; `pass_on` receives its result or its error."""

    steps: Generator[None, None, Any]
    pass_on: Callable[[Any, Exception | None], None]
    is_cancelled: bool = False


class Worker:
    """Runs engines and works in one thread; with `fixed_threads` of PyTorch, the load changes no bits."""

    def __init__(
        self,
        engines: list[LiveEngine[Any]],
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
                for work in list(islice(self.works, MOST_AT_ONCE)):
                    self.advance(work)
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

    def step(self, engine: LiveEngine[Any]) -> None:
        """A step of an engine; an error that belongs to no text ends all that it runs."""
        try:
            engine.step()
        except Exception as error:
            log.exception("a step of the engine failed")
            engine.give_up(error)

    def advance(self, work: Work) -> None:
        """The next step of a work."""
        result, error = None, None
        try:
            if not work.is_cancelled:
                next(work.steps)
                return
        except StopIteration as end:
            result = end.value
        except Exception as fault:
            error = fault
        self.works.remove(work)
        work.pass_on(result, error)
