"""What the commands that answer over HTTP share: where they listen, and the keys that let others in."""

import ipaddress
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.errors import InputError

if TYPE_CHECKING:
    from clearhead.serving.sockets import BoundedListener

HOST, ANY = "127.0.0.1", "0.0.0.0"
Host = Annotated[
    str, typer.Option("--host", help="Address to listen on; any other than this machine's own needs a key.")
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file", help="File with the keys that requests need, one per line; also in CLEARHEAD_KEYS."
    ),
]
AllowedHost = Annotated[
    list[str] | None,
    typer.Option("--allowed-host", help="A name under which it is reached, besides this machine's own."),
]
KEYS = "CLEARHEAD_KEYS"
LARGEST_KEY_FILE = 1 << 16  # bytes


def listen(port: int | None, host: str = HOST, default: int = 7878) -> "BoundedListener":
    """A socket at the given port or, if omitted, at the default or a free one."""
    import socket

    from clearhead.serving.sockets import BoundedListener, most_connections

    listener = BoundedListener(most_connections())
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, default if port is None else port))
    except OSError as error:
        if port is not None or host != HOST:
            listener.close()
            wanted = default if port is None else port
            raise InputError(
                f"Port {wanted} of {host} cannot be used: {error.strerror}.\nChoose another with --port."
            ) from None
        listener.bind((host, 0))
    listener.listen()  # from here on a client waits for the answer
    return listener


def read_keys(file: Path | None) -> list[str]:
    """The keys of a file, one per line, and those of the environment."""
    keys = os.environ.get(KEYS, "").replace(",", " ").split()
    if file is None:
        return keys
    try:
        with file.open("rb") as stream:
            lines = stream.read(LARGEST_KEY_FILE).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"The keys of {file} cannot be read: {error}.\nWrite one key per line.") from None
    found = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not found:
        raise InputError(f"{file} contains no key.\nWrite one key per line.")
    return [*keys, *found]


def check_address(host: str, keys: list[str]) -> None:
    """Rejects an address that others can reach, if there is no key."""
    try:
        is_here = ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        raise InputError(
            f"--host {host} is not an IPv4 address.\nUse 127.0.0.1, or 0.0.0.0 for all."
        ) from None
    if not is_here and not keys:
        raise InputError(
            f"--host {host} lets other machines in, but there is no key.\n"
            f"Name a file with one key per line: --key-file FILE, or set {KEYS}."
        )
