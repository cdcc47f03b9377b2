"""The initial value of every weight: the one place that draws random numbers for a new model."""

import torch
from torch import Tensor, nn

from clearhead.config.model import ModelConfig
from clearhead.layers.attention import Attention
from clearhead.layers.feedforward import FeedForward
from clearhead.layers.positions import Learned
from clearhead.layers.similarity import Additive
from clearhead.models.transformer.heads import LanguageHead


def initialise(model: nn.Module, config: ModelConfig, seed: int) -> None:
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
    quiet_outputs(model, config)


def quiet_outputs(model: nn.Module, config: ModelConfig) -> None:
    """Scales down what each sublayer adds, so that the stream's variance does not grow with the depth.

    k sublayers that each add variance 1/k add 1 together (Radford et al., 2019). With `zero_outputs` they add
    nothing at first: every block starts as the identity, and an own head gives all tokens the same logit.
    """
    additions = {"encoder": 2 * config.encoder_blocks, "decoder": 2 * config.decoder_blocks}
    if config.shape == "encoder-decoder":
        additions["decoder"] = 3 * config.decoder_blocks
    for name, module in model.named_modules():
        outputs: list[nn.Module] = []
        if isinstance(module, Attention):
            outputs = [module.W_o]
        elif isinstance(module, FeedForward):
            outputs = [module.W_2]
        elif isinstance(module, LanguageHead) and config.zero_outputs:
            outputs = [module.table]
        for output in outputs:
            if isinstance(output, nn.Linear):
                quiet = 0.0 if config.zero_outputs else additions[name.split(".")[0]] ** -0.5
                output.weight.data.mul_(quiet)
