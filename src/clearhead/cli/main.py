"""The entrance: a command line enters, an exit code leaves (0 done, 1 a `ClearheadError`, 2 misuse, 130 Ctrl-C)."""

import sys
from io import TextIOWrapper

from clearhead.errors import ClearheadError


def main() -> None:
    """Run one command; an error that the user can mend is shown on stderr, without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # texts are UTF-8, whatever the terminal says it is
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        from clearhead.cli.commands import app  # within reach of what catches Ctrl-C, since it takes a moment

        app()
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        sys.exit(130)
    except ClearheadError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:  # a disk that is full, a name that is too long, a right that is missing
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror or error}.", file=sys.stderr)
        sys.exit(1)
