"""Reading and changing what passes the sites of a model."""

from typing import Any, cast

import pytest
import torch
from torch import Tensor

from clearhead.api import Model as Loaded
from clearhead.errors import InputError
from clearhead.inspection.capture import Edit, Trace, capture, edit, intervene, mean, replace, scale, zero
from clearhead.layers.sites import listener, site_names
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.models.transformer.decoder import Decoder
from clearhead.models.transformer.encoder import Encoder
from clearhead.models.transformer.translator import Translator
from tests.decoding.tiny import language_model
from tests.models.cases import B, M, N, configure, gap, randomise, some_ids

TOKENS, SOURCE = some_ids(B, N), some_ids(B, M)
DECODER = cast(Decoder, randomise(build(configure("decoder", {"h": 6, "h_kv": 3, "positions": "learned"}))))
ENCODER = cast(Encoder, randomise(build(configure("encoder", {"head": "classifier", "classes": 4}))))
TRANSLATOR = cast(Translator, randomise(build(configure("encoder-decoder", {"d_v": 6, "h": 6, "h_kv": 2}))))


def shapes(trace: Trace) -> dict[str, tuple[int, ...]]:
    return {name: tuple(X.shape) for name, X in trace.items()}


def test_every_tensor_of_the_lecture_has_a_site() -> None:
    """All sites of a translator, in the order in which they are passed, with the shapes of the lecture."""
    with capture(TRANSLATOR) as trace:
        TRANSLATOR(Inputs(TOKENS, source=SOURCE))
    d, e, h, g, d_k, d_v, d_ff = 10, 14, 6, 2, 4, 6, 9

    def attention(n: int, m: int, width: int) -> dict[str, tuple[int, ...]]:
        return {
            "q": (B, h, n, d_k), "k": (B, g, m, d_k), "v": (B, g, m, d_v), "scores": (B, h, n, m),
            "weights": (B, h, n, m), "heads": (B, h, n, d_v), "out": (B, n, width),
        }  # fmt: skip

    expected: dict[str, tuple[int, ...]] = {}
    for side, n, width in (("encoder", M, e), ("decoder", N, d)):
        expected |= {f"{side}.embeddings.{key}": (B, n, width) for key in ("tokens", "out")}
        expected[f"{side}.norm"] = (B, n, width)
        for block in range(2):
            place = f"{side}.{block}"
            expected |= {f"{place}.self.{key}": shape for key, shape in attention(n, n, width).items()}
            if side == "decoder":
                expected |= {f"{place}.cross.{key}": shape for key, shape in attention(n, M, width).items()}
            expected |= {f"{place}.ffn.hidden": (B, n, d_ff), f"{place}.ffn.out": (B, n, width)}
            steps = 3 if side == "decoder" else 2
            expected |= {f"{place}.residual.{step}": (B, n, width) for step in range(steps)}
    expected["logits"] = (B, N, 23)
    assert shapes(trace) == expected
    assert set(site_names(TRANSLATOR)) == set(expected)


def test_learned_positions_and_pools_have_sites_too() -> None:
    with capture(DECODER, "embeddings.positions") as trace:
        DECODER(Inputs(TOKENS))
    assert shapes(trace) == {"decoder.embeddings.positions": (1, N, 10)}
    with capture(ENCODER, "pooled", "logits") as trace:
        ENCODER(Inputs(TOKENS))
    assert shapes(trace) == {"head.pooled": (B, 10), "logits": (B, 4)}


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("decoder.0.self.weights", 1),
        ("decoder.*.self.weights", 2),
        ("weights", 6),
        ("decoder.?.cross.q", 2),
        ("encoder.*", 25),
        ("*", 67),
    ],
)
def test_a_name_or_a_pattern_says_what_is_recorded(pattern: str, count: int) -> None:
    with capture(TRANSLATOR, pattern) as trace:
        TRANSLATOR(Inputs(TOKENS, source=SOURCE))
    assert len(trace) == count


def test_an_unknown_site_gets_the_nearest_known_name() -> None:
    message = (
        r"decoder.0.self.weight is not a site of this model. Did you mean decoder.0.self.weights\? Known: "
    )
    with pytest.raises(InputError, match=message), capture(DECODER, "decoder.0.self.weight"):
        pass
    with (
        pytest.raises(InputError, match=r"decoder.0.cross.q is not a site"),
        capture(DECODER, "decoder.0.cross.q"),
    ):
        pass


