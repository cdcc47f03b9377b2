"""What a model cannot take is refused at its border, with the value, the limit and a way out."""

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from clearhead.errors import ClearheadError, InputError
from clearhead.models.build import build
from clearhead.models.decoder import Decoder
from clearhead.models.encoder import Encoder
from clearhead.models.translator import Translator
from tests.models.cases import CONTEXT, VOCABULARY, B, M, N, configure, some_ids

IDS = some_ids(B, N)
SOURCE = some_ids(B, M)
DECODER = cast(Decoder, build(configure("decoder", {})))
ENCODER = cast(Encoder, build(configure("encoder", {"token_types": 2})))
TRANSLATOR = cast(Translator, build(configure("encoder-decoder", {})))
D = DECODER.config.d


def vectors(place: tuple[int, ...], value: float) -> Tensor:
    X = torch.zeros(B, N, D)
    X[place] = value
    return X


def ids(value: int) -> Tensor:
    changed = IDS.clone()
    changed[1, 2] = value
    return changed


WRONG_TOKENS: dict[str, tuple[Tensor, str]] = {
    "one row without a batch": (IDS[0], r"tokens have shape \(5,\) .*\n.*use ids\[None\]"),
    "a list": (
        cast(Tensor, IDS.tolist()),
        r"are a list, but a model takes a tensor .*\n.*torch.tensor",
    ),
    "a text": (cast(Tensor, "he is old"), r"are a str, but a model takes a tensor"),
    "one axis too many": (IDS[None], r"tokens have shape \(1, 2, 5\)"),
    "claims, not ids": (IDS > 3, r"type torch.bool, but ids are whole numbers"),
    "bytes": (IDS.to(torch.uint8), r"type torch.uint8, but ids are whole numbers \(b, n\) of type int64"),
    "an id past the end": (ids(VOCABULARY), r"hold the id 23, but the vocabulary has ids 0 to 22.\nEncode"),
    "a negative id": (ids(-1), r"hold the id -1, but the vocabulary has ids 0 to 22"),
    "no token": (IDS[:, :0], r"shape \(2, 0\): an empty sequence says nothing.\nGive at least one token"),
    "no sequence": (IDS[:0], r"shape \(0, 5\): an empty sequence"),
    "too long": (some_ids(B, 20), r"a sequence of 20 tokens is longer than .* context of 19.\nShorten"),
    "vectors too wide": (
        torch.zeros(B, N, D + 1),
        r"vectors of shape \(2, 5, 11\), but .* takes \(b, n, 10\)",
    ),
    "vectors without a batch": (torch.zeros(N, D), r"vectors of shape \(5, 10\)"),
    "no vector": (torch.zeros(B, 0, D), r"shape \(2, 0, 10\): an empty sequence"),
    "not a number": (vectors((1, 2, 3), torch.nan), r"tokens hold nan at \(1, 2, 3\).\nGive finite numbers"),
    "infinite": (vectors((0, 0, 0), -torch.inf), r"tokens hold -inf at \(0, 0, 0\)"),
    "too many vectors": (torch.zeros(B, CONTEXT + 1, D), r"a sequence of 20 tokens is longer"),
}


@pytest.mark.parametrize("wrong", WRONG_TOKENS)
def test_wrong_tokens(wrong: str) -> None:
    tokens, message = WRONG_TOKENS[wrong]
    for model in (DECODER, ENCODER):
        with pytest.raises(InputError, match=message):
            model(tokens)
    with pytest.raises(InputError, match=message):
        TRANSLATOR(tokens, SOURCE[: len(tokens)])


@pytest.mark.parametrize("wrong", WRONG_TOKENS)
def test_wrong_source(wrong: str) -> None:
    translator = build(configure("encoder-decoder", {"encoder_d": None, "source_vocabulary": None}))
    tokens, message = WRONG_TOKENS[wrong]
    message = message.replace("tokens have", "source have").replace("tokens hold", "source hold")
    with pytest.raises(InputError, match=message):
        translator(IDS, tokens)
    assert isinstance(translator, Translator)
    with pytest.raises(InputError, match=message):
        translator.start(B, N, tokens)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (
            torch.tensor([1, 2, 3]),
            r"counts have shape \(3,\) .* but tokens are \(2, 5\).\nGive 2 whole numbers",
        ),
        (torch.tensor([[1], [2]]), r"counts have shape \(2, 1\)"),
        (torch.tensor([1.0, 2.0]), r"type torch.float32"),
        (torch.tensor([True, True]), r"type torch.bool"),
        (
            torch.tensor([0, 5]),
            r"counts hold 0, but each row has 1 to 5 real tokens.\nPadding stands on the right",
        ),
        (torch.tensor([5, 6]), r"counts hold 6, but each row has 1 to 5"),
        (torch.tensor([-3, 5]), r"counts hold -3"),
    ],
)
def test_wrong_counts(counts: Tensor, message: str) -> None:
    for model in (DECODER, ENCODER):
        with pytest.raises(InputError, match=message):
            model(IDS, counts)
    with pytest.raises(InputError, match=message):
        TRANSLATOR(IDS, SOURCE, counts)
    for_source = message.replace("counts h", "source_counts h").replace(r"\(2, 5\)", r"\(2, 7\)")
    for_source = for_source.replace("1 to 5", "1 to 7").replace("hold 6", "hold 9")
    counts = torch.where(counts == 6, 9, counts) if counts.dtype == torch.int64 else counts
    with pytest.raises(InputError, match=for_source):
        TRANSLATOR(IDS, SOURCE, source_counts=counts)


