"""The compiled step gives the logits of PyTorch for every kind of model, alone and beside others, in both types."""

import os
import signal
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from clearhead.decoding.sampling import best_few
from clearhead.decoding.steppers import switching
from clearhead.decoding.steppers.compiled import CompiledStep, why_not_compiled, why_not_encoded
from clearhead.decoding.steppers.encoding import CompiledEncoder
from clearhead.decoding.steppers.kernels import ready
from clearhead.decoding.steppers.switching import SwitchingStepper
from clearhead.errors import ModelFolderError
from clearhead.inspection.check import check
from clearhead.layers.feedforward import FEEDFORWARDS
from clearhead.layers.masks import real_tokens
from clearhead.model_folder import Bundle
from clearhead.models.transformer.decoder import Decoder
from clearhead.models.transformer.translator import Translator
from tests.decoding.tiny import language_model
from tests.models.cases import CASES, Case, gap, some_ids, some_source
from tests.narrow import transformer

pytestmark = pytest.mark.usefixtures("kernels")

TOLERANCE = 1e-4
PATIENCE = 120  # seconds, after which a child hangs


def decoders() -> list[Case]:
    """The cases with a decoder that is a transformer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CLEARHEAD_KERNELS", raising=False)
        found = [case for case in CASES.values() if case.is_writer and isinstance(case.model(), Decoder)]
        return [case for case in found if why_not_compiled(case.model()) is None]


def walk(model: Any, step: Any, tokens: Tensor, source: Tensor | None) -> list[Tensor]:
    """Logits of single tokens: of texts of different length, and after some have left and moved."""
    state = model.start(3, 12, source, None if source is None else torch.tensor([7, 2, 5]))
    model.step(tokens[:, :3], state, torch.tensor([1, 3, 2]), last=True)
    heard = [step(tokens[:, i : i + 1], state) for i in (3, 4, 5, 6)]
    state.select(torch.tensor([2, 0]))
    return heard + [step(tokens[:2, i : i + 1], state) for i in (7, 8)]


@pytest.mark.parametrize("case", decoders(), ids=lambda case: case.name)
def test_the_compiled_step_is_the_models_own(case: Case) -> None:
    model, tokens, source = case.model(), some_ids(3, 12), some_source(case, 3)
    assert isinstance(model, Decoder)
    both = zip(
        walk(model, CompiledStep(model), tokens, source), walk(model, model.step, tokens, source), strict=True
    )
    for ours, theirs in both:
        assert gap(ours, theirs) < TOLERANCE


@pytest.mark.parametrize("case", decoders()[::9], ids=lambda case: case.name)
def test_int8_is_within_its_tolerance(case: Case) -> None:
    bundle = Bundle(deepcopy(case.model()))
    bundle.quantise()
    model, tokens, source = bundle.module, some_ids(3, 12), some_source(case, 3)
    assert isinstance(model, Decoder)
    both = zip(
        walk(model, CompiledStep(model), tokens, source), walk(model, model.step, tokens, source), strict=True
    )
    for ours, theirs in both:
        assert gap(ours, theirs) < 2e-2


def translators() -> list[Case]:
    """The cases whose encoder is compiled too."""
    models = [(case, case.model()) for case in decoders()]
    return [
        case for case, model in models if isinstance(model, Translator) and why_not_encoded(model) is None
    ]


@pytest.mark.parametrize("case", translators(), ids=lambda case: case.name)
def test_the_compiled_encoder_is_the_models_own(case: Case) -> None:
    model, source, counts = case.model(), some_source(case, 3), torch.tensor([7, 2, 5])
    assert isinstance(model, Translator)
    assert source is not None
    encode, real = CompiledEncoder(model), real_tokens(counts, source.shape[1])
    both = zip(encode(source, counts).stored, model.remember(source, counts, 3).stored, strict=True)
    for ours, theirs in both:
        for X, Y in zip(ours, theirs, strict=True):
            assert gap(X.transpose(1, 2)[real], Y.transpose(1, 2)[real]) < TOLERANCE
    together, alone = encode(source, counts).stored, encode(source[1:2, :2], None).stored
    for (K, V), (own_K, own_V) in zip(together, alone, strict=True):
        assert torch.equal(K[1:2, :, :2], own_K)
        assert torch.equal(V[1:2, :, :2], own_V)


def test_an_encoder_that_is_not_compiled_says_why() -> None:
    for case in decoders():
        model = case.model()
        if isinstance(model, Translator) and case not in translators():
            assert why_not_encoded(model)
            stepper = SwitchingStepper(model)
            stepper.prepare()
            assert stepper.encoder is None


@pytest.mark.parametrize("name", ["relu", "relu2", "silu", "gelu", "gelu_tanh"])
def test_an_activation_has_the_same_bits_wherever_a_thread_begins(name: str) -> None:
    from clearhead.decoding.steppers.kernels.arithmetic import ACTIVATIONS, activate

    whole = np.random.default_rng(1).standard_normal(96).astype(np.float32)
    parts = whole.copy()
    activate(ACTIVATIONS.index(name), whole)
    for part in (parts[:16], parts[16:]):
        activate(ACTIVATIONS.index(name), part)
    assert np.array_equal(whole, parts)


@pytest.mark.parametrize("is_int8", [False, True])
def test_a_row_does_not_depend_on_the_rows_beside_it(is_int8: bool) -> None:
    bundle = deepcopy(language_model())
    if is_int8:
        bundle.quantise()
    model, tokens = bundle.module, some_ids(37, 12)
    assert isinstance(model, Decoder)
    step = CompiledStep(model)

    def last(rows: Tensor) -> Tensor:
        state = model.start(len(rows), 12)
        first = [step(rows[:, :3], state)]
        return torch.cat([*first, *(step(rows[:, i : i + 1], state) for i in range(3, 6))], 1)

    together = last(tokens)
    for row in (0, 7, 36):
        assert torch.equal(last(tokens[row : row + 1])[0], together[row])
    assert torch.equal(last(tokens[:5]), together[:5])


@pytest.mark.parametrize("shape", [(2, 40_000), (3, 1), (70, 18), (129, 64)], ids=str)
@pytest.mark.parametrize("rows", [1, 9, 40])
def test_products_are_right_and_integer_sums_cannot_overflow(shape: tuple[int, int], rows: int) -> None:
    """In a matrix of 40,000 columns, sums of 127 × 2047 would need 34 bits."""
    from clearhead.decoding.steppers.kernels import products, team

    n, k = shape
    X = np.ones((rows, k), np.float32) if k > 99 else some((rows, k))
    q = np.full((n, k), 127, np.int8) if k > 99 else (100 * some((n, k))).clip(-127, 127).astype(np.int8)
    W, s, b = q.astype(np.float32), np.ones(n + 63, np.float32), some((n + 63,))
    Z, t, Y = np.empty((rows, products.padded(k, 4)), np.int16), np.empty(rows, np.float32), some((rows, n))
    door = team.new_team()
    me = team.join(door.ctypes.data, 1, rows)
    team.divide(me, rows)
    products.squeeze(X, 0, rows, Z, t)
    assert int(np.abs(Z.astype(np.int64)).sum(1).max()) * 127 < 2**31
    packed = products.pack(q)
    products.multiply_int8(packed.ctypes.data, s.ctypes.data, Z, t, b.ctypes.data, n, me, Y)
    assert np.allclose(Y, X @ W.T + b[:n], atol=1e-3 * np.abs(Y).max())
    packed = products.pack(W)
    products.multiply(packed.ctypes.data, X, b.ctypes.data, n, me, Y)
    assert np.allclose(Y, X @ W.T + b[:n], atol=1e-5 * np.abs(Y).max())


def some(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_the_best_few_are_those_of_pytorch() -> None:
    ready.prepare()
    Z = torch.from_numpy(some((7, 1300))).round(decimals=1)  # with many equals
    found = best_few(Z, 5)
    assert found is not None
    best = Z.sort(descending=True, stable=True)
    assert found[0].tolist() == best.indices[:, :5].tolist()
    log_P = torch.log_softmax(Z, -1).gather(1, best.indices[:, :5])
    assert torch.allclose(torch.from_numpy(found[1]), log_P, atol=1e-5)
    Z[3, 1290] = torch.nan
    with pytest.raises(ModelFolderError, match="NaN"):
        best_few(Z, 5)


def test_threads_that_come_too_late_leave_again() -> None:
    from clearhead.decoding.steppers.kernels import team

    door = team.new_team()
    first, late = (team.join(door.ctypes.data, 2, 3) for _ in range(2))
    assert (first[team.NUMBER], first[team.SIZE], late[team.SIZE]) == (0, 1, 0)


@pytest.mark.parametrize("name", FEEDFORWARDS)
def test_activations_far_from_zero_and_near_it(name: str) -> None:
    from clearhead.decoding.steppers.kernels import arithmetic, step

    f = FEEDFORWARDS[name][1]
    X = torch.cat([torch.linspace(-12, 12, 997), torch.tensor([0.0, -100.0, 100.0, 1e-6])])
    ours = X.clone()
    arithmetic.activate(step.number_of(f), ours.numpy())
    assert torch.allclose(ours, f(X), atol=1e-6, rtol=1e-5)


def test_softmax_is_as_exact_as_float32_needs() -> None:
    from clearhead.decoding.steppers.kernels import arithmetic

    for m in (1, 15, 64, 4001):
        x = torch.linspace(-40, 40, m)
        ours = x.clone()
        arithmetic.softmax(ours.data_ptr(), m)
        exact = x.double().softmax(0)
        assert float(((ours - exact) / exact).abs().max()) < 3e-5


def test_it_takes_over_when_it_has_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Decoder(transformer(language_model().config)).eval()
    stepper = SwitchingStepper(model)
    ready.prepare()
    monkeypatch.setattr(switching, "READ_AFTER", 3 * stepper.size)
    monkeypatch.setattr(switching, "COMPILE_AFTER", 3 * stepper.size)
    state, taken = stepper.start(1, 20), []
    for _ in range(4):
        stepper.step(torch.ones(1, 1, dtype=torch.long), state)
        taken.append(stepper.compiled is not None)
    assert taken == [False, False, True, True]


def test_changed_weights_are_the_ones_used() -> None:
    model = Decoder(transformer(language_model().config)).eval()
    stepper = SwitchingStepper(model)
    stepper.prepare()
    tokens = torch.ones(1, 1, dtype=torch.long)
    stepper.start(1, 9)
    for is_counted in (True, False):
        with torch.no_grad():
            for weight in model.parameters():
                (weight if is_counted else weight.data).add_(0.2)
        if not is_counted:
            stepper.refresh()
        ours = stepper.step(tokens, stepper.start(1, 9))
        assert gap(ours, model.step(tokens, model.start(1, 9))) < TOLERANCE


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "alibi", "relative"])
def test_a_text_that_grows_token_by_token_needs_few_tables_of_positions(positions: str) -> None:
    """With one for each length, a text of 1,024 tokens took 134 MB of rotary tables (d_k = 64)."""
    model = language_model(positions=positions, context=300).module
    assert isinstance(model, Decoder)
    step, tokens, state = CompiledStep(model), some_ids(1, 300), model.start(1, 300)
    weights = sum(array.nbytes for array in step.table.kept)
    made = []
    for i in range(300):
        step(tokens[:, i : i + 1], state)
        made.append(sum(array.nbytes for array in step.table.kept) - weights)
    first, longest = made[0], 512
    assert 0 < made[-1] <= 2 * longest * first
    assert all(made[i] <= 4 * (i + 1) * first for i in range(300))


def test_threads_may_call_at_once() -> None:
    model = language_model().module
    assert isinstance(model, Decoder)

    def run(seed: int) -> Tensor:
        step, tokens, state = CompiledStep(model), some_ids(2, 6, seed=seed), model.start(2, 9)
        return torch.cat([step(tokens[:, i : i + 1], state) for i in range(6)], 1)

    alone = [run(seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        assert all(map(torch.equal, pool.map(run, range(8)), alone))


def in_a_child(work: Callable[[], bool]) -> int:
    """The exit status of a forked process that does some work: 0 if it gives True."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forks of processes with threads
        child = os.fork()
    if not child:
        signal.alarm(PATIENCE)
        os._exit(0 if work() else 1)
    return os.waitpid(child, 0)[1]