def test_a_trace_is_read_by_full_or_short_names() -> None:
    with capture(DECODER, "q", "logits") as trace:
        DECODER(Inputs(TOKENS))
    assert trace["0.self.q"] is trace["decoder.0.self.q"]
    with pytest.raises(
        InputError, match=r"Nothing was captured at self.q. .*decoder.0.self.q, decoder.1.self.q"
    ):
        trace["self.q"]
    with pytest.raises(
        InputError, match=r"Nothing was captured at decoder.0.self.k. Did you mean decoder.0.self.q"
    ):
        trace["decoder.0.self.k"]


def test_what_is_recorded_is_detached_unless_asked_for() -> None:
    with capture(DECODER, "decoder.0.self.weights") as trace:
        DECODER(Inputs(TOKENS))
    assert not trace["decoder.0.self.weights"].requires_grad
    with capture(DECODER, "decoder.0.self.weights", attached=True) as trace:
        logits = DECODER(Inputs(TOKENS))
    A = trace["decoder.0.self.weights"]
    (gradient,) = torch.autograd.grad(logits.sum(), A)
    assert gradient.shape == A.shape
    assert gradient.abs().max() > 0


def test_a_capture_ends_with_its_block_even_after_an_error() -> None:
    with pytest.raises(InputError), capture(DECODER):
        DECODER(Inputs(some_ids(B, 99)))
    assert listener() is None
    with capture(DECODER, "logits") as trace:
        pass
    DECODER(Inputs(TOKENS))
    assert not trace


def test_a_capture_hears_only_its_own_model() -> None:
    other = build(configure("decoder", {}))
    with capture(DECODER) as trace:
        other(Inputs(TOKENS))
    assert not trace


def test_a_step_is_captured_too() -> None:
    state = DECODER.start(B, N)
    DECODER.step(TOKENS[:, :3], state)
    with capture(DECODER, "decoder.1.self.weights") as trace:
        DECODER.step(TOKENS[:, 3:4], state)
    assert trace["decoder.1.self.weights"].shape == (B, 6, 1, 4)


def muted(head: int) -> Tensor:
    """The logits of the decoder without one head of its second block: its columns of W_o are zero."""
    W_o = DECODER.get_parameter("decoder.blocks.1.self.W_o.weight")
    kept = W_o.detach().clone()
    with torch.no_grad():
        W_o[:, 4 * head : 4 * head + 4] = 0
        logits = DECODER(Inputs(TOKENS))
        W_o.copy_(kept)
    return logits


@pytest.mark.parametrize("head", range(6))
def test_a_muted_head_is_a_head_without_its_columns_of_w_o(head: int) -> None:
    before = DECODER(Inputs(TOKENS))
    with intervene(DECODER, zero(f"decoder.1.self.{head}")):
        logits = DECODER(Inputs(TOKENS))
    assert gap(logits, muted(head)) < 1e-5
    assert gap(logits, before) > 1e-3
    with intervene(DECODER, scale(f"decoder.1.self.{head}", 0.0)):
        assert gap(DECODER(Inputs(TOKENS)), muted(head)) < 1e-5
    assert torch.equal(DECODER(Inputs(TOKENS)), before)


def test_a_pruned_model_keeps_the_numbers_of_its_heads() -> None:
    pruned = randomise(build(configure("decoder", {"kept_heads": {"decoder.1.self": (0, 2)}})))
    with capture(pruned, "decoder.1.self.heads", edits=(zero("decoder.1.self.2"),)) as trace:
        pruned(Inputs(TOKENS))
    heads = trace["decoder.1.self.heads"]
    assert heads.shape[1] == 2
    assert heads[:, 0].abs().max() > 0
    assert (heads[:, 1] == 0).all()
    with pytest.raises(InputError, match=r"decoder.1.self has no head 1. Its heads: 0, 2"):
        intervene(pruned, zero("decoder.1.self.1")).__enter__()


