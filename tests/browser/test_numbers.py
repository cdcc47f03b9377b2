"""Numbers on screen are the model's: each is computed again in Python and compared."""

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.api import Model
from clearhead.decoding.sampling import number
from clearhead.inspection.capture import capture, intervene, zero
from clearhead.inspection.variants import without
from clearhead.models.inputs import Inputs
from tests.browser.conftest import Visitor
from tests.decoding.tiny import classifier, language_model, random_model, translator
from tests.narrow import transformer

pytestmark = pytest.mark.slow
Visit = Callable[..., Visitor]
TEXT = "the cat sat on the green table"
TARGET = "my dog wanted to see"
MODELS: dict[str, Callable[[], Model]] = {
    "decoder": lambda: Model(language_model("word")),
    "encoder": lambda: Model(classifier("word")),
    "encoder-decoder": lambda: Model(translator("word")),
}
# A translator has both stacks and the most views; the others are walked as thoroughly in `make prove`.
SHAPES = [
    "encoder-decoder",
    *(pytest.param(shape, marks=pytest.mark.prove) for shape in ("decoder", "encoder")),
]
KINDS: dict[str, dict[str, Any]] = {  # every way in which a number can come about
    "rotary, grouped heads, query-key norm": {
        "h": 4,
        "h_kv": 2,
        "query_key_norm": True,
        "tied": False,
        "head_bias": True,
        "feedforward": "silu",
    },
    "layer norm, biases, cosine": {
        "norm": "layer",
        "positions": "learned",
        "attention_bias": "qkvo",
        "feedforward": "gelu",
        "feedforward_bias": True,
        "convolution": 3,
        "similarity": "cosine",
        "scale": 4.0,
        "soft_cap": 8.0,
    },
    "post-norm, sinusoids, pruned, own widths": {
        "norm": "layer",
        "norm_placement": "post",
        "positions": "sinusoidal",
        "feedforward": "relu",
        "d_k": 6,
        "d_v": 5,
        "kept_heads": {"decoder.0.self": (0, 2)},
    },
    "alibi, gated, additive, norms on both sides": {
        "positions": "alibi",
        "feedforward": "swiglu",
        "similarity": "additive",
        "norm_placement": "both",
    },
    "relative, no scale": {"positions": "relative", "similarity": "dot", "feedforward": "geglu"},
    "gaussian": {"similarity": "gaussian", "positions": "none", "feedforward": "relu2"},
    "distance": {"similarity": "distance", "positions": "none", "projections": "relu"},
    "no projections": {"projections": "none", "h": 1, "positions": "learned"},
}
RARE = (  # in `make prove`
    "layer norm, biases, cosine", "post-norm, sinusoids, pruned, own widths", "relative, no scale", "gaussian",
    "distance", "no projections",
)  # fmt: skip
CELLS = {
    "weights:4:2": "weights", "weights:4:6": "weights", "scores:5:1": "scores", "q:5:1": "q", "k:2:3": "k",
    "v:2:1": "v", "heads:5:2": "heads", "out:5:7": "out", "x:5:7": "x", "stream:5:7:decoder.0.residual.1": "",
    "hidden:5:9:decoder.0.ffn": "", "logit:5:4": "", "p:5:4": "", "part:5:3": "", "product:5:1": "", "scale": "",
    "ffn:5:7:decoder.0.ffn": "", "x:5:7:decoder.1.ffn": "", "top:5:7:decoder": "", "cos:5:decoder.1.ffn": "",
    "stream:5:7:decoder.1.residual.0": "", "stream:5:7:decoder.embeddings.out": "", "e:5:7:decoder": "",
    "norm:5:decoder.0.residual.1": "", "trunk:decoder.1.residual.1": "", "entropy:decoder.0.self.{head}": "",
    "position:5:7:decoder": "", "position:5:12:decoder": "", "filter:5:7:decoder": "", "filter:1:3:decoder": "",
}  # fmt: skip


CHANGES = {
    "projections": "without W_q and W_k", "scaling": "scores not divided by √d_k", "mask": "no mask",
    "positions": "no positions",
}  # fmt: skip


def trace_of(model: Model) -> dict[str, Tensor]:
    return model.trace(TEXT, TARGET) if model.translates else model.trace(TEXT)


def open_page(visit: Visit, model: Model, view: str, **state: Any) -> Visitor:
    visitor = visit(model)
    given = {"text": TEXT, **({"target": TARGET} if model.translates else {})}
    visitor.go(view, **given, **state)
    return visitor


