"""A recurrent stack: vectors (b, n, d) and states enter its blocks one after the other; vectors and new states leave.

A decoder's first block may look back at a source: the attention of 2014 (Bahdanau, Cho and Bengio),

    c_i = Σ_j α_ij h_j,  α_i = softmax_j v · tanh(W s_{i−1} + U h_j),  s_i = f(s_{i−1}, [x_i, c_i])     (N43)
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.config.recurrent import RecurrentConfig
from clearhead.layers.attention import Attention, Dimensions
from clearhead.layers.memory import Memory
from clearhead.layers.recurrence import CELLS, Recurrence, States, keep_ended, reverse
from clearhead.layers.similarity import Additive
from clearhead.layers.sites import CachedStep, cached_step, in_step, is_watched, keep, site
from clearhead.models.stack import Stack


class RecurrentBlock(nn.Module):
    """A recurrence over the tokens, or one in each direction side by side."""

    def __init__(self, kind: type[Recurrence], d_in: int, d: int, directions: int = 1) -> None:
        super().__init__()
        self.directions = nn.ModuleList(kind(d_in, d // directions) for _ in range(directions))
        self.sites = ("state", *(f"gates.{gate}" for gate in kind.gates))
        self.states, self.width = kind.states, d // directions

    def forward(
        self, X: Tensor, states: States | None = None, counts: Tensor | None = None, tracks: bool = False
    ) -> tuple[Tensor, States]:
        """(b, n, d) -> (b, n, d); with `tracks` the states after the last real token of each row are exact too."""
        passed = [self.run(i, X, states, counts, tracks) for i in range(len(self.directions))]
        for key in passed[0][2]:
            keep(self, key, torch.cat([record[key] for _, _, record in passed], -1))
        H, states, _ = passed[0]
        return H if len(passed) == 1 else torch.cat([out for out, _, _ in passed], -1), states

    @property
    def recurrences(self) -> list[Recurrence]:
        """The directions: from left to right, and from right to left if there is a second."""
        return [part for part in self.directions if isinstance(part, Recurrence)]

    def run(
        self, i: int, X: Tensor, states: States | None, counts: Tensor | None, tracks: bool
    ) -> tuple[Tensor, States, dict[str, Tensor]]:
        """Direction i: its states (b, n, d), the last ones, and what passed the sites if they are watched."""

        def turn(Y: Tensor) -> Tensor:
            return reverse(Y, counts) if i else Y

        part, states = self.recurrences[i], self.empty(X) if states is None else states
        ends = counts if tracks else None
        if not is_watched(self, *self.sites):
            H, states = part.fast(turn(X), states, ends)
            return turn(H), states, {}
        seen = Seen(self, X, turn)
        H, states = part.plain(turn(X), states, ends, seen)
        return turn(H), states, {key: turn(whole) for key, whole in seen.whole().items()}

    def empty(self, X: Tensor) -> States:
        """The states before the first token."""
        return [X.new_zeros(len(X), self.width) for _ in range(self.states)]


class Seen:
    """Passes what a recurrence computes for each token through the sites of its block, and collects it."""

    def __init__(
        self, block: RecurrentBlock, X: Tensor, turn: Callable[[Tensor], Tensor] = lambda Y: Y
    ) -> None:
        self.block, self.is_used = block, is_watched(block, *block.sites)
        self.parts: dict[str, list[Tensor]] = {key: [] for key in block.sites}
        at = torch.arange(X.shape[1], device=X.device).expand(X.shape[:2])
        now = cached_step() or CachedStep(self, at, torch.ones_like(at, dtype=torch.bool))
        self.all = now._replace(at=turn(now.at[..., None])[..., 0])

    def step(self, t: int) -> CachedStep:
        """The t-th token that is read."""
        return self.all._replace(at=self.all.at[:, t : t + 1], real=self.all.real[:, t : t + 1])

    def __call__(self, name: str, x: Tensor) -> Tensor:
        """One token: (b, d) -> (b, d)."""
        if not self.is_used:
            return x
        key = name if name in self.parts else f"gates.{name}"
        with in_step(self.step(len(self.parts[key]))):
            x = site(self.block, key, x[:, None])[:, 0]
        self.parts[key].append(x)
        return x

    def whole(self) -> dict[str, Tensor]:
        """All tokens together: (b, n, d) by site; nothing if nobody watches."""
        return {key: torch.stack(parts, 1) for key, parts in self.parts.items()} if self.is_used else {}


class AttendingBlock(RecurrentBlock):
    """A recurrence that looks back at a source before each step; with W_v and W_o, as all attention here."""

    def __init__(self, kind: type[Recurrence], d: int, d_memory: int) -> None:
        super().__init__(kind, 2 * d, d)
        self.cross = Attention(Dimensions(d, d_memory, 1, 1, d, d), Additive(1, d, None))

    def look_back(
        self, X: Tensor, states: States, counts: Tensor | None, memory: Memory
    ) -> tuple[Tensor, States]:
        """(b, n, d) -> (b, n, d): each state follows from the last one, the token, and what was looked up."""
        (K, V), view = memory.keys_values[0], memory.view(torch.zeros_like(memory.to[:, :1]))
        part, seen, H, queries = self.recurrences[0], Seen(self, X), [], []
        d = X.shape[2]
        W = part.weight("weight_ih")
        inputs = F.linear(X, W[:, :d], part.weight("bias_ih"))  # of the tokens: all at once
        for t in range(X.shape[1]):
            queries.append(states[0])
            with in_step(seen.step(t)):
                context = self.cross(states[0][:, None], K, V, view)[:, 0]  # (b, d)
            new = part.step(inputs[:, t] + F.linear(context, W[:, d:]), states, seen)
            new[0] = seen("state", new[0])
            H.append(new[0])
            states = new if counts is None else keep_ended(states, new, counts > t)
        if is_watched(self, *self.sites) or is_watched(self.cross, *self.cross.sites):
            # What has passed the sites step by step, as a whole.
            self.cross(torch.stack(queries, 1), K, V, view)
            for name, whole in seen.whole().items():
                keep(self, name, whole)
        return torch.stack(H, 1), states


class RecurrentStack(Stack):
    """Embeddings and recurrent blocks."""

    def __init__(
        self,
        config: RecurrentConfig,
        name: str,
        tokens: nn.Embedding,
        blocks: int,
        d_memory: int | None = None,
    ) -> None:
        super().__init__(config, name, tokens)
        kind, d = CELLS[config.cell], config.d
        directions = 2 if config.bidirectional and not self.causal else 1
        self.blocks = nn.ModuleList(
            AttendingBlock(kind, d, d_memory)
            if d_memory is not None and i == 0
            else RecurrentBlock(kind, d, d, directions)
            for i in range(blocks)
        )
        self.norm = nn.Identity()
        self.states, self.is_two_way = kind.states, directions == 2

    def forward(
        self,
        X: Tensor,
        states: list[Tensor] | None = None,
        counts: Tensor | None = None,
        memory: Memory | None = None,
        tracks: bool = False,
    ) -> tuple[Tensor, list[Tensor]]:
        """What enters the first block becomes what leaves the last, and the states of all blocks: (b, n, d)."""
        k, after = self.states, list[Tensor]()
        for i, block in enumerate(self.blocks):
            own = None if states is None else states[i * k : (i + 1) * k]
            if isinstance(block, AttendingBlock):
                assert memory is not None
                X, new = block.look_back(X, own or block.empty(X), counts if tracks else None, memory)
            else:
                X, new = block(X, own, counts, tracks)
            X, after = self.dropout(X), [*after, *new]
        return X, after

    def summary(self, H: Tensor, counts: Tensor | None) -> Tensor:
        """The state that has read everything, in each direction: (b, d)."""
        ends = torch.full((len(H),), H.shape[1] - 1, device=H.device) if counts is None else counts - 1
        last = H[torch.arange(len(H), device=H.device), ends]
        half = H.shape[2] // 2
        return torch.cat([last[:, :half], H[:, 0, half:]], -1) if self.is_two_way else last

    def carried(self, block: nn.Module) -> tuple[str, ...]:
        """The states."""
        return ("state",)
