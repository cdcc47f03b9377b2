"""Optimizers: gradients become changes of the weights.

Muon (Jordan et al., 2024) for the hidden matrices: the momentum is made orthogonal, so that every direction of
a matrix learns at one pace. AdamW (Loshchilov and Hutter, 2019) for embeddings, heads, norms and biases, or for
everything. Only matrices decay; a norm's γ and a bias have no reason to be small.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from clearhead.config.training import TrainingConfig
from clearhead.models.stack import Stack

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # drive singular values from (0, 1] to about 1 in five rounds
ROUNDS = 5


class Muon(Optimizer):
    """Momentum made orthogonal, in float32, matrices of one shape together.

    `torch.optim.Muon` works in bfloat16, which is many times slower on a CPU without the instructions.
    """

    def __init__(
        self, weights: Iterable[nn.Parameter], lr: float, momentum: float, weight_decay: float
    ) -> None:
        super().__init__(weights, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One update of every matrix that has a gradient."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[nn.Parameter]] = {}
            for weight in group["params"]:
                if weight.grad is not None:
                    shapes.setdefault(weight.shape, []).append(weight)
            for shape, weights in shapes.items():
                U = orthogonal(torch.stack([self.push(weight, group["momentum"]) for weight in weights]))
                # A tall matrix writes into more directions than it reads from: it may take larger steps.
                rate = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for weight, change in zip(weights, U, strict=True):
                    weight.mul_(1 - group["lr"] * group["weight_decay"])
                    weight.add_(change, alpha=-rate)

    def push(self, weight: nn.Parameter, momentum: float) -> Tensor:
        """Nesterov's look ahead: the gradient mixed with the moving average that it has just joined."""
        gradient, state = weight.grad, self.state[weight]
        assert gradient is not None
        if "average" not in state:
            state["average"] = torch.zeros_like(gradient)
        state["average"].lerp_(gradient, 1 - momentum)
        return gradient.lerp(state["average"], momentum)


def orthogonal(G: Tensor) -> Tensor:
    """The nearest matrices with singular values of about 1, for each of (k, rows, columns), by Newton-Schulz."""
    a, b, c = NEWTON_SCHULZ
    is_tall = G.shape[1] > G.shape[2]
    X = G.mT if is_tall else G
    X = X / (X.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(ROUNDS):
        A = X @ X.mT
        X = a * X + torch.baddbmm(A, A, A, beta=b, alpha=c) @ X
    return X.mT if is_tall else X


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The matrices inside the blocks of every stack."""
    blocks = [block for stack in model.modules() if isinstance(stack, Stack) for block in stack.blocks]
    return [
        weight
        for block in blocks
        for weight in block.parameters()
        if weight.ndim == 2 and weight.requires_grad
    ]


def make_optimizers(model: nn.Module, training: TrainingConfig) -> list[Optimizer]:
    """The optimizers of a model; every weight that learns is in exactly one group of one of them."""
    matrices = hidden_matrices(model) if training.optimizer == "muon" else []
    in_muon = {id(weight) for weight in matrices}
    rest = [weight for weight in model.parameters() if weight.requires_grad and id(weight) not in in_muon]
    groups = [
        {"params": [weight for weight in rest if weight.ndim >= 2], "weight_decay": training.weight_decay},
        {"params": [weight for weight in rest if weight.ndim < 2], "weight_decay": 0.0},
    ]
    optimizers: list[Optimizer] = []
    if matrices:
        optimizers.append(Muon(matrices, training.matrix_rate, training.momentum, training.weight_decay))
    if rest:
        optimizers.append(
            AdamW(
                [group for group in groups if group["params"]],
                lr=training.learning_rate,
                betas=training.betas,
                eps=training.epsilon,
                fused=True,
            )
        )
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["largest_rate"] = group["lr"]
    return optimizers


def set_rate(optimizers: list[Optimizer], share: float) -> None:
    """Sets every group to a share of its largest rate."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["largest_rate"] * share
