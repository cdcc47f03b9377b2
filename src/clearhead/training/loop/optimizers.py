"""Optimizers: gradients become changes of the weights.

Muon (Jordan et al., 2024) for the hidden matrices: the momentum is made orthogonal, so that every direction of
a matrix is learned at one rate. AdamW (Loshchilov and Hutter, 2019) for embeddings, heads, norms and biases, or for
everything. Only matrices decay; a norm's γ and a bias have no reason to be small.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from clearhead.config.training import Precision, TrainingConfig
from clearhead.models.stack import Stack
from clearhead.training.distributed.collectives import map_over_ranks
from clearhead.training.loop.adapters import adapters_of
from clearhead.training.loop.device import pick_precision
from clearhead.training.loop.threads import own_threads, share_out, spread

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # drive singular values from (0, 1] to about 1 in five rounds
ROUNDS = 5


class Muon(Optimizer):
    """Momentum made orthogonal, matrices of one shape together.

    `torch.optim.Muon` always computes in bfloat16, which is slower on CPUs without bfloat16 instructions, and faster on
    others: here in the format of the forward pass.
    """

    def __init__(
        self,
        weights: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        lr: float,
        momentum: float,
        weight_decay: float,
    ) -> None:
        super().__init__(weights, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.dtype = torch.float32

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One update of every matrix that has a gradient; each thread changes some matrices of every shape."""
        work: list[list[tuple[dict[str, Any], Sequence[nn.Parameter]]]] = [[] for _ in range(own_threads())]
        for group in self.param_groups:
            shapes: dict[torch.Size, list[nn.Parameter]] = {}
            for weight in group["params"]:
                if weight.grad is not None:
                    shapes.setdefault(weight.shape, []).append(weight)
                    if not self.state[weight]:
                        self.state[weight]["average"] = torch.zeros_like(weight.grad)
            for weights in shapes.values():
                for jobs, share in zip(work, share_out(weights), strict=False):
                    jobs.append((group, share))
        spread(self.change, [jobs for jobs in work if jobs])

    @torch.no_grad()
    def change(self, jobs: list[tuple[dict[str, Any], Sequence[nn.Parameter]]]) -> None:
        """Changes the matrices of some groups; those of a job have one shape."""
        for group, weights in jobs:
            M = [self.momentum_of(weight, group["momentum"]) for weight in weights]
            U = map_over_ranks(partial(orthogonal, dtype=self.dtype), M)
            # A tall matrix writes into more directions than it reads from: it may take larger steps.
            rows, columns = weights[0].shape
            rate = group["lr"] * max(1.0, rows / columns) ** 0.5
            for weight, change in zip(weights, U, strict=True):
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                weight.add_(change, alpha=-rate)

    def momentum_of(self, weight: nn.Parameter, momentum: float) -> Tensor:
        """Nesterov's look ahead: the gradient mixed with the moving average that it has just joined."""
        gradient, average = weight.grad, self.state[weight]["average"]
        assert gradient is not None
        average.lerp_(gradient, 1 - momentum)
        return gradient.lerp(average, momentum)


def orthogonal(G: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The nearest matrices with singular values of about 1, for each of (k, rows, columns), by Newton-Schulz."""
    a, b, c = NEWTON_SCHULZ
    is_tall = G.shape[1] > G.shape[2]
    X = G.mT if is_tall else G
    X = (X / (X.norm(dim=(1, 2), keepdim=True) + 1e-7)).to(dtype)
    for _ in range(ROUNDS):
        A = X @ X.mT
        X = torch.baddbmm(X, torch.baddbmm(A, A, A, beta=b, alpha=c), X, beta=a)  # a X + (b A + c A²) X
    return (X.mT if is_tall else X).to(G.dtype)


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The trained matrices inside the blocks of every stack; adapters are not among them.

    Both factors of an adapter B A start small or at zero: steps of one size in every direction, as Muon takes
    them, would mostly follow noise.
    """
    blocks = [block for stack in model.modules() if isinstance(stack, Stack) for block in stack.blocks]
    adapters = adapters_of(model)
    return [
        weight
        for block in blocks
        for weight in block.parameters()
        if weight.ndim == 2 and weight.requires_grad and id(weight) not in adapters
    ]


def rate_shares(model: nn.Module, decay: float) -> dict[int, float]:
    """The rate of each weight, by its id, as a share of the largest: decay^(blocks above it), 1 above them all.

    Embeddings have all blocks of their stack above them. So the parts nearest to the text, which serve every
    task, change least (Howard and Ruder, ULMFiT, 2018).
    """
    shares = {id(weight): 1.0 for weight in model.parameters()}
    for stack in (module for module in model.modules() if isinstance(module, Stack)):
        count = len(stack.blocks)
        for part in stack.parts_before:
            shares |= {id(weight): decay**count for weight in part.parameters()}
        for i, block in enumerate(stack.blocks):
            shares |= {id(weight): decay ** (count - 1 - i) for weight in block.parameters()}
    return shares


def make_optimizers(model: nn.Module, training: TrainingConfig) -> list[Optimizer]:
    """The optimizers of a model; every trained weight is in exactly one group of one of them."""
    matrices = hidden_matrices(model) if training.optimizer == "muon" else []
    in_muon = {id(weight) for weight in matrices}
    rest = [weight for weight in model.parameters() if weight.requires_grad and id(weight) not in in_muon]
    decaying = [weight for weight in rest if weight.ndim >= 2]
    others = [weight for weight in rest if weight.ndim < 2]
    shares = rate_shares(model, training.layer_decay)
    optimizers: list[Optimizer] = []
    if matrices:
        groups = by_rate(matrices, shares, training.matrix_rate, training.weight_decay)
        optimizers.append(Muon(groups, training.matrix_rate, training.momentum, training.weight_decay))
        set_precision(optimizers, pick_precision(training, matrices[0].device))
    if rest:
        optimizers.append(
            AdamW(
                by_rate(decaying, shares, training.learning_rate, training.weight_decay)
                + by_rate(others, shares, training.learning_rate, 0.0),
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


def by_rate(
    weights: list[nn.Parameter], shares: dict[int, float], rate: float, decay: float
) -> list[dict[str, Any]]:
    """Weights in groups of one rate."""
    rates: dict[float, list[nn.Parameter]] = {}
    for weight in weights:
        rates.setdefault(rate * shares[id(weight)], []).append(weight)
    return [{"params": group, "lr": lr, "weight_decay": decay} for lr, group in rates.items()]


def set_precision(optimizers: list[Optimizer], precision: Precision) -> None:
    """Lets Muon compute in a number format; what it keeps stays as it is."""
    for optimizer in optimizers:
        if isinstance(optimizer, Muon):
            optimizer.dtype = getattr(torch, precision)


def set_rate(optimizers: list[Optimizer], share: float) -> None:
    """Sets every group to a share of its largest rate."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["largest_rate"] * share
