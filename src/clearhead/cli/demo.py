"""`clearhead demo`: the main job end to end, as far as it exists. Today: models to look into, untrained."""

import platform
from typing import TYPE_CHECKING

from clearhead import __version__

if TYPE_CHECKING:
    from torch import Tensor

SENTENCE = "he is old"


def demo() -> None:
    """Build a model of each shape and look inside one; the demo itself trains nothing yet."""
    import torch

    print(f"clearhead {__version__}, torch {torch.__version__}, Python {platform.python_version()}")
    print(f"{platform.machine()}, {torch.get_num_threads()} threads")
    print("\nOne config, three shapes (random weights; `clearhead train` makes trained ones):")
    show_shapes()
    print(f"\nWhat each word of '{SENTENCE}' looks at in head 0 of decoder.0.self, a causal head:")
    show_weights(SENTENCE.split())


def show_shapes() -> None:
    """A line for each shape: its size, and the shape of its logits."""
    import torch

    from clearhead.config.model import ModelConfig
    from clearhead.models.build import SHAPES, build
    from clearhead.models.translator import Translator

    tokens, source = torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5, 6, 7]])
    for shape in SHAPES:
        model = build(ModelConfig.model_validate({"shape": shape, "vocabulary": 1000, "d": 64}))
        logits = model(tokens, source) if isinstance(model, Translator) else model(tokens)
        size = sum(parameter.numel() for parameter in model.parameters())
        print(f"  {shape:<16} {size:>9,} parameters   logits {tuple(logits.shape)}")


def show_weights(words: list[str]) -> None:
    """The attention weights of one head as a table, and the proof that looking changes nothing."""
    import torch

    from clearhead.config.model import ModelConfig
    from clearhead.inspection.capture import capture
    from clearhead.models.build import build

    tokens = torch.arange(len(words))[None]
    model = build(ModelConfig(shape="decoder", vocabulary=len(words), d=64, decoder_blocks=2))
    with torch.no_grad(), capture(model, "decoder.0.self.weights") as trace:
        seen = model(tokens)
    with torch.no_grad():
        unseen = model(tokens)
    print("\n".join(draw(words, trace["decoder.0.self.weights"][0, 0])))
    difference = (seen - unseen).abs().max().item()
    print(f"The same logits whether one looks or not: they differ by at most {difference:.1g}.")


def draw(words: list[str], A: "Tensor") -> list[str]:
    """A row for each query, a column for each key, and nothing where it may not look."""
    width = max(4, *map(len, words)) + 2
    lines = [" " * (width + 2) + "".join(word.rjust(width) for word in words)]
    for word, row in zip(words, A.tolist(), strict=True):
        cells = (f"{weight:.2f}" if weight else "" for weight in row)
        lines.append(f"  {word:<{width}}" + "".join(cell.rjust(width) for cell in cells).rstrip())
    return lines
