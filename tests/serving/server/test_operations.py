"""Limits, keys, health, metrics and logs of the server, in this process."""

import asyncio
import json
import logging
import secrets
import threading
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from starlette.routing import Route
from starlette.testclient import TestClient

from clearhead.api import Model
from clearhead.config.decoding import DecodingConfig
from clearhead.config.serving import ServingConfig
from clearhead.decoding.live.request import Part, Request
from clearhead.errors import ConfigError
from clearhead.serving.server import access, process
from clearhead.serving.server import service as services
from clearhead.serving.server.access import OPEN_PATHS, Keys
from clearhead.serving.server.app import OPERATIONS, server_app
from clearhead.serving.server.operations import SHORT, JsonLines, Times
from clearhead.serving.server.service import Service
from tests.decoding.tiny import language_model
from tests.serving.server.conftest import KEY, chat_model, client_of, service_of

COMPLETIONS = "/v1/completions"


def run_apart(work: Coroutine[Any, Any, None]) -> None:
    """Runs something in a thread of its own: in this one, a browser test may have left its event loop."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()


@pytest.fixture
def small() -> Iterator[Service]:
    """A service with one slot and room for one more text."""
    service = service_of(ServingConfig(slots=1, queue=1), writes=Model(language_model(context=None)))
    yield service
    service.stop()


def scope_of(path: str) -> dict[str, Any]:
    """A request as a server passes it to an app."""
    return {
        "type": "http", "method": "POST", "path": path, "raw_path": b"", "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")], "server": ("127.0.0.1", 1),
    }  # fmt: skip


def hang(service: Service) -> threading.Event:
    """Stops the decode thread until the event is set."""
    free, stopped = threading.Event(), threading.Event()

    def wait() -> None:
        stopped.set()
        free.wait(30)

    service.worker.call(wait)
    assert stopped.wait(30)
    return free


# Limits.


def test_what_finds_no_room_in_the_queue_is_refused_at_once(small: Service) -> None:
    free = hang(small)
    answers: list[int] = []
    with client_of(small) as client:
        body = {"model": "writes", "prompt": "x", "max_tokens": 2}
        threads = [
            threading.Thread(target=lambda: answers.append(client.post(COMPLETIONS, json=body).status_code))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        while small.models["writes"].open < 2:
            time.sleep(0.01)
        began = time.monotonic()
        refused = client.post(COMPLETIONS, json=body)
        assert time.monotonic() - began < 5
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert client.get("/health/live").status_code == 200
        free.set()
        for thread in threads:
            thread.join(30)
        assert answers == [200, 200]
        assert small.models["writes"].open == 0
        assert client.post(COMPLETIONS, json=body).status_code == 200


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_slot(small: Service, stream: bool) -> None:
    """Both while texts are sent and while nothing was sent yet."""
    body = {"model": "writes", "prompt": "x", "max_tokens": 4000, "logit_bias": {"2": -100}, "stream": stream}
    app, engine = server_app(small), small.models["writes"].engines[0]

    async def leave() -> None:
        left, given = asyncio.Event(), iter([json.dumps(body).encode()])

        async def receive() -> dict[str, Any]:
            for content in given:
                return {"type": "http.request", "body": content, "more_body": False}
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            pass

        asking = asyncio.ensure_future(app(scope_of(COMPLETIONS), receive, send))
        while not engine.running:
            await asyncio.sleep(0.005)
        left.set()
        await asyncio.wait_for(asking, 30)

    run_apart(leave())
    assert small.models["writes"].open == 0
    steps = engine.steps
    while engine.running:
        time.sleep(0.001)
    assert engine.steps <= steps + 2


def test_tokens_that_are_ready_together_leave_in_one_write() -> None:
    """Each is an event of its own; `finish_reason` and `[DONE]` end them."""
    service = service_of(ServingConfig(slots=4), writes=Model(language_model(context=None)))
    body = {
        "model": "writes",
        "prompt": "x",
        "n": 4,
        "max_tokens": 25,
        "logit_bias": {"2": -100},
        "stream": True,
    }
    written: list[bytes] = []

    async def ask() -> None:
        given = iter([{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}])

        async def receive() -> dict[str, Any]:
            for message in given:
                return message
            await asyncio.sleep(30)
            raise AssertionError

        async def send(message: Any) -> None:
            written.append(message.get("body", b""))

        await server_app(service)(scope_of(COMPLETIONS), receive, send)

    run_apart(ask())
    service.stop()
    parts = b"".join(written).split(b"\n\n")
    choices = [json.loads(part.removeprefix(b"data: "))["choices"][0] for part in parts[:-2]]
    assert parts[-2:] == [b"data: [DONE]", b""]
    assert sorted(choice["index"] for choice in choices) == sorted([0, 1, 2, 3] * 25)
    assert sum(choice["finish_reason"] == "length" for choice in choices) == 4
    assert len(written) < 60  # not 100: in a step all four get a token


def test_a_loop_that_is_busy_does_not_stop_the_decode_thread(small: Service) -> None:
    """What a step leaves is done once and in order; the next step waits for that only a moment."""
    done: list[str] = []
    engine = small.models["writes"].engines[0]
    text = Request([1, 60], DecodingConfig(temperature=0.0, max_tokens=40, banned=(2,)))
    over = threading.Event()

    async def be_busy() -> None:
        loop = asyncio.get_running_loop()

        def tell(part: Part) -> None:
            for name in ("first", "second", "first"):
                small.post(loop, names[name])
            if part.reason is not None:
                over.set()

        names = {name: partial(done.append, name) for name in ("first", "second")}
        text.pass_on = tell
        small.worker.call(partial(engine.add, text))
        assert over.wait(30)  # the loop is held until all is written
        assert done == []
        await asyncio.sleep(0.1)

    run_apart(be_busy())
    assert len(text.ids) == 40
    assert done == ["first", "second"] * (len(done) // 2)
    assert 0 < len(done) <= 80


def test_a_request_that_waits_too_long_is_refused() -> None:
    service = service_of(ServingConfig(slots=1, seconds=0.1), writes=Model(language_model()))
    free = hang(service)
    with client_of(service) as client:
        answer = client.post(COMPLETIONS, json={"model": "writes", "prompt": "x"})
        assert (answer.status_code, answer.json()["error"]["type"]) == (503, "overloaded_error")
    free.set()
    service.stop()


def test_an_answer_that_nobody_takes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "SEND_SECONDS", 0.05)
    ended: list[str] = []

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
        finally:
            ended.append("ended")

    async def blocked(message: Any) -> None:
        await asyncio.sleep(30)

    async def nothing() -> Any:
        await asyncio.sleep(30)

    run_apart(access.Limited(endless)({"type": "http", "headers": []}, nothing, blocked))
    assert ended == ["ended"]


@pytest.mark.parametrize("temperature", [0, 1.1])
def test_deterministic_answers_are_the_same_to_the_bit_in_company(temperature: float) -> None:
    service = service_of(ServingConfig(slots=3, deterministic=True), talks=chat_model())
    prompts = [
        "the same long beginning of a prompt " * 5 + end for end in ("one", "two", "three", "four", "five")
    ]
    with client_of(service) as client:

        def choices(prompt: Any) -> list[Any]:
            body = {"model": "talks", "prompt": prompt, "temperature": temperature, "seed": 5, "logprobs": 2}
            return list(client.post(COMPLETIONS, json=body | {"max_tokens": 20}).json()["choices"])

        together = choices(prompts)
        for place, prompt in enumerate(prompts):
            assert choices(prompt) == [together[place] | {"index": 0}]  # now with a known beginning
    service.stop()


# Keys.


def test_every_route_but_liveness_needs_a_key(service: Service) -> None:
    app = server_app(service, Keys([KEY]))
    client = TestClient(app, base_url="http://127.0.0.1:8000")
    paths = [
        (route.path, method)
        for route in app.routes
        if isinstance(route, Route)
        for method in route.methods or ()
    ]
    assert {(operation.path, operation.method) for operation in OPERATIONS} <= set(paths)
    mounted = [(f"/explore/{name}{path}", "GET") for name in service.models for path in ("/", "/api/model")]
    for path, method in [*paths, *mounted, ("/nowhere", "GET")]:
        path = path.replace("{name}", "writes").replace("{file}", "index.html")
        for headers in ({}, {"authorization": f"Bearer {KEY}x"}, {"authorization": f"Basic {KEY}"}):
            answer = client.request(method, path, headers=headers)
            assert answer.status_code == (200 if path in OPEN_PATHS else 401), path
    right = {"authorization": f"Bearer {KEY}"}
    assert client.get("/v1/models", headers=right).status_code == 200
    assert client.get("/explore/writes/api/model", headers=right).json()["name"] == "writes"


def test_a_link_lets_one_browser_in(service: Service) -> None:
    keys = Keys([KEY])
    app = server_app(service, keys)
    browser, other = (TestClient(app, base_url="http://127.0.0.1:8000") for _ in range(2))
    path = browser.post("/links", headers={"authorization": f"Bearer {KEY}"}).json()["path"]
    answer = browser.get(path, follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert KEY not in answer.headers["set-cookie"]
    assert browser.get("/v1/models").status_code == 200
    assert browser.get("/explore/writes/").status_code == 200
    assert other.get(path).status_code == 401
    assert browser.get("/v1/models", headers={"origin": "http://elsewhere.example"}).status_code == 403


@pytest.mark.parametrize("key", ["short", "with spaces in the middle", "ключ-который-достаточно-длинный"])
def test_weak_keys_are_refused_without_being_shown(key: str) -> None:
    with pytest.raises(ConfigError, match="Key 1 has") as error:
        Keys([key])
    assert key not in str(error.value)


@pytest.mark.parametrize("given", [KEY, KEY[::-1], "wrong", ""])
def test_a_key_takes_as_long_as_any_other(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is compared with all that are known, as digests of one length, each in constant time."""
    compared: list[int] = []
    compare = secrets.compare_digest

    def counted(one: bytes, other: bytes) -> bool:
        compared.append(len(one) + len(other))
        return compare(one, other)

    monkeypatch.setattr("secrets.compare_digest", counted)
    assert (Keys([KEY, KEY[::-1]]).knows(given) is None) == (given not in (KEY, KEY[::-1]))
    assert compared == [64, 64]


