"""Choosing the next token: logits Z (b, vocabulary) become other logits, and then a token.

Each rule is a function from logits to logits; a token that may not be written has −∞. `constrain` says what
may be written at all, for search too, and `narrow` what may be drawn; both apply the rules that the settings
ask for, in the order of this file. The token is then the likeliest, or drawn by one random number, which
depends on the text's own seed and step and on nothing else in the batch.
"""

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.steppers.kernels import ready
from clearhead.errors import InputError, ModelFolderError

WORTH_THREADS = 1 << 18  # logits for which several threads are started
FIRST_TRY = 64  # tokens that have most of the probability in most distributions


def log_probabilities(Z: Tensor) -> Tensor:
    """log P over the whole vocabulary, before any rule (b, vocabulary)."""
    log_P = torch.log_softmax(Z, -1)
    if bool(log_P[:, 0].isnan().any()):  # one NaN makes the whole row NaN
        raise damaged()
    return log_P


def damaged() -> ModelFolderError:
    """The error of logits that are no numbers."""
    return ModelFolderError(
        "The model's logits contain NaN.\nIts weights are damaged, or too large for the data type it is loaded in."
    )


def best_few(Z: Tensor, count: int) -> tuple[np.ndarray, np.ndarray] | None:
    """The likeliest ids and their log P (b, count), the best first, of equals the smaller id; None without kernels."""
    count = min(count, Z.shape[1])
    if not ready.is_loaded() or Z.device.type != "cpu" or Z.dtype != torch.float32:
        return None
    from clearhead.decoding.steppers.kernels.choice import best, best_alone

    z = Z.contiguous().numpy()
    ids, log_P = np.empty((len(z), count), np.int64), np.empty((len(z), count), np.float32)
    wholes = np.empty(len(z), np.float32)
    (best if z.size > WORTH_THREADS else best_alone)(z, ids, log_P, wholes)
    log_P -= wholes[:, None]
    if np.isnan(log_P).any():
        raise damaged()
    return ids, log_P


def has_rules(settings: DecodingConfig) -> bool:
    """Whether `constrain` can change logits."""
    return bool(
        settings.logit_bias or settings.banned or settings.forced or settings.min_tokens
        or settings.repetition_penalty != 1 or settings.presence_penalty or settings.frequency_penalty
    )  # fmt: skip


def constrain(
    Z: Tensor,
    settings: DecodingConfig,
    prompts: Sequence[Sequence[int]],
    written: Sequence[Sequence[int]],
    end: Sequence[int],
) -> Tensor:
    """What may be written, and what it costs; `prompts` and `written` are the ids of each row so far."""
    early = [row for row, text in enumerate(written) if len(text) < settings.min_tokens]
    if settings.logit_bias:
        Z = add_bias(Z, settings.logit_bias)
    if settings.repetition_penalty != 1:
        texts = [[*prompt, *text] for prompt, text in zip(prompts, written, strict=True)]
        Z = penalise_repetition(Z, count(texts, Z) > 0, settings.repetition_penalty)
    if settings.presence_penalty or settings.frequency_penalty:
        Z = penalise_presence(Z, count(written, Z), settings.presence_penalty, settings.frequency_penalty)
    if settings.banned:
        Z = ban(Z, settings.banned)
    if early and end:
        Z = Z.index_copy(0, torch.tensor(early, device=Z.device), ban(Z[early], end))
    if settings.forced:
        Z = force(Z, [settings.forced[len(text) : len(text) + 1] for text in written])
    if settings.banned or early:
        check_choice(Z)
    return Z


def add_bias(Z: Tensor, bias: dict[int, float]) -> Tensor:
    """z_t + bias_t."""
    Z = Z.clone()
    Z[:, list(bias)] += torch.tensor(list(bias.values()), dtype=Z.dtype, device=Z.device)
    return Z


