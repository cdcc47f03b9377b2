"""How the next token is chosen, step by step: logits enter; every rule's effect on the likeliest tokens leaves.

The rules are those of `decoding.sampling`, in their order: ÷ temperature, top-k, top-p, and one drawn number.
"""

import time
from typing import Any

import torch
from torch import Tensor

from clearhead.api import Model
from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.sampling import draw, likeliest, log_probabilities, narrow, number
from clearhead.errors import InputError
from clearhead.models.decoder import Decoder
from clearhead.models.translator import Translator
from clearhead.serving.passes import Pass, largest_difference
from clearhead.serving.questions import MOST_TOKENS, Continuation
from clearhead.serving.readings import check_position, top_tokens
from clearhead.serving.tokens import show
from clearhead.text.tokenizer import Tokenizer

SHOWN = 24


@torch.no_grad()
def choice(
    seen: Pass, position: int, settings: DecodingConfig, step: int, tokenizer: Tokenizer
) -> dict[str, Any]:
    """The likeliest tokens after a position, before and after each rule, and the one that is drawn."""
    if seen.module.config.head != "language":
        raise InputError("This model predicts no tokens: it has no language head.")
    check_position(seen, seen.top, position)
    n = len(seen.ids[seen.top])
    Z = seen.trace["logits"][:, position].float()  # (1, vocabulary)
    P = torch.softmax(Z, -1)
    temperature = settings.temperature or 0.0
    heated = torch.softmax((Z - Z.amax(-1, keepdim=True)) / temperature, -1) if temperature else P
    kept = narrow(Z, settings)
    if not temperature:  # the likeliest, with certainty
        kept = torch.full_like(Z, -torch.inf).index_fill(1, likeliest(Z), 0.0)
    final = torch.softmax(kept, -1, dtype=torch.double)
    drawn = number(settings.seed or 0, step)
    chosen = int(draw(kept, torch.tensor([drawn], dtype=torch.double))) if temperature else int(likeliest(Z))
    upper = final.cumsum(-1)
    ids = list(dict.fromkeys([*Z[0].topk(min(SHOWN, Z.shape[1])).indices.tolist(), chosen]))
    rows = [
        {
            "id": id,
            "text": tokenizer.piece(id),
            "logit": float(Z[0, id]),
            "p": float(P[0, id]),
            "heated": float(heated[0, id]),
            "kept": bool(kept[0, id] > -torch.inf),
            "final": float(final[0, id]),
            "from": float(upper[0, id] - final[0, id]),
            "to": float(upper[0, id]),
        }
        for id in ids
    ]
    return {
        "rows": rows,
        "position": position % n,
        "drawn": drawn if temperature else None,
        "chosen": chosen,
        "kept": int((kept > -torch.inf).sum()),
        "vocabulary": Z.shape[1],
        "shown_mass": float(P[0, ids].sum()),
        "log_sum": float(torch.logsumexp(Z[0].double(), -1)),
        "entropy": float(torch.special.entr(P.double()).sum()),
    }


class Writing:
    """One text written twice, side by side: with the cache, and with everything computed again each time."""

    def __init__(self, model: Model, request: Continuation) -> None:
        assert isinstance(model.module, Decoder)
        self.model, self.module, self.request = model, model.module, request
        task = model.generator.task(request.text)
        self.prompt, self.source = task.prompt, task.source
        if self.source == []:
            raise InputError("There is nothing to translate.\nGive a text.")
        self.settings = DecodingConfig(
            temperature=request.temperature, top_k=request.top_k, top_p=request.top_p, seed=request.seed
        )
        room = MOST_TOKENS if model.config.context is None else min(MOST_TOKENS, model.config.context)
        self.count = min(request.max_tokens, room - len(self.prompt))
        if self.count < 1:
            raise InputError(
                f"The prompt has {len(self.prompt)} tokens; {room} is the most there is room for."
            )

    @torch.no_grad()
    def run(self) -> dict[str, Any]:
        """Every step: what was chosen, what it cost both ways, and how far the logits are apart."""
        source = None if self.source is None else torch.tensor([self.source])
        state = self.module.start(1, len(self.prompt) + self.count, *([] if source is None else [source]))
        ids, new, steps = list(self.prompt), list(self.prompt), []
        for step in range(self.count):
            start = time.perf_counter()
            Z = self.module.step(torch.tensor([new]), state, last=True)[:, -1].float()
            between = time.perf_counter()
            again = self.whole(ids, source)
            end = time.perf_counter()
            token, furthest = self.pick(Z, step), largest_difference(Z[0], again[0])
            steps.append(
                {
                    "token": vars(show(self.model.tokenizer, token, (0, 0))),
                    "logprob": float(log_probabilities(Z)[0, token]),
                    "top": top_tokens(self.model.tokenizer, torch.softmax(Z[0], -1), 5),
                    "read": len(ids),
                    "computed": len(new),
                    "cache_bytes": cache_bytes(state.cache),
                    "seconds": between - start,
                    "seconds_without": end - between,
                    "furthest": vars(furthest),
                    "difference": furthest.size,
                }
            )
            if token in self.model.generator.end:
                break
            ids, new = [*ids, token], [token]
        tokenizer = self.model.tokenizer
        return {"prompt": [vars(show(tokenizer, id, (0, 0))) for id in self.prompt], "steps": steps}

    def whole(self, ids: list[int], source: Tensor | None) -> Tensor:
        """The last logits by one pass over all tokens, the source too."""
        given = (torch.tensor([ids]),) if source is None else (torch.tensor([ids]), source)
        module = self.module
        X = module.vectors(*given) if isinstance(module, Translator) else module.vectors(given[0])
        return module.head(X[:, -1:])[:, -1].float()

    def pick(self, Z: Tensor, step: int) -> int:
        """The next token by the rules of decoding."""
        if not self.request.temperature:
            return int(likeliest(Z))
        drawn = torch.tensor([number(self.request.seed, step)], dtype=torch.double)
        return int(draw(narrow(Z, self.settings), drawn))


def cache_bytes(cache: Any) -> int:
    """Memory of the keys and values of the tokens read so far, without places held ready."""
    used = cache.used
    return sum(X[:1, :, :used].numel() * X.element_size() for X in (*cache.K, *cache.V))
