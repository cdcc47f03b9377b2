"""Metrics and logs: requests and tokens enter; counters for Prometheus and lines of JSON leave.

No text of a user becomes a label or part of a log line: routes are their patterns, models those that are loaded.
"""

import json
import logging
import random
import time
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("clearhead.requests")
SHORT = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
LONG = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)


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
        self.first = make(
            Histogram, "first_token_seconds", "Time to the first token.", ("model",), buckets=LONG
        )
        self.between = make(
            Histogram, "between_tokens_seconds", "Time between tokens.", ("model",), buckets=SHORT
        )
        self.texts = make(Gauge, "open_texts", "Texts that are generated or wait.", ("model",))
        self.of_model: dict[str, tuple[Any, Any, Any]] = {}  # looked up once, and not for every token
        self.used = make(Gauge, "used_slots", "Slots in use.", ("model",))

    def watch(self, model: str, slots_in_use: Callable[[], int]) -> None:
        """Counts the slots of a model whenever they are asked for."""
        self.used.labels(model).set_function(slots_in_use)
        self.texts.labels(model).set(0)
        self.of_model[model] = (
            self.first.labels(model),
            self.between.labels(model),
            self.tokens.labels(model),
        )

    def step(self, model: str, seconds: float, is_first: bool, tokens: int) -> None:
        """Tokens of a request have arrived, so long after the request or the last ones."""
        first, between, written = self.of_model[model]
        (first if is_first else between).observe(seconds)
        written.inc(tokens)

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
