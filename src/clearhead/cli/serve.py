"""`clearhead serve MODEL…`: an HTTP server for the clients that people already have."""

import sys
from functools import partial
from typing import Annotated

import typer

from clearhead.cli.listening import HOST, AllowedHost, Host, KeyFile, check_address, listen, read_keys
from clearhead.cli.options import with_settings
from clearhead.cli.stages import load_pytorch
from clearhead.config.serving import ServingConfig
from clearhead.errors import InputError

DEFAULT_PORT = 8000
with_serving = partial(with_settings, group=ServingConfig, name="settings", panel="Serving")


@with_serving
def serve(
    settings: ServingConfig,
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL", help="Model folders, or run folders that contain one; NAME=FOLDER names one."
        ),
    ],
    host: Host = HOST,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help=f"Port to listen on (default: {DEFAULT_PORT}, or a free one)."),
    ] = None,
    key_file: KeyFile = None,
    allowed_host: AllowedHost = None,
) -> None:
    """Serve models over HTTP, to OpenAI's clients and to a browser."""
    keys = read_keys(key_file)
    check_address(host, keys)
    load_pytorch(f"Reading {', '.join(models)}")
    try:
        from clearhead.serving.server.process import address_of, open_service, run
    except ModuleNotFoundError as error:
        raise InputError(f"serve needs {error.name}.\nInstall it: pip install 'clearhead[serve]'") from None
    from clearhead.serving.server.access import Keys

    known, service = Keys(keys), open_service(models, settings)
    with listen(port, host, DEFAULT_PORT) as listener:
        service.start()
        names = ", ".join(service.models)
        print(address_of(listener, known), flush=True)
        print(f"Serving {names}. Press Ctrl-C to stop.", file=sys.stderr, flush=True)
        run(service, known, listener, allowed_host or [])