def derived(visitor: Visitor) -> tuple[float, float | None]:
    """The number that the derivation on screen explains, and what came out when it was computed again."""
    panel = visitor.page.locator("[data-panel=derivation]")
    captured, again = panel.evaluate("one => [one.dataset.captured, one.dataset.again ?? null]")
    return float(captured), None if again is None else float(again)


@pytest.mark.notes("N12", "N15", "N16", "N17")
@pytest.mark.parametrize("shape", SHAPES)
def test_the_matrices_of_the_bench_are_the_models(visit: Visit, shape: str) -> None:
    model = MODELS[shape]()
    trace = trace_of(model)
    visitor = open_page(visit, model, "attention")
    for name in model.config.attentions():
        T = {key: trace[f"{name}.{key}"][0, 1] for key in ("q", "k", "v", "scores", "weights", "heads")}
        drawn = {
            "softmax": T["weights"], "scores": T["scores"], "dot": T["q"] @ T["k"].T, "H = A V": T["heads"],
            "Q": T["q"], "K": T["k"], "V": T["v"],
        }  # fmt: skip
        W = model.module.get_parameter(f"{name.replace('.', '.blocks.', 1)}.W_o.weight").detach()
        drawn["H W_o"] = T["heads"] @ W[:, 8:16].T
        for stage in ("softmax", "scores", "dot", "values", "qkv", "output"):
            visitor.go("attention", text=TEXT, at=name, head=1, stage=stage, **target(model))
            shown = visitor.matrices()
            assert shown.keys() & drawn.keys(), stage
            for title in shown.keys() & drawn.keys():
                assert torch.tensor(shown[title]) == pytest.approx(drawn[title].flatten(), abs=2e-5), title
        A = T["weights"]
        assert torch.allclose(A.sum(-1), torch.ones(len(A)), atol=1e-6)
    difference = visitor.page.locator("[data-difference]").get_attribute("data-difference")
    assert float(difference or "nan") < 1e-4 * 32


def target(model: Model) -> dict[str, str]:
    return {"target": TARGET} if model.translates else {}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.prove] * (kind in RARE)) for kind in KINDS]
)
def test_every_number_is_derived(visit: Visit, kind: str) -> None:
    model = Model(random_model("decoder", "word", 3, **KINDS[kind]))
    trace = model.trace(TEXT)
    visitor = visit(model)
    head = model.config.heads("decoder.0.self")[-1]
    place = len(model.config.heads("decoder.0.self")) - 1
    for form, site in CELLS.items():
        cell = form.format(head=head)
        what, i, j = f"{cell}::".split(":")[:3]
        if transformer(model.config).similarity == "distance" and what in ("q", "k", "product", "scale"):
            continue
        if what == "position" and transformer(model.config).positions not in ("learned", "sinusoidal"):
            continue
        if what == "filter" and transformer(model.config).convolution is None:
            continue
        visitor.go("text", text=TEXT, at="decoder.0.self", head=head, cell=cell)  # the view drawn fastest
        captured, computed = derived(visitor)
        again = captured if computed is None else computed  # a scale that the config states has none
        assert again == pytest.approx(captured, abs=3e-5, rel=3e-5), f"{kind}: {cell}"
        if site:
            X = trace[f"decoder.0.self.{site}"][0] if site != "x" else None
            if X is not None and X.ndim == 3:
                shared = (
                    place * len(X) // len(model.config.heads("decoder.0.self")) if site in "kv" else place
                )
                X = X[shared]
            if X is not None:
                assert captured == pytest.approx(float(X[int(i), int(j)]), abs=1e-6), f"{kind}: {cell}"
        if what == "logit":
            assert captured == pytest.approx(float(trace["logits"][0, 5, 4]), abs=1e-6)
        if what == "p":
            assert captured == pytest.approx(float(trace["logits"][0, 5].softmax(-1)[4]), abs=1e-6)


def test_a_click_derives_a_weight_down_to_the_terms_of_its_score(visit: Visit) -> None:
    model = MODELS["decoder"]()
    visitor = open_page(visit, model, "attention", head=1, q=4, k=2, stage="softmax")
    page = visitor.page
    visitor.act(lambda: page.locator('[data-name="weight"] button').click())
    A = model.trace(TEXT)["decoder.0.self.weights"][0, 1]
    assert visitor.number("[data-panel=derivation] .result") == pytest.approx(float(A[4, 2]))
    visitor.act(lambda: page.locator("[data-panel=derivation] .result button").first.click())
    trace = model.trace(TEXT)
    q, k = trace["decoder.0.self.q"][0, 1, 4], trace["decoder.0.self.k"][0, 1, 2]
    shown = page.locator("[data-panel=derivation] tbody tr td:last-child [data-value]")
    products = [float(shown.nth(c).get_attribute("data-value") or "nan") for c in range(shown.count())]
    assert products == pytest.approx((q * k).tolist(), abs=1e-5)
    visitor.act(page.go_back)
    assert "weights:4:2" in unquote(page.url)


