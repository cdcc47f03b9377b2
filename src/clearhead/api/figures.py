"""What a notebook shows: a model and a text, a run or a recipe enters; an object leaves that draws itself.

In Jupyter, VS Code and marimo an object is shown in a frame of fixed height that loads nothing from elsewhere, light or
dark as the browser is; `save` writes the same as one file, and `repr` says in a line what it is. The explorer is the
page of `page/`, the others are the sections of a run's report.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path

from clearhead.api.arguments import check_path
from clearhead.config.run import RunConfig
from clearhead.errors import InputError, suggest
from clearhead.inspection.figures import AttentionPicture, attention_of
from clearhead.inspection.markup import Inside, Markup, joined, tag
from clearhead.inspection.passes import Inspector
from clearhead.model_folder import Bundle
from clearhead.storage import write_atomically

PAGE_BYTES = 180_000  # of the numbers in a frame, compressed; with the page itself they stay below 400 KB
EXPLORER, CHART, TABLE = 720, 560, 640  # pixels
LONGEST = 60  # letters of a text in the name of a figure
MOST_PARTS = 16  # of an attribution that are drawn, the strongest


@dataclass(frozen=True)
class Figure:
    """Something to look at: shown by a notebook, or saved as one file that needs nothing else."""

    text: str  # what it is, in a line
    height: int  # of its frame, in pixels
    whole: Callable[[], str]  # the file
    short: Callable[[], str] | None = (
        None  # the same with fewer numbers, for a frame, if the file may be large
    )

    def __repr__(self) -> str:
        return f"<clearhead figure: {self.text}>"

    @cached_property
    def frame(self) -> str:
        """The document in the frame."""
        return (self.short or self.whole)()

    def _repr_html_(self) -> str:
        # A frame of its own: no style of the notebook reaches it, and its scripts reach nothing outside.
        return (
            f'<iframe title="{escape(self.text)}" sandbox="allow-scripts allow-downloads" loading="lazy" '
            f'style="width: 100%; height: {self.height}px; border: 0" height="{self.height}" '
            f'srcdoc="{escape(self.frame)}"></iframe>'
        )

    def save(self, path: str | Path) -> Path:
        """Writes it as one HTML file."""
        place = check_path(path)
        write_atomically(place, self.whole())
        return place


def report(text: str, height: int, *parts: Inside) -> Figure:
    """A figure in the style of reports."""
    from clearhead.training.reporting.report import document

    page = document(text, parts, class_="figure")
    return Figure(text, height, lambda: page)


def explorer(bundle: Bundle, text: str, target: str | None, view: str, height: int) -> Figure:
    """The explorer's page on one text."""
    from clearhead.page.one_file import one_file
    from clearhead.page.saved_answers import address, saved_answers
    from clearhead.page.service.requests import PassRequest
    from clearhead.page.service.service import ExplorerService

    question = PassRequest(text=text, target=target)
    service = ExplorerService(bundle, bundle.config.shape, "MODEL")
    service.run_pass(question)  # a text that the model cannot read is refused here
    start = address({"view": view} | ({} if target is None else {"target": target}))

    def written(most: int | None) -> str:
        return one_file(saved_answers(service, question, most), start)

    return Figure(
        f"the explorer on {shortened(text)!r}", height, lambda: written(None), lambda: written(PAGE_BYTES)
    )


def attention_figure(picture: AttentionPicture, head: str | None) -> Figure:
    """One head at a readable size."""
    from clearhead.training.reporting.sections import head_picture, section

    if not picture.heads:
        raise InputError("This model has no attention to draw.\nUse explore to see its states.")
    chosen = picture.sharpest if head is None else head
    if chosen not in picture.heads:
        raise InputError(f"{chosen} is not a head of this model. {suggest(chosen, picture.heads)}")
    said = "Of all heads it is the sharpest." if head is None else ""
    height = 190 + min(40 * len(picture.rows), 640) + 8 * max(map(len, picture.columns))
    return report(f"attention of {chosen}", height, section("Attention", head_picture(picture, chosen, said)))


