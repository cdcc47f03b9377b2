"""The direct step gives the logits of the model's own step, for every kind of model, and leaves the rest to it."""

from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.decoding.steppers import direct
from clearhead.decoding.steppers.direct import DirectStepper, stepper_of
from clearhead.decoding.steppers.products import Order
from clearhead.errors import InputError
from clearhead.inspection.capture import capture
from clearhead.models.transformer.decoder import Decoder
from tests.decoding.tiny import language_model
from tests.models.cases import CASES, Case, gap, some_ids, some_source
from tests.narrow import transformer

TOLERANCE = 1e-5  # of float32 sums taken in another order, relative to the largest number

WRITERS = [case for case in CASES.values() if case.is_writer and isinstance(case.config, ModelConfig)]


def decoder(case: Case) -> Decoder:
    model = case.model()
    assert isinstance(model, Decoder)
    return model


def test_other_families_step_by_themselves() -> None:
    others = [case for case in CASES.values() if case.is_writer and not isinstance(case.config, ModelConfig)]
    assert len(others) > 8
    for case in others:
        model = case.model()
        assert stepper_of(model) is model


DIRECT = [case for case in WRITERS if isinstance(stepper_of(decoder(case)), DirectStepper)]


def test_most_models_are_stepped_directly_and_the_others_by_themselves() -> None:
    assert len(DIRECT) > 40
    others = [case for case in WRITERS if case not in DIRECT]
    for case in others:
        assert stepper_of(decoder(case)) is decoder(case)
        config = transformer(case.config)
        assert (
            config.similarity not in ("scaled_dot", "dot")
            or config.width_k != config.width_v
            or config.projections == "none"
            or config.token_types
            or config.convolution
            or (config.groups != config.h and any(name.startswith("decoder.") for name in config.kept_heads))
        ), case.name


def walk(model: Any, tokens: Tensor, source: Tensor | None) -> list[Tensor]:
    """Logits on a way with texts of equal and of different length, some that leave, and one that joins."""
    state = model.start(3, 12, source, None if source is None else torch.tensor([7, 2, 5]))
    heard = [model.step(tokens[:, :2], state, last=True)]
    heard += [model.step(tokens[:, i : i + 1], state, last=True) for i in (2, 3)]
    heard.append(model.step(tokens[:, 4:7], state, torch.tensor([1, 3, 2]), last=True))
    heard += [model.step(tokens[:, i : i + 1], state, last=True) for i in (7, 8)]
    state.select(torch.tensor([2, 0]))
    heard.append(model.step(tokens[:2, 9:10], state, last=True))
    guest = model.start(1, 12, None if source is None else source[:1, :4])
    heard += [model.step(tokens[:1, :4], guest, last=True)]
    heard += [model.step(tokens[:1, i : i + 1], guest, last=True) for i in (4, 5)]  # alone: one row
    state.join(guest)
    heard += [model.step(tokens[:, i : i + 1], state, last=True) for i in (10, 11)]
    assert state.lengths.tolist() == [11, 10, 8]
    return heard


@pytest.mark.parametrize("case", DIRECT, ids=lambda case: case.name)
def test_direct_steps_are_the_models_own(case: Case) -> None:
    model, tokens, source = decoder(case), some_ids(3, 12), some_source(case, 3)
    for ours, theirs in zip(
        walk(stepper_of(model), tokens, source), walk(model, tokens, source), strict=True
    ):
        assert gap(ours, theirs) < TOLERANCE


@pytest.mark.parametrize("order", ["for rows"])
@pytest.mark.parametrize("case", DIRECT, ids=lambda case: case.name)
def test_copied_weights_give_the_same_steps(
    case: Case, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DirectStepper, "reorder", lambda self, best: self.look_up(order))
    model, tokens, source = decoder(case), some_ids(3, 12), some_source(case, 3)
    for ours, theirs in zip(
        walk(stepper_of(model), tokens, source), walk(model, tokens, source), strict=True
    ):
        assert gap(ours, theirs) < TOLERANCE


def test_another_order_is_only_for_many_steps_of_one_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "COPY_AFTER", 3)
    _, stepper, _ = fresh()
    state, states = stepper.start(1, 20), stepper.start(2, 20)
    one, two = torch.ones(1, 1, dtype=torch.long), torch.ones(2, 1, dtype=torch.long)
    orders = []
    for tokens in (two, one, two, two, two, one, one, two):
        stepper.step(tokens, state if tokens is one else states)
        orders.append(stepper.order)
    assert orders == ["own"] * 4 + ["for rows"] * 4
    stepper.start(1, 20)
    assert stepper.order == "for rows"  # no weight has changed