@pytest.mark.parametrize("shape", list(MODELS))
def test_an_alt_click_mutes_a_head(visit: Visit, shape: str) -> None:
    model = MODELS[shape]()
    visitor = open_page(visit, model, "heads", q=given_ids(model)[0].shape[1] - 1)
    name = f"{model.config.attentions()[-1]}.2"
    visitor.act(lambda: visitor.page.locator(f'[data-head="{name}"]').click(modifiers=["Alt"]))
    ids, source = given_ids(model)
    with intervene(model.module, zero(name)):
        P = last(model.logits(ids, source))
    with_head = last(model.logits(ids, source))
    assert f"head {name} muted" in visitor.page.locator("#changed").inner_text()
    best = int(P.argmax())
    shown = visitor.number(f'[data-panel=prediction] [data-key$=":{best}"]')
    assert shown == pytest.approx(float(P[best]), abs=1e-6)
    assert float(P[best]) != pytest.approx(float(with_head[best]), abs=1e-6)
    visitor.act(lambda: visitor.page.get_by_role("button", name=f"Unmute {name}").click())
    assert not visitor.page.locator("#changed").is_visible()


def given_ids(model: Model) -> tuple[Tensor, Tensor | None]:
    ids = torch.tensor([model.reader.ids(TEXT)])
    if not model.translates:
        return ids, None
    return torch.tensor([[*model.generator.frame.before, *model.tokenizer.encode(TARGET)]]), ids


def last(Z: Tensor) -> Tensor:
    return torch.softmax((Z[0] if Z.ndim == 2 else Z[0, -1]).double(), -1)


@pytest.mark.notes("N10", "N14", "N15")
def test_a_switch_runs_the_model_without_a_part(visit: Visit) -> None:
    model = MODELS["decoder"]()
    visitor = open_page(visit, model, "attention", head=1, q=4, k=2)
    for part, said in CHANGES.items():
        visitor.act(lambda part=part: visitor.page.locator(f'[data-key="switch {part}"]').check())  # type: ignore[misc]
        variant = without(model.module, part)
        with torch.no_grad(), capture(variant, "decoder.0.self.weights") as trace:
            variant(Inputs(torch.tensor([model.reader.ids(TEXT)])))
        A = trace["decoder.0.self.weights"][0, 1]
        assert torch.tensor(visitor.matrix("softmax")) == pytest.approx(A.flatten(), abs=1e-5)
        assert said in visitor.page.locator("#changed").inner_text()
        visitor.act(lambda part=part: visitor.page.locator(f'[data-key="switch {part}"]').uncheck())  # type: ignore[misc]


@pytest.mark.notes("N20")
def test_the_links_that_are_not_drawn_are_weighed(visit: Visit) -> None:
    model = MODELS["decoder"]()
    visitor = open_page(visit, model, "links", head=1, mass=50, q=5)
    A = model.trace(TEXT)["decoder.0.self.weights"][0, 1]
    order = A.flatten().sort(descending=True).values.double()
    total = order.sum()
    count = int((order.cumsum(0) < 0.5 * total).sum()) + 1
    assert visitor.page.locator("svg.chart path").count() == count
    dropped = float(1 - order[:count].sum() / total)
    assert visitor.number("[data-key=dropped]") == pytest.approx(dropped, abs=1e-6)
    words = visitor.page.locator("[data-name=sentence] .n")
    shown = [float(words.nth(j).get_attribute("data-value") or "nan") for j in range(words.count())]
    assert shown == pytest.approx(A[5].tolist(), abs=1e-7)


@pytest.mark.notes("N21", "N25")
def test_the_stream_and_the_units(visit: Visit) -> None:
    model = MODELS["decoder"]()
    visitor = open_page(visit, model, "residual", q=4, at="decoder.1.self")
    trace = model.trace(TEXT)
    for name in ("decoder.0.self", "decoder.1.ffn"):
        norm = float(trace[f"{name}.out"][0, 4].norm())
        assert visitor.number(f'[data-key="norm:4:{name}.out"]') == pytest.approx(norm, rel=1e-5)
    hidden = trace["decoder.1.ffn.hidden"][0, 4]
    strongest = int(hidden.abs().argmax())
    assert visitor.number(f'[data-key="hidden:4:{strongest}:decoder.1.ffn"]') == pytest.approx(
        float(hidden[strongest]), abs=1e-6
    )


