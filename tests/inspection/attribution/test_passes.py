"""Ablation and activation patching equal one pass with a plain PyTorch hook for each."""

from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.errors import DataError, InputError
from clearhead.inspection.attribution import passes
from clearhead.inspection.attribution.ablation import ablate, mean_activations
from clearhead.inspection.attribution.goals import Logit
from clearhead.inspection.attribution.passes import edited_outcomes
from clearhead.inspection.attribution.patching import activation_patching, patch_places
from clearhead.inspection.capture import intervene, mean, replace, scale, zero
from clearhead.models.inputs import Inputs
from tests.inspection.attribution.hooks import EXPLAINED, changed_input, changed_output, part_named, text_of
from tests.models.cases import CASES, Case, some_ids, some_source

GOAL = Logit(3, against=2)
PLACED = [
    case
    for case in EXPLAINED.values()
    if case.has_attention and case.kind.startswith(("norm", "kept grouped", "bert"))
]
each = pytest.mark.parametrize("case", PLACED, ids=lambda case: case.name)


@torch.no_grad()
def value(case: Case, inputs: Inputs) -> float:
    return float(GOAL(case.model()(inputs)))


@each
def test_an_ablated_part_is_one_that_a_hook_puts_to_zero(case: Case) -> None:
    model, inputs, attention = case.model(), text_of(case), case.config.attentions()[-1]
    stack, block, _ = attention.split(".")
    part, ffn = part_named(model, attention), part_named(model, f"{stack}.{block}.ffn")
    head, width = case.config.heads(attention)[-1], part.size.d_v
    places = [f"{attention}.{head}", f"{stack}.{block}.ffn.4", attention, f"{stack}.{block}.ffn"]
    found = ablate(model, inputs, GOAL, places)
    whole, last = value(case, inputs), slice((len(part.size.heads) - 1) * width, None)

    def without(columns: slice):  # type: ignore[no-untyped-def]
        def change(X: Tensor) -> Tensor:
            X = X.clone()
            X[..., columns] = 0
            return X

        return change

    for place, hook in zip(
        places,
        (
            changed_input(part.W_o, without(last)),
            changed_input(ffn.W_2, without(slice(4, 5))),
            changed_output(part, torch.zeros_like),
            changed_output(ffn, torch.zeros_like),
        ),
        strict=True,
    ):
        with hook:
            assert found[place] == pytest.approx(value(case, inputs) - whole, abs=1e-4), place


@each
def test_patching_is_a_hook_that_puts_the_clean_output_at_one_token(case: Case) -> None:
    model, clean, corrupted = case.model(), text_of(case), text_of(case, seed=8)
    found = activation_patching(model, clean, corrupted, GOAL)
    assert found.places == patch_places(model)
    assert (found.clean, found.corrupted) == pytest.approx(
        (value(case, clean), value(case, corrupted)), abs=1e-5
    )
    for place, scores in zip(found.places, found.scores, strict=True):
        stack, block, *rest = place.split(".")
        if block == "embeddings":
            continue
        at = part_named(model, f"{stack}.{block}")
        names = ["self", "cross", "ffn"] if at.cross is not None else ["self", "ffn"]
        module = getattr(at, rest[0]) if rest[0] in names else getattr(at, f"add_{names[int(rest[1])]}")
        outs: list[Tensor] = []
        with changed_output(module, lambda X, outs=outs: outs.append(X) or X):  # type: ignore[misc]
            value(case, clean)
        is_source = stack == "encoder" and clean.source is not None
        assert int((~scores.isnan()).sum()) == (7 if is_source else 5)
        token = 3

        def put(X: Tensor, outs: list[Tensor] = outs) -> Tensor:
            X = X.clone()
            X[:, token] = outs[0][:, token]  # noqa: B023
            return X

        with changed_output(module, put):
            expected = (value(case, corrupted) - found.corrupted) / (found.clean - found.corrupted)
        assert float(scores[token]) == pytest.approx(expected, abs=1e-3), place


def test_everything_from_the_clean_text_gives_its_answer() -> None:
    case = CASES["encoder-decoder: norm_placement post"]
    clean, corrupted = text_of(case), text_of(case, seed=8)
    corrupted = corrupted._replace(tokens=clean.tokens)  # the sources differ
    found = activation_patching(
        case.model(), clean, corrupted, GOAL, ["encoder.0.self.1", "decoder.1.cross.0"]
    )
    assert found.scores.shape == (2, 7)
    assert found.scores[1].isnan().tolist() == [False] * 5 + [True] * 2
    others = {f"encoder.{i}.residual.1": 0.0 for i in range(2)}
    swapped = ablate(case.model(), corrupted, GOAL, list(others), instead=clean)
    assert [one + found.corrupted for one in swapped.values()] == pytest.approx([found.clean] * 2, abs=1e-4)