def penalise_repetition(Z: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """z / penalty where z > 0, z · penalty where z < 0, for tokens seen (Keskar et al., 2019)."""
    return torch.where(seen, torch.where(Z > 0, Z / penalty, Z * penalty), Z)


def penalise_presence(Z: Tensor, counts: Tensor, presence: float, frequency: float) -> Tensor:
    """z − presence · [count > 0] − frequency · count, for the counts (b, vocabulary) of tokens written."""
    return Z - presence * (counts > 0) - frequency * counts


def ban(Z: Tensor, ids: Sequence[int]) -> Tensor:
    """−∞ for these ids."""
    Z = Z.clone()
    Z[:, list(ids)] = -torch.inf
    return Z


def force(Z: Tensor, tokens: Sequence[Sequence[int]]) -> Tensor:
    """−∞ for every other id, in rows that are given one."""
    Z = Z.clone()
    for row, forced in enumerate(tokens):
        if forced:
            Z[row] = -torch.inf
            Z[row, forced[0]] = 0.0
    return Z


def count(texts: Sequence[Sequence[int]], Z: Tensor) -> Tensor:
    """How often each id occurs in each text: (b, vocabulary)."""
    counts = torch.zeros(Z.shape, dtype=torch.long)
    for row, text in enumerate(texts):
        counts[row] = torch.bincount(torch.tensor(text, dtype=torch.long), minlength=Z.shape[1])
    return counts.to(Z.device)


def check_choice(Z: Tensor) -> None:
    """Rejects rows in which no token is left."""
    if bool((Z.amax(-1) == -torch.inf).any()):
        raise InputError(
            "Every token is banned, so nothing can be written.\nBan fewer ids, or lower min_tokens."
        )


def narrow(Z: Tensor, settings: DecodingConfig) -> Tensor:
    """What may be drawn."""
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


def heat(Z: Tensor, temperature: float) -> Tensor:
    """z / T: below 1 the likely become likelier."""
    return (Z - Z.amax(-1, keepdim=True)) / temperature  # the same shares, and no overflow near 0


def top_k(Z: Tensor, k: int) -> Tensor:
    """Keeps the k largest; of equals the smaller ids."""
    if k >= Z.shape[1]:
        return Z
    return keep_largest(Z, Z, Z.topk(k).values, torch.full((len(Z), 1), k, device=Z.device))


def typical(Z: Tensor, p: float) -> Tensor:
    """Keeps tokens whose surprise −log P is nearest the entropy, up to the share p (Meister et al., 2022)."""
    log_P = torch.log_softmax(Z, -1)
    entropy = -(log_P.exp() * log_P).nan_to_num(0.0).sum(-1, keepdim=True)
    return keep_share(Z, -(log_P + entropy).abs(), p)  # −∞ stays −∞


def top_p(Z: Tensor, p: float) -> Tensor:
    """Keeps the likeliest tokens, up to the share p (Holtzman et al., 2020)."""
    return keep_share(Z, Z, p)


def min_p(Z: Tensor, p: float) -> Tensor:
    """Keeps tokens whose probability is at least p times the largest."""
    P = torch.softmax(Z, -1)
    return Z.masked_fill(P.lt(p * P.amax(-1, keepdim=True)), -torch.inf)


def keep_share(Z: Tensor, rank: Tensor, p: float) -> Tensor:
    """Keeps the fewest tokens, those of largest rank first, that together have the share p."""
    if p >= 1:
        return Z
    P, tries = torch.softmax(Z, -1), FIRST_TRY
    while True:  # sorting the whole vocabulary would cost more than the model
        best = rank.topk(min(tries, Z.shape[1]))
        share = P.gather(1, best.indices).cumsum(-1)
        if tries >= Z.shape[1] or bool((share[:, -1] >= p).all()):
            break
        tries *= 8
    counts = (share[:, :-1] < p).sum(-1, keepdim=True) + 1
    return keep_largest(Z, rank, best.values, counts)


def keep_largest(Z: Tensor, rank: Tensor, largest: Tensor, counts: Tensor) -> Tensor:
    """Keeps the first `counts` (b, 1) of the `largest` ranks, which are sorted; of equals the smaller ids."""
    least = largest.gather(1, counts - 1)
    above, equal = rank > least, rank == least
    keep = above | (equal & (equal.cumsum(-1) <= counts - above.sum(-1, keepdim=True)))
    return Z.masked_fill(~keep, -torch.inf)


def likeliest(Z: Tensor) -> Tensor:
    """The id of the largest logit of each row (b,); of equals the smallest id."""
    return Z.argmax(-1)


def best_first(numbers: Tensor, count: int) -> Iterator[tuple[float, int]]:
    """Some numbers (n,) with their places, the largest first, of equals the smaller place.

    About `count` are expected to be asked for; all of them can be.
    """
    given = 0
    while given < len(numbers):
        count = min(count, len(numbers))
        least = numbers.topk(count).values[-1]
        above, equal = (numbers > least).nonzero()[:, 0], (numbers == least).nonzero()[:, 0]
        above = above[numbers[above].argsort(descending=True, stable=True)]
        places = torch.cat([above, equal])[given:count]
        yield from zip(numbers[places].tolist(), places.tolist(), strict=True)
        given, count = count, 8 * count


def draw(Z: Tensor, numbers: Tensor) -> Tensor:
    """The id at which the cumulative probability passes each row's number in [0, 1): (b,)."""
    cumulative = torch.softmax(Z, -1, dtype=torch.double).cumsum(-1)
    total = cumulative[:, -1:]
    # Below the total, so that it is passed by a token of some probability, whatever is rounded.
    places = torch.minimum(numbers.to(cumulative)[:, None] * total, total.nextafter(total * 0))
    return torch.searchsorted(cumulative, places, right=True)[:, 0]


def number(seed: int, step: int) -> float:
    """A random number in [0, 1): the same for the same seed and step, on every machine."""
    digest = hashlib.blake2b(f"{seed}:{step}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / (1 << 53)
