"""The initial value of every weight: the one place that draws random numbers for a new model."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from clearhead.config.model_base import AnyModelConfig
from clearhead.layers.positions import Learned
from clearhead.layers.similarity import Additive


def initialise(model: nn.Module, config: AnyModelConfig, seed: int) -> None:
    """Fills a model's weights; the same seed gives the same weights on every machine.

    Where the config states one deviation for all, as GPT-2's 0.02, it replaces those below.
    Norms keep γ = 1 and β = 0, biases and the table of relative positions 0: at first nothing is preferred.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(X: Tensor, deviation: float) -> None:
        with torch.no_grad():
            X.copy_(torch.randn(X.shape, generator=generator) * (config.initial_deviation or deviation))

    for module in model.modules():
        if isinstance(module, nn.Linear):
            # A sum of fan_in products keeps the variance of its inputs (LeCun, 1998).
            normal(module.weight, module.in_features**-0.5)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            # A tied head then gives logits of variance 1, and a scale of √d inputs of variance 1.
            normal(module.weight, module.embedding_dim**-0.5)
        elif isinstance(module, Learned):
            # As large as the token embeddings beside them.
            normal(module.weight, module.weight.shape[1] ** -0.5 * config.embedding_scale)
        elif isinstance(module, Additive):
            # The score is a sum of d_k values of tanh: its variance stays near 1.
            normal(module.v, module.v.shape[1] ** -0.5)
        elif isinstance(module, nn.Conv1d):
            normal(module.weight, (module.in_channels * module.kernel_size[0]) ** -0.5)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.RNNBase):
            start_recurrence(module, normal)


def start_recurrence(cell: nn.RNNBase, normal: Callable[[Tensor, float], None]) -> None:
    """Input matrices as others; those that repeat start orthogonal and keep a length (Saxe et al., 2014)."""
    for name, weight in cell.named_parameters():
        if name.startswith("weight_ih"):
            normal(weight, cell.input_size**-0.5)
        elif name.startswith("weight_hh"):
            normal(weight, 1.0)
            with torch.no_grad():
                for W in weight.split(cell.hidden_size):  # a matrix for each gate
                    W.copy_(torch.linalg.qr(W).Q)
        else:
            nn.init.zeros_(weight)
    if isinstance(cell, nn.LSTM):  # at first little is forgotten (Jozefowicz et al., 2015)
        nn.init.ones_(cell.get_parameter("bias_ih_l0")[cell.hidden_size : 2 * cell.hidden_size])
