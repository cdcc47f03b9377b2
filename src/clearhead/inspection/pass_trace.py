"""The tensors of a pass, within a limit of bytes: a model and ids enter; every site by name leaves.

The stream, the embeddings and the logits are recorded as the model runs. What is inside a block (queries, scores,
weights, hidden units) grows with the square of the text; it is computed again from the stream before the block when
it is asked for, and kept as long as there is room. In a text that is too long even for one block, scores and weights
are computed for some queries or for one head at a time, and logits for some tokens: the formulas are the same, row by
row.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from threading import RLock
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import InputError, suggest
from clearhead.inspection.capture import Edit, capture, edit
from clearhead.inspection.pass_bytes import (
    Ids,
    PassBytes,
    block_to_rerun,
    forward,
    inputs_of,
    is_large,
    site_sizes,
)
from clearhead.layers.attention import Attention, plain
from clearhead.layers.blocks import Block
from clearhead.layers.masks import View
from clearhead.models.model import Model
from clearhead.models.transformer.stack import TransformerStack


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
        if limit is not None and self.bytes.least > limit:
            self.bytes = PassBytes(module, self.sizes, in_rows=True)
        self.room = self.bytes.room(limit)  # for blocks to keep
        self.recorded: dict[str, Tensor] = {}
        self.vectors: Tensor | None = None  # what the head reads, in rows
        self.kept: OrderedDict[str, dict[str, Tensor]] = (
            OrderedDict()
        )  # by block, the least recently used first

    @property
    def is_in_rows(self) -> bool:
        """Whether what is large exists for some rows at a time only."""
        return self.bytes.rows is not None

    def is_apart(self, name: str) -> bool:
        """Whether a site's tensor is too large to exist as a whole."""
        return self.is_in_rows and is_large(self.module, name, self.sizes[name][0])

    @torch.no_grad()
    def record(self, first: str | None = None) -> Tensor:
        """Runs the model by the plain path, and records all that is outside its blocks; the result of the pass.

        In rows the result are the vectors that a language head reads. `first` names a block that is asked for first,
        such as decoder.0: it is recorded too, if there is room for it.
        """
        outside = [name for name in self.sizes if block_to_rerun(self.module, name) is None]
        has_room = not self.is_in_rows and self.bytes.blocks.get(first or "", self.room + 1) <= self.room
        inside = self.sites_in(first) if first and has_room else []
        # A capture that wants the weights makes attention compute them, as it will for a block.
        with capture(
            self.module, *outside, *inside, edits=(*self.edits, *self.plainly()), rows=self.bytes.rows
        ) as trace:
            result = self.run(self.module)
        self.recorded = {name: X for name, X in trace.items() if name not in inside}
        if first and inside:
            self.keep(first, {name: trace[name] for name in inside})
        self.vectors = result if "logits" in self.sizes and self.is_apart("logits") else None
        return result

    def plainly(self) -> list[Edit]:
        """Edits that change nothing, for which attention computes its weights."""
        return [edit(name, lambda A: A) for name in self.sizes if name.endswith(".weights")]

    def run(self, module: Model, ids: Ids | None = None) -> Tensor:
        """The result of a pass, of its own ids by default: logits, or what a language head reads if they are many."""
        is_apart, ids = "logits" in self.sizes and self.is_apart("logits"), ids or self.ids
        return module.vectors(inputs_of(module, ids)) if is_apart else forward(module, ids)

    def logits_of(self, module: Model, result: Tensor, rows: slice) -> Tensor:
        """The logits (1, n, vocabulary) of some tokens from what `run` returned."""
        with torch.no_grad():
            return module.head(result[:, rows]) if self.is_apart("logits") else result[:, rows]

    def logits(self, rows: slice) -> Tensor:
        """The logits (1, n, vocabulary) of some tokens."""
        return self.logits_of(
            self.module, self.recorded["logits"] if self.vectors is None else self.vectors, rows
        )

    def row(self, position: int) -> Tensor:
        """The logits of classes, or those after a position: one row."""
        if len(self.sizes["logits"][0]) == 1:
            return self.recorded["logits"][0]
        first = position % self.sizes["logits"][0][0]
        return self.logits(slice(first, first + 1))[0, 0]

    def logit_parts(self) -> Iterator[slice]:
        """All tokens, in parts whose logits exist at once."""
        count = self.sizes["logits"][0][0]
        rows = self.bytes.logit_rows or count
        return (slice(first, min(count, first + rows)) for first in range(0, count, rows))

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
        if self.is_apart(name):
            what = "Ask for some rows of it." if name == "logits" else "Ask for one head of it."
            raise InputError(
                f"{name} takes {self.sizes[name][1] / 2**20:,.0f} MiB in this text, too much at once.\n{what}"
            )
        block = block_to_rerun(self.module, name)
        return self.recorded[name] if block is None else self.inside(block)[name]

    def inside(self, block: str) -> dict[str, Tensor]:
        """The sites inside a block by name, kept or computed again."""
        with self.lock:
            if block not in self.kept:
                self.keep(block, self.run_block(block))
            self.kept.move_to_end(block)
            found = self.kept[block]
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
        stack, part = self.block(block)
        name, number = block.split(".")
        i = int(number)
        X = self.recorded[f"{name}.{i - 1}.{part.sites[-1]}" if i else f"{name}.embeddings.out"]
        sites = [site for site in self.sites_in(block) if not self.is_apart(site)]
        edits = (*self.edits, *(self.plainly() if self.is_in_rows else ()))
        with capture(self.module, *sites, edits=edits, rows=self.bytes.rows) as trace:
            source = None
            if part.cross is not None:
                K, V = part.cross.keys_values(self.recorded["encoder.norm"])
                source = (K, V, self.view(stack, "cross", X.shape[1]))
            part(X, self.view(stack, "self", X.shape[1]), memory=source)
        return dict(trace)

    def sites_in(self, block: str) -> list[str]:
        """The sites inside a block that can run again."""
        return [site for site in self.sizes if block_to_rerun(self.module, site) == block]

    def block(self, name: str) -> tuple[TransformerStack, Block]:
        """A stack, and one of its blocks by a name such as decoder.2."""
        place, number = name.split(".")
        stack = getattr(self.module, place)
        assert isinstance(stack, TransformerStack)
        part = stack.blocks[int(number)]
        assert isinstance(part, Block)
        return stack, part

    def view(self, stack: TransformerStack, kind: str, count: int) -> View:
        """What the tokens of a stack see in one of its attentions."""
        at = torch.arange(count)[None]
        if kind == "cross":
            return View(at, torch.arange(len(self.ids["encoder"]))[None])
        return stack.view(View(at, at, aligned=True))

    @torch.no_grad()
    def attention_parts(self, name: str) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Queries of an attention such as decoder.2.self, and their scores and weights (h, n, m): some at a time."""
        if not self.is_in_rows:
            S, A = (self[f"{name}.{key}"][0] for key in ("scores", "weights"))
            yield slice(0, S.shape[1]), S, A
            return
        block, _, kind = name.rpartition(".")
        stack, part = self.block(block)
        attention = getattr(part, kind)
        assert isinstance(attention, Attention)
        assert self.bytes.rows is not None
        known = self.inside(block)
        Q, K, V = (known[f"{name}.{key}"] for key in ("q", "k", "v"))
        view = self.view(stack, kind, Q.shape[2])
        sites = f"{name}.scores", f"{name}.weights"
        for first in range(0, Q.shape[2], self.bytes.rows):
            rows = slice(first, min(Q.shape[2], first + self.bytes.rows))
            with capture(self.module, *sites, edits=self.edits) as trace:
                plain(attention, Q[:, :, rows], K, V, view.part(rows, slice(None)))
            yield rows, trace[sites[0]][0], trace[sites[1]][0]

    def head(self, name: str, place: int | None) -> Tensor:
        """One head's scores or weights (n, m), or the mean over heads if no place is given."""
        attention, _, key = name.rpartition(".")
        found = torch.empty(self.sizes[name][0][1:])
        with self.lock:
            for rows, S, A in self.attention_parts(attention):
                X = A if key == "weights" else S
                found[rows] = X.mean(0) if place is None else X[place]
        return found
