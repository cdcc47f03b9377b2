"""What a model cannot take is refused at its border, with the value, the limit and a way out."""

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from clearhead.errors import ClearheadError, InputError
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.models.transformer.decoder import Decoder
from clearhead.models.transformer.encoder import Encoder
from clearhead.models.transformer.translator import Translator
from tests.models.cases import CONTEXT, VOCABULARY, B, M, N, configure, some_ids

IDS = some_ids(B, N)
SOURCE = some_ids(B, M)
DECODER = cast(Decoder, build(configure("decoder", {"positions": "learned"})))
ENCODER = cast(Encoder, build(configure("encoder", {"token_types": 2, "positions": "learned"})))
TRANSLATOR = cast(Translator, build(configure("encoder-decoder", {"positions": "learned"})))
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
        r"are a list, but a model reads a tensor .*\n.*torch.tensor",
    ),
    "a text": (cast(Tensor, "he is old"), r"are a str, but a model reads a tensor"),
    "one axis too many": (IDS[None], r"tokens have shape \(1, 2, 5\)"),
    "claims, not ids": (IDS > 3, r"type torch.bool, but ids are whole numbers"),
    "bytes": (IDS.to(torch.uint8), r"type torch.uint8, but ids are whole numbers \(b, n\) of type int64"),
    "an id past the end": (
        ids(VOCABULARY),
        r"contain the id 23, but the vocabulary has ids 0 to 22.\nEncode",
    ),
    "a negative id": (ids(-1), r"contain the id -1, but the vocabulary has ids 0 to 22"),
    "no token": (IDS[:, :0], r"shape \(2, 0\): a sequence must not be empty.\nGive at least one token"),
    "no sequence": (IDS[:0], r"shape \(0, 5\): a sequence must not be empty"),
    "too long": (some_ids(B, 20), r"a sequence of 20 tokens is longer than .* \(context 19\).\nShorten"),
    "vectors too wide": (
        torch.zeros(B, N, D + 1),
        r"vectors of shape \(2, 5, 11\), but .* takes \(b, n, 10\)",
    ),
    "vectors without a batch": (torch.zeros(N, D), r"vectors of shape \(5, 10\)"),
    "no vector": (torch.zeros(B, 0, D), r"shape \(2, 0, 10\): a sequence must not be empty"),
    "not a number": (
        vectors((1, 2, 3), torch.nan),
        r"tokens contain nan at \(1, 2, 3\).\nGive finite numbers",
    ),
    "infinite": (vectors((0, 0, 0), -torch.inf), r"tokens contain -inf at \(0, 0, 0\)"),
    "too many vectors": (torch.zeros(B, CONTEXT + 1, D), r"a sequence of 20 tokens is longer"),
}


@pytest.mark.parametrize("wrong", WRONG_TOKENS)
def test_wrong_tokens(wrong: str) -> None:
    tokens, message = WRONG_TOKENS[wrong]
    for model in (DECODER, ENCODER):
        with pytest.raises(InputError, match=message):
            model(Inputs(tokens))
    with pytest.raises(InputError, match=message):
        TRANSLATOR(Inputs(tokens, source=SOURCE[: len(tokens)]))


@pytest.mark.parametrize("wrong", WRONG_TOKENS)
def test_wrong_source(wrong: str) -> None:
    settings = {"encoder_d": None, "source_vocabulary": None, "positions": "learned"}
    translator = build(configure("encoder-decoder", settings))
    tokens, message = WRONG_TOKENS[wrong]
    message = message.replace("tokens have", "source have").replace("tokens contain", "source contain")
    with pytest.raises(InputError, match=message):
        translator(Inputs(IDS, source=tokens))
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
            r"counts contain 0, but each row has 1 to 5 real tokens.\nPadding goes on the right",
        ),
        (torch.tensor([5, 6]), r"counts contain 6, but each row has 1 to 5"),
        (torch.tensor([-3, 5]), r"counts contain -3"),
    ],
)
def test_wrong_counts(counts: Tensor, message: str) -> None:
    for model in (DECODER, ENCODER):
        with pytest.raises(InputError, match=message):
            model(Inputs(IDS, counts))
    with pytest.raises(InputError, match=message):
        TRANSLATOR(Inputs(IDS, source=SOURCE, counts=counts))
    for_source = (
        message.replace("counts h", "source_counts h")
        .replace("counts c", "source_counts c")
        .replace(r"\(2, 5\)", r"\(2, 7\)")
    )
    for_source = for_source.replace("1 to 5", "1 to 7").replace("contain 6", "contain 9")
    counts = torch.where(counts == 6, 9, counts) if counts.dtype == torch.int64 else counts
    with pytest.raises(InputError, match=for_source):
        TRANSLATOR(Inputs(IDS, source=SOURCE, source_counts=counts))


def test_wrong_documents_and_types() -> None:
    with pytest.raises(InputError, match=r"documents have shape \(2, 4\) .* but tokens are\s+\(2, 5\)"):
        DECODER(Inputs(IDS, documents=IDS[:, :4]))
    with pytest.raises(InputError, match=r"types have shape \(2, 5\) and type torch.float32"):
        ENCODER(Inputs(IDS, types=torch.zeros(B, N)))
    with pytest.raises(InputError, match="types must be between 0 and 1, but contain 0 to 2"):
        ENCODER(Inputs(IDS, types=torch.tensor([[0, 0, 1, 1, 2]] * B)))
    with pytest.raises(InputError, match=r"types were given, but this model has none.\nOmit them"):
        build(configure("encoder", {}))(Inputs(IDS, types=torch.zeros_like(IDS)))


