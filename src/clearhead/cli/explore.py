"""`clearhead explore [MODEL]`: every number of a forward pass, on a page in the browser, on this machine only."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.listening import (
    ANY,
    HOST,
    AllowedHost,
    Host,
    KeyFile,
    check_address,
    listen,
    read_keys,
)
from clearhead.cli.stages import load_pytorch

if TYPE_CHECKING:
    from clearhead.api import Model

PORT = 7878
FIRST = Path("builtin:translator")  # what is opened if no model is named
FOREIGN = "MODEL"  # in place of a folder, for a model that was imported


def explore(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="[MODEL]",
            show_default=False,
            help="A model folder, a run folder, a Hugging Face folder, a .gguf file, or builtin:translator and "
            "builtin:language-model of the package (default: builtin:translator).",
        ),
    ] = FIRST,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help=f"Port to listen on (default: {PORT}, or a free one)."),
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the browser.")] = False,
    host: Host = HOST,
    key_file: KeyFile = None,
    allowed_host: AllowedHost = None,
    lessons: Annotated[
        Path | None,
        typer.Option("--lessons", metavar="FOLDER", help="A folder with lessons of your own, shown first."),
    ] = None,
) -> None:
    """Open a model in the browser and see every number of a pass."""
    keys = read_keys(key_file)
    check_address(host, keys)
    load_pytorch(f"Reading {model}")
    from clearhead.decoding.generate import tokenizer_of
    from clearhead.inspection.kept_models import kept_models
    from clearhead.model_folder import find
    from clearhead.page.lessons.files import read_lessons
    from clearhead.serving.access_token import new_token
    from clearhead.serving.explorer.app import explorer_app
    from clearhead.serving.origin import LOOPBACK
    from clearhead.serving.server.access import Keys
    from clearhead.serving.sockets import server_for

    if lessons is not None:
        read_lessons(lessons)  # its mistakes are reported before the model is read
    loaded, name, folder = read_model(model)
    kept = kept_models(find(Path(folder))) if folder != FOREIGN else []
    hosts = (*LOOPBACK, host, *(allowed_host or []))
    tokenizer_of(loaded.bundle.tokenizer)  # without which the page can show no text
    if keys:
        known = Keys(keys)
        token, who = known.new_link(), "Whoever has a key can reach it, and one browser with this link."
        app = explorer_app(loaded, name, folder, hosts, keys=known, lessons=lessons, kept=kept)
    else:
        token, who = new_token(), "Only this machine can reach it, with this token."
        app = explorer_app(loaded, name, folder, token=token, lessons=lessons, kept=kept)
    with listen(port, host, PORT) as listener, ended_by_ctrl_c():
        address = f"http://{HOST if host == ANY else host}:{listener.getsockname()[1]}/?token={token}"
        print(address, flush=True)
        print(f"{who} Press Ctrl-C to stop.", file=sys.stderr)
        with nullcontext() if no_open else opened_in_browser(address):
            server_for(app).run(sockets=[listener])


def read_model(model: Path) -> tuple["Model", str, str]:
    """A model, its name, and what `clearhead.load` takes to load it again; a foreign one is imported."""
    from clearhead.api import load
    from clearhead.exchange.importing import import_model
    from clearhead.model_folder import find, is_model_folder, model_in
    from clearhead.shipped import BUILTIN

    is_foreign = model.suffix.lower() == ".gguf" and model.is_file()
    is_foreign |= (model / "config.json").is_file() and not is_model_folder(model_in(model))
    if is_foreign:
        with tempfile.TemporaryDirectory(prefix="clearhead-explore-") as place:
            import_model(model, Path(place) / "model")
            return (
                load(Path(place) / "model"),
                model.stem if model.is_file() else model.resolve().name,
                FOREIGN,
            )
    folder = find(model).resolve()
    if str(model).startswith(BUILTIN):
        return load(folder), str(model).removeprefix(BUILTIN), str(model)
    return load(folder), folder.parent.name if folder.name in ("best", "last") else folder.name, str(folder)


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """Ends the process at Ctrl-C or SIGTERM without waiting for a pass that a thread still computes."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130)


@contextmanager
def opened_in_browser(address: str) -> Iterator[None]:
    """Opens an address, without waiting for the browser, by a private file in the home folder.

    Other users can read the command line of a browser, and so an address on it. Some browsers may not read files
    in a temporary folder.
    """
    import webbrowser
    from threading import Thread

    try:
        handle, name = tempfile.mkstemp(".html", "clearhead-explore-", Path.home())
    except OSError:
        print("The browser could not be opened. Open the address yourself.", file=sys.stderr)
        yield
        return
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">')
        Thread(target=webbrowser.open, args=(Path(name).as_uri(),), daemon=True).start()
        yield
    finally:
        Path(name).unlink(missing_ok=True)
