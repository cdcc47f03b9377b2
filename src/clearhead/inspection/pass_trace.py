"""The tensors of a pass, within a limit of bytes: a model and ids enter; every site by name leaves.

The stream, the embeddings and the logits are recorded as the model runs. What is inside a block (queries, scores,
weights, hidden units) grows with the square of the text; it is computed again from the stream before the block when
it is asked for, and kept as long as there is room.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from threading import RLock
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import InputError, suggest
from clearhead.inspection.capture import Edit, capture, edit
from clearhead.layers.blocks import Block
from clearhead.layers.masks import View
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model
from clearhead.models.transformer.stack import TransformerStack

Ids = dict[str, list[int]]  # by stack
Size = tuple[tuple[int, ...], int]  # the shape of a site without the batch, and its bytes
MASK_BYTES = 24  # of a query and a key: two distances in int64, and what is true of them
INSIDE = re.compile(r"(\w+)\.(\d+)\.(?:self|cross|ffn)\.\w+")  # a site inside a block


def top_stack(ids: Mapping[str, object]) -> str:
    """The stack that the head reads, of those that have ids."""
    return "decoder" if "decoder" in ids else "encoder"


def forward(module: Model, ids: Ids) -> Tensor:
    """Logits (1, n, vocabulary) or (1, classes); the vectors (1, n, d) of a model without a head."""
    source = torch.tensor([ids["encoder"]]) if module.translates else None
    return module.outputs(Inputs(torch.tensor([ids[top_stack(ids)]]), source=source))


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
    """What a pass takes: what is recorded, what a block takes, and what is allocated at once besides."""

    def __init__(self, module: Model, sizes: Mapping[str, Size]) -> None:
        self.blocks: dict[str, int] = {}
        self.recorded = 0
        for name, (_, size) in sizes.items():
            if inside := block_to_rerun(module, name):
                self.blocks[inside] = self.blocks.get(inside, 0) + size
            else:
                self.recorded += size
        cells = (shape[-2] * shape[-1] for name, (shape, _) in sizes.items() if name.endswith(".weights"))
        # While a block runs, its scores exist with and without the mask, which is made of whole numbers. The fast pass
        # has logits of its own.
        running = 2 * max(self.blocks.values(), default=0) + MASK_BYTES * max(cells, default=0)
        self.working = max(running, sizes.get("logits", ((), 0))[1])

    @property
    def least(self) -> int:
        """With no block kept."""
        return self.recorded + self.working

    @property
    def all(self) -> int:
        """The tensors of all sites."""
        return self.recorded + sum(self.blocks.values())

    def most(self, limit: int | None) -> int:
        """With as many blocks kept as the limit allows."""
        most = self.all + self.working
        return most if limit is None else max(self.least, min(limit, most))


def block_of_site(name: str) -> str | None:
    """The block that a site is inside of, such as decoder.2; None of the stream, the embeddings and the logits."""
    match = INSIDE.fullmatch(name)
    return f"{match[1]}.{match[2]}" if match else None


def block_to_rerun(module: Model, name: str) -> str | None:
    """The block that runs again for a site; None outside of a transformer: a recurrence needs all states before."""
    stack = getattr(module, name.split(".")[0], None)
    return block_of_site(name) if isinstance(stack, TransformerStack) else None


class PassTrace(Mapping[str, Tensor]):
    """Every site of a pass by name, each (1, …); `record` runs the pass."""

    def __init__(
        self,
        module: Model,
        ids: Ids,
        edits: tuple[Edit, ...] = (),
        limit: int | None = None,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.module, self.ids, self.edits, self.lock = module, ids, edits, lock or RLock()
        self.sizes = site_sizes(module, ids)
        self.bytes = PassBytes(module, self.sizes)
        self.room = self.bytes.most(limit) - self.bytes.least  # for blocks to keep
        self.recorded: dict[str, Tensor] = {}
        self.kept: OrderedDict[str, dict[str, Tensor]] = (
            OrderedDict()
        )  # by block, the least recently used first

    @torch.no_grad()
    def record(self) -> Tensor:
        """Runs the model by the plain path, and records all that is outside its blocks; the result of the pass."""
        outside = [name for name in self.sizes if block_to_rerun(self.module, name) is None]
        # A capture that wants the weights makes attention compute them, as it will for a block.
        plain = [edit(name, lambda A: A) for name in self.sizes if name.endswith(".weights")]
        with capture(self.module, *outside, edits=(*self.edits, *plain)) as trace:
            result = forward(self.module, self.ids)
        self.recorded = dict(trace)
        return result

    def __iter__(self) -> Iterator[str]:
        return iter(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def __contains__(self, name: object) -> bool:
        return name in self.sizes

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.sizes:
            longer = [known for known in self.sizes if known.endswith(f".{name}")]
            if len(longer) == 1:
                return self[longer[0]]
            raise InputError(f"{name} is not a tensor of this pass. {suggest(name, longer or self.sizes)}")
        block = block_to_rerun(self.module, name)
        if block is None:
            return self.recorded[name]
        with self.lock:
            if block not in self.kept:
                self.keep(block, self.run_block(block))
            self.kept.move_to_end(block)
            found = self.kept[block][name]
            if self.kept_bytes > self.room:  # not even this one has room
                del self.kept[block]
            return found

    @property
    def kept_bytes(self) -> int:
        """The size of the blocks that are kept."""
        return sum(self.bytes.blocks[block] for block in self.kept)

    def keep(self, block: str, tensors: dict[str, Tensor]) -> None:
        """Keeps the tensors of a block; the least recently used others make room."""
        self.kept[block] = tensors
        while self.kept_bytes > self.room and len(self.kept) > 1:
            self.kept.popitem(last=False)

    @torch.no_grad()
    def run_block(self, block: str) -> dict[str, Tensor]:
        """The sites inside a block, which runs again on the stream before it."""
        name, number = block.split(".")
        stack, i = getattr(self.module, name), int(number)
        assert isinstance(stack, TransformerStack)
        part = stack.blocks[i]
        assert isinstance(part, Block)
        X = self.recorded[f"{name}.{i - 1}.{part.sites[-1]}" if i else f"{name}.embeddings.out"]
        at = torch.arange(X.shape[1])[None]
        sites = [site for site in self.sizes if block_to_rerun(self.module, site) == block]
        with capture(self.module, *sites, edits=self.edits) as trace:
            source = None
            if part.cross is not None:
                memory = self.recorded["encoder.norm"]
                K, V = part.cross.keys_values(memory)
                source = (K, V, View(at, torch.arange(memory.shape[1])[None]))
            part(X, stack.view(View(at, at, aligned=True)), memory=source)
        return dict(trace)
