"""How the next token is chosen: logits enter; the effect of every rule on the likeliest tokens leaves (N28, N39).

The rules are those of `decoding.sampling`, in their order: ÷ temperature, top-k, top-p, and one drawn number.
"""

from dataclasses import dataclass

import torch

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.sampling import draw, likeliest, narrow, number
from clearhead.errors import InputError
from clearhead.inspection.passes import Pass
from clearhead.inspection.readings.predictions import check_position

CANDIDATES = 24  # the most that are listed


@dataclass(frozen=True)
class Candidate:
    """A token that may come next, before and after each rule."""

    id: int
    text: str
    logit: float
    p: float  # of all tokens, before any rule
    heated: float  # with temperature
    kept: bool  # by top-k and top-p
    final: float  # of the tokens that are kept
    lower: float  # its stretch of the cumulative distribution, on which the drawn number falls
    upper: float


@dataclass(frozen=True)
class Choice:
    """The likeliest tokens after a position, and the one that is chosen."""

    rows: list[Candidate]
    position: int
    drawn: float | None  # none at temperature 0
    chosen: int
    kept: int  # tokens that may be drawn
    vocabulary: int
    shown_mass: float  # of the candidates, before any rule
    log_sum: float  # ln ∑ exp z
    entropy: float  # in nats, before any rule


@torch.no_grad()
def explain_choice(captured: Pass, position: int, settings: DecodingConfig, step: int) -> Choice:
    """The likeliest tokens after a position, before and after each rule, and the one that is drawn at a step."""
    if captured.module.config.head != "language":
        raise InputError("This model predicts no tokens: it has no language head.")
    check_position(captured, captured.top, position)
    Z = captured.trace.row(position)[None].float()  # (1, vocabulary)
    P = torch.softmax(Z, -1)
    temperature = settings.temperature or 0.0
    heated = torch.softmax((Z - Z.amax(-1, keepdim=True)) / temperature, -1) if temperature else P
    kept = narrow(Z, settings)
    if not temperature:  # the likeliest, with certainty
        kept = torch.full_like(Z, -torch.inf).index_fill(1, likeliest(Z), 0.0)
    final = torch.softmax(kept, -1, dtype=torch.double)
    upper = final.cumsum(-1)
    drawn = number(settings.seed or 0, step)
    chosen = int(draw(kept, torch.tensor([drawn], dtype=torch.double))) if temperature else int(likeliest(Z))
    ids = list(dict.fromkeys([*Z[0].topk(min(CANDIDATES, Z.shape[1])).indices.tolist(), chosen]))
    piece, columns = captured.inspector.tokenizer(captured.top).piece, (Z, P, heated, kept, final, upper)
    return Choice(
        rows=[candidate(id, piece(id), *(float(X[0, id]) for X in columns)) for id in ids],
        position=position % len(captured.ids[captured.top]),
        drawn=drawn if temperature else None,
        chosen=chosen,
        kept=int((kept > -torch.inf).sum()),
        vocabulary=Z.shape[1],
        shown_mass=float(P[0, ids].sum()),
        log_sum=float(torch.logsumexp(Z[0].double(), -1)),
        entropy=float(torch.special.entr(P.double()).sum()),
    )


def candidate(
    id: int, text: str, logit: float, p: float, heated: float, kept: float, final: float, upper: float
) -> Candidate:
    """One row of the table; a logit that the rules set to −∞ is not kept."""
    return Candidate(id, text, logit, p, heated, kept > -torch.inf, final, upper - final, upper)
