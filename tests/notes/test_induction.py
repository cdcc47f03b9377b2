"""Induction heads appear in two blocks and not in one: looking up what was looked up takes two steps (N31)."""

import pytest
import torch
import torch.nn.functional as F

from clearhead.config.model import ModelConfig
from clearhead.inspection.capture import intervene, zero
from clearhead.inspection.heads.roles import induction_scores
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model

VOCABULARY, TEXTS, LENGTH, STEPS = 48, 32, 50, 1000
PERIODS = (
    8,
    25,
)  # after which a text repeats; another one in every text, so that a fixed distance is of no use


def repeated_texts(generator: torch.Generator) -> torch.Tensor:
    """Random tokens, all different within a period, over and over: (TEXTS, LENGTH)."""
    period = torch.randint(*PERIODS, (TEXTS, 1), generator=generator)
    R = torch.rand(TEXTS, VOCABULARY, generator=generator).argsort(1)
    return R.gather(1, torch.arange(LENGTH) % period)


def train(blocks: int, seed: int) -> tuple[Model, float]:
    """A small decoder after some steps, or as soon as it has an induction head; the score of its best head."""
    sizes = {"d": 64, "h": 2, "d_ff": 64, "feedforward": "relu2", "context": 64}
    model = build(ModelConfig(shape="decoder", vocabulary=VOCABULARY, decoder_blocks=blocks, **sizes), seed)  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.02, total_iters=50)
    generator, best = torch.Generator().manual_seed(seed), 0.0
    for step in range(1, STEPS + 1):
        X = repeated_texts(generator)
        loss = F.cross_entropy(model(Inputs(X[:, :-1])).flatten(0, 1), X[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warmup.step()
        if step % 50 == 0 and (best := max(induction_scores(model).values())) > 0.93:
            break
    return model, best


@pytest.mark.slow
@pytest.mark.prove
@pytest.mark.notes("N31")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_blocks_have_an_induction_head_and_one_has_none(seed: int) -> None:
    model, score = train(2, seed)
    assert score > 0.9
    searches = max(scores := induction_scores(model), key=lambda name: scores[name])
    assert searches.startswith("decoder.1.")
    with intervene(
        model, zero("decoder.0.self")
    ):  # what it searches by: which token came before, as a head marked it
        assert induction_scores(model)[searches] < 0.2
    assert train(1, seed)[1] < 0.2