def test_a_patched_translator_does_not_see_the_future() -> None:
    case = CASES["encoder-decoder: grouped"]
    model, clean, corrupted = case.model(), text_of(case), text_of(case, seed=8)
    corrupted = corrupted._replace(source=clean.source)
    for place in ("decoder.0.self", "decoder.0.residual.2", "decoder.1.cross.2"):
        for at in (0, 2):
            goal = Logit(3, position=at)
            found = activation_patching(model, clean, corrupted, goal, [place]).scores[0]
            assert found[at + 1 :].abs().max() < 1e-4  # a later token changes nothing


def test_many_edits_at_a_time_are_single_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["encoder-decoder: grouped"]
    model, inputs, batches = case.model(), text_of(case), []
    edits = [
        zero("decoder.0.self.1"), zero("encoder.1.ffn.5", token=2), scale("decoder.1.ffn", 0.3), mean("encoder.0.self"),
        replace("decoder.embeddings.out", 0.1, token=-1), zero("decoder.*.cross"),
        zero("decoder.1.cross.weights", head=4),
    ]  # fmt: skip
    monkeypatch.setattr(passes, "BATCH_TOKENS", 7 * 3)
    found = edited_outcomes(model, inputs, edits, GOAL, lambda done, of: batches.append((done, of)))
    assert batches == [(3, 7), (6, 7), (7, 7)]
    for one, got in zip(edits, found.tolist(), strict=True):
        with intervene(model, one):
            assert got == pytest.approx(value(case, inputs), abs=1e-4), one


def test_means_are_those_of_real_tokens_only() -> None:
    case = CASES["encoder-decoder: grouped"]
    model = case.model()
    texts = [Inputs(some_ids(2, 5, seed=s), source=some_source(case, seed=s + 1)) for s in (1, 5)]
    padded = [one._replace(counts=torch.tensor([5, 3]), source_counts=torch.tensor([2, 7])) for one in texts]
    places = ("encoder.1.self.2", "decoder.0.ffn.3", "decoder.1.cross")
    found = mean_activations(model, padded, *places)
    sums: dict[str, list[Tensor]] = {place: [] for place in places}
    for one in padded:
        for row in range(2):
            n, m = int(one.counts[row]), int(one.source_counts[row])  # type: ignore[index]
            alone = Inputs(one.tokens[row : row + 1, :n], source=one.source[row : row + 1, :m])  # type: ignore[index]
            outs: list[Tensor] = []
            keep: Any = lambda X, outs=outs: outs.append(X) or X  # noqa: E731
            self_, ffn = part_named(model, "encoder.1.self"), part_named(model, "decoder.0.ffn")
            cross = changed_output(part_named(model, places[2]), keep)
            with changed_input(self_.W_o, keep), changed_input(ffn.W_2, keep), cross:
                value(case, alone)
            sums[places[0]].append(outs[0][0].unflatten(-1, (6, -1))[:, 2])
            sums[places[1]].append(outs[1][0][:, 3:4])
            sums[places[2]].append(outs[2][0])
    for place, parts in sums.items():
        assert torch.allclose(found[place].flatten(), torch.cat(parts).mean(0), atol=1e-5), place
    effects = ablate(model, text_of(case), GOAL, list(places), instead=found)
    for place in places:
        with intervene(model, replace(place, found[place])):
            after = value(case, text_of(case))
        assert effects[place] == pytest.approx(after - value(case, text_of(case)), abs=1e-4)


def test_what_cannot_be_replaced_is_rejected() -> None:
    case = CASES["decoder: grouped"]
    model, inputs = case.model(), text_of(case)
    longer = Inputs(some_ids(1, 6))
    with pytest.raises(InputError, match="do not line up: one text has 5, the other 6"):
        ablate(model, inputs, GOAL, ["decoder.0.self"], instead=longer)
    with pytest.raises(InputError, match="do not line up"):
        activation_patching(model, longer, inputs, GOAL)
    with pytest.raises(InputError, match="Both texts give the same answer"):
        activation_patching(model, inputs, inputs, GOAL)
    with pytest.raises(InputError, match=r"decoder.0.self has no head 9\. Its heads: 0, 1"):
        ablate(model, inputs, GOAL, ["decoder.0.self.9"])
    with pytest.raises(InputError, match="unit 99 cannot be changed"):
        ablate(model, inputs, GOAL, ["decoder.0.ffn.99"])
    with pytest.raises(InputError, match=r"There is no mean of decoder.0.ffn"):
        ablate(model, inputs, GOAL, ["decoder.0.ffn"], instead={})
    with pytest.raises(InputError, match="has no mean over texts of different lengths"):
        mean_activations(model, [inputs], "decoder.0.self.weights")
    with pytest.raises(InputError, match="means 2 sites"):
        mean_activations(model, [inputs], "decoder.*.self")
    with pytest.raises(DataError, match="no texts to take a mean over"):
        mean_activations(model, [], "decoder.0.self")
    with pytest.raises(InputError, match="is not patched token by token"):
        activation_patching(model, inputs, text_of(case, 8), GOAL, ["decoder.0.self.weights"])
