"""What made a prediction: a pass and an answer enter; what each part and each token has to do with it leaves."""

from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.errors import InputError, suggest
from clearhead.inspection.attribution.ablation import check_aligned
from clearhead.inspection.attribution.direct import direct_logit_attribution
from clearhead.inspection.attribution.goals import Logit, transformer_of
from clearhead.inspection.attribution.patching import activation_patching, patch_places
from clearhead.inspection.attribution.saliency import Saliency, gradient_times_input, integrated_gradients
from clearhead.inspection.capture import intervene
from clearhead.inspection.heads.importance import head_names
from clearhead.inspection.pass_bytes import Ids, inputs_of
from clearhead.inspection.passes import Pass
from clearhead.inspection.readings.change import divergence, moved_tokens
from clearhead.inspection.readings.predictions import check_position
from clearhead.inspection.tokens import TextToken

GRADIENT_NUMBERS = 32  # that a gradient keeps of every token in a block, as multiples of its width
METHODS = ("gradient", "integrated")


@dataclass(frozen=True)
class Answer:
    """The logit that is explained: of a token after a position or of a class, or how far it is above another's."""

    position: int
    id: int
    text: str
    against: int | None
    against_text: str | None

    @property
    def goal(self) -> Logit:
        """The same as `attribution` takes it."""
        return Logit(self.id, self.against, self.position)


@dataclass(frozen=True)
class Contribution:
    """What a part adds to a logit."""

    name: str
    value: float


@dataclass(frozen=True)
class PartsOfLogit:
    """A logit as the sum of what every part adds to it."""

    answer: Answer
    logit: float  # before a soft cap
    total: float
    parts: list[Contribution]


@dataclass(frozen=True)
class TokenScores:
    """How much an answer depends on each token; scores of integrated gradients add up to value − baseline."""

    answer: Answer
    method: str
    value: float
    baseline: float | None
    error: float | None
    advice: str
    scores: dict[str, list[float]]  # by stack


@dataclass(frozen=True)
class Contrast:
    """Two texts of as many tokens, the answer that tells them apart, and the parts that may carry the difference."""

    answer: Answer
    tokens: dict[str, list[TextToken]]  # of the other text
    clean: float
    corrupted: float
    differs: int  # the position whose predictions differ most
    sublayers: list[str]
    heads: list[str]


@dataclass(frozen=True)
class PatchRow:
    """One part of the text put into the pass of the other one, token by token."""

    place: str
    scores: list[float]
    outcomes: list[float]
    clean: float
    corrupted: float


def answer_of(captured: Pass, position: int, id: int | None, against: int | None = None) -> Answer:
    """The answer that a request means: the likeliest one if none is named."""
    transformer_of(captured.module)
    check_position(captured, captured.top, position)
    n = len(captured.ids[captured.top])
    z = captured.trace.row(position)
    chosen = int(z.argmax()) if id is None else id
    for one in (chosen, against or 0):
        if not 0 <= one < len(z):
            raise InputError(f"{one} is not an id that this model predicts; it has 0 to {len(z) - 1}.")
    other = None if against == chosen else against
    other_text = None if other is None else name_of(captured, other)
    return Answer(position % n, chosen, name_of(captured, chosen), other, other_text)


def name_of(captured: Pass, id: int) -> str:
    """A class or a token by its id."""
    if captured.module.config.head == "classifier":
        return captured.inspector.reader.labels[id]
    return captured.inspector.tokenizer(captured.top).piece(id)


def parts_of_logit(captured: Pass, answer: Answer) -> PartsOfLogit:
    """Direct logit attribution of an answer."""
    with intervene(captured.module, *captured.muted):
        found = direct_logit_attribution(
            captured.module, inputs_of(captured.module, captured.ids), answer.goal
        )
    parts = [Contribution(name, value) for name, value in found.parts.items()]
    return PartsOfLogit(answer, found.logit, found.total, parts)


def saliency_of(captured: Pass, answer: Answer, method: str) -> Saliency:
    """Gradient × input or integrated gradients of an answer, kept with the pass."""
    if method not in METHODS:
        raise InputError(f"{method} is not a method. {suggest(method, METHODS)}")
    key = f"saliency {method} {answer}"
    if key not in captured.readings:
        batch_tokens = gradient_room(captured)
        inputs = inputs_of(captured.module, captured.ids)
        with intervene(captured.module, *captured.muted):
            captured.readings[key] = (
                gradient_times_input(captured.module, inputs, answer.goal)
                if method == "gradient"
                else integrated_gradients(captured.module, inputs, answer.goal, batch_tokens=batch_tokens)
            )
    found = captured.readings[key]
    assert isinstance(found, Saliency)
    return found


