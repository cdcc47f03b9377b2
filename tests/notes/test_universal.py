"""N47: an encoder fits an arbitrary table of sequences to sequences; without positions, no more than is possible."""

from itertools import product

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from clearhead.config.model import ModelConfig
from clearhead.models.build import build
from clearhead.models.inputs import Inputs


def fitted(X: Tensor, Y: Tensor, width: int, steps: int) -> float:
    """The share of the answers that an encoder knows after at most so many steps."""
    symbols, n = int(X.max()) + 1, X.shape[1]
    config = ModelConfig(
        shape="encoder", vocabulary=symbols, context=n, d=width, h=4, encoder_blocks=2, positions="learned"
    )
    model = build(config, seed=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    share = 0.0
    for _ in range(steps):
        Z = model(Inputs(X))
        share = float((Z.argmax(-1) == Y).float().mean())
        if share == 1:
            break
        optimizer.zero_grad()
        cross_entropy(Z.flatten(0, 1), Y.flatten()).backward()
        optimizer.step()
    return share


@pytest.mark.notes("N47")
@pytest.mark.parametrize("seed", range(2))
def test_an_encoder_fits_any_table_of_sequences(seed: int) -> None:
    X = torch.tensor(list(product(range(3), repeat=4)))
    Y = torch.randint(3, X.shape, generator=torch.Generator().manual_seed(seed))
    assert fitted(X, Y, width=32, steps=300) == 1


@pytest.mark.prove
@pytest.mark.notes("N47")
def test_a_table_of_a_thousand_sequences_too() -> None:
    X = torch.tensor(list(product(range(4), repeat=5)))
    Y = torch.randint(4, X.shape, generator=torch.Generator().manual_seed(1))
    assert fitted(X, Y, width=64, steps=1500) == 1
