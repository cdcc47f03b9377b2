"""What the page can ask about one model: checked requests enter, JSON values and packets leave.

One pass runs at a time. The numbers come from `inspection`: this is where they get the names that the page knows.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, is_dataclass
from functools import lru_cache
from typing import Any, TypeVar, cast

import torch

from clearhead.config.decoding import DecodingConfig
from clearhead.errors import InputError, suggest
from clearhead.inspection.cache_comparison import compare_cache
from clearhead.inspection.kept_models import KeptModel, load_kept
from clearhead.inspection.passes import Inspector, Pass
from clearhead.inspection.readings import attribution, embeddings, heads, stream, tensors
from clearhead.inspection.readings.change import change_of
from clearhead.inspection.readings.leave_one_out import leave_one_out
from clearhead.inspection.readings.next_token import explain_choice
from clearhead.inspection.readings.predictions import calibrated_predictions, predictions, text_loss
from clearhead.inspection.tokens import known_spelling
from clearhead.model_folder import Bundle
from clearhead.page.service.describe import describe
from clearhead.page.service.packets import pack
from clearhead.page.service.pass_cache import PassCache
from clearhead.page.service.requests import MOST_CHARACTERS, MOST_TOKENS, GenerationRequest, PassRequest

MOST_NUMBERS = 1 << 24  # in one packet
MOST_MOMENTS = 8  # kept models that stay in memory
MOST_READINGS = 64  # that are kept of a pass
T = TypeVar("T")
Query = dict[str, str]


class ExplorerService:
    """Answers the page's questions about one model."""

    def __init__(
        self,
        bundle: Bundle,
        name: str,
        folder: str,
        cache: PassCache | None = None,
        kept: Sequence[KeptModel] = (),
    ) -> None:
        self.bundle, self.kept = bundle, {one.step: one for one in kept}
        self.cache = PassCache() if cache is None else cache
        self.inspector = Inspector(bundle, MOST_TOKENS, self.cache.most_bytes)
        self.inspector_after = lru_cache(MOST_MOMENTS)(self._inspector_after)
        moments = [{"step": one.step, "loss": one.loss} for one in kept]
        self.structure = describe(self.inspector, name) | {"folder": folder, "moments": moments}
        self.lock = self.inspector.lock

    def inspector_of(self, moment: int | None) -> Inspector:
        """What runs the model, or the model as it was after a step that was kept."""
        if moment is None:
            return self.inspector
        if moment not in self.kept:
            known = ", ".join(map(str, self.kept)) or "none"
            raise InputError(f"No model was kept after step {moment}.\nThe steps that were kept: {known}.")
        return self.inspector_after(moment)

    def _inspector_after(self, moment: int) -> Inspector:
        kept = load_kept(self.bundle, self.kept[moment])
        return Inspector(kept, MOST_TOKENS, self.cache.most_bytes)

    def run_pass(self, request: PassRequest) -> dict[str, Any]:
        """Runs the model on a text, unless that pass is still kept; what the page needs first."""
        question = request.model_dump_json()
        with self.lock:
            if known := self.cache.find(question):
                return known
            captured = self.inspector_of(request.moment).run(
                request.text,
                request.target,
                request.more,
                request.leave,
                request.off,
                request.mute,
                self.cache.reserve,
                self.structure["opening"] and self.structure["opening"].rpartition(".")[0],
            )
            answer = self.describe_pass(captured, request)
            name = self.cache.add(captured, question)
            self.cache.entry(name).answer = answer | {"name": name}
        return answer | {"name": name}

    def describe_pass(self, captured: Pass, request: PassRequest) -> dict[str, Any]:
        """What the page needs of a pass before it asks for tensors."""
        trace, stacks = captured.trace, {name: tensors.stack_of(captured, name) for name in captured.ids}
        return {
            "question": request.model_dump(mode="json"),
            "tokens": {name: as_json(tokens) for name, tokens in captured.tokens.items()},
            "unknown_words": unknown_words(captured),
            "sites": {name: list(shape) for name, (shape, _) in trace.sizes.items()},
            "own_target": captured.own_target,
            "difference": captured.difference.size,
            "furthest": asdict(captured.difference),
            "largest": captured.largest,
            "seconds": captured.seconds,
            "bytes": captured.bytes,
            "norms": stream.stream_norms(captured),
            "causal": {name: stack.causal for name, stack in stacks.items()},
            "window": {name: stack.window for name, stack in stacks.items()},
            "scales": tensors.scales(captured),
            "prediction": as_json(predictions(captured)),
            "calibrated": as_json(calibrated_predictions(captured)),
            "temperature": self.inspector.reader.temperature,
            "unknown_share": self.inspector.reader.unknown_share(captured.ids[captured.main]),
            "pairs": as_json(self.opening_pairs(captured)),
            "change": as_json(change_of(captured, request.off)) if request.off or request.mute else None,
        }

    def opening_pairs(self, captured: Pass) -> list[heads.StrongestPair]:
        """The pairs of words to open with: the page draws the sublayer that it opens with without asking again."""
        opening = self.structure["opening"]
        return heads.strongest_pairs(captured, opening) if opening else []

    def tensors(self, captured: Pass, query: Query) -> bytes:
        """Sites by name, of one head and of some tokens where asked for."""
        names = [name for name in query.get("sites", "").split(",") if name]
        head, rows = query.get("head"), span(query.get("rows"))
        shapes = [captured.trace.sizes[name][0] for name in names if name in captured.trace]
        check_count(
            sum(count_of(shape, head is not None, rows) for shape in shapes)
        )  # before they are computed
        return packet({name: tensors.tensor(captured, name, head, rows) for name in names})

    def weights(self, query: Query) -> bytes:
        """Some rows and columns of a weight."""
        module = self.inspector_of(optional(query, "moment")).bundle.module
        known = dict(module.named_parameters())
        name = query.get("name", "")
        if name not in known:
            raise InputError(f"{name} is not a weight of this model. {suggest(name, known)}")
        X = known[name].detach()
        ranges = (query.get("rows"), query.get("columns"))
        return packet({name: X[tuple(span(text) for text, _ in zip(ranges, X.shape, strict=False))]})

    def reading(self, captured: Pass, what: str, query: Query) -> Any:
        """One of the readings, by name."""
        if what not in READINGS:
            raise InputError(f"{what} is not a reading. {suggest(what, READINGS)}")
        with self.lock:
            return self.read_once(captured, what, query, lambda: as_json(READINGS[what](captured, query)))

    def thumbnails(self, captured: Pass) -> bytes:
        """Small pictures of all heads."""
        with self.lock:
            return self.read_once(captured, "thumbnails", {}, lambda: packet(heads.thumbnails(captured)))

    def read_once(self, captured: Pass, what: str, query: Query, read: Callable[[], T]) -> T:
        """What is read off a pass, kept for when the page is loaded again."""
        key = json.dumps([what, sorted(query.items())])
        if key not in captured.readings:
            while len(captured.readings) >= MOST_READINGS:
                captured.readings.pop(next(iter(captured.readings)))
            captured.readings[key] = read()
        return cast(T, captured.readings[key])

    def generate(self, request: GenerationRequest) -> dict[str, Any]:
        """A text generated with the cache and without it."""
        with self.lock:
            inspector = self.inspector_of(request.moment)
            found = compare_cache(inspector, request.text, request.decoding, request.off, request.mute)
        steps = [asdict(step) | {"difference": step.furthest.size} for step in found.steps]
        return {"prompt": as_json(found.prompt), "steps": steps}


