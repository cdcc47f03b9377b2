"""What a pass takes, before it runs: a model and ids enter; the shape of every site and bytes of memory leave.

A pass that fits is recorded whole. One that does not is recorded in rows: what grows with the square of the text, or
with text and vocabulary, exists for some tokens or for one head at a time.
"""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from clearhead.inspection.capture import capture
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model
from clearhead.models.transformer.stack import TransformerStack

Ids = dict[str, list[int]]  # by stack
Size = tuple[tuple[int, ...], int]  # the shape of a site without the batch, and its bytes
MASK_BYTES = 24  # of a query and a key: two distances in int64, and what is true of them
PART_BYTES = 1 << 24  # of the scores, or of the logits, that are computed at once in rows
PART_COPIES = 6  # of them that exist meanwhile: scores, masked, weights, and what is read off them
ANSWER_COPIES = 2  # of a head's weights: the tensor, and the bytes that are sent
FULL = 0.875  # of the limit, up to which blocks are kept: freed memory stays between those that remain
INSIDE = re.compile(r"(\w+)\.(\d+)\.(?:self|cross|ffn)\.\w+")  # a site inside a block


def top_stack(ids: Mapping[str, object]) -> str:
    """The stack that the head reads, of those that have ids."""
    return "decoder" if "decoder" in ids else "encoder"


def inputs_of(module: Model, ids: Ids, rows: int = 1) -> Inputs:
    """The ids as the inputs of a model, in a batch of equal rows."""
    source = torch.tensor([ids["encoder"]] * rows) if module.translates else None
    return Inputs(torch.tensor([ids[top_stack(ids)]] * rows), source=source)


def forward(module: Model, ids: Ids) -> Tensor:
    """Logits (1, n, vocabulary) or (1, classes); the vectors (1, n, d) of a model without a head."""
    return module.outputs(inputs_of(module, ids))


@torch.no_grad()
def site_sizes(module: Model, ids: Ids) -> dict[str, Size]:
    """The size of every site in a pass over these ids: that of a pass over one token, stretched."""
    counts = {stack: len(some) for stack, some in ids.items()}
    with capture(module) as trace:
        forward(module, {stack: some[:1] for stack, some in ids.items()})
    sizes = {}
    for name, X in trace.items():
        stack, kind, key = name.split(".")[0], name.split(".")[-2:-1], name.split(".")[-1]
        n = counts.get(stack, counts[top_stack(counts)])
        m = counts["encoder"] if kind == ["cross"] else n
        shape = list(X.shape[1:])
        if len(shape) > 1:  # a classifier's head has no axis of tokens
            shape[-2] = m if key in ("k", "v") and kind else n
        if key in ("scores", "weights"):
            shape[-1] = m
        sizes[name] = tuple(shape), torch.Size(shape).numel() * X.element_size()
    return sizes


class PassBytes:
    """What a pass takes, whole or in rows: what is recorded, what a block takes, and what is allocated besides."""

    def __init__(self, module: Model, sizes: Mapping[str, Size], in_rows: bool = False) -> None:
        self.blocks: dict[str, int] = {}
        self.recorded = 0
        self.all = sum(size for _, size in sizes.values())  # the tensors of all sites
        for name, (shape, size) in sizes.items():
            if in_rows and is_large(module, name, shape):
                continue
            if inside := block_to_rerun(module, name):
                self.blocks[inside] = self.blocks.get(inside, 0) + size
            else:
                self.recorded += size
        logits = sizes.get("logits", ((1,), 0))
        squares = [shape for name, (shape, _) in sizes.items() if name.endswith(".weights")]
        cells = max((shape[-2] * shape[-1] for shape in squares), default=0)
        line = max((4 * shape[0] * shape[-1] for shape in squares if len(shape) == 3), default=0)
        self.rows = max(1, PART_BYTES // max(1, line)) if in_rows else None  # queries at once
        self.logit_rows = max(1, PART_BYTES // (4 * logits[0][-1])) if in_rows else None  # tokens at once
        # While a block runs, its scores exist with and without the mask, which is made of whole numbers. The fast pass
        # has logits of its own.
        largest = max(self.blocks.values(), default=0)
        self.always = largest if in_rows else 0  # for the block that was asked for last
        if self.rows is None:
            self.working = max(2 * largest + MASK_BYTES * cells, logits[1])
        else:
            queries = max((shape[-2] for shape in squares), default=1)
            part = PART_COPIES * PART_BYTES + MASK_BYTES * cells * min(self.rows, queries) // queries
            bias = 2 * max((4 * torch.Size(shape).numel() for shape in squares), default=0)
            self.working = 2 * largest + part + 4 * ANSWER_COPIES * cells + bias * has_bias(module)

    @property
    def least(self) -> int:
        """With no block kept, or only one in rows."""
        return self.recorded + self.always + self.working

    def most(self, limit: int | None) -> int:
        """With as many blocks kept as the limit allows."""
        most = self.recorded + sum(self.blocks.values()) + self.working
        return most if limit is None else max(self.least, min(int(FULL * limit), most))

    def room(self, limit: int | None) -> int:
        """For blocks to keep."""
        return self.most(limit) - self.least + self.always


def is_large(module: Model, name: str, shape: tuple[int, ...]) -> bool:
    """Whether a site's tensor is computed in parts if a pass is recorded in rows: scores, weights, logits of tokens."""
    is_square = name.endswith((".scores", ".weights")) and block_to_rerun(module, name) is not None
    return is_square or (name == "logits" and len(shape) == 2)


def has_bias(module: Model) -> bool:
    """Whether positions add a number to each score."""
    at = torch.zeros(1, 1, dtype=torch.long)
    return any(
        isinstance(part, TransformerStack) and part.positions.bias(at, at) is not None
        for part in module.children()
    )


def block_of_site(name: str) -> str | None:
    """The block that a site is inside of, such as decoder.2; None of the stream, the embeddings and the logits."""
    match = INSIDE.fullmatch(name)
    return f"{match[1]}.{match[2]}" if match else None


def block_to_rerun(module: Model, name: str) -> str | None:
    """The block that runs again for a site; None outside of a transformer: a recurrence needs all states before."""
    stack = getattr(module, name.split(".")[0], None)
    return block_of_site(name) if isinstance(stack, TransformerStack) else None
