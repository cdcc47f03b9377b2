"""The notes on blocks and stacks, with small numbers: N21 to N27 and N32."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clearhead.config.model import ModelConfig
from clearhead.inspection.capture import capture, intervene, zero
from clearhead.layers.blocks import Block
from clearhead.layers.feedforward import FEEDFORWARDS, FeedForward
from clearhead.layers.masks import View
from clearhead.layers.norms import LayerNorm, WholeNorm
from clearhead.layers.residual import PLACEMENTS
from clearhead.models.build import FAMILIES, build
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model
from tests.layers.parts import attend, crossed, square
from tests.models.cases import B, M, N, configure, gap, randomise, some_ids

EIGHT = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]  # mean 5, deviation 2
NORMED = [-1.5, -0.5, -0.5, -0.5, 0.0, 0.0, 1.0, 2.0]


def run(model: Model) -> Tensor:
    """The model on random tokens, and a random source where it reads one."""
    return model(Inputs(some_ids(B, N), source=some_ids(B, M) if model.translates else None))


@pytest.mark.notes("N21")
def test_output_is_f_of_x_plus_x() -> None:
    """x = (1, 2) and F(x) = (10, −2): the block gives (11, 0)."""
    x, F = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[10.0, -2.0]]])
    residual = PLACEMENTS["pre"](2, "none", 1e-5, True, 0.0)
    assert residual(x, lambda _: F).tolist() == [[[11.0, 0.0]]]


@pytest.mark.notes("N21")
def test_a_gradient_survives_depth_with_the_residual_and_vanishes_without() -> None:
    """004: 'if all of the terms are less than one, they'll multiply into a very small value'."""
    torch.manual_seed(1)
    layers = [FeedForward(8, 8, FEEDFORWARDS["gelu"][1], False) for _ in range(20)]
    for layer in layers:
        for weight in layer.parameters():
            nn.init.normal_(weight, std=0.1)
    residual = PLACEMENTS["pre"](8, "none", 1e-5, True, 0.0)
    sizes = []
    for is_added in (True, False):
        X = start = torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(2)).requires_grad_()
        for layer in layers:
            X = residual(X, layer) if is_added else layer(X)
        (gradient,) = torch.autograd.grad(X.sum(), start)
        sizes.append(float(gradient.norm()))
    assert sizes[0] > 1
    assert sizes[1] < 1e-9


@pytest.mark.notes("N21")
def test_positions_survive_to_the_top_of_the_stack() -> None:
    """001: the residual 'helps remember positional encoding': muted blocks leave token plus position as they are."""
    model = randomise(build(configure("encoder", {"positions": "learned", "final_norm": False})))
    sublayers = ("encoder.*.self", "encoder.*.ffn")
    with intervene(model, *map(zero, sublayers)), capture(model, "embeddings.out", "encoder.norm") as trace:
        run(model)
    assert torch.equal(trace["encoder.norm"], trace["encoder.embeddings.out"])


@pytest.mark.notes("N22")
def test_layer_normalisation_by_hand() -> None:
    """004: γ (z − μ) / σ + β, with μ = 5 and σ = 2 over the features of one token, γ = 2 and β = 1."""
    norm = LayerNorm(8, 1e-12)
    other = [100.0 * number for number in EIGHT]  # another token does not matter, nor does its size
    Z = torch.tensor([[EIGHT, other]])
    assert norm(Z)[0].tolist() == [pytest.approx(NORMED, abs=1e-5)] * 2
    nn.init.constant_(norm.weight, 2.0)
    assert norm.bias is not None
    nn.init.constant_(norm.bias, 1.0)
    assert norm(Z)[0, 0].tolist() == pytest.approx([-2, 0, 0, 0, 1, 1, 3, 5], abs=1e-5)