def test_a_bare_tensor_is_rejected_with_the_call() -> None:
    for model in (DECODER, ENCODER, TRANSLATOR):
        for call in (model, model.vectors, model.outputs):
            with pytest.raises(
                InputError, match=r"takes Inputs, not a Tensor.\nCall model\(Inputs\(tokens\)\)"
            ):
                call(IDS)  # type: ignore[arg-type]


FIELDS = {"source": SOURCE, "source_counts": torch.tensor([3, 7]), "documents": IDS, "types": IDS}
TAKEN = {
    "decoder": ["documents"],
    "encoder": ["types"],
    "encoder-decoder": ["source", "source_counts"],
}


@pytest.mark.parametrize("shape", TAKEN)
def test_a_field_that_a_shape_does_not_take_is_rejected_with_the_reason(shape: str) -> None:
    model = build(configure(shape, {}))
    needed = {"source": SOURCE} if model.translates else {}
    for field in FIELDS.keys() - TAKEN[shape]:
        with pytest.raises(InputError, match=rf"'{shape}' takes no {field}. .*\n(Put|Give|Omit)"):
            model(Inputs(IDS, **{**needed, field: FIELDS[field]}))


def test_a_model_says_what_it_can_do() -> None:
    can = {shape: build(configure(shape, {})) for shape in TAKEN}
    assert [model.generates for model in can.values()] == [True, False, True]
    assert [model.translates for model in can.values()] == [False, False, True]
    with pytest.raises(InputError, match="'encoder' with head 'language' does not generate text"):
        can["encoder"].start(B, N)


def test_types_say_which_segment_a_token_belongs_to() -> None:
    zeros = torch.zeros_like(IDS)
    assert torch.equal(ENCODER(Inputs(IDS)), ENCODER(Inputs(IDS, types=zeros)))
    assert not torch.allclose(ENCODER(Inputs(IDS)), ENCODER(Inputs(IDS, types=zeros + 1)))


def test_one_source_for_each_target() -> None:
    with pytest.raises(InputError, match=r"There are 3 sources for 2 targets.\nGive one source for each row"):
        TRANSLATOR(Inputs(IDS, source=some_ids(3, M)))
    with pytest.raises(InputError, match="There are 2 sources for 4 targets"):
        TRANSLATOR.start(4, N, SOURCE)


STARTS: dict[str, tuple[Callable[[], Any], str]] = {
    "a source for a decoder": (
        lambda: DECODER.start(B, N, SOURCE),
        "takes no source. It has no encoder .*\nPut the source into the prompt",
    ),
    "no source": (lambda: TRANSLATOR.start(B, N), "'encoder-decoder' needs a source.\nGive source"),
    "longer than the context": (
        lambda: DECODER.start(B, 20),
        r"capacity: a sequence of 20 .* \(context 19\)",
    ),
    "nobody": (lambda: DECODER.start(0, N), "A state for 0 sequences of 5 tokens is empty"),
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
        InputError, match=f"with head '{settings['head']}' does not generate text.\nUse a language model"
    ):
        model.start(B, N)


def test_wrong_steps_leave_the_state_as_it_was() -> None:
    state = DECODER.start(B, 7)
    DECODER.step(IDS, state)
    wrong: list[tuple[Tensor, Tensor | None, str]] = [
        (some_ids(3, 1), None, "There are 3 rows of tokens, but the state has 2 sequences"),
        (IDS[:, :3], None, "A sequence of 5 tokens has no room for 3 more: the cache's capacity is 7"),
        (IDS[:, :3], torch.tensor([1, 4]), "counts contain 4, but each row has 0 to 3"),
        (IDS[:, :3], torch.tensor([1, -1]), "counts contain -1"),
        (IDS[:, :0], None, "a sequence must not be empty"),
        (ids(99)[:, :3], None, "contain the id 99"),
    ]
    for tokens, counts, message in wrong:
        with pytest.raises(InputError, match=message):
            DECODER.step(tokens, state, counts)
        assert state.lengths.tolist() == [5, 5]
    DECODER.step(IDS[:, :3], state, torch.tensor([0, 2]))
    assert state.lengths.tolist() == [5, 7]


def test_a_model_without_a_head_has_no_logits() -> None:
    model = build(configure("encoder", {"head": "none"}))
    with pytest.raises(ClearheadError, match=r"no head, so it has no logits.\nCall its vectors instead"):
        model(Inputs(IDS))
    assert isinstance(model, Encoder)
    assert model.vectors(Inputs(IDS)).shape == (B, N, D)


def test_vectors_may_stand_for_ids() -> None:
    """Embeddings can be given in place of ids, and then say the same."""
    for model in (DECODER, ENCODER):
        table = model.get_submodule("decoder" if model is DECODER else "encoder").tokens
        assert torch.allclose(model(Inputs(table(IDS))), model(Inputs(IDS)), atol=1e-6)  # type: ignore[operator]


def test_int32_ids_are_ids() -> None:
    assert torch.equal(DECODER(Inputs(IDS.int())), DECODER(Inputs(IDS)))


def test_a_length_of_exactly_the_context_is_read() -> None:
    assert DECODER(Inputs(some_ids(1, CONTEXT))).shape == (1, CONTEXT, VOCABULARY)
    assert (
        build(configure("decoder", {"positions": "rotary"}))(Inputs(some_ids(1, 2 * CONTEXT)))
        .isfinite()
        .all()
    )
    unlimited = build(configure("decoder", {"context": None}))
    assert unlimited(Inputs(some_ids(1, 3 * CONTEXT))).shape == (1, 3 * CONTEXT, VOCABULARY)
