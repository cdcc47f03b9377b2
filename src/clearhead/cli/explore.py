"""`clearhead explore MODEL`: every number of a forward pass, on a page in the browser, on this machine only."""

import socket
import sys
from typing import Annotated

import typer

from clearhead.cli.options import ModelFolder
from clearhead.errors import InputError

HOST, PORT = "127.0.0.1", 7878


def explore(
    model: ModelFolder,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help=f"Where to listen; {PORT} or a free one if not given."),
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the browser.")] = False,
) -> None:
    """Open a model in the browser and see every number of a pass."""
    import uvicorn

    from clearhead.api import load
    from clearhead.checkpoint import find
    from clearhead.serving.explorer import explorer_app

    folder = find(model).resolve()
    name = folder.parent.name if folder.name in ("best", "last") else folder.name
    app = explorer_app(load(folder), name, str(folder))
    with listen(port) as listener:
        address = f"http://{HOST}:{listener.getsockname()[1]}/"
        print(address, flush=True)
        print("Only this machine can reach it. Ctrl-C ends it.", file=sys.stderr)
        if not no_open:
            open_browser(address)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", server_header=False, lifespan="off"))
        server.run(sockets=[listener])


def listen(port: int | None) -> socket.socket:
    """A socket on the loopback address, at the port asked for or, where none was, at a free one."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, PORT if port is None else port))
    except OSError as error:
        if port is not None:
            listener.close()
            raise InputError(
                f"Port {port} of {HOST} cannot be used: {error.strerror}.\nName another with --port."
            ) from None
        listener.bind((HOST, 0))
    listener.listen()  # from here on a browser waits for the answer
    return listener


def open_browser(address: str) -> None:
    """Opens the page, without waiting for a browser that takes its time."""
    import webbrowser
    from threading import Thread

    Thread(target=webbrowser.open, args=(address,), daemon=True).start()