@pytest.mark.notes("N23", "N24")
def test_add_and_normalise_over_the_whole_matrix_by_hand() -> None:
    """001: A = X + Y, then (A − μ) / √(σ² + ε) with one μ = 5 and one σ = 2 for all d · n numbers."""
    A = torch.tensor(EIGHT).view(1, 4, 2)
    Y = torch.tensor([[1.0, -1.0], [0.0, 3.0], [2.0, 2.0], [-4.0, 0.5]])[None]
    Z = WholeNorm(2, 1e-12)(A)
    assert Z.flatten().tolist() == pytest.approx(NORMED, abs=1e-5)
    add_and_normalise = PLACEMENTS["post"](2, "whole", 1e-12, True, 0.0)
    assert torch.allclose(add_and_normalise(A - Y, lambda X: Y), Z, atol=1e-5)
    assert not torch.allclose(Z.mean(-1), torch.zeros(1, 4), atol=0.1)  # a token alone is not centred
    padding = torch.full((1, 3, 2), 1e4)  # and what is not real does not count
    real = torch.arange(7)[None] < 4
    assert torch.allclose(WholeNorm(2, 1e-12)(torch.cat([A, padding], 1), real)[:, :4], Z, atol=1e-5)


@pytest.mark.notes("N25")
@pytest.mark.parametrize("bias", [True, False])
def test_the_feed_forward_by_hand(bias: bool) -> None:
    """001: W_2 max(0, W_1 x + b_1) + b_2; 004 leaves the biases out. For x = (1, −2)."""
    layer = FeedForward(2, 3, FEEDFORWARDS["relu"][1], bias)
    numbers: dict[str, Any] = {
        "W_1.weight": [[1, 0], [0, 1], [2, 1]], "W_1.bias": [0, 5, 1],
        "W_2.weight": [[1, 2, 3], [-1, 0, 1]], "W_2.bias": [0.5, -0.5],
    }  # fmt: skip
    with torch.no_grad():
        for name, weight in layer.named_parameters():
            weight.copy_(torch.tensor(numbers[name]))
    # W_1 x = (1, −2, 0); with b_1 (1, 3, 1); relu leaves (1, 0, 0) without and (1, 3, 1) with it
    expected = [10.5, -0.5] if bias else [1.0, -1.0]
    assert layer(torch.tensor([[[1.0, -2.0]]])).flatten().tolist() == expected


def make_block(name: str, d_memory: int | None = None, **settings: Any) -> Block:
    config = ModelConfig(
        **{"d": 10, "h": 3, "d_k": 4, "d_ff": 9, "norm": "layer", "positions": "none", **settings}
    )
    block = Block(config, name, 10, config.norm, d_memory)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for weight in block.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.3)
    return block.eval()


@pytest.mark.notes("N24", "N26")
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_order_inside_an_encoder_block(placement: Any) -> None:
    """Self-attention, add & norm, feed-forward, add & norm; or each norm inside its branch."""
    block = make_block("encoder.0", norm_placement=placement)
    X, view = torch.randn(B, N, 10, generator=torch.Generator().manual_seed(1)), square(N)

    def add(X: Tensor, step: Any, sublayer: Any) -> Tensor:
        if placement == "post":
            return step.norm(X + sublayer(X))
        added = sublayer(step.norm(X))
        return X + (step.norm_after(added) if placement == "both" else added)

    U = add(X, block.add_self, lambda Y: attend(block.self, Y, Y, view))
    Z = add(U, block.add_ffn, block.ffn)
    assert gap(block(X, view), Z) < 1e-5
    assert block(X, view).shape == X.shape


