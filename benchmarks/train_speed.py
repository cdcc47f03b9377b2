"""How many tokens per second does a training step take, beside a bare loop and litgpt?

The same decoder (width 128, 384 or 768; 6 blocks; GPT-2's parts, untied), batch, optimizer (AdamW) and number format:

- ours: `Trainer.update`, what `clearhead train` calls: losses, clipping, checks for bad steps, threads of our own;
- bare: `torch.nn` modules in a loop of the fewest lines, without clipping;
- litgpt: its GPT module in that loop, if it can be imported (`--litgpt FOLDER` of packages, or installed).

They take turns. The bar: at least the speed of each of the others.
"""

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from harness import arguments, in_turn, ratio, report
from torch import Tensor, nn

from clearhead.config.run import RunConfig
from clearhead.data.batching.batches import Batch, Position
from clearhead.data.prepare import prepare
from clearhead.models.build import build
from clearhead.training.loop.trainer import Trainer
from clearhead.training.run.plan import model_config
from clearhead.training.run.trial_steps import choose_precision

BLOCKS, CONTEXT, VOCABULARY = 6, 128, 4096
BATCHES = {128: 4096, 384: 2048, 768: 1024}  # tokens per step of each width


class BareBlock(nn.Module):
    """Pre-norm attention and feed-forward, as GPT-2 has them."""

    def __init__(self, d: int, h: int, bias: bool = True) -> None:
        super().__init__()
        self.h = h
        self.norm_1, self.norm_2 = nn.LayerNorm(d, bias=bias), nn.LayerNorm(d, bias=bias)
        self.W_qkv, self.W_o = nn.Linear(d, 3 * d, bias), nn.Linear(d, d, bias)
        self.W_1, self.W_2 = nn.Linear(d, 4 * d, bias), nn.Linear(4 * d, d, bias)

    def forward(self, X: Tensor) -> Tensor:
        b, n, d = X.shape
        Q, K, V = self.W_qkv(self.norm_1(X)).view(b, n, 3 * self.h, d // self.h).transpose(1, 2).chunk(3, 1)
        H = F.scaled_dot_product_attention(Q, K, V, is_causal=True)
        X = X + self.W_o(H.transpose(1, 2).reshape(b, n, d))
        return X + self.W_2(F.gelu(self.W_1(self.norm_2(X)), approximate="tanh"))


class BareModel(nn.Module):
    """Embeddings, blocks, norm and head."""

    def __init__(
        self, d: int, h: int, blocks: int = BLOCKS, context: int = CONTEXT, vocabulary: int = VOCABULARY,
        bias: bool = True, is_tied: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, d), nn.Embedding(context, d)
        self.blocks = nn.Sequential(*(BareBlock(d, h, bias) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(d, bias=bias), nn.Linear(d, vocabulary, bias=False)
        if is_tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        X = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        logits: Tensor = self.head(self.norm(self.blocks(X)))
        return logits


def bare_step(model: nn.Module, batch: Batch, precision: str) -> Callable[[], object]:
    """A step of a loop of the fewest lines."""
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    assert batch.targets is not None
    wanted = batch.targets.flatten()

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            logits = model(batch.inputs)
        F.cross_entropy(logits.flatten(0, 1).float(), wanted).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def make_trainer(d: int, folder: Path) -> tuple[Trainer, Batch]:
    """Our trainer of the same model, with the number format that its plan chooses, and a batch."""
    model = {"d": d, "h": d // 64, "decoder_blocks": BLOCKS, "context": CONTEXT, "positions": "learned"}
    model |= {"norm": "layer", "feedforward": "gelu_tanh", "tied": False}
    model |= {"attention_bias": "qkvo", "feedforward_bias": True}
    training = {"steps": 1000, "optimizer": "adamw", "batch_tokens": BATCHES[d]}
    settings = {"task": "language-model", "data": {"train": "builtin:python", "count": 300}, "model": model}
    settings |= {"tokenizer": {"vocabulary": VOCABULARY}, "training": training}
    config = RunConfig.model_validate(settings)
    data = prepare(config)
    settled = model_config(config, data).replace(vocabulary=VOCABULARY)
    trainer = Trainer(config.replace(model=settled), data, build(settled, 1), 1000)
    batch = trainer.batches.at(Position())
    precision, _ = choose_precision(trainer, batch)
    trainer.training = trainer.training.replace(precision=precision)
    return trainer, batch


def lit_model(d: int) -> nn.Module:
    """litgpt's model of the same shape."""
    from litgpt.config import Config  # type: ignore[import-not-found]
    from litgpt.model import GPT  # type: ignore[import-not-found]

    model: nn.Module = GPT(
        Config(
            name="bench", block_size=CONTEXT, n_layer=BLOCKS, n_embd=d, n_head=d // 64, padded_vocab_size=VOCABULARY,
            vocab_size=VOCABULARY, bias=True, norm_class_name="LayerNorm", mlp_class_name="GptNeoxMLP",
            intermediate_size=4 * d, gelu_approximate="tanh", parallel_residual=False, lm_head_bias=False,
            rotary_percentage=1.0,
        )
    )  # fmt: skip
    return model


def count(model: nn.Module) -> int:
    """The number of weights."""
    return sum(weight.numel() for weight in model.parameters())


def repeat(take: Callable[[], object], steps: int) -> None:
    """Takes some steps."""
    for _ in range(steps):
        take()


def measure(d: int, rounds: int, steps: int, folder: Path) -> dict[str, Any]:
    """Tokens per second of each at this width."""
    trainer, batch = make_trainer(d, folder)
    precision = trainer.training.precision
    models: dict[str, nn.Module] = {"bare": BareModel(d, d // 64)}
    try:
        models["litgpt"] = lit_model(d)
    except ImportError as error:
        print(f"litgpt is not measured: {error}", file=sys.stderr)
    takes: dict[str, Callable[[], object]] = {"ours": lambda: trainer.update(batch)}
    takes |= {name: bare_step(model, batch, precision) for name, model in models.items()}
    seconds = in_turn({name: partial(repeat, take, steps) for name, take in takes.items()}, rounds)
    tokens = batch.tokens * steps
    result: dict[str, Any] = {
        "d": d,
        "tokens": batch.tokens,
        "precision": precision,
        "weights": count(trainer.model),
    }
    for name, times in seconds.items():
        speeds = sorted(tokens / time for time in times)
        result[name] = {
            "tokens_per_second": speeds[len(speeds) // 2], "slowest": speeds[0], "fastest": speeds[-1],
            "weights": count(models[name]) if name in models else result["weights"],
        }  # fmt: skip
        if name != "ours":
            result[f"ours against {name}"] = ratio(times, seconds["ours"])
    return result


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--widths", type=int, nargs="+", default=list(BATCHES))
    parser.add_argument("--litgpt", help="a folder of packages to import litgpt from")
    options = parser.parse_args()
    if options.litgpt:
        sys.path.append(options.litgpt)
    results, kept = [], True
    with tempfile.TemporaryDirectory() as folder:
        for d in options.widths:
            result = measure(d, options.rounds, options.steps, Path(folder))
            results.append(result)
            print(f"d = {d}, {result['tokens']} tokens per step, {result['precision']}")
            for name in ("ours", "bare", "litgpt"):
                if name not in result:
                    continue
                row = result[name]
                line = f"  {name:6} {row['tokens_per_second']:9,.0f} tokens/s"
                if name != "ours":
                    found = result[f"ours against {name}"]
                    low, high = found["interval_95"]
                    kept &= high >= 1.0
                    line += f"; ours is {found['median_ratio']:.2f} × as fast ({low:.2f} to {high:.2f})"
                print(line, flush=True)
    print("kept" if kept else "FAILED")
    report("train_speed", {"results": results, "kept": kept}, options.save)


if __name__ == "__main__":
    main()
