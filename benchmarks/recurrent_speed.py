"""Does a recurrent language model train as fast as PyTorch's own module in a bare loop?

Both have an embedding table, the same `nn.LSTM` and a tied head, and take the same steps: forward, loss, backward and
AdamW. The loop of clearhead also clips, checks for NaN and follows a schedule, as `Trainer.update` does. The
bar: at least 0.95 × the speed, by the median of paired runs.
"""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from harness import arguments, is_within, paired, ratio, report
from torch import Tensor, nn

from clearhead.config.run import RunConfig
from clearhead.data.batching.batches import Position
from clearhead.data.prepare import prepare
from clearhead.models.build import build
from clearhead.training.loop.trainer import Trainer
from clearhead.training.run.plan import model_config

D, N, BATCH, STEPS, PAIRS = 256, 128, 2048, 4, 12


class Bare(nn.Module):
    """What one writes by hand."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.table, self.lstm = nn.Embedding(vocabulary, D), nn.LSTM(D, D, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        """(b, n) -> (b, n, vocabulary)."""
        return F.linear(self.lstm(self.table(tokens))[0], self.table.weight)


def main() -> None:
    options = arguments(__doc__).parse_args()
    torch.set_num_threads(1)  # so that only the two loops differ, not how they use threads
    with tempfile.TemporaryDirectory(prefix="clearhead-recurrent-") as place:
        Path(place, "text.txt").write_text(
            "".join(f"In the year {k} the river rose {k % 7} feet.\n" for k in range(9000))
        )
        recipe = {
            "task": "language-model",
            "data": {"train": str(Path(place, "text.txt")), "validation": 0.0},
            "tokenizer": {"kind": "byte"},
            "model": {"family": "recurrent", "d": D, "context": N},
            "training": {
                "steps": 1000,
                "batch_tokens": BATCH,
                "optimizer": "adamw",
                "device": "cpu",
                "threads": 1,
            },
        }
        run = RunConfig.model_validate(recipe)
        data = prepare(run)
        config = model_config(run, data)
        trainer = Trainer(run, data, build(config), 1000)
        batches = [trainer.batches.at(Position(0, step)) for step in range(STEPS)]
        bare = Bare(config.vocabulary)
        optimizer = torch.optim.AdamW(bare.parameters(), lr=1e-3, fused=True)

        def ours() -> None:
            for batch in batches:
                trainer.update(batch)

        def theirs() -> None:
            for batch in batches:
                assert batch.targets is not None
                loss = F.cross_entropy(bare(batch.inputs).flatten(0, 1), batch.targets.flatten())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                loss.item()

        found = ratio(*paired(ours, theirs, PAIRS))
    speed = 1 / found["median_ratio"]
    is_kept = is_within(found, 1 / 0.95)
    tokens = STEPS * sum(batch.tokens for batch in batches) / len(batches) / found["median_seconds"][0]
    verdict = "kept" if is_kept else "missed"
    print(f"{speed:.3f} of the speed of a bare loop, {tokens:,.0f} tokens/s; the bar of 0.95 is {verdict}")
    found |= {"speed": speed, "tokens_per_second": tokens, "is_kept": is_kept, "seed": 1}
    report("recurrent_speed", found, options.save)


if __name__ == "__main__":
    main()