@pytest.mark.notes("N26")
@pytest.mark.parametrize(("n", "d"), [(1, 10), (5, 10), (17, 10), (5, 22)])
def test_a_stack_of_n_blocks_keeps_the_shape(n: int, d: int) -> None:
    """Every residual of every block is (n, d), and the stack is the blocks one after the other."""
    settings = {"encoder_blocks": 3, "d": d, "norm_placement": "post", "norm": "layer"}
    model = randomise(build(configure("encoder", settings)))
    with capture(model) as trace:
        model(Inputs(some_ids(B, n)))
    stream = [X for name, X in trace.items() if ".residual." in name]
    assert len(stream) == 6
    assert all(X.shape == (B, n, d) for X in stream)
    X = trace["encoder.embeddings.out"]
    at = torch.arange(n)[None]
    positions = model.get_submodule("encoder").positions
    view = View(at, at, angles=positions.angles(at), aligned=True)  # type: ignore[operator,union-attr]
    for block in model.get_submodule("encoder").blocks:  # type: ignore[union-attr]
        X = block(X, view)
    assert gap(X, trace["encoder.norm"]) < 1e-5


@pytest.mark.notes("N27", "N17")
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_the_order_inside_a_decoder_block(placement: Any) -> None:
    """Masked self-attention, cross-attention, feed-forward, each with add & norm."""
    block = make_block("decoder.0", d_memory=14, norm_placement=placement, shape="encoder-decoder")
    random = torch.Generator().manual_seed(1)
    X, memory = torch.randn(B, N, 10, generator=random), torch.randn(B, M, 14, generator=random)
    at = torch.arange(N)[None]
    causal = View(at, at, causal=True, aligned=True)
    cross, add_cross = block.cross, block.add_cross
    assert cross is not None
    assert add_cross is not None

    def add(X: Tensor, step: Any, sublayer: Any) -> Tensor:
        return step.norm(X + sublayer(X)) if placement == "post" else X + sublayer(step.norm(X))

    U = add(X, block.add_self, lambda Y: attend(block.self, Y, Y, causal))
    V = add(U, add_cross, lambda Y: attend(cross, Y, memory, crossed(N, M)))
    Z = add(V, block.add_ffn, block.ffn)
    source = (*cross.keys_values(memory), crossed(N, M))
    with capture(block, "residual.*") as trace:
        found = block(X, causal, memory=source)
    for step, expected in enumerate((U, V, Z)):
        assert gap(trace[f"residual.{step}"], expected) < 1e-5
    assert gap(found, Z) < 1e-5


@pytest.mark.notes("N32", "N21")
@pytest.mark.parametrize("shape", FAMILIES["transformer"])
def test_the_stream_is_what_all_sublayers_have_added(shape: str) -> None:
    """003: one stream from the embeddings to the head; every sublayer reads from it and adds to it."""
    model = randomise(build(configure(shape, {"positions": "learned", "norm": "layer"})))
    with capture(model) as trace:
        run(model)
    for side in ("encoder", "decoder"):
        if f"{side}.norm" not in trace:
            continue
        blocks = 2
        stream = trace[f"{side}.embeddings.out"]
        for i in range(blocks):
            kinds = [kind for kind in ("self", "cross", "ffn") if f"{side}.{i}.{kind}.out" in trace]
            for step, kind in enumerate(kinds):
                stream = stream + trace[f"{side}.{i}.{kind}.out"]
                assert gap(trace[f"{side}.{i}.residual.{step}"], stream) < 1e-5
        assert gap(trace[f"{side}.norm"], model.get_submodule(f"{side}.norm")(stream)) < 1e-5


@pytest.mark.notes("N32")
def test_what_a_sublayer_adds_reaches_the_head_directly() -> None:
    """With no norm at the end, the logits are a sum with one term for each sublayer, early or late."""
    model = randomise(build(configure("decoder", {"positions": "learned", "final_norm": False})))
    with capture(model) as trace:
        logits = run(model)
    E = model.get_parameter("decoder.tokens.weight").detach()
    parts = ["embeddings.out"] + [f"{i}.{kind}.out" for i in range(2) for kind in ("self", "ffn")]
    shares = [trace[f"decoder.{part}"] @ E.T for part in parts]
    assert gap(logits, torch.stack(shares).sum(0)) < 1e-5
