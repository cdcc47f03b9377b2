"""Choosing the next token: logits Z (b, vocabulary) become other logits, and then a token.

Each rule is a function from logits to logits; a token that may not be drawn has −∞. `apply_rules` applies those
that the settings ask for, in the order of this file. The token is then the likeliest, or drawn by one random
number per step, which depends on the sequence's own seed and on nothing else in the batch.
"""

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from clearhead.config.decoding import DecodingConfig


def add_bias(Z: Tensor, bias: dict[int, float]) -> Tensor:
    """z_t + bias_t."""
    Z = Z.clone()
    Z[:, list(bias)] += torch.tensor(list(bias.values()), dtype=Z.dtype, device=Z.device)
    return Z


def ban(Z: Tensor, ids: Sequence[int]) -> Tensor:
    """−∞ for these ids."""
    Z = Z.clone()
    Z[:, list(ids)] = -torch.inf
    return Z


def force(Z: Tensor, token: int) -> Tensor:
    """−∞ for every other id."""
    forced = torch.full_like(Z, -torch.inf)
    forced[:, token] = 0.0
    return forced


def penalise_repetition(Z: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """z / penalty where z > 0, z · penalty where z < 0, for tokens seen (b, vocabulary) (Keskar et al., 2019)."""
    return torch.where(seen, torch.where(Z > 0, Z / penalty, Z * penalty), Z)


def penalise_presence(Z: Tensor, counts: Tensor, presence: float, frequency: float) -> Tensor:
    """z − presence · [count > 0] − frequency · count, for the counts (b, vocabulary) of tokens written."""
    return Z - presence * (counts > 0) - frequency * counts


def heat(Z: Tensor, temperature: float) -> Tensor:
    """z / T: below 1 the likely become likelier."""
    return Z / temperature


def top_k(Z: Tensor, k: int) -> Tensor:
    """Keeps the k largest; ties with the k-th stay in the order of their ids."""
    keep = torch.zeros_like(Z, dtype=torch.bool)
    keep.scatter_(1, descending(Z)[:, :k], True)
    return Z.masked_fill(~keep, -torch.inf)


def top_p(Z: Tensor, p: float) -> Tensor:
    """Keeps the likeliest tokens until they hold the share p (Holtzman et al., 2020)."""
    return keep_share(Z, descending(Z), p)


def min_p(Z: Tensor, p: float) -> Tensor:
    """Keeps tokens whose probability is at least p times the largest."""
    P = torch.softmax(Z, -1)
    return Z.masked_fill(P < p * P.amax(-1, keepdim=True), -torch.inf)


def typical(Z: Tensor, p: float) -> Tensor:
    """Keeps the tokens whose surprise −log P is nearest the entropy, until they hold the share p (Meister et al., 2022)."""
    log_P = torch.log_softmax(Z, -1)
    entropy = -(log_P.exp() * log_P).nan_to_num(0.0).sum(-1, keepdim=True)
    strange = (-log_P - entropy).abs()  # infinite for tokens already excluded
    return keep_share(Z, descending(-strange), p)


def descending(Z: Tensor) -> Tensor:
    """The ids from the largest to the smallest logit; of equals the smaller id first."""
    return Z.sort(dim=-1, descending=True, stable=True).indices


def keep_share(Z: Tensor, order: Tensor, p: float) -> Tensor:
    """Keeps tokens in this order until those before hold at least the share p; always the first."""
    share = torch.softmax(Z, -1).gather(1, order).cumsum(-1)
    share_before = torch.cat([torch.zeros_like(share[:, :1]), share[:, :-1]], -1)
    keep = torch.zeros_like(Z, dtype=torch.bool).scatter_(1, order, share_before < p)
    return Z.masked_fill(~keep, -torch.inf)


def apply_rules(
    Z: Tensor,
    settings: DecodingConfig,
    prompts: Sequence[Sequence[int]],
    written: Sequence[Sequence[int]],
    end: Sequence[int],
) -> Tensor:
    """Every rule that the settings ask for; `prompts` and `written` are the ids of each row so far."""
    if settings.logit_bias:
        Z = add_bias(Z, settings.logit_bias)
    if settings.banned:
        Z = ban(Z, settings.banned)
    if settings.repetition_penalty != 1:
        texts = [[*prompt, *text] for prompt, text in zip(prompts, written, strict=True)]
        Z = penalise_repetition(Z, count(texts, Z) > 0, settings.repetition_penalty)
    if settings.presence_penalty or settings.frequency_penalty:
        Z = penalise_presence(Z, count(written, Z), settings.presence_penalty, settings.frequency_penalty)
    steps = len(written[0])  # equal in all rows of a group
    if steps < settings.min_tokens:
        Z = ban(Z, end)
    if steps < len(settings.forced):
        Z = force(Z, settings.forced[steps])
    if settings.temperature:
        Z = heat(Z, settings.temperature)
    if settings.top_k is not None:
        Z = top_k(Z, settings.top_k)
    if settings.typical is not None:
        Z = typical(Z, settings.typical)
    if settings.top_p is not None:
        Z = top_p(Z, settings.top_p)
    if settings.min_p:
        Z = min_p(Z, settings.min_p)
    return Z


def count(texts: Sequence[Sequence[int]], Z: Tensor) -> Tensor:
    """How often each id stands in each text: (b, vocabulary)."""
    counts = torch.zeros(Z.shape, dtype=torch.long)
    for row, text in enumerate(texts):
        counts[row] = torch.bincount(torch.tensor(text, dtype=torch.long), minlength=Z.shape[1])
    return counts.to(Z.device)


def likeliest(Z: Tensor) -> Tensor:
    """The id of the largest logit of each row (b,); of equals the smallest id."""
    best = Z.amax(-1, keepdim=True)
    return torch.eq(Z, best).int().argmax(-1)


def draw(Z: Tensor, numbers: Tensor) -> Tensor:
    """The id at which the cumulative probability passes each row's number in [0, 1): (b,)."""
    cumulative = torch.softmax(Z.double(), -1).cumsum(-1)
    places = numbers.to(cumulative)[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, places, right=True)[:, 0].clamp(max=Z.shape[1] - 1)


def number(seed: int, step: int) -> float:
    """A random number in [0, 1): the same for the same seed and step, on every machine."""
    digest = hashlib.blake2b(f"{seed}:{step}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / (1 << 53)
