"""A stepper takes PyTorch's step and then the compiled one, with the same logits, and leaves the rest to the model."""

from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding import engine
from clearhead.decoding.engine import Draft, Engine
from clearhead.decoding.steppers.compiled import why_not_compiled
from clearhead.decoding.steppers.switching import SwitchingStepper, stepper_of
from clearhead.errors import InputError, ModelFolderError
from clearhead.inspection.capture import capture
from clearhead.layers.cache import DecoderState
from clearhead.models.transformer.decoder import Decoder
from tests.decoding.tiny import language_model
from tests.models.cases import CASES, Case, gap, some_ids, some_source
from tests.narrow import transformer

pytestmark = pytest.mark.usefixtures("kernels")

TOLERANCE = 1e-4


def test_what_has_no_compiled_step_steps_by_itself() -> None:
    others = [case for case in CASES.values() if case.is_writer and why_not_compiled(case.model())]
    assert len(others) > 8
    for case in others:
        assert stepper_of(case.model()) is case.model()
    model = language_model().module
    assert stepper_of(model, "as they are") is model


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


@pytest.mark.parametrize(
    "case", [case for case in CASES.values() if case.is_writer][::6], ids=lambda case: case.name
)
def test_texts_that_come_and_go_are_the_models_own(case: Case) -> None:
    model, tokens, source = case.model(), some_ids(3, 12), some_source(case, 3)
    stepper = stepper_of(model)
    if isinstance(stepper, SwitchingStepper):
        stepper.prepare()
    for ours, theirs in zip(walk(stepper, tokens, source), walk(model, tokens, source), strict=True):
        assert gap(ours, theirs) < TOLERANCE


def own_steps(model: Decoder) -> list[int]:
    """Notes the columns of every step that the model does itself."""
    seen: list[int] = []
    model.decoder.register_forward_pre_hook(lambda module, given: seen.append(given[0].shape[1]))
    return seen


def fresh(**settings: Any) -> tuple[Decoder, SwitchingStepper, list[int]]:
    model = Decoder(transformer(language_model(**settings).config)).eval()
    stepper = stepper_of(model)
    assert isinstance(stepper, SwitchingStepper)
    stepper.prepare()
    return model, stepper, own_steps(model)


def test_rows_without_a_token_and_rings_that_go_round_are_left_to_the_model() -> None:
    _, stepper, seen = fresh()
    state = stepper.start(2, 20)
    for columns in (3, 1, 1, 2):
        stepper.step(torch.ones(2, columns, dtype=torch.long), state, last=True)
    assert seen == []
    stepper.step(torch.ones(2, 1, dtype=torch.long), state, torch.tensor([1, 0]))
    assert seen == [1]
    assert state.lengths.tolist() == [8, 7]
    _, stepper, seen = fresh(window=4)
    state = stepper.start(1, 20)
    for columns in (3, 1, 1, 1, 2):
        stepper.step(torch.ones(1, columns, dtype=torch.long), state)
    assert seen == [3, 2]


def test_all_logits_of_a_prompt_can_be_asked_for() -> None:
    model, stepper, _ = fresh()
    tokens, counts = some_ids(3, 5), torch.tensor([2, 5, 1])
    ours = stepper.step(tokens, stepper.start(3, 9), counts)
    theirs = model.step(tokens, model.start(3, 9), counts)
    for row, count in enumerate(counts.tolist()):
        assert gap(ours[row, :count], theirs[row, :count]) < TOLERANCE


def test_beams_that_change_places_copy_nothing_and_lose_nothing() -> None:
    model, stepper, _ = fresh()
    tokens, states = some_ids(4, 9), (stepper.start(4, 12), model.start(4, 12))
    for i in range(9):
        rows = torch.tensor([[0, 1, 2, 3], [1, 1, 0, 3], [3, 2, 1, 0], [2, 2, 2, 2]][i % 4])
        ours = stepper.step(tokens[:, i : i + 1], states[0])
        theirs = model.step(tokens[:, i : i + 1], states[1])
        assert gap(ours, theirs) < TOLERANCE
        kept = states[0].cache.stored_K[0].clone()
        for state in states:
            state.select(rows)
        assert torch.equal(kept, states[0].cache.stored_K[0])
    for mine, own in zip(states[0].cache.K, states[1].cache.K, strict=True):
        assert gap(mine[:, :, :9], own[:, :, :9]) < TOLERANCE


@pytest.mark.parametrize("window", [None, 4])
def test_texts_written_ahead_are_those_written_token_by_token(
    window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, stepper, seen = fresh(window=window)
    counts = []

    def write(tokens: Tensor, state: DecoderState, count: int) -> Any:
        counts.append(count)
        return own_write(tokens, state, count)

    own_write = stepper.write
    monkeypatch.setattr(stepper, "write", write)
    monkeypatch.setattr(engine, "AHEAD_SECONDS", 60.0)

    def run(model: Any, ends: list[int]) -> list[tuple[list[int], str | None]]:
        texts = [
            Draft([1 + i, 3], DecodingConfig(temperature=0.0, beam=1, max_tokens=3 + 7 * i)) for i in range(5)
        ]
        work: Engine[Any] = Engine(model, ends, 40, slots=3)
        for text in texts:
            work.add(text)
        while work.is_busy:
            for text, _ in work.step():
                if text is texts[3] and len(text.ids) == 9:
                    text.stop()
        return [(text.ids, text.reason) for text in texts]

    whole = run(stepper, [])
    assert max(counts) == engine.MOST_AHEAD
    assert [reason for _, reason in whole] == ["length", "length", "length", "stop", "length"]
    assert set(seen) <= {2}  # prompts in a ring
    assert whole == run(model, [])
    ends = [whole[4][0][5]]
    assert run(stepper, ends) == run(model, ends)


def test_damaged_weights_are_reported_however_many_tokens_are_written_at_once() -> None:
    model, stepper, _ = fresh()
    with torch.no_grad():
        next(model.decoder.blocks.parameters()).fill_(torch.nan)
    with pytest.raises(ModelFolderError, match="NaN"):
        stepper.write(torch.ones(2, 1, dtype=torch.long), stepper.start(2, 9), 3)


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


def test_a_change_behind_the_counters_is_seen_after_refresh() -> None:
    """Through `.data`, as a fused optimizer does; in every matrix."""
    model, stepper, _ = fresh(tied=False)
    tokens = torch.ones(1, 1, dtype=torch.long)
    for name, weight in model.named_parameters():
        place = (1,) if name.endswith("tokens.weight") else (-1,)  # of the token that is read
        weight.data[place].view(-1)[-1:].add_(3.0)
        stepper.refresh()
        state, same = stepper.start(1, 9), model.start(1, 9)
        assert gap(stepper.step(tokens, state), model.step(tokens, same)) < TOLERANCE, name


def test_no_gradients_are_kept() -> None:
    _, stepper, _ = fresh()
    assert not stepper.step(torch.ones(1, 1, dtype=torch.long), stepper.start(1, 9)).requires_grad
