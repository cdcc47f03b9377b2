"""Recurrences: token vectors X (b, n, d) are read one after the other into a state s_i = f(s_{i−1}, x_i) (N41).

`Recurrence.fast` is PyTorch's own module. `Recurrence.plain` is the formula, token by token, with a site for each gate;
it runs where a capture wants to see or change one of them. Tests keep the two equal.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

States = list[Tensor]  # (b, d) each: the state and, of an LSTM, its cell
Watch = Callable[[str, Tensor], Tensor]  # passes a tensor (b, d) of one token through a site


class Recurrence(nn.Module):
    """s_i = f(s_{i−1}, x_i) in one direction: PyTorch's module, the gates, and the formula of one step."""

    module: Callable[..., nn.RNNBase]
    gates: tuple[str, ...] = ()
    states = 1

    def __init__(self, d_in: int, d: int) -> None:
        super().__init__()
        self.cell = self.module(d_in, d, batch_first=True)

    def weight(self, name: str) -> Tensor:
        """A weight by PyTorch's name for it, such as weight_ih: those of all gates, one below the other."""
        return self.cell.get_parameter(f"{name}_l0")

    def inputs(self, X: Tensor) -> Tensor:
        """W x + b of every gate, for all tokens at once: (…, gates · d)."""
        return F.linear(X, self.weight("weight_ih"), self.weight("bias_ih"))

    def repeated(self, h: Tensor) -> Tensor:
        """U h + c of every gate: (b, gates · d)."""
        return F.linear(h, self.weight("weight_hh"), self.weight("bias_hh"))

    def step(self, x: Tensor, states: States, watch: Watch) -> States:
        """The states after a token, given `inputs` of it (b, gates · d)."""
        raise NotImplementedError

    def fast(self, X: Tensor, states: States, counts: Tensor | None) -> tuple[Tensor, States]:
        """All states (b, n, d), and the last ones of each row after its first `counts` tokens."""
        if counts is None:
            H, last = self.cell(X, self.bundle(states))
            return H, self.unbundle(last)
        rows = counts.nonzero()[:, 0]  # a packed row cannot be empty
        if not len(rows):
            return X.new_zeros(*X.shape[:2], self.cell.hidden_size), states
        packed = pack_padded_sequence(X[rows], counts[rows].cpu(), batch_first=True, enforce_sorted=False)
        some, last = self.cell(packed, self.bundle([state[rows] for state in states]))
        H = X.new_zeros(*X.shape[:2], self.cell.hidden_size)
        H[rows] = pad_packed_sequence(some, batch_first=True, total_length=X.shape[1])[0]
        changed = zip(states, self.unbundle(last), strict=True)
        return H, [state.index_copy(0, rows, new) for state, new in changed]

    def plain(self, X: Tensor, states: States, counts: Tensor | None, watch: Watch) -> tuple[Tensor, States]:
        """The same, token by token, through the sites."""
        parts, inputs = [], self.inputs(X)
        for t in range(X.shape[1]):
            new = self.step(inputs[:, t], states, watch)
            new[0] = watch("state", new[0])
            parts.append(new[0])
            states = new if counts is None else keep_ended(states, new, counts > t)
        return torch.stack(parts, 1), states

    def bundle(self, states: States) -> Tensor | tuple[Tensor, Tensor]:
        """States as PyTorch's module takes them."""
        return states[0][None]

    def unbundle(self, last: Tensor | tuple[Tensor, Tensor]) -> States:
        """States as PyTorch's module returns them."""
        assert isinstance(last, Tensor)
        return [last[0]]


def keep_ended(old: States, new: States, runs: Tensor) -> States:
    """New states of the rows that still run (b,), old ones of those that have ended."""
    return [torch.where(runs[:, None], after, before) for before, after in zip(old, new, strict=True)]


class ElmanRNN(Recurrence):
    """h = tanh(W x + U h' + b) (Elman, 1990)."""

    module = nn.RNN

    def step(self, x: Tensor, states: States, watch: Watch) -> States:
        """The new state."""
        return [torch.tanh(x + self.repeated(states[0]))]


class GRU(Recurrence):
    """h = (1 − z) n + z h', n = tanh(W x + r (U h')), with gates r and z between 0 and 1 (Cho et al., 2014)."""

    module = nn.GRU
    gates = ("reset", "update", "candidate")

    def step(self, x: Tensor, states: States, watch: Watch) -> States:
        """The new state."""
        h = states[0]
        (x_r, x_z, x_n), (u_r, u_z, u_n) = x.chunk(3, -1), self.repeated(h).chunk(3, -1)
        r = watch("reset", torch.sigmoid(x_r + u_r))
        z = watch("update", torch.sigmoid(x_z + u_z))
        n = watch("candidate", torch.tanh(x_n + r * u_n))
        return [(1 - z) * n + z * h]


class LSTM(Recurrence):
    """c = f c' + i g, h = o tanh(c), with gates i, f and o between 0 and 1 (Hochreiter and Schmidhuber, 1997)."""

    module = nn.LSTM
    gates = ("input", "forget", "candidate", "output", "cell")
    states = 2

    def step(self, x: Tensor, states: States, watch: Watch) -> States:
        """The new state and cell."""
        i, f, g, o = (x + self.repeated(states[0])).chunk(4, -1)
        i, f = watch("input", torch.sigmoid(i)), watch("forget", torch.sigmoid(f))
        g, o = watch("candidate", torch.tanh(g)), watch("output", torch.sigmoid(o))
        c = watch("cell", f * states[1] + i * g)
        return [o * torch.tanh(c), c]

    def bundle(self, states: States) -> tuple[Tensor, Tensor]:
        """States as PyTorch's module takes them."""
        return states[0][None], states[1][None]

    def unbundle(self, last: Tensor | tuple[Tensor, Tensor]) -> States:
        """States as PyTorch's module returns them."""
        return [last[0][0], last[1][0]]


CELLS: dict[str, type[Recurrence]] = {"rnn": ElmanRNN, "gru": GRU, "lstm": LSTM}


def reverse(X: Tensor, counts: Tensor | None) -> Tensor:
    """The real tokens of each row of X (b, n, d) from right to left; padding stays where it is."""
    if counts is None:
        return X.flip(1)
    at, end = torch.arange(X.shape[1], device=X.device), counts[:, None]
    places = torch.where(at < end, end - 1 - at, at)  # (b, n)
    return X.gather(1, places[..., None].expand_as(X))
