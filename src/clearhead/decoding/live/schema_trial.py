"""Tries a JSON schema in a process of its own: it enters on standard input; why it cannot be followed leaves, if so.

A few patterns that must all match can take llguidance hours and all memory, and nothing stops it but the system, which
ends this process. This file runs by its path and imports nothing of ours.
"""

import signal
import sys
from contextlib import suppress

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

MEMORY = 1 << 29  # bytes of the process, where the system can limit them
WORK_SECONDS = 0.25  # of a processor, however busy the machine is
FUEL, FUEL_OF_A_TOKEN = 100_000, 50_000  # what takes more is an error; usual schemas take far less


def limit() -> None:
    """Keeps a schema from the memory of the machine, and ends this process when it has worked for so long."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if hasattr(signal, "setitimer"):  # not on Windows
        signal.setitimer(signal.ITIMER_PROF, WORK_SECONDS)


def matcher_of(schema: str, tokenizer: LLTokenizer) -> LLMatcher:
    """What follows a schema, with its first mask: most of what it takes is taken here."""
    # Compact, or a model could write spaces for ever.
    grammar = LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_flexible": False})
    limits = LLParserLimits(initial_lexer_fuel=FUEL, step_lexer_fuel=FUEL_OF_A_TOKEN)
    matcher = LLMatcher(tokenizer, grammar, limits=limits)
    if not matcher.is_error():
        matcher.compute_logit_bias()
    return matcher


if __name__ == "__main__":
    limit()
    try:
        reason = matcher_of(sys.stdin.read(), LLTokenizer("byte")).get_error()
    except BaseException as error:  # llguidance's panics are not of the class Exception
        reason = str(error) or type(error).__name__  # a MemoryError says nothing
    sys.stdout.write(reason)