@pytest.mark.parametrize("has_kernels", [True, False])
def test_a_forked_process_decodes(has_kernels: bool) -> None:
    """The threads of the kernels and of PyTorch end at a fork; waiting for them would hang."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    model = language_model(d=384, h=6).module  # wide enough that PyTorch uses its threads
    assert isinstance(model, Decoder)
    stepper, tokens = SwitchingStepper(model), some_ids(5, 12)
    if has_kernels:
        stepper.prepare()
        assert stepper.compiled is not None

    def logits() -> torch.Tensor:
        state = stepper.start(5, 12)
        stepper.step(tokens[:, :6], state)
        return torch.cat([stepper.step(tokens[:, i : i + 1], state) for i in range(6, 9)], 1)

    here = logits()
    assert in_a_child(lambda: gap(logits(), here) < TOLERANCE) == 0
    torch.set_num_threads(before)


def test_a_forked_process_does_not_prepare_what_its_parent_has() -> None:
    ready.prepare()
    assert in_a_child(lambda: ready.why_not() is not None and not ready.advance(True)) == 0


def test_who_wants_none_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARHEAD_KERNELS", "off")
    assert why_not_compiled(language_model().module) == "CLEARHEAD_KERNELS = off"
    assert ready.why_not() == "CLEARHEAD_KERNELS = off"


def test_check_proves_it_or_says_why_not() -> None:
    laws = {law.name: law for law in check(language_model())}
    assert (laws["compiled = uncached"].holds, laws["compiled = uncached"].note) == (True, "")
    cosine = Bundle(Decoder(transformer(language_model(similarity="cosine").config)).eval())
    note = next(law.note for law in check(cosine) if law.name == "compiled = uncached")
    assert note == "left to PyTorch: model.similarity = 'cosine' has no compiled step"
