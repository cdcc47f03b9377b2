"""A whole training in one view: a text file enters, a trained language model and a sample of its text leave.

    python examples/train_by_hand.py book.txt --steps 500

The blocks are clearhead's own layers; everything around them is written out below: characters as tokens, windows
of text as batches, the model, the loop with its loss and optimizer step, and sampling. What `clearhead train` adds
is what a long run needs: other tokenizers and tasks, checkpoints, resumption, reports, several processes.
"""

import argparse
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.config.model import ModelConfig
from clearhead.layers.blocks import Block
from clearhead.layers.masks import View
from clearhead.layers.norms import NORMS


class LanguageModel(nn.Module):
    """Tokens (b, n) become logits for the token after each of them: (b, n, vocabulary)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        assert config.context is not None
        self.context = config.context
        self.E = nn.Embedding(config.vocabulary, config.d)  # one vector for each token, also used by the head
        self.P = nn.Embedding(config.context, config.d)  # one vector for each position
        self.blocks = nn.ModuleList(
            Block(config, f"decoder.{i}", config.d, config.norm) for i in range(config.decoder_blocks)
        )
        self.norm = NORMS[config.norm](config.d, config.norm_epsilon)
        for W in self.parameters():
            if W.ndim == 2:  # matrices start small and random; biases stay 0, and the scales of norms 1
                nn.init.normal_(W, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """(b, n) -> (b, n, vocabulary)."""
        at = torch.arange(tokens.shape[1], device=tokens.device)[None]  # (1, n)
        view = View(at, at, causal=True, aligned=True)  # no token sees those after it
        X = self.E(tokens) + self.P(at)  # (b, n, d)
        for block in self.blocks:
            X = block(X, view)
        return self.norm(X) @ self.E.weight.T


def windows(ids: Tensor, count: int, n: int) -> tuple[Tensor, Tensor]:
    """Random windows (count, n) of a text, and the same windows one token later: what should be predicted."""
    starts = torch.randint(len(ids) - n, (count, 1))
    at = starts + torch.arange(n)
    return ids[at], ids[at + 1]


def loss_of(model: LanguageModel, inputs: Tensor, targets: Tensor) -> Tensor:
    """−log p(next token), on average; log(vocabulary) is what a guess costs."""
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def rate_at(step: int, steps: int, peak: float) -> float:
    """The learning rate: up over the first tenth, then down along a cosine."""
    warmup = max(1, steps // 10)
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * (0.1 + 0.9 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2)


def train(model: LanguageModel, ids: Tensor, steps: int, batch: int = 32, peak: float = 3e-3) -> list[float]:
    """The loop; returns the loss of each step, and prints that on text which is never trained on."""
    cut = int(0.9 * len(ids))
    held_out = windows(ids[cut:], batch, model.context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.95), weight_decay=0.1)
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, steps, peak)
        loss = loss_of(model, *windows(ids[:cut], batch, model.context))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step % 100 == 0 or step == steps - 1:
            with torch.no_grad():
                print(f"step {step:5}   loss {loss:.3f}   on held-out text {loss_of(model, *held_out):.3f}")
    return losses


@torch.no_grad()
def sample(model: LanguageModel, ids: Tensor, count: int, temperature: float = 0.8) -> Tensor:
    """Appends `count` tokens to a prompt (n,), each drawn from what the model predicts after all before it."""
    for _ in range(count):
        logits = model(ids[None, -model.context :])[0, -1]  # (vocabulary,)
        choice = torch.multinomial(F.softmax(logits / temperature, dim=-1), 1)
        ids = torch.cat([ids, choice])
    return ids


def main(words: list[str] | None = None) -> None:
    """Reads the file, trains, and prints a sample."""
    parser = argparse.ArgumentParser(description="Train a small language model on the characters of a file.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--steps", type=int, default=500)
    chosen = parser.parse_args(words)
    torch.manual_seed(1)
    text = chosen.file.read_text(encoding="utf-8")
    characters = sorted(set(text))
    ids = torch.tensor([characters.index(character) for character in text])
    config = ModelConfig(vocabulary=len(characters), context=64, d=96, h=4, decoder_blocks=3)
    model = LanguageModel(config)
    train(model, ids, chosen.steps)
    print("".join(characters[i] for i in sample(model, ids[:1], 300)))


if __name__ == "__main__":
    main()