@pytest.mark.parametrize("sublayer", ["decoder.0.self", "decoder.1.cross", "decoder.1.ffn"])
def test_a_sublayer_that_is_muted_adds_nothing(sublayer: str) -> None:
    block, kind = sublayer.split(".")[1:]
    step = ("self", "cross", "ffn").index(kind)
    with capture(TRANSLATOR, edits=(zero(sublayer),)) as trace:
        TRANSLATOR(Inputs(TOKENS, source=SOURCE))
    before = trace[f"decoder.{block}.residual.{step - 1}"] if step else trace["decoder.embeddings.out"]
    assert torch.equal(trace[f"decoder.{block}.residual.{step}"], before)


def test_one_token_can_be_changed() -> None:
    with capture(DECODER, "decoder.0.ffn.hidden", edits=(zero("decoder.0.ffn.hidden", token=2),)) as trace:
        changed = DECODER(Inputs(TOKENS))
    hidden = trace["decoder.0.ffn.hidden"]
    assert (hidden[:, 2] == 0).all()
    assert (hidden[:, 1] != 0).any()
    assert gap(changed[:, :2], DECODER(Inputs(TOKENS))[:, :2]) < 1e-5  # causal: what came before is as it was
    with capture(DECODER, "decoder.0.ffn.hidden", edits=(zero("decoder.0.ffn.hidden", token=-1),)) as trace:
        DECODER(Inputs(TOKENS))
    assert (trace["decoder.0.ffn.hidden"][:, -1] == 0).all()


def test_zeros_take_the_place_of_what_is_no_number() -> None:
    broken = randomise(build(configure("decoder", {})))
    with torch.no_grad():
        broken.get_parameter("decoder.blocks.0.ffn.W_2.weight").fill_(torch.nan)
    assert broken(Inputs(TOKENS)).isnan().all()
    with intervene(broken, zero("decoder.0.ffn")):
        assert broken(Inputs(TOKENS)).isfinite().all()


def test_a_mean_is_taken_over_sequences_and_tokens() -> None:
    with capture(DECODER, "decoder.0.self.heads") as trace:
        DECODER(Inputs(TOKENS))
    before = trace["decoder.0.self.heads"]
    with capture(DECODER, "decoder.0.self.heads", edits=(mean("decoder.0.self.4"),)) as trace:
        DECODER(Inputs(TOKENS))
    after = trace["decoder.0.self.heads"]
    assert torch.allclose(after[:, 4], before[:, 4].mean((0, 1)).expand(B, N, -1))
    assert torch.equal(after[:, :4], before[:, :4])
    with capture(ENCODER, "pooled", edits=(mean("head.pooled"),)) as trace:
        ENCODER(Inputs(TOKENS))
    assert torch.equal(trace["pooled"][0], trace["pooled"][1])


def test_what_is_put_back_as_it_was_changes_nothing() -> None:
    with capture(TRANSLATOR) as trace:
        logits = TRANSLATOR(Inputs(TOKENS, source=SOURCE))
    for name in site_names(TRANSLATOR):
        with intervene(TRANSLATOR, replace(name, trace[name])):
            assert gap(TRANSLATOR(Inputs(TOKENS, source=SOURCE)), logits) < 1e-5, name


def test_what_is_put_elsewhere_goes_on_from_there() -> None:
    """The stream of another sentence, put in after the first block, gives that sentence's logits."""
    other = some_ids(B, N, seed=9)
    with capture(DECODER, "decoder.0.residual.1") as trace:
        expected = DECODER(Inputs(other))
    with intervene(DECODER, replace("decoder.0.residual.1", trace["decoder.0.residual.1"])):
        assert gap(DECODER(Inputs(TOKENS)), expected) < 1e-5


def test_replaced_weights_are_those_that_average_the_values() -> None:
    first = torch.zeros(N)
    first[0] = 1.0
    edit = replace("decoder.0.self.weights", first, head=3)
    with capture(DECODER, "decoder.0.self.heads", "decoder.0.self.v", edits=(edit,)) as trace:
        DECODER(Inputs(TOKENS))
    values = trace["decoder.0.self.v"][:, 1, 0]  # head 3 of 6 reads head 1 of 3
    assert torch.allclose(trace["decoder.0.self.heads"][:, 3], values[:, None].expand(B, N, 4))