def test_wrong_documents_and_types() -> None:
    with pytest.raises(InputError, match=r"documents have shape \(2, 4\) .* but tokens are\s+\(2, 5\)"):
        DECODER(IDS, documents=IDS[:, :4])
    with pytest.raises(InputError, match=r"types have shape \(2, 5\) and type torch.float32"):
        ENCODER(IDS, types=torch.zeros(B, N))
    with pytest.raises(InputError, match="types must lie between 0 and 1, but hold 0 to 2"):
        ENCODER(IDS, types=torch.tensor([[0, 0, 1, 1, 2]] * B))
    with pytest.raises(InputError, match=r"types were given, but this model has none.\nLeave them out"):
        build(configure("encoder", {}))(IDS, types=torch.zeros_like(IDS))


def test_types_say_which_segment_a_token_belongs_to() -> None:
    zeros = torch.zeros_like(IDS)
    assert torch.equal(ENCODER(IDS), ENCODER(IDS, types=zeros))
    assert not torch.allclose(ENCODER(IDS), ENCODER(IDS, types=zeros + 1))


def test_one_source_for_each_target() -> None:
    with pytest.raises(InputError, match=r"There are 3 sources for 2 targets.\nGive one source for each row"):
        TRANSLATOR(IDS, some_ids(3, M))
    with pytest.raises(InputError, match="There are 2 sources for 4 targets"):
        TRANSLATOR.start(4, N, SOURCE)


STARTS: dict[str, tuple[Callable[[], Any], str]] = {
    "a source for a decoder": (
        lambda: DECODER.start(B, N, SOURCE),
        "no encoder to read a source.*\n.*prompt",
    ),
    "no source": (lambda: TRANSLATOR.start(B, N), "A translator needs a source to begin.\nGive source"),
    "longer than the context": (lambda: DECODER.start(B, 20), "capacity: a sequence of 20 .* context of 19"),
    "nobody": (lambda: DECODER.start(0, N), "A state for 0 sequences of 5 tokens cannot be filled"),
    "no room": (lambda: DECODER.start(B, 0), "A state for 2 sequences of 0 tokens"),
    "negative room": (lambda: DECODER.start(B, -4), "A state for 2 sequences of -4 tokens"),
}


@pytest.mark.parametrize("wrong", STARTS)
def test_wrong_starts(wrong: str) -> None:
    start, message = STARTS[wrong]
    with pytest.raises(InputError, match=message):
        start()


@pytest.mark.parametrize("settings", [{"head": "classifier", "classes": 3}, {"head": "none"}])
def test_a_model_without_a_language_head_writes_nothing(settings: dict[str, Any]) -> None:
    model = build(configure("decoder", settings))
    assert isinstance(model, Decoder)
    with pytest.raises(
        InputError, match=f"head = '{settings['head']}' cannot write text.\nUse a language model"
    ):
        model.start(B, N)


def test_wrong_steps_leave_the_state_as_it_was() -> None:
    state = DECODER.start(B, 7)
    DECODER.step(IDS, state)
    wrong: list[tuple[Tensor, Tensor | None, str]] = [
        (some_ids(3, 1), None, "There are 3 rows of tokens, but the state holds 2 sequences"),
        (IDS[:, :3], None, "A sequence of 5 tokens cannot take 3 more: the cache\\s+holds 7"),
        (IDS[:, :3], torch.tensor([1, 4]), "counts hold 4, but each row has 0 to 3"),
        (IDS[:, :3], torch.tensor([1, -1]), "counts hold -1"),
        (IDS[:, :0], None, "an empty sequence"),
        (ids(99)[:, :3], None, "hold the id 99"),
    ]
    for tokens, counts, message in wrong:
        with pytest.raises(InputError, match=message):
            DECODER.step(tokens, state, counts)
        assert state.lengths.tolist() == [5, 5]
    DECODER.step(IDS[:, :3], state, torch.tensor([0, 2]))
    assert state.lengths.tolist() == [5, 7]


def test_a_model_without_a_head_has_no_logits() -> None:
    model = build(configure("encoder", {"head": "none"}))
    with pytest.raises(ClearheadError, match=r"no head, so it has no logits.\nAsk for its vectors instead"):
        model(IDS)
    assert isinstance(model, Encoder)
    assert model.vectors(IDS).shape == (B, N, D)


def test_vectors_may_stand_for_ids() -> None:
    """Embeddings can be given in place of ids, and then say the same."""
    for model in (DECODER, ENCODER):
        table = model.get_submodule("decoder" if model is DECODER else "encoder").tokens
        assert torch.allclose(model(table(IDS)), model(IDS), atol=1e-6)  # type: ignore[operator]


def test_int32_ids_are_ids() -> None:
    assert torch.equal(DECODER(IDS.int()), DECODER(IDS))


def test_a_length_of_exactly_the_context_is_read() -> None:
    assert DECODER(some_ids(1, CONTEXT)).shape == (1, CONTEXT, VOCABULARY)
    unlimited = build(configure("decoder", {"context": None}))
    assert unlimited(some_ids(1, 3 * CONTEXT)).shape == (1, 3 * CONTEXT, VOCABULARY)
