"""The answers to a lesson's questions, computed from the model: a chosen state enters; a number or a choice leaves."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.errors import ConfigError, suggest
from clearhead.inspection.figures import visible
from clearhead.inspection.readings.tensors import tensor
from clearhead.page.service.lesson_states import Chosen

OFFERED = 4  # answers to choose from
NEAR, LEAST = 0.02, 0.006  # of a number, and at least so much: what counts as right

Answer = dict[str, Any]


def answer_of(name: str, chosen: Chosen) -> Answer | None:
    """The answer by its name; nothing if it is about an output that the model lacks."""
    if name not in ANSWERS:
        raise ConfigError(f"{name} is not an answer that can be computed. {suggest(name, ANSWERS)}")
    if name in OF_OUTPUT and chosen.captured.module.config.head == "none":
        return None
    return ANSWERS[name](chosen)


def number(value: float) -> Answer:
    """A number: a whole one exactly, another within two percent."""
    is_whole = float(value).is_integer()
    return {
        "kind": "number",
        "value": float(value),
        "tolerance": 0.0 if is_whole else max(abs(value) * NEAR, LEAST),
    }


def one_of(value: str, others: list[str]) -> Answer:
    """One of a few texts, sorted so that the place says nothing."""
    options = list(dict.fromkeys([value, *others]))[:OFFERED]
    return {"kind": "choice", "value": value, "options": sorted(options)}


def said_or_not(is_so: bool) -> Answer:
    """Yes or no; the panel has the words."""
    return {"kind": "choice", "value": "yes" if is_so else "no", "options": ["no", "yes"]}


def weights(chosen: Chosen) -> Tensor:
    """A of the chosen head: (n, m)."""
    return tensor(chosen.changed, f"{chosen.at}.weights", str(chosen.place))


def of_head(chosen: Chosen, key: str) -> Tensor:
    """Q or K of the chosen head; heads may share keys."""
    own = next(one for one in chosen.service.structure["attentions"] if one["name"] == chosen.at)
    place = own["reads"][chosen.place] if key == "k" else chosen.place
    return tensor(chosen.captured, f"{chosen.at}.{key}", str(place))


def looked_at(chosen: Chosen) -> Answer:
    """The token that the query looks at most."""
    names = [visible(token.text) for token in chosen.captured.tokens[chosen.keys]]
    row = weights(chosen)[chosen.q]
    order = row.argsort(descending=True).tolist()
    return one_of(names[order[0]], [names[j] for j in order[1:]])


def probabilities(chosen: Chosen, position: int = -1) -> Tensor:
    """What the model says after a position of the top stack."""
    return torch.softmax(chosen.changed.trace.row(position).double(), -1)


def next_tokens(chosen: Chosen) -> list[tuple[str, float]]:
    """The likeliest tokens, or classes, with their probabilities."""
    captured = chosen.captured
    P = probabilities(chosen, -1 % len(captured.ids[captured.top]))
    p, ids = P.topk(min(OFFERED, len(P)))
    inspector = captured.inspector
    if inspector.config.head == "classifier":
        names = [inspector.reader.labels[id] for id in ids.tolist()]
    else:
        names = [visible(inspector.tokenizer(captured.top).piece(id)) for id in ids.tolist()]
    return list(zip(names, p.tolist(), strict=True))


def following(chosen: Chosen) -> Answer:
    """The likeliest next token."""
    names = [name for name, _ in next_tokens(chosen)]
    return one_of(names[0], names[1:])


def is_unchanged(chosen: Chosen) -> Answer:
    """Whether the changed model still says the same next."""
    before, after = (
        one.trace.row(-1 % len(one.ids[one.top])).argmax() for one in (chosen.captured, chosen.changed)
    )
    return said_or_not(bool(before == after))


def visible_keys(chosen: Chosen) -> Answer:
    """How many keys get a weight."""
    return number(int((weights(chosen)[chosen.q] > 0).sum()))


def config_of(chosen: Chosen) -> ModelConfig:
    """The settings of a transformer."""
    config = chosen.captured.module.config
    assert isinstance(config, ModelConfig)
    return config


def product(chosen: Chosen) -> float:
    """q · k of the chosen pair."""
    return float(of_head(chosen, "q")[chosen.q].double() @ of_head(chosen, "k")[chosen.k].double())


def stream_of(chosen: Chosen, key: str) -> Tensor:
    """A site of the chosen stack."""
    return tensor(chosen.captured, f"{chosen.stack}.{key}")


def vocabulary(chosen: Chosen) -> int:
    """The tokens that the text is made of."""
    config = chosen.captured.module.config
    return config.vocabulary_encoder if chosen.captured.main == "encoder" else config.vocabulary


OF_OUTPUT = ("next", "next p", "surprise", "same")  # what the model says
ANSWERS: dict[str, Callable[[Chosen], Answer]] = {
    "tokens": lambda chosen: number(len(chosen.captured.tokens[chosen.captured.main])),
    "vocabulary": lambda chosen: number(vocabulary(chosen)),
    "width": lambda chosen: number(stream_of(chosen, "embeddings.tokens").shape[-1]),
    "heads": lambda chosen: number(sum(len(one["heads"]) for one in chosen.service.structure["attentions"])),
    "blocks": lambda chosen: number(sum(one["blocks"] for one in chosen.service.structure["stacks"])),
    "head width": lambda chosen: number(of_head(chosen, "q").shape[-1]),
    "root": lambda chosen: number(math.sqrt(of_head(chosen, "q").shape[-1])),
    "product": lambda chosen: number(product(chosen)),
    "weight": lambda chosen: number(float(weights(chosen)[chosen.q, chosen.k])),
    "row sum": lambda chosen: number(round(float(weights(chosen)[chosen.q].sum()), 3)),
    "looks at": looked_at,
    "visible": visible_keys,
    "next": following,
    "next p": lambda chosen: number(next_tokens(chosen)[0][1]),
    "uniform": lambda chosen: number(math.log(chosen.captured.module.config.vocabulary)),
    "surprise": lambda chosen: number(-math.log(next_tokens(chosen)[0][1])),
    "same": is_unchanged,
    "hidden units": lambda chosen: number(config_of(chosen).units(f"{chosen.stack}.0.ffn")),
    "square": lambda chosen: number(len(chosen.captured.tokens[chosen.query_stack]) ** 2),
    "norm": lambda chosen: number(float(stream_of(chosen, "embeddings.tokens")[chosen.q].norm())),
}
