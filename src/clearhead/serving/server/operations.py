"""Metrics and logs: requests and tokens enter; counters for Prometheus and lines of JSON leave.

No text of a user becomes a label or part of a log line: routes are their patterns, models those that are loaded.
"""

import json
import logging
import random
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.utils import floatToGoString
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("clearhead.requests")
SHORT = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
LONG = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)


class Times:
    """A histogram for each model; those of prometheus_client take longer than to send a token."""

    def __init__(self, registry: CollectorRegistry, name: str, meaning: str, limits: Sequence[float]) -> None:
        self.name, self.meaning, self.limits = name, meaning, limits
        self.counts: dict[str, list[int]] = {}
        self.sums: dict[str, float] = {}
        registry.register(self)

    def watch(self, model: str) -> None:
        """Starts with nothing."""
        self.counts[model], self.sums[model] = [0] * (len(self.limits) + 1), 0.0

    def observe(self, model: str, seconds: float) -> None:
        """One more time."""
        self.counts[model][bisect_left(self.limits, seconds)] += 1
        self.sums[model] += seconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """What was observed, as the registry asks for it."""
        family = HistogramMetricFamily(self.name, self.meaning, labels=["model"])
        names = [*map(floatToGoString, self.limits), "+Inf"]
        for model, counts in self.counts.items():
            buckets = list(zip(names, map(float, accumulate(counts)), strict=True))
            family.add_metric([model], buckets, self.sums[model])
        yield family


class Metrics:
    """Counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def make(kind: Any, name: str, meaning: str, labels: tuple[str, ...] = (), **more: Any) -> Any:
            return kind(f"clearhead_{name}", meaning, labels, registry=self.registry, **more)

        self.requests = make(Counter, "requests", "Requests answered.", ("route", "status"))
        self.seconds = make(Histogram, "request_seconds", "Time of a request.", ("route",), buckets=LONG)
        self.prompt_tokens = make(Counter, "prompt_tokens", "Tokens of prompts.", ("model",))
        self.reused_tokens = make(Counter, "reused_tokens", "Tokens of prompts already known.", ("model",))
        self.tokens = make(Counter, "generated_tokens", "Tokens generated.", ("model",))
        self.first = Times(self.registry, "clearhead_first_token_seconds", "Time to the first token.", LONG)
        self.between = Times(self.registry, "clearhead_between_tokens_seconds", "Time between tokens.", SHORT)
        self.texts = make(Gauge, "open_texts", "Texts that are generated or wait.", ("model",))
        self.tokens_of: dict[str, Any] = {}  # looked up once, and not for every token
        self.used = make(Gauge, "used_slots", "Slots in use.", ("model",))

    def watch(self, model: str, slots_in_use: Callable[[], int]) -> None:
        """Counts the slots of a model whenever they are asked for."""
        self.used.labels(model).set_function(slots_in_use)
        self.texts.labels(model).set(0)
        self.tokens_of[model] = self.tokens.labels(model)
        for times in (self.first, self.between):
            times.watch(model)

    def step(self, model: str, seconds: float, is_first: bool, tokens: int) -> None:
        """Tokens of a request have arrived, so long after the request or the last ones."""
        (self.first if is_first else self.between).observe(model, seconds)
        self.tokens_of[model].inc(tokens)

    def prompts(self, model: str, tokens: int, reused: int) -> None:
        """The prompts of a request that is done."""
        self.prompt_tokens.labels(model).inc(tokens)
        self.reused_tokens.labels(model).inc(reused)

    def text(self) -> bytes:
        """All counters, as Prometheus reads them."""
        return generate_latest(self.registry)


class Logged:
    """Gives every request an id, counts it, and logs a line about it."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, and watches its answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        # Not a secret: one from the system would wait for the decode thread to give the interpreter back.
        name, began, status = (
            f"{random.getrandbits(64):016x}",
            time.perf_counter(),
            499,
        )  # if the client leaves
        scope["clearhead.request"] = name

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", name.encode())]
            await send(message)

        try:
            await self.app(scope, receive, watched)
        finally:
            seconds = time.perf_counter() - began
            route = pattern(scope)
            self.metrics.requests.labels(route, str(status)).inc()
            self.metrics.seconds.labels(route).observe(seconds)
            details = {"id": name, "route": route, "status": status, "seconds": round(seconds, 4)}
            log.info("request", extra={"details": details | scope.get("clearhead.details", {})})


def pattern(scope: Scope) -> str:
    """The route of a request as the app declares it; never what a client has written."""
    route = scope.get("route")
    return route.path if isinstance(route, Route) else "other"


class JsonLines(logging.Formatter):
    """A log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, message, and the details of a request."""
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "details", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
