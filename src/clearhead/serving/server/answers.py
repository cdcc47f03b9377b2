"""The JSON of texts: tokens and parts enter; choices, log-probabilities and usage leave, in OpenAI's words."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from clearhead.decoding.engine import Token
from clearhead.decoding.stopping import Reason
from clearhead.serving.server.served import Asked
from clearhead.text.tokenizers.stream import Stream
from clearhead.text.tokenizers.token_bytes import is_utf8, token_bytes
from clearhead.text.tokenizers.tokenizer import Tokenizer

FINISHES: dict[Reason | None, str | None] = {
    None: None,
    "end": "stop",
    "stop": "stop",
    "length": "length",
    "context": "length",
    "time": "length",
}


def counts(read: int, written: int) -> dict[str, Any]:
    """How many tokens were read and written."""
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def usage(asked: Asked, written: int) -> dict[str, Any]:
    """How many tokens were read and written; of those read, how many were known."""
    known = {"prompt_tokens_details": {"cached_tokens": asked.reused_tokens}}
    return counts(asked.prompt_tokens, written) | known


@lru_cache(maxsize=1 << 14)  # of a text with alternatives most are asked for again and again
def spelled(tokenizer: Tokenizer, id: int) -> str:
    """What a token spells; where that is part of a character, its bytes, as OpenAI writes them."""
    raw = token_bytes(tokenizer, id)
    return raw.decode() if is_utf8(raw) else "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def chat_logprobs(tokenizer: Tokenizer, tokens: Sequence[Token]) -> dict[str, Any]:
    """The log-probabilities of an answer."""

    def entry(id: int, logprob: float) -> dict[str, Any]:
        raw = token_bytes(tokenizer, id)
        return {"token": spelled(tokenizer, id), "logprob": logprob, "bytes": list(raw)}

    return {
        "content": [
            {**entry(token.id, token.logprob), "top_logprobs": [entry(*other) for other in token.top]}
            for token in tokens
        ],
        "refusal": None,
    }


class CompletionLogprobs:
    """The log-probabilities of one text, part by part: each token knows where it starts."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer, self.stream, self.offset = tokenizer, Stream(tokenizer), 0

    def of_prompt(self, ids: Sequence[int], scores: Sequence[Token]) -> dict[str, Any]:
        """Those of the prompt; there is none for its first token."""
        first = {
            "tokens": [spelled(self.tokenizer, ids[0])],
            "token_logprobs": [None],
            "top_logprobs": [None],
        }
        first["text_offset"] = [self.offset]
        self.offset += len(self.stream.push(ids[0]))
        return joined([first, self.of(scores)])

    def of(self, tokens: Sequence[Token]) -> dict[str, Any]:
        """Those of the tokens that come next."""
        offsets = []
        for token in tokens:
            offsets.append(self.offset)
            self.offset += len(self.stream.push(token.id))
        return {
            "tokens": [spelled(self.tokenizer, token.id) for token in tokens],
            "token_logprobs": [token.logprob for token in tokens],
            "top_logprobs": [
                {
                    spelled(self.tokenizer, id): logprob
                    for id, logprob in [*reversed(token.top), (token.id, token.logprob)]
                }
                for token in tokens
            ],
            "text_offset": offsets,
        }


def joined(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The log-probabilities of several parts as one."""
    keys = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    return {key: [value for part in parts for value in part[key]] for key in keys}
