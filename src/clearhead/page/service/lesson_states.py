"""What a lesson's step means for this model: criteria enter, such as `@sharp cross`; heads and tokens leave.

text = ["The chicken …", "El pollo …"]   the first of which the model knows every word, or else its opening text;
                         "@lower" at the end of the list: or else its opening text in small letters
head = "@sharp cross"    the head with the largest weights, of cross-attention if there is any; also @diffuse,
                         @previous, @first (by head statistics) and @moved (whose muting changes most)
q = "@word chicken pollo"   the first of these words that is there; also @last, @pair and @unsure
k = "@strongest"         what the query looks at most; also @pair and @word
moment = "@start"        the first step of the run that was kept; also @early, @middle, and @end, the model itself
cell, mute, site, look   with {q}, {k}, {at}, {head}, {name}, {stack} filled in; mute = "@head" or "@layer"

What is said may have passages about a text of its own: [[wide ancha|…]] is said if one of these words is shown.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import torch

from clearhead.errors import InputError
from clearhead.inspection.figures import visible
from clearhead.inspection.passes import Pass
from clearhead.inspection.readings.heads import HeadStatistics, head_statistics, mute_effects, strongest_pairs
from clearhead.inspection.readings.tensors import tensor
from clearhead.page.service.requests import PassRequest
from clearhead.page.service.service import ExplorerService

UNSURE = 64  # positions whose predictions are compared
MEASURES = {"sharp": "largest", "diffuse": "entropy", "previous": "previous", "first": "first"}
MOMENTS = {"start": 0.0, "early": 0.3, "middle": 0.6}  # places among the steps that were kept
PASSAGE = re.compile(r"\[\[([^|\]]+)\|(.*?)\]\]")
WORD = re.compile(r"[^\W_]+")  # as the page counts words


@dataclass
class Chosen:
    """A step's state for one model, the pass that it was chosen on, and the changed pass if something is changed."""

    service: ExplorerService
    text: str
    captured: Pass
    changed: Pass
    at: str | None  # the attention
    head: int  # by its number
    place: int  # among the heads that pruning left
    q: int
    k: int
    stack: str
    token_stack: str  # in which q is a place
    state: dict[str, str] = field(default_factory=dict)

    @property
    def keys(self) -> str:
        """The stack whose tokens are looked at."""
        return "encoder" if self.at is not None and self.at.endswith("cross") else self.query_stack

    @property
    def query_stack(self) -> str:
        """The stack whose tokens look."""
        return self.captured.top if self.at is None else self.at.split(".")[0]

    def values(self) -> dict[str, str]:
        """What `{…}` in a text, a selector or a cell may name."""
        queries, keys = self.captured.tokens[self.token_stack], self.captured.tokens[self.keys]
        return {
            "q": str(self.q),
            "k": str(self.k),
            "at": str(self.at),
            "head": str(self.head),
            "stack": self.stack,
            "main": self.captured.main,
            "name": f"{self.at}.{self.head}",
            "query": visible(queries[min(self.q, len(queries) - 1)].text),
            "key": visible(keys[min(self.k, len(keys) - 1)].text),
        }

    def said(self, text: str) -> str:
        """A text with names filled in, without passages about words that are not shown.

        Other braces, as in formulas, stay.
        """
        values, shown = self.values(), set(words_of(self.text))
        kept = PASSAGE.sub(lambda found: "" if shown.isdisjoint(found[1].split()) else found[2], text)
        return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), kept)


def resolved(service: ExplorerService, wanted: dict[str, Any]) -> Chosen:
    """The state of a step on this model."""
    text = known_text(service, wanted.get("text"))
    captured = pass_of(service, PassRequest(text=text))
    stack = {"source": captured.main, "top": captured.top}.get(
        str(wanted.get("stack", "top")).removeprefix("@"), captured.top
    )
    at, head, place = chosen_head(captured, str(wanted.get("head", "@sharp")))
    chosen = Chosen(service, text, captured, captured, at, head, place, 0, 0, stack, stack)
    chosen.token_stack = stack if "stack" in wanted or at is None else at.split(".")[0]
    chosen.q = chosen_token(chosen, str(wanted.get("q", "@pair")), chosen.token_stack, is_query=True)
    chosen.k = chosen_token(chosen, str(wanted.get("k", "@strongest")), chosen.keys, is_query=False)
    chosen.state = state_of(chosen, wanted, text)
    if any(chosen.state.get(key) for key in ("off", "mute", "moment")):
        off, mute = (tuple(filter(None, chosen.state.get(key, "").split(","))) for key in ("off", "mute"))
        moment, target = chosen.state.get("moment"), chosen.state.get("target")
        asked = PassRequest(
            text=text, target=target, off=off, mute=mute, moment=int(moment) if moment else None
        )
        chosen.changed = pass_of(service, asked)
    return chosen


def moment_of(service: ExplorerService, criterion: str) -> str:
    """The step of the run that fits a criterion; empty for the model itself."""
    steps, place = list(service.kept), MOMENTS.get(criterion.removeprefix("@"))
    if place is None or not steps:
        return criterion if criterion.isdecimal() and int(criterion) in steps else ""
    return str(steps[round(place * (len(steps) - 1))])