def test_captures_nest_and_the_outer_one_acts_first() -> None:
    place = "decoder.0.ffn.out"
    outer_edit, inner_edit = replace(place, 2.0), scale(place, 3.0)
    with capture(DECODER, place, edits=(outer_edit,)) as outer:  # noqa: SIM117
        with capture(DECODER, place, edits=(inner_edit,)) as inner:
            DECODER(Inputs(TOKENS))
    assert (outer[place] == 2).all()
    assert (inner[place] == 6).all()
    assert inner is not outer
    with capture(DECODER, place, edits=(outer_edit, inner_edit)) as trace:  # in the order given
        DECODER(Inputs(TOKENS))
    assert (trace[place] == 6).all()


WRONG_EDITS: list[tuple[Edit, str]] = [
    (
        zero("decoder.9.self.0"),
        r"decoder.9.self.heads is not a site of this model. Did you mean decoder.1.self.heads",
    ),
    (zero("decoder.0.self.6"), r"decoder.0.self has no head 6. Its heads: 0, 1, 2, 3, 4, 5"),
    (zero("decoder.0.self.k", head=3), r"decoder.0.self has no head 3. Its heads: 0, 1, 2"),
    (zero("decoder.0.ffn.out", head=0), r"decoder.0.ffn.out has no heads, so head 0 cannot be changed there"),
    (zero("decoder.0.self.out", head=0), r"decoder.0.self.out has no heads"),
    (zero("decoder.0.ffn.out", token=5), r"has shape \(2, 5, 10\) here, so token 5 cannot be changed"),
    (zero("decoder.0.ffn.out", token=-6), r"token -6 cannot be changed"),
    (
        replace("decoder.0.ffn.out", torch.zeros(3)),
        r"shape \(3,\) does not fit decoder.0.ffn.out, which has \(2, 5, 10\)",
    ),
    (scale("decoder.0.self.q", torch.zeros(7)), r"shape \(7,\) does not fit decoder.0.self.q"),
]


@pytest.mark.parametrize(("edit", "message"), WRONG_EDITS, ids=[f"{i}" for i in range(len(WRONG_EDITS))])
def test_an_edit_that_cannot_be_made_says_why(edit: Edit, message: str) -> None:
    with pytest.raises(InputError, match=message), intervene(DECODER, edit):
        DECODER(Inputs(TOKENS))
    assert listener() is None


def test_an_edit_may_name_many_places() -> None:
    with capture(TRANSLATOR, "heads", edits=(zero("*.cross.1"),)) as trace:
        TRANSLATOR(Inputs(TOKENS, source=SOURCE))
    for name, heads in trace.items():
        assert bool((heads[:, 1] == 0).all()) == ("cross" in name)


def test_a_function_is_an_edit() -> None:
    with capture(DECODER, "0.ffn.out", "1.self.heads") as plain, torch.no_grad():
        DECODER(Inputs(TOKENS))
    with torch.no_grad(), intervene(DECODER, edit("decoder.0.ffn", torch.tanh)):
        changed = DECODER(Inputs(TOKENS))
    with torch.no_grad(), intervene(DECODER, replace("decoder.0.ffn", plain["0.ffn.out"].tanh())):
        assert torch.equal(changed, DECODER(Inputs(TOKENS)))
    edits = (edit("decoder.1.self.2", lambda X: 0 * X), edit("decoder.1.residual.0", lambda X: -X, token=1))
    with torch.no_grad(), capture(DECODER, "1.self.heads", "1.residual.0", edits=edits) as seen:
        DECODER(Inputs(TOKENS))
    assert not seen["1.self.heads"][:, 2].any()
    assert torch.equal(seen["1.self.heads"][:, :2], plain["1.self.heads"][:, :2])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (torch.tanh, "An edit is what zero, mean, scale, replace or edit return"),
        ("decoder.0.ffn", "An edit is what zero, mean, scale, replace or edit return, not a str"),
        (zero(5), "A site has a name such as decoder.0.self.weights, not 5"),  # type: ignore[arg-type]
        (zero("decoder.0.ffn", token="a"), "token = 'a' is not a number"),  # type: ignore[arg-type]
        (scale("decoder.0.ffn", None), "scale takes a number or a tensor, not a NoneType"),  # type: ignore[arg-type]
        (replace("decoder.0.ffn", [1]), "replace takes a number or a tensor, not a list"),  # type: ignore[arg-type]
        (edit("decoder.0.ffn", None), "edit takes a function of a tensor"),  # type: ignore[arg-type]
        (edit("decoder.0.ffn", lambda X: None), "returned NoneType at decoder.0.ffn.out"),  # type: ignore[arg-type,return-value]
        (
            edit("decoder.0.ffn", lambda X: X[:, :1]),
            r"returned \(\d+, 1, \d+\) at decoder.0.ffn.out, which has",
        ),
        (edit("decoder.0.ffn", lambda X: X @ X), "The function of an edit failed at decoder.0.ffn.out"),
    ],
)
def test_an_edit_that_is_none_is_explained(wrong: Any, message: str) -> None:
    with pytest.raises(InputError, match=message), intervene(DECODER, wrong), torch.no_grad():
        DECODER(Inputs(TOKENS))


