"""Does bad input hurt the server? Each is refused within a second, a probe is answered right after, memory stays.

Bodies that are too large, too deep, too many of something, not JSON, or not numbers; headers that never end while
others are served. Bars: a status of 4xx within 1 s each, a probe answered after each, and memory in use grows by less
than 50 MB.
"""

import asyncio
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness import arguments, report
from serving_client import free_port, get, process, resident_mb, serve, write_model

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
}


async def send(port: int, content: bytes, method: str = "POST") -> tuple[int, float]:
    """The status of an answer, and the seconds that it took."""
    head = (
        f"{method} /v1/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
    )
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def write() -> None:
        writer.write(f"{head}connection: close\r\ncontent-length: {len(content)}\r\n\r\n".encode())
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
    return {
        "answers": found,
        "slow_headers": await slow_headers(port),
        "growth_mb": resident_mb(process_id) - before,
    }


def main() -> None:
    options = arguments(__doc__).parse_args()
    with TemporaryDirectory() as place:
        folder, port = Path(place) / "model", free_port()
        write_model(folder, 96, 2, 4)
        with process(serve(folder, port), port, Path(place) / "log", 1) as server:
            result = asyncio.run(attack(port, server.pid))
    for name, (status, seconds) in result["answers"].items():
        print(f"{name:26} {status}  {1000 * seconds:6.0f} ms")
    print(
        f"memory grew by {result['growth_mb']:.1f} MB; slow headers closed after {result['slow_headers']:.1f} s"
    )
    kept = {
        "4xx within 1 s": all(
            400 <= status < 500 and seconds < 1 for status, seconds in result["answers"].values()
        ),
        "memory grows by less than 50 MB": result["growth_mb"] < 50,
        "slow headers are closed": result["slow_headers"] < 21,
    }
    for name, is_kept in kept.items():
        print(f"{name}: {'kept' if is_kept else 'FAILED'}")
    report("serving_bad_input", {**result, "kept": kept}, options.save)
    raise SystemExit(not all(kept.values()))


if __name__ == "__main__":
    main()