def state_of(chosen: Chosen, wanted: dict[str, Any], text: str) -> dict[str, str]:
    """The selection of the page, in the page's own words."""
    state = {key: chosen.said(str(value)) for key, value in wanted.items() if not isinstance(value, list)}
    state |= {"text": text}
    if chosen.at is not None and "head" in wanted:
        state |= {"at": chosen.at, "head": str(chosen.head)}
    state |= {key: str(getattr(chosen, key)) for key in ("q", "k", "stack") if key in wanted}
    if state.get("mute") == "@head":
        state["mute"] = f"{chosen.at}.{chosen.head}"
    elif state.get("mute") == "@layer" and chosen.at is not None:
        heads = chosen.captured.module.config.heads(chosen.at)
        state["mute"] = ",".join(f"{chosen.at}.{head}" for head in heads)
    if "moment" in state:
        state["moment"] = moment_of(chosen.service, state["moment"])
        if chosen.captured.own_target is not None:  # the same words in every step of the run
            state["target"] = chosen.captured.own_target
    if "swap" in state:
        state["swap"] = swap_of(text, state["swap"].split()[1:])
    return state


def pass_of(service: ExplorerService, request: PassRequest) -> Pass:
    """A pass, as the page will ask for it: it is kept until then."""
    return service.cache.get(service.run_pass(request)["name"])


def known_text(service: ExplorerService, wanted: Any) -> str:
    """The first text of which the model knows every word; if there is none, the one that it opens with."""
    candidates = [wanted] if isinstance(wanted, str) else list(wanted or [])
    example = str(service.structure["example"])
    tokenizer, most = service.inspector.reader.tokenizer, service.structure["limits"]["tokens"]
    for text in candidates:
        if text == "@lower":
            return example.lower()
        ids = tokenizer.encode(text)
        if ids and len(ids) + 2 <= most and not tokenizer.counts_unknown(ids):
            return text
    return example


def chosen_head(captured: Pass, criterion: str) -> tuple[str | None, int, int]:
    """Attention, number and place of the head that fits a criterion best."""
    name, *kinds = criterion.removeprefix("@").split()
    every = head_statistics(captured)
    if not every:
        return None, 0, 0
    some = [one for one in every if all(kind in one.attention.split(".") for kind in kinds)] or every
    if name == "moved" and captured.module.config.head != "none":
        position = -1 % len(captured.ids[captured.top])
        moved = {(one.attention, one.head): one.moved for one in mute_effects(captured, position)}
        best = max(some, key=lambda one: moved[one.attention, one.head])
    else:
        best = max(some, key=lambda one: measure(one, MEASURES.get(name, "largest")))
    return best.attention, best.head, best.place


def measure(one: HeadStatistics, key: str) -> float:
    """A statistic of a head; cross-attention has no token before."""
    value = getattr(one, key)
    return -1.0 if value is None else float(value)


def chosen_token(chosen: Chosen, criterion: str, stack: str, is_query: bool) -> int:
    """The place of the token that fits a criterion."""
    tokens = chosen.captured.tokens[stack]
    name, *words = criterion.removeprefix("@").split()
    if name.isdecimal():
        return min(int(name), len(tokens) - 1)
    if name == "last":
        return len(tokens) - 1
    if name == "word":
        texts = [token.text.strip().lower() for token in tokens]
        for word in words:
            if word.lower() in texts:
                return texts.index(word.lower())
    if name == "unsure":
        return most_unsure(chosen.captured)
    if chosen.at is None:
        return len(tokens) - 1
    if name == "strongest" and not is_query:
        A = tensor(chosen.captured, f"{chosen.at}.weights", str(chosen.place))
        return int(A[min(chosen.q, len(A) - 1)].argmax())
    pairs = strongest_pairs(chosen.captured, chosen.at)
    pair = next(one for one in pairs if one.head == chosen.head)
    return min(pair.query if is_query else pair.key, len(tokens) - 1)


def most_unsure(captured: Pass) -> int:
    """The token after which the model's prediction is most spread out."""
    count = min(UNSURE, len(captured.ids[captured.top]))
    Z = torch.stack([captured.trace.row(position) for position in range(count)]).double()
    return int(torch.special.entr(torch.softmax(Z, -1)).sum(-1).argmax())


def words_of(text: str) -> list[str]:
    """The words of a text, in small letters."""
    return [found[0].lower() for found in WORD.finditer(text)]


def swap_of(text: str, words: list[str]) -> str:
    """The places of two words of a text, of those named or of the last two."""
    spoken = words_of(text)
    places = [spoken.index(word.lower()) for word in words if word.lower() in spoken][:2]
    if len(places) < 2 and len(spoken) < 2:
        raise InputError("This text has no two words to swap.")
    return ",".join(map(str, places if len(places) == 2 else (len(spoken) - 2, len(spoken) - 1)))
