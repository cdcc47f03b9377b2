"""The process of the server: model folders enter; it serves until a signal ends it, or until its engine hangs."""

import gc
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from clearhead.api import load
from clearhead.config.serving import ServingConfig
from clearhead.errors import InputError
from clearhead.model_folder import find
from clearhead.serving.server.access import Keys
from clearhead.serving.server.app import server_app
from clearhead.serving.server.operations import JsonLines
from clearhead.serving.server.served import ServedModel
from clearhead.serving.server.service import Service
from clearhead.serving.sockets import BoundedListener, server_for

log = logging.getLogger(__name__)
DRAIN_SECONDS = 30  # for answers that are under way
GIVEN_UP_AFTER = (
    30  # looks in a row without a new beat, after which the process ends, so that it is started again
)
LOOK_SECONDS = 1.0
SWITCH_SECONDS = 0.0005  # after which the decode thread lets the event loop run
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def open_service(models: Sequence[str], settings: ServingConfig) -> Service:
    """A service with the models of these folders; NAME=FOLDER names one."""
    served: dict[str, ServedModel] = {}
    for given in models:
        name, is_named, path = given.partition("=")
        folder = find(Path(path if is_named else given)).resolve()
        if not is_named:
            name = folder.parent.name if folder.name in ("best", "last") else folder.name
        if not NAME.fullmatch(name) or name in served:
            reason = "is the name of two models" if name in served else "cannot be the name of a model"
            raise InputError(f"{name!r} {reason}.\nName it, in letters and digits: NAME={path or given}")
        served[name] = ServedModel(name, load(folder), settings)
        served[name].prepare()
    return Service(list(served.values()), settings)


def address_of(listener: BoundedListener, keys: Keys) -> str:
    """The address of the page; with a token that lets one browser in, where there are keys."""
    host, port = listener.getsockname()
    place = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}/"
    return f"{place}?token={keys.new_link()}" if keys.digests else place


def run(service: Service, keys: Keys, listener: BoundedListener, hosts: Sequence[str]) -> None:
    """Serves until SIGTERM or Ctrl-C; answers that are under way are finished first."""
    log_as_json()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()  # models and libraries: to search them for garbage takes a tenth of a second, in which nobody is served
    threading.Thread(target=watch, args=[service], daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn sends it again when it has finished
    host = listener.getsockname()[0]
    app = server_app(service, keys, [host, *hosts])
    server_for(app, DRAIN_SECONDS).run(sockets=[listener])
    service.stop()


def watch(service: Service) -> None:
    """Ends the process if the decode thread is dead or hangs: whoever supervises it starts it again.

    Looks are counted, not seconds: a process that was paused as a whole has missed both.
    """
    worker, last, missed = service.worker, 0.0, 0
    while not service.is_stopped.wait(LOOK_SECONDS):
        missed = missed + 1 if worker.beat == last else 0
        last = worker.beat
        if not worker.thread.is_alive() or missed >= GIVEN_UP_AFTER:
            log.critical("the decode thread hangs or is dead; the process ends")
            sys.stderr.flush()
            os._exit(1)


def log_as_json() -> None:
    """Logs of the server as lines of JSON on stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("clearhead")
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.INFO)
