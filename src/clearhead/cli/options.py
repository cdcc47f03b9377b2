"""What the commands that use a model share: decoding settings as options, and the options of a `Job`.

Every key of `[decoding]` is an option of the same name (dashes for underscores), with its type and meaning from the
config.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typer

from clearhead.cli.job import Job, OnError
from clearhead.config.decoding import DecodingConfig
from clearhead.config.settings import Settings

ModelFolder = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model folder, or a run folder that contains one.")
]
TextArgument = Annotated[
    str | None,
    typer.Argument(metavar="TEXT", help="The text; if omitted, the lines of --input or of standard input."),
]
Input = Annotated[
    Path | None,
    typer.Option("--input", metavar="FILE", help="File with one text per line; - for standard input."),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="Output file; an incomplete one from an earlier start with the same model, input and settings is "
        "continued. - for standard output.",
        callback=lambda path: None if path == Path("-") else path,
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Start the output file again, whatever it contains.")
]
WhenWrong = Annotated[
    OnError | None,
    typer.Option(
        "--on-error",
        help="For a line that cannot be processed: stop, skip it, or mark it by an empty line (with --json an error); "
        "default: mark for lines, stop for a TEXT.",
    ),
]
Truncate = Annotated[
    bool, typer.Option("--truncate", help="Truncate texts that are longer than the model's context.")
]
Threshold = Annotated[
    float,
    typer.Option(
        "--threshold",
        min=0.0,
        max=1.0,
        help="If texts have several labels, print those with at least this probability.",
    ),
]
Pairs = Annotated[
    bool,
    typer.Option(
        "--pairs", help="Read two texts at once, with a tab between them, as models trained on pairs do."
    ),
]
Cut = Annotated[bool, typer.Option("--cut", hidden=True, help="The former name of --truncate.")]
SplitSentences = Annotated[
    bool | None,
    typer.Option(
        "--split-sentences/--no-split-sentences",
        help="Translate the sentences of a text one by one; if omitted, only if it is longer than the model's context.",
    ),
]
Chat = Annotated[
    bool | None,
    typer.Option(
        "--chat/--no-chat",
        help="Answer each text as a user's message, by the model's chat template, or continue it as it is; if omitted, "
        "answer with a model that was trained on conversations here.",
    ),
]
System = Annotated[
    str | None, typer.Option("--system", metavar="TEXT", help="The system message of a conversation.")
]
Int8 = Annotated[
    bool, typer.Option("--int8", help="Round the weights to int8, as quantize does, before they are used.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON object per text.")]

SKIPPED = ("logit_bias",)  # a table, for recipes and Python only


def with_decoding(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the keys of `[decoding]` to a command as options; it receives those given as `settings`."""
    return with_settings(command, DecodingConfig, "settings", "Decoding")


def with_settings(
    command: Callable[..., None], group: type[Settings], name: str, panel: str
) -> Callable[..., None]:
    """Adds the settings of a group to a command as options; it receives those given under a name."""
    fields = [key for key in group.model_fields if key not in SKIPPED]
    added = {key: (option(group, key, panel), None) for key in fields}

    def settings(values: dict[str, Any]) -> Settings:
        return group(**{key: value for key, value in values.items() if value not in (None, [])})

    return with_options(command, name, added, settings)


def with_job(command: Callable[..., None]) -> Callable[..., None]:
    """Adds TEXT, --input, --output, --overwrite, --on-error and --json to a command; it receives them as `job`."""
    added = {
        "text": (TextArgument, None),
        "input": (Input, None),
        "output": (Output, None),
        "overwrite": (Overwrite, False),
        "on_error": (WhenWrong, None),
        "json": (JsonLines, False),
    }
    return with_options(command, "job", added, lambda values: Job(**values))


def with_options(
    command: Callable[..., None],
    name: str,
    added: dict[str, tuple[Any, Any]],
    make: Callable[[dict[str, Any]], Any],
) -> Callable[..., None]:
    """Replaces a command's parameter by options, each with its type and default, from which it is made."""
    own = [
        parameter for parameter in inspect.signature(command).parameters.values() if parameter.name != name
    ]
    kind = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(option, kind, default=default, annotation=annotation)
        for option, (annotation, default) in added.items()
    ]

    def run(**values: Any) -> None:
        given = {option: values.pop(option) for option in added}
        command(**values, **{name: make(given)})

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [parameter.replace(kind=kind) for parameter in own] + options
    )
    return run


def option(group: type[Settings], name: str, panel: str) -> Any:
    """The option of one setting."""
    field = group.model_fields[name]
    default = "" if field.default in (None, ()) else f" ({field.default})"
    help_text = f"{field.description}{default}"
    kind = scalar(field.annotation)
    flag = f"--{name.replace('_', '-')}"
    return Annotated[kind | None, typer.Option(flag, help=help_text, rich_help_panel=panel)]


def scalar(annotation: Any) -> Any:
    """The type of an option: a list for several values, the type itself for an optional one."""
    if get_origin(annotation) in (Union, UnionType):
        return next(kind for kind in get_args(annotation) if kind is not type(None))
    return list[get_args(annotation)[0]] if get_origin(annotation) is tuple else annotation  # type: ignore[misc]
