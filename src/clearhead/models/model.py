"""What every family of models offers: `Inputs` enter, logits leave; one that generates also has `start` and `step`.

Callers ask what a model can do (`generates`, `translates`), never which class it is.
"""

from typing import TYPE_CHECKING, Protocol, Self

from torch import Tensor, nn

from clearhead.config.model_base import AnyModelConfig
from clearhead.errors import InputError
from clearhead.layers.sites import site
from clearhead.models.inputs import Inputs, check_counts, check_fields, check_length, check_tokens


class State(Protocol):
    """What a model knows of the texts it generates: a key-value cache, or the hidden vector of an RNN."""

    @property
    def lengths(self) -> Tensor:
        """Tokens of each text so far: (b,)."""

    @property
    def used_bytes(self) -> int:
        """Memory of what is kept of the tokens so far."""

    def select(self, rows: Tensor) -> None:
        """Keeps these texts, in this order; one may be kept twice."""

    def copy(self, rows: Tensor) -> Self:
        """These texts as a state of their own."""

    def join(self, other: Self) -> None:
        """Adds the texts of another state."""


class Model(nn.Module):
    """The base of every family; `takes` names the fields of `Inputs` that it reads beside tokens and counts."""

    sites = ("logits",)
    takes: tuple[str, ...] = ()
    is_int8 = False  # whether its weights were rounded to int8
    translates = False  # reads a source and writes a target

    def __init__(self, config: AnyModelConfig) -> None:
        super().__init__()
        self.config = config
        self.head: nn.Module

    @property
    def generates(self) -> bool:
        """Whether it generates text by `start` and `step`."""
        return False

    if TYPE_CHECKING:  # PyTorch's own takes anything

        def __call__(self, inputs: Inputs) -> Tensor: ...

    def forward(self, inputs: Inputs) -> Tensor:
        """Logits: (b, n, vocabulary), or of a classifier (b, classes), or (b, n, classes) if each word has a label."""
        return site(self, "logits", self.head(self.vectors(inputs), inputs.counts))

    def vectors(self, inputs: Inputs) -> Tensor:
        """What the head reads: (b, n, d)."""
        raise NotImplementedError

    def outputs(self, inputs: Inputs) -> Tensor:
        """The logits, or the vectors of a model without a head."""
        return self.vectors(inputs) if self.config.head == "none" else self(inputs)

    def encode(self, tokens: Tensor, counts: Tensor | None = None) -> Tensor:
        """One vector for each token of a text that is only read: (b, n, d); of a translator its source."""
        return self.vectors(Inputs(tokens, counts))

    def start(
        self, batch: int, capacity: int, source: Tensor | None = None, source_counts: Tensor | None = None
    ) -> State:
        """An empty state for a batch of texts of at most `capacity` tokens each."""
        raise self.cannot_write()

    def step(self, tokens: Tensor, state: State, counts: Tensor | None = None, last: bool = False) -> Tensor:
        """Adds tokens (b, n) to the state and gives their logits (b, n, vocabulary).

        `counts` (b,) says how many tokens of each row are real; a row may have none. With `last` only each
        row's last real token is read out: (b, 1, vocabulary).
        """
        raise self.cannot_write()

    def quieten(self) -> None:
        """Scales down what new weights add, where a family needs that."""

    def cannot_write(self) -> InputError:
        """The error of a model that is asked to generate."""
        return InputError(
            f"A model of shape '{self.config.shape}' with head '{self.config.head}' does not generate text.\n"
            "Use a language model or a translator; this one works with classify or embed."
        )

    def check(self, inputs: Inputs) -> None:
        """Rejects inputs that the model cannot read."""
        self.check_fields(inputs)
        check_tokens(inputs.tokens, self.config.vocabulary, self.config.width_tokens)
        check_counts(inputs.counts, inputs.tokens)
        check_length(inputs.tokens.shape[1], self.config)

    def check_fields(self, inputs: Inputs) -> None:
        """Rejects a call that this model cannot answer, before its values are looked at."""
        check_fields(inputs, self.takes, self.config.shape)