def test_what_load_returns_is_a_model_and_other_things_are_not() -> None:
    model = Loaded(language_model("word"))
    with capture(model, "logits") as trace:
        model.logits(torch.tensor([[1, 2, 3]]))
    assert trace["logits"].shape[:2] == (1, 3)
    with intervene(model, zero("decoder.0.self.0")), capture(model, "0.self.heads") as trace:
        model.logits(torch.tensor([[1, 2, 3]]))
    assert not trace["0.self.heads"][:, 0].any()
    with pytest.raises(InputError, match="A str is not a model"), capture("model"):
        pass


def stepped(parts: tuple[int, ...], change: Edit, site: str = "1.residual.0") -> list[Tensor]:
    """What passes a site while a decoder reads TOKENS in parts, with a cache."""
    state, start, seen = DECODER.start(B, N), 0, []
    with intervene(DECODER, change):
        for count in parts:
            with capture(DECODER, site) as trace:
                DECODER.step(TOKENS[:, start : start + count], state)
            start += count
            seen.append(trace[site])
    return seen


@pytest.mark.parametrize("parts", [(2, 1, 1, 1), (1, 1, 1, 1, 1), (3, 2)])
def test_with_a_cache_a_token_is_its_position_in_the_text(parts: tuple[int, ...]) -> None:
    assert sum(parts) == N
    for token in range(N):
        muted = zero("decoder.0.ffn", token=token)
        seen = torch.cat(stepped(parts, muted, "0.ffn.out"), 1)
        assert not seen[:, token].any()
        assert all(seen[:, other].any() for other in range(N) if other != token)
        with torch.no_grad(), capture(DECODER, "1.residual.0", edits=(muted,)) as whole:
            DECODER(Inputs(TOKENS))
        cached = torch.cat(stepped(parts, muted), 1)
        assert gap(cached, whole["1.residual.0"]) < 1e-5


@pytest.mark.parametrize("place", ["decoder.0.ffn.out", "decoder.0.self.2"])
def test_with_a_cache_the_mean_is_that_of_all_tokens_so_far(place: str) -> None:
    site = "0.ffn.out" if "ffn" in place else "0.self.heads"
    with torch.no_grad(), capture(DECODER, site) as whole:
        DECODER(Inputs(TOKENS))
    X = (
        whole[site] if "ffn" in place else whole[site][:, 2]
    )  # (b, n, …), of the first block, which nothing changes
    parts, read = stepped((2, 1, 2), mean(place), site), 0
    for part, count in zip(parts, (2, 1, 2), strict=True):
        read += count
        found = part if "ffn" in place else part[:, 2]
        expected = X[:, :read].mean((0, 1)).expand_as(found)
        assert gap(found, expected) < 1e-5


def test_with_a_cache_padding_has_no_part_in_the_mean() -> None:
    state, counts = DECODER.start(B, N), torch.tensor([3, *([1] * (B - 1))])
    with torch.no_grad(), capture(DECODER, "0.ffn.out") as plain:
        DECODER(Inputs(TOKENS[:, :3]))
    with capture(DECODER, "0.ffn.out", edits=(mean("decoder.0.ffn"),)) as seen:
        DECODER.step(TOKENS[:, :3], state, counts)
    X = plain["0.ffn.out"]
    real = torch.cat([X[row, :count] for row, count in enumerate(counts.tolist())])
    assert gap(seen["0.ffn.out"][0, 0], real.mean(0)) < 1e-5


def test_scores_have_no_mean_with_a_cache() -> None:
    with (
        pytest.raises(InputError, match="has no mean with a cache"),
        intervene(DECODER, mean("0.self.scores")),
    ):
        DECODER.step(TOKENS[:, :2], DECODER.start(B, N))
