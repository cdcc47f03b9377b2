"""What training needs on many devices: the settings of a model enter; bytes, and seconds on named links, leave.

    python -m tools.scale_table        prints the tables of docs/scale.md

Everything is computed: weights are counted on the model itself, built without memory. What training keeps is
float32; the matrix products of a forward pass are bfloat16, as they are on a GPU.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

from clearhead.config.model import ModelConfig
from clearhead.models.build import empty
from clearhead.training.loop.optimizers import hidden_matrices

FLOAT, HALF = 4, 2  # bytes of a number
GPUS = (2, 8, 64)
LINKS = {  # bytes a second that a device sends, while it receives as many
    "NVLink 4": 450e9,
    "InfiniBand NDR, one port a GPU": 50e9,
    "PCIe 4 × 16": 32e9,
    "100 Gb Ethernet": 12.5e9,
    "10 Gb Ethernet": 1.25e9,
}
SPEED = 400e12  # products and sums a second that a GPU gets done: 40 % of what is said of an H100 in bfloat16
TOKENS = 8192  # of one GPU in one step


@dataclass(frozen=True)
class Size:
    """A decoder in the shape of Llama, and what it takes to train it."""

    name: str
    d: int
    blocks: int
    d_ff: int
    tied: bool
    vocabulary: int = 32_000

    @property
    def config(self) -> ModelConfig:
        """Its settings."""
        return ModelConfig(
            shape="decoder", vocabulary=self.vocabulary, context=4096, d=self.d, h=self.d // 64,
            decoder_blocks=self.blocks, d_ff=self.d_ff, feedforward="swiglu", norm="rms", positions="rotary",
            tied=self.tied,
        )  # fmt: skip

    @cached_property
    def counts(self) -> tuple[int, int]:
        """How many weights it has, and how many of them are matrices of its blocks."""
        model = empty(self.config)
        return sum(W.numel() for W in model.parameters()), sum(W.numel() for W in hidden_matrices(model))

    @property
    def weights(self) -> int:
        """Bytes of the weights; gradients are as many."""
        return FLOAT * self.counts[0]

    def state(self, optimizer: str) -> int:
        """Bytes that an optimizer remembers: Muon one number for each of its matrices' weights, AdamW two."""
        every, matrices = self.counts
        return FLOAT * (2 * every - matrices if optimizer == "muon" else 2 * every)

    def lasting(self, optimizer: str, shards: int = 1) -> float:
        """Bytes that a device keeps from step to step; FSDP adds what it brings together: two blocks, and the rest.

        The embeddings and the head stay together during a step, with their gradients; of the blocks, one is at
        work and the next one is on its way, and one has its gradients.
        """
        kept = (2 * self.weights + self.state(optimizer)) / shards
        every, matrices = self.counts
        together = 2 * (every - matrices) + 3 * matrices / self.blocks
        return kept + (FLOAT * together if shards > 1 else 0)

    def block_activations(self) -> int:
        """Bytes that a block keeps of a token for the backward pass, as a test counts them on a small one."""
        return 28 * self.d + 8 * self.d_ff + 4 * self.config.h + 8

    def activations(self, recompute: bool) -> int:
        """Bytes that all blocks keep of a token; with recompute, their inputs, and one of them in full."""
        if recompute:
            return self.blocks * FLOAT * self.d + self.block_activations()
        return self.blocks * self.block_activations()

    def logits(self) -> int:
        """Bytes of a token's logits: as they are computed, in float32, and their gradient."""
        return self.vocabulary * (HALF + 3 * FLOAT)

    def sent(self, parallel: str, gpus: int) -> float:
        """Bytes that a device sends in a step.

        DDP sums gradients (an all-reduce: twice the bytes), FSDP brings weights together twice and scatters the
        sums once; Muon's changes, which are spread over the ranks, come on top: all of them to all, or back and forth.
        """
        others = (gpus - 1) / gpus
        matrices = FLOAT * self.counts[1]
        if parallel == "ddp":
            return others * (2 * self.weights + matrices)
        return others * (3 * self.weights + 2 * matrices / gpus)

    def seconds(self) -> float:
        """Of computing, with TOKENS on each GPU: 2 operations for each weight and token forwards, 4 backwards."""
        return 6 * self.counts[0] * TOKENS / SPEED


SIZES = (
    Size("100M", 768, 12, 2048, tied=True),
    Size("1B", 2048, 20, 5632, tied=True),
    Size("7B", 4096, 32, 11008, tied=False),
)


def gigabytes(count: float) -> str:
    """Bytes in words."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def milliseconds(seconds: float) -> str:
    """A time in words."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def memory_table() -> str:
    """What a device needs."""
    rows: dict[str, Callable[[Size], str]] = {
        "weights": lambda size: f"{size.counts[0] / 1e6:,.0f} million",
        "d, blocks, d_ff": lambda size: f"{size.d}, {size.blocks}, {size.d_ff}",
        "weights in float32": lambda size: gigabytes(size.weights),
        "gradients": lambda size: gigabytes(size.weights),
        "state of AdamW": lambda size: gigabytes(size.state("adamw")),
        "state of Muon, and of AdamW for the rest": lambda size: gigabytes(size.state("muon")),
        "**total**, AdamW, DDP": lambda size: gigabytes(size.lasting("adamw")),
        "Muon, DDP": lambda size: gigabytes(size.lasting("muon")),
    }
    for gpus in GPUS:
        rows[f"Muon, FSDP on {gpus}"] = partial(shared_memory, gpus)
    rows |= {
        f"activations, {TOKENS:,} tokens": lambda size: gigabytes(TOKENS * size.activations(False)),
        "the same with `recompute`": lambda size: gigabytes(TOKENS * size.activations(True)),
        f"logits, {TOKENS:,} tokens": lambda size: gigabytes(TOKENS * size.logits()),
    }
    return table(["", *(size.name for size in SIZES)], [[name, *map(of, SIZES)] for name, of in rows.items()])


def shared_memory(gpus: int, size: Size) -> str:
    """What each of some devices keeps with FSDP."""
    return gigabytes(size.lasting("muon", gpus))


def traffic_table(gpus: int) -> str:
    """What a device sends in a step, how long that takes on each link, and how long computing takes."""
    head = ["", *(f"{size.name} {kind.upper()}" for size in SIZES for kind in ("ddp", "fsdp"))]
    sent = [size.sent(kind, gpus) for size in SIZES for kind in ("ddp", "fsdp")]
    rows = [["sent in a step", *map(gigabytes, sent)]]
    rows += [[name, *(milliseconds(count / speed) for count in sent)] for name, speed in LINKS.items()]
    computing = [milliseconds(size.seconds()) for size in SIZES for _ in range(2)]
    return table(head, [*rows, [f"computing {TOKENS:,} tokens", *computing]])


def tables() -> list[str]:
    """All tables of docs/scale.md."""
    return [memory_table(), *(traffic_table(gpus) for gpus in GPUS[1:])]


if __name__ == "__main__":
    print("\n\n".join(tables()))
