"""How long a text may be: a config enters; a limit, and a warning beyond what the model has learned, leave.

The context is the length of the longest text in training. With a table of positions nothing longer can be read.
Otherwise it can, up to a bound that protects the memory, but the model has not learned to.
"""

import logging

from clearhead.config.model_base import AnyModelConfig
from clearhead.models.inputs import longest_readable

log = logging.getLogger(__name__)


class LengthLimit:
    """The limit of one model, which warns once."""

    def __init__(self, config: AnyModelConfig) -> None:
        self.context, self.longest = config.context, longest_readable(config)
        self.has_warned = False

    def is_unlearned(self, count: int) -> bool:
        """Whether so many tokens are more than the model was trained on."""
        return self.context is not None and count > self.context

    def allows(self, count: int, what: str) -> bool:
        """Whether the model can read so many tokens; warns at the first text that is longer than it has learned."""
        if self.longest is not None and count > self.longest:
            return False
        if self.is_unlearned(count) and not self.has_warned:
            self.has_warned = True
            log.warning(
                "Warning: the %s has %s tokens, but the model was trained on at most %s: the result may be poor. "
                "(Reported once.)", what, count, self.context,
            )  # fmt: skip
        return True

    def room(self, given: int) -> int | None:
        """How long a text may become if so many tokens are given: the context, or more for an answer as long."""
        if self.context is None or self.longest is None:
            return None
        return min(self.longest, max(self.context, 2 * given))