def as_json(found: Any) -> Any:
    """A dataclass, or a list of them, as JSON values; what is JSON already stays."""
    if isinstance(found, list):
        return [as_json(one) for one in found]
    return asdict(found) if is_dataclass(found) and not isinstance(found, type) else found


def unknown_words(captured: Pass) -> list[dict[str, Any]]:
    """The words that the vocabulary lacks, each once, with another spelling that it contains, if there is one."""
    found = {
        (stack, token.text): known_spelling(captured.inspector.tokenizer(stack), token.text)
        for stack, tokens in captured.tokens.items()
        for token in tokens
        if token.unknown
    }
    return [{"stack": stack, "text": text, "hint": hint} for (stack, text), hint in found.items()]


def packet(found: dict[str, torch.Tensor]) -> bytes:
    """Numbers for the page, rejected where there are too many at once."""
    check_count(sum(X.numel() for X in found.values()))
    return pack(found)


def check_count(count: int) -> None:
    """Rejects more numbers than one answer has."""
    if count > MOST_NUMBERS:
        raise InputError(
            f"These are {count} numbers, but one answer has at most {MOST_NUMBERS}.\n"
            "Ask for fewer sites, for one head, or for some rows."
        )


def count_of(shape: tuple[int, ...], is_one_head: bool, rows: slice) -> int:
    """How many numbers of a tensor are asked for."""
    sizes = list(shape[1:] if is_one_head else shape)
    if len(sizes) > 1:
        sizes[-2] = len(range(*rows.indices(sizes[-2])))
    return math.prod(sizes)


