"""How good a model is on unseen examples: a stream of examples enters, scores leave.

Only sums are kept, so that a set of any size can be evaluated. Examples longer than the context are skipped and
counted; texts to classify are truncated as in training, and counted.
"""

import math
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clearhead.config.decoding import DecodingConfig
from clearhead.data.batching.batches import Batch, Collate
from clearhead.data.batching.collate import Answers, Masked, Pairs, Turns, Windows
from clearhead.data.chats import encode_turns, template_of
from clearhead.data.frames import Frame, document_frame, input_frame, prompt_frame, target_frame
from clearhead.data.prepare import WINDOW
from clearhead.data.shards.columns import Ids, TokenColumn
from clearhead.decoding.generate import Generator, tokenizer_of
from clearhead.decoding.read import Reader
from clearhead.errors import DataError, InputError
from clearhead.examples import ANSWER, Conversation, Example, Kind, Pair, Text
from clearhead.model_folder import Bundle
from clearhead.text.tokenizers.conversations import borders_of, encode, marker_of
from clearhead.training.evaluation.label_scores import SCORES
from clearhead.training.evaluation.labels import LabelBatch, LabelledReader, Progress, decided, in_groups
from clearhead.training.evaluation.scores import CalibrationError, TextScores
from clearhead.training.loop.losses import inputs_of, loss_of, side_by_side


