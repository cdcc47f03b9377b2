"""Keeps a text to a JSON schema: a schema enters; which tokens may follow leaves, computed by llguidance.

The text is then valid JSON of the schema when it ends by itself; one that ends at a limit may be incomplete.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import InputError
from clearhead.text.tokenizers.token_bytes import token_bytes
from clearhead.text.tokenizers.tokenizer import Tokenizer

LARGEST_SCHEMA = 1 << 15  # characters
TRIAL = Path(__file__).with_name("schema_trial.py")
TRIAL_SECONDS = 30.0  # also beside many other programs; `schema_trial.py` limits what it may work
KILLED = -9  # the return code by SIGKILL, which `schema_trial.py` does not use


class Vocabulary:
    """A tokenizer as llguidance asks for it: the bytes of every token."""

    def __init__(self, tokenizer: Tokenizer, size: int, ends: Sequence[int]) -> None:
        self.eos_token_id, self.bos_token_id = ends[0], None
        self.special_token_ids = [id for id in range(tokenizer.size) if tokenizer.is_special(id)]
        self.tokens = [token_bytes(tokenizer, id) if id < tokenizer.size else b"" for id in range(size)]
        self.encode = tokenizer.encode

    def __call__(self, text: Any) -> list[int]:
        return self.encode(text.decode(errors="replace") if isinstance(text, bytes) else text)


@lru_cache(maxsize=8)
def guide_of(tokenizer: Tokenizer, size: int, ends: tuple[int, ...]) -> Any:
    """The tokenizer as llguidance has it, made once."""
    try:
        from llguidance import LLTokenizer, TokenizerWrapper
    except ImportError:
        raise InputError(
            "response_format needs llguidance.\nInstall it: pip install 'clearhead[serve]'"
        ) from None
    return LLTokenizer(
        TokenizerWrapper(Vocabulary(tokenizer, size, ends)), n_vocab=size, eos_token=list(ends)
    )


@lru_cache(maxsize=256)
def fault_of(schema: str) -> str:
    """Why another process cannot follow a schema, or not soon enough; nothing if it can.

    What a busy machine or another program did to that process is an error, which is not remembered.
    """
    tried = subprocess.run(
        [sys.executable, "-P", str(TRIAL)], input=schema, capture_output=True, text=True, timeout=TRIAL_SECONDS
    )  # fmt: skip
    if tried.returncode > 0 or tried.returncode == KILLED:
        raise RuntimeError(f"No JSON schema can be tried: {tried.stderr[-500:]}")
    return "it takes too long, or too much memory" if tried.returncode else tried.stdout.strip()


class JsonGrammar:
    """The JSON that a schema allows, token by token."""

    def __init__(
        self, tokenizer: Tokenizer, size: int, ends: Sequence[int], schema: Mapping[str, Any]
    ) -> None:
        text = json.dumps(schema)
        if len(text) > LARGEST_SCHEMA:
            raise InputError(
                f"The JSON schema has {len(text):,} characters; the limit is {LARGEST_SCHEMA:,}.\nSimplify it."
            )
        if not ends:
            raise InputError("The model has no end token, so a JSON text could never end.")
        guide = guide_of(tokenizer, size, tuple(ends))
        from clearhead.decoding.live.schema_trial import matcher_of

        try:
            fault = fault_of(text)
        except subprocess.TimeoutExpired:
            raise refused("it takes too long") from None
        if fault:
            raise refused(fault)
        try:
            self.matcher = matcher_of(text, guide)
        except Exception as error:
            raise refused(str(error)) from None
        self.size = size
        self.check()

    def check(self) -> None:
        """Rejects a schema that cannot be followed."""
        if self.matcher.is_error():
            raise refused(self.matcher.get_error())

    def mask(self, Z: Tensor) -> Tensor:
        """The logits (vocabulary,) with −∞ for tokens that may not follow."""
        bits = torch.frombuffer(bytearray(self.matcher.compute_logit_bias()), dtype=torch.uint8)
        self.check()
        Z = Z.masked_fill(bits[: len(Z)].to(Z.device) == 0, -torch.inf)
        if float(Z.max()) == -torch.inf:
            raise InputError(
                "Every token that the schema allows next is banned.\nBan fewer ids, or lower min_tokens."
            )
        return Z

    def take(self, token: int) -> None:
        """One more token of the text."""
        if not self.matcher.is_stopped():
            self.matcher.consume_token(token)


def refused(reason: str) -> InputError:
    """The error of a schema that cannot be followed."""
    return InputError(f"The JSON schema cannot be followed: {reason[:300]}")
