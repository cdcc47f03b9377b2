"""The server of an app: how many connections it takes, how long idle ones stay, and that it is quiet about them."""

import asyncio
import http.client
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from clearhead.serving import sockets as serving

REQUEST = b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
FEW_HANDLES = """
import os, resource, sys
import clearhead.serving.sockets as serving
from starlette.responses import PlainTextResponse

serving.IDLE_SECONDS = 1.0
if sys.argv[1] == "known":
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
with serving.BoundedListener(serving.most_connections()) as listener:
    left = 16 + len(os.listdir("/dev/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(64, left), 64))
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    serving.server_for(PlainTextResponse("here")).run(sockets=[listener])
"""


async def slow_app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers after a second."""
    await asyncio.sleep(1.0)
    await PlainTextResponse("here")(scope, receive, send)


@contextmanager
def served(most: int) -> Iterator[int]:
    """The port of a server in a thread."""
    with serving.BoundedListener(most) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        server = serving.server_for(slow_app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield port
        server.should_exit = True
        thread.join(10)


def connected(port: int) -> socket.socket:
    """A connection that has sent nothing."""
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def reply(connection: socket.socket) -> bytes:
    """The next bytes that a connection receives; none if it is closed."""
    try:
        return connection.recv(4096)
    except ConnectionResetError:
        return b""


def answer(connection: socket.socket) -> bytes:
    """An answer to its last byte: its head and its body may come one after the other."""
    received = b""
    while not received.endswith(b"here") and (part := reply(connection)):
        received += part
    return received


def arrives(port: int) -> bool:
    """Whether a new connection gets its answer."""
    with closing(connected(port)) as late:
        late.sendall(REQUEST)
        return reply(late).startswith(b"HTTP/1.1 200")


def test_connections_over_the_limit_are_closed_and_leave_room_when_others_end() -> None:
    with served(most=3) as port:
        first = [connected(port) for _ in range(3)]
        with closing(connected(port)) as refused:
            assert reply(refused).startswith(b"HTTP/1.1 503 ")
        first[0].sendall(REQUEST)
        assert reply(first[0]).startswith(b"HTTP/1.1 200")
        for connection in first:
            connection.close()
        until = time.monotonic() + 30
        while not arrives(port):
            assert time.monotonic() < until
            time.sleep(0.05)


@pytest.mark.parametrize("sent", [b"", REQUEST[:20]], ids=["nothing", "half a request"])
def test_a_connection_without_a_request_is_closed(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(serving, "IDLE_SECONDS", 0.2)
    with served(most=3) as port, closing(connected(port)) as idle:
        idle.sendall(sent)
        assert reply(idle) == b""


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_what_takes_the_short_way_arrives_in_order(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """Also beside pieces that are sent, and to a client of HTTP 1.0, for which there is no short way."""
    taken: list[bool] = []

    async def pieces(scope: Scope, receive: Receive, send: Send) -> None:
        way = scope.get("clearhead.way")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for place in range(2000):
            content = b"%06d " % place * 100
            taken.append(place % 3 > 0 and way is not None and way.is_open)
            if taken[-1] and way is not None:
                way.write(content)
            else:
                await send({"type": "http.response.body", "body": content, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    monkeypatch.setitem(globals(), "slow_app", pieces)
    with served(most=3) as port:
        asking = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        asking._http_vsn_str = f"HTTP/{version}"  # type: ignore[attr-defined]
        asking.request("GET", "/")
        time.sleep(0.2)  # so that the client's side fills up
        assert asking.getresponse().read() == b"".join(b"%06d " % place * 100 for place in range(2000))
        asking.close()
    assert any(taken) == (version == "1.1")
    assert not all(taken)


def test_health_is_answered_while_many_requests_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a request that arrives in pieces is read in order."""
    answered: list[str] = []

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        body = message["body"]
        while message["more_body"]:
            message = await receive()
            body += message["body"]
        answered.append(scope["path"])
        await PlainTextResponse(body)(scope, receive, send)

    def read(data: bytes, protocol: serving.IdleProtocol, read=serving.IdleProtocol.read) -> None:  # type: ignore[no-untyped-def]
        time.sleep(0.02)
        read(protocol, data)

    monkeypatch.setitem(globals(), "slow_app", slow)
    monkeypatch.setattr(serving.IdleProtocol, "read", lambda self, data: read(data, self))
    content = bytes(range(256)) * 1000  # more than is read at once
    with served(most=40) as port:
        busy = [connected(port) for _ in range(20)]
        health = connected(port)
        head = b"POST /busy HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        for connection in busy:
            connection.sendall(head % len(content) + content)
        health.sendall(REQUEST.replace(b"GET /", b"GET /health/live"))
        assert reply(health).startswith(b"HTTP/1.1 200")
        assert "/busy" not in answered
        for connection in busy:
            said = b"".join(iter(partial(connection.recv, 1 << 16), b""))
            assert said.endswith(b"\r\n\r\n" + content)
            connection.close()
        health.close()


def test_a_fault_while_reading_holds_up_nobody_else() -> None:
    read: list[int] = []
    turns = serving.Turns()

    async def arrive() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: None)
        for call in (partial(read.append, 1), lambda: 1 // 0, partial(read.append, 2)):
            turns.wait(loop, call)
        await asyncio.sleep(0.05)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, arrive()).result()
    assert read == [1, 2]


def test_a_connection_that_cannot_be_read_further_is_closed_at_once() -> None:
    """A chunk without a size, after the answer, which did not wait for the body."""
    with served(most=3) as port, closing(connected(port)) as broken:
        broken.settimeout(serving.IDLE_SECONDS / 2)
        broken.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        assert answer(broken).startswith(b"HTTP/1.1 200")
        broken.sendall(b"zzz\r\n")
        assert reply(broken) == b""


def test_a_connection_that_waits_for_its_answer_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "IDLE_SECONDS", 0.2)
    with served(most=3) as port, closing(connected(port)) as busy:
        busy.sendall(REQUEST)
        assert reply(busy).startswith(b"HTTP/1.1 200")


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="file handles are counted in /dev/fd")
@pytest.mark.parametrize("limit", ["known", "unknown"])
def test_many_idle_connections_on_few_file_handles_are_refused_and_no_reason_to_log(limit: str) -> None:
    """Whether the limit was there when the server was started, or there are 16 handles left all of a sudden."""
    with subprocess.Popen(
        [sys.executable, "-c", FEW_HANDLES, limit], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        port = int(run.stdout.readline())
        idle = [connected(port) for _ in range(400)]
        assert reply(idle[-1]).startswith(b"HTTP/1.1 503 ")
        time.sleep(2.5)
        with closing(connected(port)) as honest:
            honest.sendall(REQUEST)
            assert reply(honest).startswith(b"HTTP/1.1 200")
        run.terminate()
        _, said = run.communicate(timeout=30)
    for connection in idle:
        connection.close()
    assert said == ""