def test_prompts_are_reused_under_the_same_key_only(service: Service) -> None:
    keys = [KEY, KEY[::-1]]
    client = TestClient(server_app(service, Keys(keys)), base_url="http://127.0.0.1:8000")

    def known(key: str) -> int:
        body = {"model": "talks", "prompt": "the same beginning of a prompt " * 5, "max_tokens": 1}
        answer = client.post(COMPLETIONS, json=body, headers={"authorization": f"Bearer {key}"})
        return int(answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"])

    assert [known(keys[0]), known(keys[1]), known(keys[0])] == [0, 0, 128]


@pytest.mark.parametrize(
    "headers",
    [{"host": "elsewhere.example"}, {"origin": "http://127.0.0.1:9"}, {"sec-fetch-site": "cross-site"}],
)
def test_pages_of_others_are_refused(client: TestClient, headers: dict[str, str]) -> None:
    assert client.get("/v1/models", headers=headers).status_code == 403
    assert "access-control-allow-origin" not in client.get("/v1/models").headers


# Health, metrics, logs.


def test_a_hanging_or_dead_decode_thread_is_not_ready(
    small: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(small)
    assert client.get("/health/ready").json() == {"status": "ready"}
    monkeypatch.setattr(services, "HUNG_SECONDS", 0.6)
    free = hang(small)
    time.sleep(0.7)
    assert client.get("/health/ready").status_code == 503
    assert client.get("/health/live").status_code == 200
    free.set()
    time.sleep(0.2)
    assert client.get("/health/ready").status_code == 200
    small.worker.stop()
    assert client.get("/health/ready").status_code == 503


def test_requests_and_tokens_are_counted_without_words_of_users(client: TestClient) -> None:
    client.post(
        COMPLETIONS, json={"model": "writes", "prompt": "secret", "max_tokens": 3, "logit_bias": {"2": -100}}
    )
    client.get("/secret-path")
    client.post(COMPLETIONS, json={"model": "secret-model", "prompt": "x"})
    found = client.get("/metrics").text
    assert 'clearhead_requests_total{route="/v1/completions",status="200"}' in found
    assert 'clearhead_requests_total{route="other",status="404"}' in found
    assert 'clearhead_generated_tokens_total{model="writes"}' in found
    assert 'clearhead_first_token_seconds_count{model="writes"}' in found
    assert 'clearhead_open_texts{model="writes"} 0.0' in found
    assert "secret" not in found


def test_times_are_a_histogram_of_prometheus() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    times = Times(ours, "seconds", "Seconds.", SHORT)
    histogram = Histogram("seconds", "Seconds.", ("model",), buckets=SHORT, registry=theirs)
    for model in ("a", "b"):
        times.watch(model)
        for seconds in (0.0, 0.0005, 0.001, 0.3, 5.0, 70.0):
            times.observe(model, seconds)
            histogram.labels(model).observe(seconds)
    said = [line for line in generate_latest(theirs).splitlines() if b"_created" not in line]
    assert generate_latest(ours).splitlines() == said


def test_the_log_has_ids_and_counts_and_no_text(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "clearhead.requests"):
        answer = client.post(COMPLETIONS, json={"model": "writes", "prompt": "secret", "max_tokens": 1})
    lines = [JsonLines().format(record) for record in caplog.records if record.name == "clearhead.requests"]
    line = json.loads(lines[-1])
    assert line["id"] == answer.headers["x-request-id"]
    assert (line["route"], line["status"], line["read"], line["written"]) == (COMPLETIONS, 200, 7, 1)
    assert "secret" not in lines[-1]


def test_a_fault_is_named_and_not_described(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*given: Any) -> None:
        raise RuntimeError("/home/someone/secret")

    monkeypatch.setattr(service.models["writes"], "completions", fail)
    answer = client.post(COMPLETIONS, json={"model": "writes", "prompt": "x"})
    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == "The server failed: RuntimeError."
    assert "secret" in caplog.text


@pytest.mark.parametrize("how", ["hangs", "is dead"])
def test_a_process_without_its_decode_thread_ends(
    small: Service, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """And not one that was paused as a whole, in which the watching thread stood still too."""
    ended: list[int] = []

    def end(code: int) -> None:
        ended.append(code)
        small.is_stopped.set()

    monkeypatch.setattr("os._exit", end)
    monkeypatch.setattr(process, "LOOK_SECONDS", 0.01)
    watching = threading.Thread(target=process.watch, args=[small])
    monkeypatch.setattr(process, "GIVEN_UP_AFTER", 300)  # idle, it beats twice per second
    watching.start()
    time.sleep(0.7)
    assert ended == []
    free = hang(small) if how == "hangs" else None
    if free is None:
        small.worker.stop()
    watching.join(60)
    assert ended == [1]
    if free is not None:
        free.set()
