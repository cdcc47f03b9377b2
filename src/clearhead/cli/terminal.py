"""What a terminal may be sent: a text enters; on a terminal its control characters leave escaped, in a pipe unchanged.

An escape sequence in a label or a generated text could otherwise move the cursor, retitle the window, or worse.
"""

import re
from typing import TextIO

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tabs and line feeds


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal."""
    return stream is not None and stream.isatty()


def for_stream(text: str, stream: TextIO | None) -> str:
    r"""A text as it may be printed there: on a terminal a control character is written \u001b, as in JSON."""
    if not is_terminal(stream):
        return text
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
