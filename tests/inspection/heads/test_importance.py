"""The importance of heads and units is what plain gates and plain muting give; and what is kept is what matters."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.errors import DataError, InputError
from clearhead.inspection.heads.choose import (
    kept_by_sublayer,
    kept_units,
    most_removable,
    prune_to,
    pruning_curve,
    removal_order,
)
from clearhead.inspection.heads.importance import gate_importance, head_names, loss_importance, mean_loss
from clearhead.inspection.heads.roles import head_roles, induction_scores, relation_weights, strongest_role
from clearhead.models.inputs import Inputs
from tests.inspection.attribution.hooks import changed_input, part_named
from tests.models.cases import CASES, Case, some_ids, some_source


def tasks_of(case: Case) -> list[tuple[Inputs, Tensor]]:
    """Two batches of random texts, with something ignored and padding."""
    found = []
    for seed in (1, 5):
        inputs = Inputs(some_ids(2, 5, seed=seed), torch.tensor([5, 3]), some_source(case, seed=seed + 2))
        wanted = some_ids(2, 5, seed=seed + 3)
        wanted[1, 3:] = -100
        found.append(
            (inputs, some_ids(2, seed=seed, below=4) if case.config.head == "classifier" else wanted)
        )
    return found


@pytest.mark.parametrize("name", ["decoder: grouped", "encoder-decoder: kept cross", "encoder: pool mean"])
@pytest.mark.notes("N19")
def test_importance_is_the_gradient_of_a_gate_and_the_loss_without(name: str) -> None:
    case = CASES[name]
    model, tasks, config = case.model(), tasks_of(case), case.config
    by_head, by_unit = gate_importance(model, tasks)
    assert list(by_head) == head_names(config)  # type: ignore[arg-type]
    attention = config.attentions()[-1]
    part = part_named(model, attention)
    place, width = len(config.heads(attention)) - 1, part.size.d_v
    ffn = attention.rpartition(".")[0] + ".ffn"
    total, units, count = 0.0, torch.zeros(by_unit[ffn].shape), 0
    for inputs, wanted in tasks:
        for row in range(2):  # one text at a time
            one = Inputs(*(None if X is None else X[row : row + 1] for X in inputs))  # type: ignore[arg-type]
            gate, all_units = torch.ones((), requires_grad=True), torch.ones(len(units), requires_grad=True)
            mask = torch.zeros(part.W_o.in_features)
            mask[place * width : (place + 1) * width] = 1
            head = changed_input(part.W_o, lambda H, g=gate, m=mask: H * (1 + (g - 1) * m))  # type: ignore[misc]
            unit = changed_input(part_named(model, ffn).W_2, lambda H, g=all_units: H * g)  # type: ignore[misc]
            with head, unit:
                Z = model(one).flatten(0, -2)
            right = wanted[row : row + 1].flatten()
            loss = F.cross_entropy(Z, right, ignore_index=-100, reduction="sum")
            grads = torch.autograd.grad(loss, [gate, all_units])
            total, units = total + abs(float(grads[0])), units + grads[1].abs()
            count += int((right != -100).sum())
    assert by_head[f"{attention}.{config.heads(attention)[-1]}"] == pytest.approx(total / count, rel=1e-3)
    assert torch.allclose(by_unit[ffn], units / count, atol=1e-5)

    rises = loss_importance(model, tasks)
    with torch.no_grad(), changed_input(part.W_o, lambda H: H * (1 - mask)):
        sums = [
            F.cross_entropy(
                model(inputs).flatten(0, -2), wanted.flatten(), ignore_index=-100, reduction="sum"
            )
            for inputs, wanted in tasks
        ]
    rise = float(sum(sums)) / count - mean_loss(model, tasks)
    assert rises[f"{attention}.{config.heads(attention)[-1]}"] == pytest.approx(rise, abs=1e-5)


def test_the_least_important_go_first() -> None:
    case = CASES["decoder: grouped"]
    model, tasks = case.model(), tasks_of(case)
    importance, units = gate_importance(model, tasks)
    order = removal_order(importance)
    assert order == removal_order(importance, "reverse")[::-1]
    assert sorted(removal_order(importance, "random")) == sorted(order)
    smaller = prune_to(model, tasks, 5)
    assert head_names(smaller.config) == sorted(order[-5:])  # type: ignore[arg-type]
    in_rounds = prune_to(model, tasks, 5, rounds=3)
    assert len(head_names(in_rounds.config)) == 5  # type: ignore[arg-type]
    assert mean_loss(smaller, tasks) == pytest.approx(mean_loss(model, tasks, order[:-5]), abs=1e-5)
    kept = kept_units(units, 0.5)
    assert {name: len(places) for name, places in kept.items()} == {"decoder.0.ffn": 4, "decoder.1.ffn": 4}
    assert min(units["decoder.0.ffn"][kept["decoder.0.ffn"]]) >= units["decoder.0.ffn"].median()


def test_as_many_go_as_the_loss_allows() -> None:
    case = CASES["decoder: grouped"]
    model, tasks = case.model(), tasks_of(case)
    order = removal_order(loss_importance(model, tasks))
    whole = mean_loss(model, tasks)
    count = most_removable(model, tasks, order, 0.02)
    assert mean_loss(model, tasks, order[:count]) <= 1.02 * whole
    assert most_removable(model, tasks, order, 100) == len(order)
    curve = pruning_curve(model, tasks, dict.fromkeys(order, 0.0), points=4)
    assert [(one.order, one.kept) for one in curve] == [
        (order_, kept) for order_ in ("importance", "random", "reverse") for kept in (12, 8, 4, 0)
    ]
    assert curve[0].loss == pytest.approx(whole)
    assert curve[3].loss == pytest.approx(curve[-1].loss)  # nothing is left


def test_roles_are_read_off_the_weights() -> None:
    case = CASES["encoder-decoder: kept cross"]
    model, inputs = case.model(), [task[0] for task in tasks_of(case)]
    inputs = [one._replace(source_counts=torch.tensor([7, 4])) for one in inputs]
    found = head_roles(model, inputs)
    assert list(found) == head_names(case.config)  # type: ignore[arg-type]
    from clearhead.inspection.capture import capture

    entropy, previous, same, queries, later, twins = 0.0, 0.0, 0.0, 0, 0, 0
    for batch in inputs:
        with torch.no_grad(), capture(model, "decoder.0.self.weights") as trace:
            model(batch)
        for row, n in enumerate((5, 3)):
            A, ids = trace["decoder.0.self.weights"][row, 1], batch.tokens[row].tolist()
            for i in range(n):
                entropy += -float((A[i, : i + 1] * A[i, : i + 1].log()).sum())
                previous += float(A[i, i - 1]) if i else 0
                others = [j for j in range(i) if ids[j] == ids[i]]
                same += float(A[i, others].sum())
                queries, later, twins = queries + 1, later + (i > 0), twins + bool(others)
    role = found["decoder.0.self.1"]
    assert (role.entropy, role.previous) == pytest.approx((entropy / queries, previous / later), abs=1e-5)
    assert role.same == (pytest.approx(same / twins, abs=1e-5) if twins else None)
    assert role.diagonal is None
    assert found["decoder.1.cross.2"].diagonal is not None
    assert found["decoder.1.cross.2"].previous is None
    assert found["encoder.0.self.0"].induction is None
    assert {*induction_scores(model)} == {f"decoder.{i}.self.{head}" for i in range(2) for head in range(3)}


def test_a_head_that_looks_one_back_is_a_previous_token_head() -> None:
    case = CASES["decoder: distance none"]  # fixed weights, sharpened around the token itself
    role = head_roles(case.model(), [tasks_of(case)[0][0]])["decoder.0.self.0"]
    assert strongest_role(role) == "itself"


def test_relations_are_weights_between_given_tokens() -> None:
    case = CASES["decoder: grouped"]
    model, inputs = case.model(), Inputs(some_ids(1, 5))
    found = relation_weights(model, [(inputs, {"he": [(4, 1), (3, 1)], "date": []})], "decoder.1.*")
    from clearhead.inspection.capture import capture

    with torch.no_grad(), capture(model, "decoder.1.self.weights") as trace:
        model(inputs)
    A = trace["decoder.1.self.weights"][0]
    assert list(found) == ["he"]
    assert found["he"] == pytest.approx(
        {f"decoder.1.self.{head}": float(A[head, [4, 3], [1, 1]].mean()) for head in range(6)}, abs=1e-6
    )


def test_what_makes_no_sense_is_rejected() -> None:
    case = CASES["decoder: grouped"]
    model, tasks = case.model(), tasks_of(case)
    config: Any = case.config
    empty: list[Any] = []
    for action, kind, message in (
        (
            lambda: kept_by_sublayer(config, ["decoder.0.self.9"]),
            InputError,
            "decoder.0.self.9 is not a head",
        ),
        (lambda: kept_units({}, 0), InputError, "0 is not a share above 0"),
        (lambda: kept_units({}, 1.5), InputError, "1.5 is not a share"),
        (lambda: mean_loss(model, empty), DataError, "nothing to predict"),
        (lambda: gate_importance(model, empty), DataError, "nothing to predict"),
        (lambda: head_roles(model, empty), DataError, "no texts to look at"),
        (lambda: most_removable(model, tasks, [], -0.1), InputError, "cannot be allowed to rise"),
        (
            lambda: gate_importance(CASES["decoder: recurrence gru"].model(), tasks),
            InputError,
            "no attention heads",
        ),
        (
            lambda: gate_importance(CASES["decoder: head none"].model(), tasks),
            InputError,
            "only computes vectors",
        ),
    ):
        with pytest.raises(kind, match=message):
            action()
