"""What is particular to the first weights of a transformer: its sublayers start quiet."""

from torch import nn

from clearhead.config.model import ModelConfig
from clearhead.layers.attention import Attention
from clearhead.layers.feedforward import FeedForward
from clearhead.models.heads import LanguageHead


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