@pytest.mark.notes("N28", "N39")
def test_the_next_token_and_another_one(visit: Visit) -> None:
    model = MODELS["decoder"]()
    visitor = open_page(visit, model, "next", temperature=0.7, top_k=5, seed=4)
    Z = model.trace(TEXT)["logits"][0, -1]
    P, best = Z.softmax(-1), int(Z.argmax())
    n = len(model.reader.ids(TEXT))
    assert visitor.number(f'[data-key="logit:{n - 1}:{best}"]') == pytest.approx(float(Z[best]), abs=1e-5)
    assert visitor.number(f'[data-key="p:{n - 1}:{best}"]') == pytest.approx(float(P[best]), abs=1e-6)
    kept = Z.topk(5)
    final = (kept.values / 0.7).softmax(-1)
    assert visitor.number(f'[data-key="final:{n - 1}:{best}"]') == pytest.approx(float(final[0]), abs=1e-5)
    assert f"drawn: {number(4, n - 1):.4g}" in (visitor.page.locator("svg.chart").text_content() or "")
    third = int(kept.indices[2])
    visitor.act(lambda: visitor.page.locator(f'[data-key="take {third}"]').click())
    ids = torch.tensor([[*model.reader.ids(TEXT), third]])
    after = model.logits(ids)[0, -1]
    assert visitor.number(f'[data-key="logit:{n}:{int(after.argmax())}"]') == pytest.approx(
        float(after.max()), abs=1e-5
    )


@pytest.mark.notes("N38", "N40")
def test_a_text_is_written_step_by_step(visit: Visit) -> None:
    model = MODELS["decoder"]()
    visitor = open_page(visit, model, "generation", temperature=0, tokens=6, step=5)
    theirs = model.generate(TEXT, max_tokens=6, temperature=0.0, beam=1)
    shown = visitor.page.locator('[data-key^="written"]')
    assert [shown.nth(i).get_attribute("title") for i in range(shown.count())] == [
        f"token {id}" for id in theirs.tokens
    ]
    assert visitor.number("[data-name=apart]") < 1e-3


@pytest.mark.notes("N17", "N29")
def test_the_alignment_is_read_off_the_cross_attention(visit: Visit) -> None:
    model = MODELS["encoder-decoder"]()
    visitor = open_page(visit, model, "translation", at="decoder.1.cross", scope="layer")
    A = model.trace(TEXT, TARGET)["decoder.1.cross.weights"][0].mean(0)
    assert torch.tensor(visitor.matrix("decoder.1.cross")) == pytest.approx(A.flatten(), abs=1e-6)
    for i, weight in enumerate(A.amax(-1).tolist()):
        assert visitor.number(f"[data-panel=alignment] tbody tr:nth-child({i + 1}) .n") == pytest.approx(
            weight, abs=1e-6
        )


@pytest.mark.notes("N30")
def test_the_classes_and_each_word_left_out(visit: Visit) -> None:
    model = MODELS["encoder"]()
    visitor = open_page(visit, model, "classifier")
    (found,) = model.classify([TEXT])
    shares = list(found.probabilities.values())
    for label, p in enumerate(shares):
        assert visitor.number(f'[data-key="p:0:{label}"]') == pytest.approx(p, abs=1e-6)
    best, ids = max(range(3), key=shares.__getitem__), model.reader.ids(TEXT)
    without_cat = last(model.logits(torch.tensor([[id for place, id in enumerate(ids) if place != 2]])))
    effect = shares[best] - float(without_cat[best])
    assert visitor.number(f'[data-key="effect:1:{best}"]') == pytest.approx(effect, abs=1e-6)


@pytest.mark.notes("N2", "N4")
def test_neighbours_and_vectors(visit: Visit) -> None:
    model = MODELS["decoder"]()
    visitor = open_page(visit, model, "embeddings", q=2)
    E = model.module.get_parameter("decoder.tokens.weight").detach()
    ids = model.reader.ids(TEXT)
    assert torch.tensor(visitor.matrix("embeddings")) == pytest.approx(E[ids].flatten(), abs=1e-6)
    cosine = F.cosine_similarity(E, E[ids[2]][None], dim=-1)
    cosine[ids[2]] = -2
    nearest = int(cosine.argmax())
    assert visitor.number(f'[data-key="near:cosine:{ids[2]}:{nearest}:decoder"]') == pytest.approx(
        float(cosine[nearest]), abs=1e-6
    )
