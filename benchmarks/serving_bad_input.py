"""Does bad input hurt the server? Each is refused within a second, a probe is answered right after, memory stays.

Bodies that are too large, too deep, too many of something, not JSON, or not numbers; chat templates that loop or reach
out; bytes that are not HTTP; paths that lead elsewhere; headers that never end while others are served; a thousand
streams that nobody reads to the end. Bars: a status of 4xx within 1 s each, a probe answered after each, no text left
open, and memory in use grows by less than 50 MB.
"""

import asyncio
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness import arguments, report
from serving_client import free_port, get, process, resident_mb, serve, write_model

from clearhead.model_folder import Bundle, load, save

SCHEMA: dict[str, Any] = {"type": "string"}
for _ in range(150):
    SCHEMA = {"type": "array", "items": SCHEMA, "minItems": 3}


def completion(**more: Any) -> bytes:
    """The body of a completion."""
    return json.dumps({"model": "bench", "prompt": "x", "max_tokens": 2, **more}).encode()


def schema(value: Any) -> dict[str, Any]:
    """A request for JSON."""
    return {"response_format": {"type": "json_schema", "json_schema": {"schema": value}}}


BODIES: dict[str, bytes] = {
    "n = 10⁹": completion(n=10**9),
    "NaN": b'{"model": "bench", "prompt": "x", "temperature": NaN}',
    "infinity": b'{"model": "bench", "prompt": "x", "top_p": 1e999}',
    "an id out of range": completion(prompt=[1, 10**7]),
    "10⁵ stops": completion(stop=["x"] * 10**5),
    "10⁵ biases": completion(logit_bias={str(i): 1 for i in range(10**5)}),
    "10⁵ prompts": completion(prompt=["x"] * 10**5),
    "100 MB": b'{"prompt": "' + b"x" * (100 << 20) + b'"}',
    "nested 10⁵ deep": b"[" * 10**5,
    "objects nested 10⁵ deep": b'{"a":' * 10**5,
    "half a surrogate": b'{"model": "bench", "prompt": "\\ud800"}',
    "a word of 1 MB": completion(prompt="x" * 10**6),
    "a recursive schema": completion(**schema({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})),
    "a huge schema": completion(**schema({"enum": [f"value {i}" for i in range(50_000)]})),
    "a deep schema": completion(**schema(SCHEMA)),
    "an unknown field": completion(tools=[]),
    "150,000 unknown fields": completion(**{f"field {i}": 1 for i in range(150_000)}),
}
TEMPLATES = {
    "a template that loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "a template that reaches out": "{{ cycler.__init__.__globals__.os.system('true') }}",
}
PLAIN = "GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n"
POSTED = "POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
RAW: dict[str, bytes] = {
    "not HTTP": bytes(range(256)) * 400,
    "TLS": b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + bytes(160),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no host": b"GET /v1/models HTTP/1.0\r\n\r\n",
    "two hosts": f"{PLAIN}host: elsewhere\r\n\r\n".encode(),
    "a host of other letters": "GET / HTTP/1.1\r\nhost: bücher.example\r\n\r\n".encode(),
    "two lengths": f"{POSTED}content-length: 2\r\ncontent-length: 20\r\n\r\n{{}}".encode(),
    "a length and chunks": f"{POSTED}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n".encode(),
    "a length of 10²⁰": f"{POSTED}content-length: {10**20}\r\n\r\n{{}}".encode(),
    "a header of 1 MB": f"{PLAIN}x: {'a' * (1 << 20)}\r\n\r\n".encode(),
    "10⁴ headers": (PLAIN + "".join(f"x{i}: 1\r\n" for i in range(10**4)) + "\r\n").encode(),
    "a path upwards": PLAIN.replace("/v1/models", "/page/../../../../etc/passwd").encode() + b"\r\n",
    "a hidden path upwards": PLAIN.replace("/v1/models", "/page/..%2fapp.py").encode() + b"\r\n",
    "a path upwards in the explorer": PLAIN.replace("/v1/models", "/explore/bench/page//etc/passwd").encode()
    + b"\r\n",
    "a page of another site": f"{PLAIN}origin: http://elsewhere.example\r\n\r\n".encode(),
}
CANCELLED = 1000


async def send(
    port: int, content: bytes, method: str = "POST", path: str = "/v1/completions"
) -> tuple[int, float]:
    """The status of an answer, and the seconds that it took."""
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
    head += f"connection: close\r\ncontent-length: {len(content)}\r\n\r\n"
    return await send_raw(port, head.encode() + content)


