"""The entrance: a command line enters, an exit code leaves (0 done, 1 a `ClearheadError`, 2 misuse, 130 Ctrl-C)."""

import atexit
import errno
import signal
import sys
from io import TextIOWrapper
from tempfile import gettempdir

from clearhead.cli.terminal import for_stream
from clearhead.errors import ClearheadError


def advice_on(error: OSError) -> str:
    """What to do about a full disk: what names no file was written to the temporary folder."""
    folder = gettempdir()
    is_temporary = not error.filename or str(error.filename).startswith(folder)
    if error.errno != errno.ENOSPC or not is_temporary:
        return ""
    return f"\nThe temporary folder {folder} may be full; set TMPDIR to one with more room."


def main() -> None:
    """Run one command; an error that the user can fix is printed on stderr, without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # texts are UTF-8, whatever the locale says
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        from clearhead.cli.commands import app  # here, since the import takes a moment and Ctrl-C may come

        app()
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        sys.exit(130)
    except ClearheadError as error:
        print(for_stream(f"error: {error}", sys.stderr), file=sys.stderr)
        sys.exit(1)
    except OSError as error:  # such as a full disk, a name that is too long, a missing permission
        where = f"{error.filename}: " if error.filename else ""
        message = f"error: {where}{error.strerror or error}.{advice_on(error)}"
        print(for_stream(message, sys.stderr), file=sys.stderr)
        sys.exit(1)
    finally:  # registered last, so called first: Ctrl-C while libraries clean up would print their tracebacks
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