class Evaluation:
    """Evaluates one model, on the kind of examples that it was trained on."""

    def __init__(self, bundle: Bundle, batch_tokens: int = 4096) -> None:
        self.bundle, self.config, self.batch_tokens = bundle, bundle.config, batch_tokens
        self.tokenizer = tokenizer_of(bundle.tokenizer)
        self.source_tokenizer = bundle.source_tokenizer or self.tokenizer
        self.padding = self.tokenizer.specials.padding or 0
        self.nats = 0.0
        self.predictions = self.right = self.examples = self.too_long = self.truncated = 0

    @property
    def kind(self) -> Kind:
        """The kind of examples that this model is evaluated on."""
        if self.config.head == "classifier":
            return "labelled"
        if self.config.head == "none":
            raise InputError("This model only computes vectors: it has no answers to evaluate.")
        return "pair" if self.config.shape == "encoder-decoder" else "text"

    @torch.inference_mode()
    def run(
        self, examples: Iterable[Example], settings: DecodingConfig | None = None, bleu: str | None = None,
        lowercase: bool = False, progress: Progress = lambda done: None,
    ) -> dict[str, Any]:  # fmt: skip
        """The scores of a model on some examples; `bleu` is the tokenization of sacreBLEU ('none': at spaces)."""
        if self.kind == "pair":
            scores = self.score_translations(
                examples, settings or DecodingConfig(), TextScores(bleu, lowercase), progress
            )
        elif self.kind == "labelled":
            scores = self.score_labels(examples, progress)
        else:
            scores = (
                self.score_masked(examples, progress)
                if self.config.shape == "encoder"
                else self.score_text(examples, progress)
            )
        if not self.predictions:
            raise DataError(
                f"Nothing could be evaluated: there are no examples, or all {self.too_long} are too long.\n"
                f"The model's context is {self.config.context} tokens."
            )
        loss = self.nats / self.predictions
        return {
            "loss": loss,
            **({} if self.kind == "labelled" else {"perplexity": math.exp(min(loss, 700.0))}),
            **scores,
            "examples": self.examples,
            "predictions": self.predictions,
            **({"truncated": self.truncated} if self.kind == "labelled" else {"too_long": self.too_long}),
        }

    def add(self, batch: Batch) -> None:
        """Adds the loss of a batch to the sums."""
        loss = loss_of(self.bundle.module(inputs_of(batch)), batch)
        self.nats += float(loss.total)
        self.predictions += loss.count
        self.right += loss.right

    def score_text(self, examples: Iterable[Example], progress: Progress) -> dict[str, Any]:
        """A language model, on documents packed into windows of the context that do not overlap.

        Conversations are read one by one, and their answers predicted.
        """
        frame = document_frame(self.tokenizer.specials)
        n, bytes_read = self.config.context or WINDOW, 0
        stream: Ids = np.empty(0, np.int64)
        for group in in_groups(examples):
            bytes_read += self.score_answers(
                [example for example in group if isinstance(example, Conversation)]
            )
            texts = [example for example in group if isinstance(example, Text)]
            bytes_read += sum(len(example.text.encode()) for example in texts)
            pieces: list[Ids] = [stream]
            for example, ids in zip(texts, self.tokenizer.encode_batch([e.text for e in texts]), strict=True):
                border = (*frame.after, *frame.before) if self.examples else frame.before
                pieces += [np.array(border if example.starts else (), np.int64), ids]
                self.examples += example.starts
            stream = np.concatenate(pieces)
            whole = (len(stream) - 1) // n * n
            self.score_windows(stream[: whole + 1], n)
            stream = stream[whole:]  # its first token was a target and is now an input
            progress(len(group))
        self.score_windows(np.concatenate([stream, np.array(frame.after or frame.before, np.int64)]), n)
        return {"bits_per_byte": self.nats / math.log(2) / max(1, bytes_read)}

    def score_answers(self, talks: list[Conversation]) -> int:
        """Adds the loss of the answers of some conversations; returns their number of bytes."""
        if not talks:
            return 0
        has_template = template_of(self.tokenizer) is not None
        joined, counts = (encode_turns if has_template else encode)(self.tokenizer, talks)
        frame = Frame() if has_template else prompt_frame(self.tokenizer.specials)
        rows = [frame.wrap(ids.tolist()) for ids in np.split(joined, np.cumsum(counts)[:-1])]
        fits = [row for row, ids in enumerate(rows) if len(ids) - 1 <= (self.config.context or len(ids))]
        column = TokenColumn.of([rows[row] for row in fits])
        answers: Collate = Turns(column, self.tokenizer.size, self.padding)
        if not has_template:
            marker, borders = marker_of(self.tokenizer, ANSWER), borders_of(self.tokenizer)
            answers = Answers(column, marker, borders, self.padding)
        for chosen in self.by_length([len(rows[row]) for row in fits]):
            self.add(answers(chosen, 0))
        self.examples += len(fits)
        self.too_long += len(rows) - len(fits)
        said = (message for row in fits for message in talks[row].messages if message.role == ANSWER)
        return sum(len(message.content.encode()) for message in said)

    def score_windows(self, stream: Ids, n: int) -> None:
        """Adds the loss of every window of a stream of tokens."""
        frame = document_frame(self.tokenizer.specials)
        windows = Windows(TokenColumn.of([stream]), n, frame.before[0], not frame.after, self.padding)
        step = max(1, self.batch_tokens // n)
        for first in range(0, max(0, windows.size), step):
            self.add(windows(np.arange(first, min(first + step, windows.size)), 0))

    def score_masked(self, examples: Iterable[Example], progress: Progress) -> dict[str, Any]:
        """A masked language model, on tokens masked the same way each time; texts are split at the context."""
        frame, specials = input_frame(self.tokenizer.specials), self.tokenizer.specials
        if specials.mask is None:
            raise InputError(
                "The tokenizer has no mask token, so nothing can be masked.\nUse the model's own tokenizer."
            )
        room = (self.config.context or WINDOW) - len(frame)
        for group in in_groups(examples):
            texts = [example.text for example in group if isinstance(example, Text)]
            rows = [
                frame.wrap(ids[at : at + room].tolist())
                for ids in self.tokenizer.encode_batch(texts)
                for at in range(0, len(ids), room)
            ]
            masked = Masked(
                TokenColumn.of(rows),
                1,
                self.tokenizer.size,
                specials.mask,
                self.padding,
                tuple(sorted(specials.ids)),
            )
            for chosen in self.by_length([len(row) for row in rows]):
                self.add(masked(chosen, 0))
            self.examples += len(texts)
            progress(len(group))
        return {"accuracy": self.right / max(1, self.predictions)}

    def score_translations(
        self, examples: Iterable[Example], settings: DecodingConfig, scores: TextScores, progress: Progress
    ) -> dict[str, Any]:
        """A translator: its loss on the given targets, and the scores of its own translations."""
        generator = Generator(self.bundle)
        for group in in_groups(examples):
            pairs = self.fitting([example for example in group if isinstance(example, Pair)])
            if pairs:
                self.score_targets([rows for _, rows in pairs])
                written = generator.write([pair.source for pair, _ in pairs], settings)
                scores.add([best[0].text for best in written], [pair.target for pair, _ in pairs])
            self.examples += len(pairs)
            progress(len(group))
        return scores.result() if scores.count else {}

    def score_targets(self, pairs: list[tuple[list[int], list[int]]]) -> None:
        """Adds the loss of the given targets; pairs are framed ids of a source and a target."""
        sources, targets = zip(*pairs, strict=True)
        batches = Pairs(TokenColumn.of(sources), TokenColumn.of(targets), self.padding, self.padding)
        for chosen in self.by_length([max(map(len, rows)) for rows in pairs]):
            self.add(batches(chosen, 0))

    def fitting(self, pairs: list[Pair]) -> list[tuple[Pair, tuple[list[int], list[int]]]]:
        """The pairs that fit into the context, with their framed ids."""
        from_frame, to_frame = (
            input_frame(self.source_tokenizer.specials),
            target_frame(self.tokenizer.specials),
        )
        sources = self.source_tokenizer.encode_batch([pair.source for pair in pairs])
        targets = self.tokenizer.encode_batch([pair.target for pair in pairs])
        framed = [
            (pair, (from_frame.wrap(source.tolist()), to_frame.wrap(target.tolist())))
            for pair, source, target in zip(pairs, sources, targets, strict=True)
        ]
        context = self.config.context
        # The decoder is given all of the target but its end token.
        kept = [
            (pair, rows)
            for pair, rows in framed
            if context is None or max(len(rows[0]), len(rows[1]) - 1) <= context
        ]
        self.too_long += len(framed) - len(kept)
        return kept

    def score_labels(self, examples: Iterable[Example], progress: Progress) -> dict[str, Any]:
        """A classifier."""
        scores, raw = SCORES[self.config.labels](self.labels), CalibrationError()
        fitted = self.bundle.calibration
        calibrated = None if fitted is None else CalibrationError(fitted.temperature)
        for logits, one in self.class_logits(examples, progress):
            loss = loss_of(logits, one.batch)
            self.nats, self.predictions = self.nats + float(loss.total), self.predictions + loss.count
            P = self.reader.probabilities(logits.float()).cpu()
            for row, (place, example, item) in enumerate(
                zip(one.places, one.examples, one.items, strict=True)
            ):
                self.keep(place, scores.add(self.reader.answer(P[row], item), example))
            Z, right = decided(*side_by_side(logits, one.batch))
            for error in filter(None, (raw, calibrated)):
                error.add(Z, right)
        if not self.examples:
            return {}
        errors = {"calibration_error": (calibrated or raw).result()}
        if fitted is not None:
            errors |= {"uncalibrated_error": raw.result(), "temperature": fitted.temperature}
        return scores.result() | errors

    def keep(self, place: int, statistics: tuple[float, float]) -> None:
        """Is called with what each labelled text adds to the score."""

    @cached_property
    def reader(self) -> Reader:
        """Reads texts for a classifier."""
        return Reader(self.bundle)

    @property
    def labels(self) -> list[str]:
        """The names of the classes, or their numbers."""
        return self.reader.labels

    def class_logits(
        self, examples: Iterable[Example], progress: Progress = lambda done: None
    ) -> Iterator[tuple[Tensor, LabelBatch]]:
        """The logits of labelled texts, with their batches, which have what is right."""
        for one in self.label_batches(examples, progress):
            yield self.bundle.module(inputs_of(one.batch)), one

    def label_batches(
        self, examples: Iterable[Example], progress: Progress = lambda done: None
    ) -> Iterator[LabelBatch]:
        """Batches of labelled texts."""
        labelled = LabelledReader(self.reader, self.batch_tokens)
        yield from labelled.batches(examples, progress)
        self.examples, self.truncated = labelled.examples, labelled.truncated

    def by_length(self, lengths: list[int]) -> Iterator[np.ndarray[Any, np.dtype[np.int64]]]:
        """Batches of similar lengths, as numbers of examples."""
        order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
        while order:
            size = max(1, self.batch_tokens // max(1, lengths[order[0]]))
            yield np.array(order[:size], np.int64)
            order = order[size:]