def span(text: str | None) -> slice:
    """The rows a to b of `a:b`; all if omitted."""
    if not text:
        return slice(None)
    first, _, last = text.partition(":")
    if not (first.isdecimal() and last.isdecimal()):
        raise InputError(f"{text!r} is not a range such as 0:8.")
    return slice(int(first), int(last))


def typed(query: Query, key: str, kind: Callable[[str], T], default: T | None = None) -> T:
    """A number of a query; one without a default must be given."""
    if key not in query:
        if default is None:
            raise InputError(f"The request has no {key}.\nGive a number.")
        return default
    try:
        return kind(query[key])
    except ValueError:
        raise InputError(f"{key} = {query[key]!r:.40} is not a number.") from None


def choice(captured: Pass, query: Query) -> dict[str, Any]:
    """How the next token is chosen; the page calls the ends of a candidate's stretch `from` and `to`."""
    keys = {"temperature": float, "top_k": int, "top_p": float, "seed": int}
    settings = DecodingConfig(
        **{key: typed(query, key, kind) for key, kind in keys.items() if query.get(key)}
    )
    found = explain_choice(
        captured, typed(query, "position", int, -1), settings, typed(query, "step", int, 0)
    )
    names = {"lower": "from", "upper": "to"}
    rows = [{names.get(key, key): value for key, value in asdict(row).items()} for row in found.rows]
    return asdict(found) | {"rows": rows}


def optional(query: Query, key: str) -> int | None:
    """A whole number of a query, if it is given."""
    return typed(query, key, int) if query.get(key) else None


def answer_wanted(captured: Pass, query: Query) -> attribution.Answer:
    """The answer that is to be explained."""
    position = typed(query, "position", int, -1)
    return attribution.answer_of(captured, position, optional(query, "id"), optional(query, "against"))


def other_text(query: Query) -> str:
    """The text that is compared with that of a pass."""
    text = query.get("other", "")
    if len(text) > MOST_CHARACTERS:
        raise InputError(
            f"The other text has {len(text)} characters, but {MOST_CHARACTERS} is the limit.\nShorten it."
        )
    return text


def stack_name(captured: Pass, query: Query) -> str:
    """The stack that a query names; the top one if omitted."""
    return query.get("stack", captured.top)


READINGS: dict[str, Callable[[Pass, Query], Any]] = {
    "heads": lambda captured, query: heads.head_statistics(captured),
    "pairs": lambda captured, query: heads.strongest_pairs(captured, query.get("attention", "")),
    "prediction": lambda captured, query: predictions(captured, typed(query, "position", int)),
    "effects": lambda captured, query: heads.mute_effects(
        captured, typed(query, "position", int), query.get("attention")
    ),
    "stream": lambda captured, query: stream.stream_steps(
        captured, stack_name(captured, query), typed(query, "position", int)
    ),
    "lens": lambda captured, query: stream.logit_lens(captured, typed(query, "position", int)),
    "neighbours": lambda captured, query: embeddings.neighbours(
        captured, stack_name(captured, query), typed(query, "id", int)
    ),
    "projection": lambda captured, query: embeddings.projection(captured, query.get("site", "")),
    "loss": lambda captured, query: text_loss(captured),
    "without": lambda captured, query: leave_one_out(captured),
    "choice": choice,
    "induction": lambda captured, query: heads.induction(captured),
    "attribution": lambda captured, query: attribution.parts_of_logit(
        captured, answer_wanted(captured, query)
    ),
    "saliency": lambda captured, query: attribution.token_scores(
        captured, answer_wanted(captured, query), query.get("method", "")
    ),
    "terms": lambda captured, query: attribution.token_terms(
        captured,
        answer_wanted(captured, query),
        query.get("method", ""),
        stack_name(captured, query),
        typed(query, "token", int),
    ),
    "contrast": lambda captured, query: attribution.contrast_of(
        captured,
        other_text(query),
        typed(query, "position", int, -1),
        optional(query, "id"),
        optional(query, "against"),
    ),
    "patching": lambda captured, query: attribution.patch_row(
        captured, other_text(query), answer_wanted(captured, query), query.get("place", "")
    ),
}
