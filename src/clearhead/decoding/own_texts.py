"""A language model enters; int8 weights that are rounded for the texts it writes itself leave it much as it was.

No data are needed: texts drawn with temperature 1 are, as far as the model knows, texts like those it was trained on.
"""

import torch
from torch import Tensor

from clearhead.data.frames import document_frame
from clearhead.model_folder import Bundle
from clearhead.models.compensation import Show, round_for_texts
from clearhead.models.int8 import check_finite
from clearhead.models.model import Model
from clearhead.text.tokenizers.tokenizer import Tokenizer

TOKENS, LONGEST = 8192, 256  # in all, and of each text


def quantise(bundle: Bundle, show: Show = lambda stage, detail: None) -> None:
    """Rounds a language model for its own texts; the weights of other models to the nearest numbers."""
    for weight in bundle.module.parameters():
        check_finite(weight)
    if bundle.module.generates and not bundle.module.translates and bundle.tokenizer is not None:
        round_for_texts(bundle.module, own_texts(bundle.module, bundle.tokenizer, show), show)
    bundle.quantise()  # changes no weight that is rounded


@torch.no_grad()
def own_texts(model: Model, tokenizer: Tokenizer, show: Show = lambda stage, detail: None) -> Tensor:
    """Texts (b, n) drawn token by token, the same every time; after the end of one, its row starts another."""
    frame, generator = document_frame(tokenizer.specials), torch.Generator().manual_seed(1)
    n = min(LONGEST, model.config.context or LONGEST)
    begin, rows = frame.before[0], TOKENS // n
    state, texts = model.start(rows, n), torch.full((rows, n), begin)
    for i in range(1, n):
        show("Writing texts to round for", f"{i:,} of {n:,} tokens")
        Z = model.step(texts[:, i - 1 : i], state)[:, -1]
        drawn = torch.multinomial(Z.float().softmax(-1), 1, generator=generator)[:, 0]
        texts[:, i] = drawn if not frame.after else drawn.where(texts[:, i - 1] != frame.after[0], begin)
    return texts
