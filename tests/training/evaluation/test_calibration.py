"""A temperature makes probabilities what they say; classes, weights and logits stay as they are."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.model_folder import load
from clearhead.training.evaluation.calibration import fit_temperature
from clearhead.training.evaluation.scores import CalibrationError
from clearhead.training.run.run import Run
from tests.training.small import small_run


def drawn(count: int, classes: int = 3) -> tuple[Tensor, Tensor]:
    """Logits, and classes drawn with exactly the probabilities that they say."""
    generator = torch.Generator().manual_seed(1)
    Z = 2 * torch.randn(count, classes, generator=generator)
    return Z, torch.multinomial(torch.softmax(Z, -1), 1, generator=generator)[:, 0]


@pytest.mark.parametrize("factor", [0.3, 1.0, 4.0])
def test_the_factor_by_which_logits_are_too_large_is_found(factor: float) -> None:
    Z, right = drawn(20_000)
    assert fit_temperature(factor * Z, right) == pytest.approx(factor, rel=0.05)


def test_no_other_temperature_gives_a_smaller_loss() -> None:
    Z, right = drawn(5_000, classes=5)
    best = fit_temperature(3 * Z, right)
    least = float(F.cross_entropy(3 * Z / best, right))
    for factor in (0.8, 0.95, 1.05, 1.25):
        assert least < float(F.cross_entropy(3 * Z / (best * factor), right))


@pytest.mark.parametrize("count", [1, 5, 50])
def test_few_right_answers_make_no_certainty(count: int) -> None:
    """However large the logits are, n right answers of n leave a doubt of 1 / (4 (n + 1))."""
    Z = torch.tensor([[30.0, 0.0]]).repeat(count, 1)
    P = torch.softmax(Z[0].double() / fit_temperature(Z, torch.zeros(count, dtype=torch.long)), -1)
    assert float(P[0]) == pytest.approx(1 - 1 / (4 * (count + 1)))


def test_logits_that_say_nothing_have_the_temperature_1() -> None:
    assert fit_temperature(torch.full((4, 3), 7.0), torch.tensor([0, 1, 2, 0])) == 1.0


def test_the_error_is_small_only_for_the_right_temperature() -> None:
    Z, right = drawn(20_000)

    def error(temperature: float) -> float:
        found = CalibrationError(temperature)
        for part in torch.arange(len(Z)).split(999):  # in groups as in one
            found.add(5 * Z[part], right[part])
        return found.result()

    assert error(fit_temperature(5 * Z, right)) < 0.015
    assert error(1.0) > 0.1


def test_the_error_by_hand() -> None:
    found = CalibrationError()
    found.add(torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8]]).log(), torch.tensor([0, 1, 1]))
    # Two of confidence 0.9, one right: 0.4 apart; one of 0.8, right: 0.2 apart.
    assert found.result() == pytest.approx((2 * 0.4 + 0.2) / 3)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = small_run("classify", tmp_path_factory.mktemp("calibrated"))
    list(run.train())
    return run


def test_a_run_keeps_the_temperature_of_its_best_classifier(run: Run) -> None:
    weights = (run.out / "best" / "model.safetensors").read_bytes()
    assert load(run.out / "best").calibration is None
    quality = run.evaluate()
    assert quality is not None
    kept = load(run.out / "best").calibration
    assert kept is not None
    assert kept.examples == run.data.splits["validation"].examples
    assert (run.out / "best" / "model.safetensors").read_bytes() == weights
    assert quality["temperature"] == kept.temperature
    assert {"calibration_error", "uncalibrated_error"} <= quality.keys()
    for page in (load(run.out / "best").card, (run.out / "report.html").read_text(encoding="utf-8")):
        assert "calibration error" in page
        assert "uncalibrated error" in page
    assert run.evaluate() == quality  # once more changes nothing


def test_other_models_have_no_temperature(tmp_path: Path) -> None:
    run = small_run("language-model", tmp_path)
    list(run.train())
    run.evaluate()
    assert load(run.out / "best").calibration is None


def test_few_examples_do_no_harm() -> None:
    """A fit on 30 examples has a smaller loss on new ones than the likeliest temperature, near the best."""
    Z, right = drawn(10_000, classes=2)
    losses: list[float] = []
    likeliest: list[float] = []
    for first in range(0, 3000, 30):
        part = slice(first, first + 30)
        for found, doubt in ((losses, None), (likeliest, 0.0)):
            T = fit_temperature(3 * Z[part], right[part], doubt)
            found.append(float(F.cross_entropy(3 * Z / T, right)))
    best = float(F.cross_entropy(Z, right))
    assert best < sum(losses) / len(losses) < min(1.06 * best, sum(likeliest) / len(likeliest))