def heads_figure(picture: AttentionPicture) -> Figure:
    """All heads side by side."""
    from clearhead.training.reporting.sections import head_grid, section

    if not picture.heads:
        raise InputError("This model has no attention to draw.\nUse explore to see its states.")
    count, note = len(picture.heads), "Rows are queries, columns keys; a darker field is a larger weight."
    title = f"{count} head" + "s" * (count > 1)
    height = min(120 + 140 * -(-count // 6), 900)
    return report(title, height, section(title, tag("p", note, class_="note"), head_grid(picture)))


def attribution_figure(bundle: Bundle, text: str, target: str | None, position: int) -> Figure:
    """What each part and each token has to do with the likeliest answer."""
    from clearhead.inspection.readings.attribution import answer_of, parts_of_logit, token_scores
    from clearhead.training.reporting.charts import signed_bars
    from clearhead.training.reporting.sections import section

    captured = Inspector(bundle).run(text, target)
    answer = answer_of(captured, position, None)
    found, scores = parts_of_logit(captured, answer), token_scores(captured, answer, "integrated")
    parts = sorted(found.parts, key=lambda one: -abs(one.value))
    rest = sum(one.value for one in parts[MOST_PARTS:])
    rows = [(one.name, one.value) for one in parts[:MOST_PARTS]] + [("all others", rest)] * bool(rest)
    words = [
        joined(
            tag("h3", f"which words of the {stack}: integrated gradients"),
            coloured([token.text for token in tokens], scores.scores[stack]),
        )
        for stack, tokens in captured.tokens.items()
        if stack in scores.scores
    ]
    note = f"The logit {found.logit:.3f} of {answer.text.strip()!r} is the sum of what all parts add to it."
    said = section(
        f"Why {answer.text.strip()!r}?",
        tag("p", note, class_="note"),
        words,
        tag("h3", "which parts: direct logit attribution"),
        signed_bars(rows),
    )
    height = 150 + 90 * len(words) + 24 * len(rows)
    return report(f"what made {answer.text.strip()!r} likely", height, said)


def coloured(words: list[str], scores: list[float]) -> Markup:
    """Words on a colour as strong as their score: one for more, another for less."""
    most = max(map(abs, scores), default=0.0) or 1.0
    return tag(
        "p",
        [
            tag(
                "span", word, title=f"{score:.4f}",
                style=f"--tone: var(--{'accent' if score >= 0 else 'second'}); --share: {70 * abs(score) / most:.0f}",
            )
            for word, score in zip(words, scores, strict=True)
        ],
        class_="words",
    )  # fmt: skip


def shortened(text: str) -> str:
    """The start of a text."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def picture_of(bundle: Bundle, text: str, target: str | None) -> AttentionPicture:
    """The attention of a text; a translator without a target uses its own translation."""
    if bundle.module.translates and target is None:
        target = Inspector(bundle).translate(text)
    return attention_of(bundle, text, target)


def training_curves(run: str | Path) -> Figure:
    """The loss and the learning rate of a run so far, from its folder."""
    from clearhead.training.reporting.history import read_log
    from clearhead.training.reporting.sections import loss_section
    from clearhead.training.run.folder import RunFolder, holds_run

    folder = RunFolder(check_path(run))
    if not holds_run(folder.path):
        raise InputError(f"{folder.path} contains no run.\nName the folder that train was given as out.")
    history, steps = read_log(folder.log), RunConfig.read(folder.recipe).training.steps
    drawn = loss_section(history, steps or history.step)
    if drawn is None:
        raise InputError(f"{folder.path} has no steps on record yet.\nTry again when it has trained some.")
    return report(f"loss of {folder.path.name} over {history.step:,} steps", CHART, drawn)


def data_report(recipe: str | Path | RunConfig) -> Figure:
    """What a recipe reads: counts, lengths, and what is truncated, dropped, repeated or shared."""
    from clearhead.data.prepare import prepare
    from clearhead.training.reporting.sections import data_section
    from clearhead.training.run.start import resolve_start

    start = resolve_start(recipe if isinstance(recipe, RunConfig) else RunConfig.read(recipe))
    audit = prepare(start.config, tokenizers=start.tokenizers).audit
    examples = sum(split.examples for split in audit.splits.values())
    return report(f"data: {examples:,} examples", TABLE, data_section(audit))
