"""What the benchmarks of the server share: servers as processes, and a client that costs little.

The client shares two cores with the server, so it counts the events in what a socket gives, and parses none of them.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead.config.model import ModelConfig
from clearhead.config.model_base import AnyModelConfig
from clearhead.config.run import RunConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.corpora.python import documents, library
from clearhead.decoding.steppers.kernels import ready
from clearhead.model_folder import Bundle, save
from clearhead.models.build import build
from clearhead.text.tokenizers.tokenizer import Tokenizer

READY_SECONDS = 120.0
EVENT = b"data: {"


def write_model(folder: Path, d: int, blocks: int, h: int) -> int:
    """Writes a model of Llama's shape with random weights; how many it has."""
    config = ModelConfig(
        shape="decoder", d=d, h=h, decoder_blocks=blocks, context=1024, positions="rotary", norm="rms",
        feedforward="swiglu", tied=False,
    )  # fmt: skip
    return write(folder, config, TokenizerConfig(vocabulary=4000))


def write_recipe(folder: Path, recipe: str) -> int:
    """Writes a model as a recipe describes it, with random weights; how many it has."""
    config = RunConfig.read(recipe)
    return write(folder, config.model, config.tokenizer)


def write(folder: Path, config: AnyModelConfig, words: TokenizerConfig) -> int:
    """Writes a model with random weights that knows the words of Python; how many weights it has."""
    ready.prepare()  # so that servers find the compiled step, as on a machine where they have run before
    tokenizer = Tokenizer.train(list(documents(library(), False).values())[:200], words)
    module = build(config.model_copy(update={"vocabulary": tokenizer.size}), 1)
    save(folder, Bundle(module, tokenizer))
    return sum(weight.numel() for weight in module.parameters())


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def process(
    command: Sequence[str], port: int, log: Path, threads: int
) -> Iterator["subprocess.Popen[bytes]"]:
    """A server that listens on a port, until the end of the block."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file, env=environment) as run:
        try:
            end = time.monotonic() + READY_SECONDS
            while time.monotonic() < end and run.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            assert run.poll() is None, log.read_text()
            yield run
        finally:
            run.terminate()


def serve(model: Path, port: int, *options: str, before: str = "") -> list[str]:
    """The command that serves a model; a line of Python may come before it."""
    code = f"{before}\nfrom clearhead.cli.main import main; main()"
    return [sys.executable, "-c", code, "serve", f"bench={model}", "--port", str(port), *options]


@dataclass
class Stream:
    """When the parts of an answer arrived, in seconds."""

    status: int = 0
    began: float = 0.0
    parts: list[float] = field(default_factory=list)
    refused_after: float = 0.0
    is_whole: bool = False  # whether the stream was ended by the server's own mark

    @property
    def first(self) -> float:
        """The time to the first part."""
        return self.parts[0] - self.began

    @property
    def gaps(self) -> list[float]:
        """The times between parts."""
        return [b - a for a, b in zip(self.parts, self.parts[1:], strict=False)]


class Arrivals(asyncio.Protocol):
    """Notes when the parts of an answer arrive, and looks at nothing else of them."""

    def __init__(self, found: Stream) -> None:
        self.found, self.rest = found, b""
        self.is_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        """Counts the events, also those that arrive in two pieces."""
        found, text = self.found, self.rest + data
        if not found.status:
            found.status = int(text.split(b" ", 2)[1])
        found.parts += [time.perf_counter()] * text.count(EVENT)
        found.is_whole = found.is_whole or b"[DONE]" in text
        self.rest = text[1 - len(EVENT) :]

    def connection_lost(self, error: Exception | None) -> None:
        """The answer is over."""
        if error is None:
            self.is_over.set_result(None)
        else:
            self.is_over.set_exception(error)


async def ask(port: int, body: dict[str, Any], path: str = "/v1/completions") -> Stream:
    """One request, whose answer is a stream."""
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\nconnection: close\r\n"
    found = Stream(began=time.perf_counter())
    loop = asyncio.get_running_loop()
    transport, arrivals = await loop.create_connection(lambda: Arrivals(found), "127.0.0.1", port)
    transport.write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
    await arrivals.is_over
    found.refused_after = time.perf_counter() - found.began
    return found


async def get(port: int, path: str) -> float:
    """Seconds that a small answer takes."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n".encode())
    assert b" 200 " in await reader.readline()
    writer.close()
    return time.perf_counter() - began


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which a share of the values lies."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def resident_mb(process_id: int) -> float:
    """The memory that a process has in use."""
    pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def own_mb(process_id: int) -> float:
    """The part of it that is no file's, which the system cannot drop and read again."""
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) * 1024 / 1e6
