"""Examples as a model meets them in training: batches of inputs, each with what is right, for `inspection.heads`."""

from collections.abc import Iterable

from clearhead.data.batching.batches import Batch
from clearhead.errors import DataError
from clearhead.examples import Example, Pair
from clearhead.inspection.heads.importance import Task
from clearhead.model_folder import Bundle
from clearhead.training.evaluation.evaluate import Evaluation
from clearhead.training.evaluation.labels import in_groups
from clearhead.training.loop.losses import inputs_of

BATCH_TOKENS = 2048  # whose gradients and weights fit into memory


class TaskCollector(Evaluation):
    """Keeps the batches that an evaluation would run the model on."""

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle, BATCH_TOKENS)
        self.tasks: list[Task] = []

    def add(self, batch: Batch) -> None:
        """Keeps a batch."""
        wanted = batch.targets if batch.labels is None else batch.labels
        assert wanted is not None
        self.tasks.append((inputs_of(batch), wanted))

    def collect(self, examples: Iterable[Example]) -> list[Task]:
        """The batches of some examples."""
        if self.kind == "pair":
            for group in in_groups(examples):
                if pairs := self.fitting([example for example in group if isinstance(example, Pair)]):
                    self.score_targets([rows for _, rows in pairs])
        elif self.kind == "labelled":
            for one in self.label_batches(examples):
                self.add(one.batch)
        elif self.config.shape == "encoder":
            self.score_masked(examples, lambda done: None)
        else:
            self.score_text(examples, lambda done: None)
        if not self.tasks:
            raise DataError(
                f"There is nothing to look at: there are no examples, or all {self.too_long} are too long.\n"
                "Give other data."
            )
        return self.tasks