async def send_raw(port: int, content: bytes) -> tuple[int, float]:
    """The status of an answer to these bytes, and the seconds that it took."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def write() -> None:
        for first in range(0, len(content), 1 << 16):
            writer.write(content[first : first + (1 << 16)])
            await writer.drain()

    writing = asyncio.ensure_future(write())
    line = await reader.readline()
    seconds = time.perf_counter() - began
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    writer.close()
    return int(line.split()[1]), seconds


async def slow_headers(port: int) -> float:
    """Seconds until a connection is closed that sends a header byte by byte, while others are served."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began = time.perf_counter()
    while time.perf_counter() - began < 40:
        try:
            writer.write(b"x")
            await writer.drain()
            if reader.at_eof() or await asyncio.wait_for(reader.read(1), 0.5) == b"":
                break
        except TimeoutError:
            await get(port, "/health/live")
        except OSError:
            break
    return time.perf_counter() - began


async def cancel_streams(port: int) -> float:
    """Seconds until no text is open, after many streams whose clients have left."""
    content = completion(max_tokens=500, stream=True)
    head = f"{POSTED}content-length: {len(content)}\r\n\r\n"

    async def leave(place: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode() + content)
        if place % 2:
            await reader.readline()
        writer.transport.abort()

    for first in range(0, CANCELLED, 50):
        await asyncio.gather(*(leave(place) for place in range(first, first + 50)), return_exceptions=True)
    began = time.perf_counter()
    while time.perf_counter() - began < 60 and await open_texts(port):
        await asyncio.sleep(0.05)
    return time.perf_counter() - began


async def open_texts(port: int) -> float:
    """Texts that are generated or wait, and slots in use, of all models."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n".encode())
    lines = (await reader.read()).decode().splitlines()
    writer.close()
    return sum(
        float(line.split()[-1])
        for line in lines
        if line.startswith(("clearhead_open_texts{", "clearhead_used_slots{"))
    )


async def attack(port: int, process_id: int) -> dict[str, Any]:
    """Everything, one after the other."""
    await send(port, completion())
    before = resident_mb(process_id)
    found: dict[str, Any] = {}
    for name, content in BODIES.items():
        found[name] = await send(port, content)
        await get(port, "/health/ready")
    for method in ("GET", "DELETE", "TRACE", "ODD"):
        found[method] = await send(port, b"", method)
    for place, name in enumerate(TEMPLATES):
        body = {"model": f"chat-{place}", "messages": [{"role": "user", "content": "x"}]}
        found[name] = await send(port, json.dumps(body).encode(), path="/v1/chat/completions")
        await get(port, "/health/ready")
    for name, content in RAW.items():
        found[name] = await send_raw(port, content)
        await get(port, "/health/ready")
    return {
        "answers": found,
        "slow_headers": await slow_headers(port),
        "all_left": await cancel_streams(port),
        "growth_mb": resident_mb(process_id) - before,
    }


def main() -> None:
    options = arguments(__doc__).parse_args()
    with TemporaryDirectory() as place:
        folder, port = Path(place) / "model", free_port()
        write_model(folder, 96, 2, 4)
        chats = [f"chat-{number}={folder.parent / str(number)}" for number in range(len(TEMPLATES))]
        bundle = load(folder)
        assert bundle.tokenizer is not None
        for number, template in enumerate(TEMPLATES.values()):
            save(
                folder.parent / str(number),
                Bundle(bundle.module, bundle.tokenizer.with_chat_template(template)),
            )
        with process(serve(folder, port, *chats), port, Path(place) / "log", 1) as server:
            result = asyncio.run(attack(port, server.pid))
    for name, (status, seconds) in result["answers"].items():
        print(f"{name:32} {status}  {1000 * seconds:6.0f} ms")
    print(
        f"memory grew by {result['growth_mb']:.1f} MB; slow headers closed after {result['slow_headers']:.1f} s; "
        f"all of {CANCELLED} cancelled streams ended after {result['all_left']:.2f} s"
    )
    kept = {
        "4xx within 1 s": all(
            400 <= status < 500 and seconds < 1 for status, seconds in result["answers"].values()
        ),
        "memory grows by less than 50 MB": result["growth_mb"] < 50,
        "slow headers are closed": result["slow_headers"] < 21,
        "no text is left open": result["all_left"] < 60,
    }
    for name, is_kept in kept.items():
        print(f"{name}: {'kept' if is_kept else 'FAILED'}")
    report("serving_bad_input", {**result, "kept": kept}, options.save)
    raise SystemExit(not all(kept.values()))


if __name__ == "__main__":
    main()
