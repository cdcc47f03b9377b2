"""Batches made ahead of time by a thread, so that the model need not wait for them.

`Batches` and a position enter; batches leave, without end. The position is that of the next batch to leave,
whatever the thread has already made, so it is exact at any moment and can be saved as it is.
"""

from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Event, Thread
from time import perf_counter
from types import TracebackType
from typing import Self

from clearhead.data.batching.batches import Batch, Batches, Position


class Loader:
    """An endless iterator of batches from a position on; close it, or use it in a `with`."""

    def __init__(self, batches: Batches, position: Position | None = None, ahead: int = 4) -> None:
        self.position = position or Position()
        self.waited_seconds = 0.0
        self._queue: Queue[tuple[Batch, Position] | BaseException] = Queue(ahead)
        self._stop = Event()
        work = (batches, self.position)
        self._thread = Thread(target=self._make, args=work, name="clearhead-batches", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        """The batch at the position, which moves on by one; an error of the thread is raised here."""
        if self._stop.is_set():
            raise StopIteration
        made = self._next()
        if isinstance(made, BaseException):
            self.close()
            raise made
        batch, self.position = made
        return batch

    def _next(self) -> tuple[Batch, Position] | BaseException:
        """What the thread made next; the time counts as waiting only where nothing is ready."""
        with suppress(Empty):
            return self._queue.get_nowait()
        started = perf_counter()
        made = self._queue.get()
        self.waited_seconds += perf_counter() - started
        return made

    def close(self) -> None:
        """End the thread; the position stays."""
        self._stop.set()
        while self._thread.is_alive():
            try:
                self._queue.get_nowait()
            except Empty:
                self._thread.join(0.01)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _make(self, batches: Batches, position: Position) -> None:
        try:
            while not self._stop.is_set():
                batch = batches.at(position)
                position = batches.after(position)
                self._put((batch, position))
        except BaseException as error:  # handed to whoever waits for the batch
            self._put(error)

    def _put(self, item: tuple[Batch, Position] | BaseException) -> None:
        while not self._stop.is_set():
            with suppress(Full):
                self._queue.put(item, timeout=0.1)
                return