def own_steps(model: Decoder) -> list[int]:
    """Notes the columns of every step that the model does itself."""
    seen: list[int] = []
    model.decoder.register_forward_pre_hook(lambda module, given: seen.append(given[0].shape[1]))
    return seen


def fresh(**settings: Any) -> tuple[Decoder, DirectStepper, list[int]]:
    model = Decoder(transformer(language_model(**settings).config)).eval()
    stepper = stepper_of(model)
    assert isinstance(stepper, DirectStepper)
    return model, stepper, own_steps(model)


def test_only_single_tokens_are_stepped_directly() -> None:
    _, stepper, seen = fresh()
    state = stepper.start(2, 20)
    for columns in (3, 1, 1, 2):
        stepper.step(torch.ones(2, columns, dtype=torch.long), state, last=True)
    stepper.step(torch.ones(2, 1, dtype=torch.long), state, torch.tensor([1, 0]))
    assert seen == [3, 2, 1]
    assert state.lengths.tolist() == [8, 7]


def test_a_ring_is_left_to_the_model() -> None:
    _, stepper, seen = fresh(window=4)
    state = stepper.start(1, 20)
    stepper.step(torch.ones(1, 1, dtype=torch.long), state)
    assert seen == [1]
    state = stepper.start(1, 4)  # every token sees every other: no ring
    stepper.step(torch.ones(1, 1, dtype=torch.long), state)
    assert seen == [1]


def test_who_looks_inside_sees_every_site() -> None:
    model, stepper, seen = fresh()
    state = stepper.start(1, 20)
    stepper.step(torch.ones(1, 1, dtype=torch.long), state)
    assert seen == []
    with capture(model, "decoder.1.self.weights") as trace:
        stepper.step(torch.ones(1, 1, dtype=torch.long), state)
    assert trace["decoder.1.self.weights"].shape == (1, 3, 1, 2)
    assert seen == [1]


def test_what_does_not_fit_is_refused_as_by_the_model() -> None:
    _, stepper, _ = fresh()
    state = stepper.start(1, 2)
    for _ in range(2):
        stepper.step(torch.ones(1, 1, dtype=torch.long), state)
    with pytest.raises(InputError, match="Start with a larger capacity"):
        stepper.step(torch.ones(1, 1, dtype=torch.long), state)
    with pytest.raises(InputError, match="Give one row for each"):
        stepper.step(torch.ones(2, 1, dtype=torch.long), stepper.start(1, 2))


def test_weights_that_were_changed_or_replaced_are_the_ones_used() -> None:
    model, stepper, _ = fresh()
    tokens = torch.ones(1, 1, dtype=torch.long)
    stepper.step(tokens, stepper.start(1, 9))
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3)
    state, same = stepper.start(1, 9), model.start(1, 9)
    assert gap(stepper.step(tokens, state), model.step(tokens, same)) < TOLERANCE
    model.load_state_dict({name: weight + 0.1 for name, weight in model.state_dict().items()}, assign=True)
    state, same = stepper.start(1, 9), model.start(1, 9)
    assert gap(stepper.step(tokens, state), model.step(tokens, same)) < TOLERANCE


@pytest.mark.parametrize("order", get_args(Order))
def test_a_change_behind_the_counters_is_seen_after_refresh(order: Order) -> None:
    """Through `.data`, as a fused optimizer does; in every matrix, and in every order of it."""
    model, stepper, _ = fresh(tied=False)
    tokens = torch.ones(1, 1, dtype=torch.long)
    stepper.start(1, 9)
    for name, weight in model.named_parameters():
        stepper.look_up(order)
        place = (1,) if name.endswith("tokens.weight") else (-1,)  # of the token that is read
        weight.data[place].view(-1)[-1:].add_(3.0)
        stepper.refresh()
        state, same = stepper.start(1, 9), model.start(1, 9)
        assert gap(stepper.step(tokens, state), model.step(tokens, same)) < TOLERANCE, name


def test_no_gradients_are_kept() -> None:
    _, stepper, _ = fresh()
    assert not stepper.step(torch.ones(1, 1, dtype=torch.long), stepper.start(1, 9)).requires_grad


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_types_of_numbers(dtype: torch.dtype) -> None:
    for settings in ({}, {"positions": "alibi"}, {"positions": "sinusoidal"}):
        model = Decoder(transformer(language_model(**settings).config)).to(dtype).eval()
        logits = walk(stepper_of(model), some_ids(3, 12), None)
        assert all(Z.dtype == dtype for Z in logits)
        limit = 0.1 if dtype == torch.bfloat16 else 1e-9
        for ours, theirs in zip(logits, walk(model, some_ids(3, 12), None), strict=True):
            assert gap(ours, theirs) < limit