def gradient_room(captured: Pass) -> int | None:
    """How many tokens may keep what a gradient needs at a time; None without a limit."""
    config, most = captured.module.config, captured.inspector.most_bytes
    assert isinstance(config, ModelConfig)
    if most is None:
        return None
    blocks = config.encoder_blocks + config.decoder_blocks
    room = most // (4 * GRADIENT_NUMBERS * config.d * max(1, blocks))
    if (longest := max(map(len, captured.ids.values()))) > room:
        raise InputError(
            f"Gradients of {longest} tokens need more than {most / 2**20:,.0f} MiB, which is the limit.\n"
            f"Shorten the text to {room} tokens."
        )
    return int(room)


def token_scores(captured: Pass, answer: Answer, method: str) -> TokenScores:
    """The score of every token of every stack."""
    found = saliency_of(captured, answer, method)
    scores = {captured.top: found.tokens.tolist()}
    if found.source is not None:
        scores["encoder"] = found.source.tolist()
    return TokenScores(answer, method, found.value, found.baseline, found.error, found.advice, scores)


def token_terms(
    captured: Pass, answer: Answer, method: str, stack: str, token: int
) -> dict[str, list[float]]:
    """The two vectors whose dot product is a token's score: its own, less the baseline's, and the gradient."""
    check_position(captured, stack, token)
    found = saliency_of(captured, answer, method)
    X, G = found.factors[0 if stack == captured.top else 1]
    return {"x": X[0, token].tolist(), "g": G[0, token].tolist()}


def other_ids(captured: Pass, text: str) -> dict[str, list[TextToken]]:
    """The tokens of another text in the place of this one; a translator's target stays, and so do appended tokens."""
    tokens = dict(captured.tokens)
    added = [token.id for token in captured.tokens[captured.top] if token.added]
    target = "" if captured.inspector.translates else None
    main = captured.main
    found = captured.inspector.tokens(text, target, () if captured.inspector.translates else added, ())
    tokens[main] = found[main]
    captured.inspector.checked_ids(main, tokens[main])
    check_aligned(len(captured.tokens[main]), len(tokens[main]))
    return tokens


def contrast_of(captured: Pass, text: str, position: int, id: int | None, against: int | None) -> Contrast:
    """Another text beside the one of a pass: by default the two answers are those that each finds likeliest."""
    tokens = other_ids(captured, text)
    ids = {stack: [token.id for token in some] for stack, some in tokens.items()}
    check_position(captured, captured.top, position)
    position %= len(captured.ids[captured.top])
    now, (other, differs) = captured.trace.row(position), other_row(captured, ids, position)
    if id is None and against is None:
        against = int(other.argmax())
    answer = answer_of(captured, position, id, against)
    ends = [float(z[answer.id] - (0 if answer.against is None else z[answer.against])) for z in (now, other)]
    config = captured.module.config
    assert isinstance(config, ModelConfig)
    return Contrast(
        answer, tokens, ends[0], ends[1], differs, patch_places(captured.module), head_names(config)
    )


@torch.no_grad()
def other_row(captured: Pass, ids: Ids, position: int) -> tuple[Tensor, int]:
    """The logits after a position, or of classes, for other ids; and the position whose predictions differ most."""
    with intervene(captured.module, *captured.muted):
        result = captured.trace.run(captured.module, ids)
    if result.ndim == 2:  # classes
        return result[0], 0
    gaps, found = list[float](), result
    for i, other, now in moved_tokens(captured, captured.module, result):
        gaps.append(divergence(now, other))
        found = other if i == position else found
    return found, gaps.index(max(gaps))


def patch_row(captured: Pass, text: str, answer: Answer, place: str) -> PatchRow:
    """Activation patching of one part at every token that it reads."""
    tokens = other_ids(captured, text)
    other: Ids = {stack: [token.id for token in some] for stack, some in tokens.items()}
    clean, corrupted = (inputs_of(captured.module, ids) for ids in (captured.ids, other))
    with intervene(captured.module, *captured.muted):
        found = activation_patching(captured.module, clean, corrupted, answer.goal, [place])
    return PatchRow(place, found.scores[0].tolist(), found.outcomes[0].tolist(), found.clean, found.corrupted)
