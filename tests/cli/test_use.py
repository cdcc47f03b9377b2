"""`generate`, `translate`, `classify` and `embed` as a user meets them: a text, a file, standard input."""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead import model_folder
from clearhead.api import Model
from clearhead.cli import job, main
from clearhead.decoding import lines
from clearhead.decoding.generate import Generator
from clearhead.model_folder import Bundle
from tests.cli.said import without_stages
from tests.commands import COMMAND, Run, runner
from tests.decoding.hand_built import copier
from tests.decoding.tiny import SENTENCES, classifier, language_model, random_model, tokenizer, translator

LINES = ["the cat", "he is old but she is a great friend", "", "my dog", "he", "the red ball", "   "]
TEXTS = [line if line.strip() else "she is old" for line in LINES]  # an empty text is not read

# What standard error says of texts that did not come to their own end.
CUT = re.compile(
    r"^(The text|\d+ of \d+ texts) ended (after max_tokens = \d+|where the model's context was full)\.\n",
    re.M,
)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of each kind."""
    folder = tmp_path_factory.mktemp("models")
    words = tokenizer("word")
    model_folder.save(folder / "writes", language_model("byte"))
    model_folder.save(folder / "translates", translator("word"))
    model_folder.save(folder / "decides", classifier())
    model_folder.save(folder / "copies", Bundle(copier(words.size, context=40), words))
    model_folder.save(folder / "tables", translator("word", positions="learned"))
    model_folder.save(folder / "judges", classifier(positions="learned"))
    model_folder.save(folder / "spells", language_model("byte", positions="learned"))
    return folder


@pytest.fixture
def run(models: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command with one of these models, and reads standard input from the file `typed.txt`."""
    run_verb = runner(capfd)

    def command(verb: str, model: str, *words: str, stdin: str | bytes | None = None) -> tuple[int, str, str]:
        typed = tmp_path / "typed.txt"
        typed.write_bytes(stdin.encode() if isinstance(stdin, str) else stdin or b"")
        return run_verb(verb, models / model, *words, stdin=typed)

    return command


def good(result: tuple[int, str, str]) -> str:
    """The output of a command that has done its work and has nothing to complain of."""
    code, out, err = result
    assert (code, CUT.sub("", err)) == (0, "")
    return out


def write(path: Path, texts: list[str]) -> str:
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return str(path)


# A text, a file, standard input, Python.

GENERATE = ["--temperature", "0.7", "--seed", "3", "--max_tokens", "12"]
TRANSLATE = ["--max_tokens", "6"]


def python(model: Model, verb: str) -> list[str]:
    """The results of Python for `LINES`, as lines."""
    if verb == "generate":
        written = model.generate(LINES, temperature=0.7, seed=3, max_tokens=12)
        return [lines.escape(generation.text) for generation in written]
    if verb == "translate":
        return model.translate(LINES, max_tokens=6)
    if verb == "classify":
        found = model.classify(TEXTS)
        return [f"{each.label}\t{each.probabilities[each.label]:.4f}" for each in found]
    return [" ".join(f"{value:.9g}" for value in vector) for vector in model.embed(TEXTS).tolist()]


@pytest.mark.parametrize(
    ("verb", "name", "options"),
    [
        ("generate", "writes", GENERATE),
        ("translate", "translates", TRANSLATE),
        ("translate", "translates", [*TRANSLATE, "--beam", "1"]),
        ("classify", "decides", []),
        ("embed", "decides", []),
    ],
)
def test_file_equals_argument_equals_stdin_equals_python(
    run: Run, models: Path, tmp_path: Path, verb: str, name: str, options: list[str]
) -> None:
    given = TEXTS if name == "decides" else LINES
    file = write(tmp_path / "in.txt", given)
    by_file = good(run(verb, name, "--input", file, *options))
    typed = "".join(f"{line}\n" for line in given)
    if verb == "embed":
        assert close(by_file, good(run(verb, name, *options, stdin=typed)))
    else:
        assert good(run(verb, name, *options, stdin=typed)) == by_file
        assert good(run(verb, name, "--input", "-", *options, stdin=typed)) == by_file
    if "--beam" not in options:
        assert by_file.split("\n") == [*python(clearhead.load(models / name), verb), ""]
    for line, result in list(zip(given, by_file.split("\n"), strict=False))[:4]:
        alone = good(run(verb, name, line, *options)).removesuffix("\n")
        assert close(alone, result) if verb == "embed" else lines.escape(alone) == result


def close(one: str, other: str) -> bool:
    """Whether two outputs of numbers are equal up to the order of their sums."""
    first, second = (
        torch.tensor([[float(x) for x in line.split()] for line in out.splitlines()]) for out in (one, other)
    )
    return torch.allclose(first, second, atol=1e-5)


def test_a_copier_translates_a_file_to_itself(run: Run, tmp_path: Path) -> None:
    texts = [SENTENCES[i % 4] for i in range(150)]
    texts[70] = ""
    output = tmp_path / "out.txt"
    assert (
        good(
            run("translate", "copies", "--input", write(tmp_path / "in.txt", texts), "--output", str(output))
        )
        == ""
    )
    assert output.read_text(encoding="utf-8").split("\n") == [*texts, ""]


def test_only_a_line_feed_ends_a_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    for content in (
        "the cat\r\nhe\u2028is\nmy dog",
        "\ufeffthe cat\nhe\u2028is\nmy dog\n",
    ):  # of Windows; no last end
        file.write_bytes(content.encode())
        by_file = good(run("classify", "decides", "--input", str(file)))
        assert len(by_file.splitlines()) == 3
        assert good(run("classify", "decides", stdin=content)) == by_file
        assert by_file.splitlines()[0] == good(run("classify", "decides", "the cat")).strip()


def test_nothing_in_nothing_out(run: Run, tmp_path: Path) -> None:
    assert good(run("generate", "writes", stdin="")) == ""
    assert good(run("generate", "writes", "--input", write(tmp_path / "in.txt", []))) == ""


def test_a_line_break_in_a_result_is_escaped_in_a_line_and_not_alone(run: Run) -> None:
    forced = [word for id in tokenizer("byte").encode("a\n\\b\tc") for word in ("--forced", str(id))]
    options = [*forced, "--max_tokens", "6"]
    assert good(run("generate", "writes", "x", *options)) == "a\n\\b\tc\n"
    assert good(run("generate", "writes", *options, stdin="x\n")) == "a\\n\\b\tc\n"
    assert json.loads(good(run("generate", "writes", "x", "--json", *options)))["text"] == "a\n\\b\tc"


def test_the_n_best_have_tabs_between_them_or_stand_one_below_the_other(run: Run, models: Path) -> None:
    options = ["--beam", "4", "--n_best", "3", "--max_tokens", "5"]
    best = clearhead.load(models / "translates").generate("the cat", beam=4, n_best=3, max_tokens=5)
    texts = [best.text, *(other.text for other in best.others)]
    assert good(run("translate", "translates", *options, stdin="the cat\n")) == "\t".join(texts) + "\n"
    assert good(run("translate", "translates", "the cat", *options)) == "\n".join(texts) + "\n"


# JSON.


def test_json_is_an_object_a_line(run: Run, models: Path) -> None:
    out = good(run("generate", "writes", "--json", "--logprobs", "2", *GENERATE, stdin="the cat\nhe\n"))
    written = clearhead.load(models / "writes").generate(
        ["the cat", "he"], temperature=0.7, seed=3, max_tokens=12
    )
    for line, generation in zip(out.splitlines(), written, strict=True):
        value = json.loads(line)
        assert list(value) == ["text", "tokens", "reason", "logprobs", "top"]
        assert (value["text"], value["tokens"], value["reason"]) == (
            generation.text,
            generation.tokens,
            generation.reason,
        )
        assert [len(top) for top in value["top"]] == [2] * len(generation.tokens)


def test_json_of_a_beam(run: Run) -> None:
    options = ["--json", "--n_best", "2", "--max_tokens", "4"]
    first, empty = (
        json.loads(line)
        for line in good(run("translate", "translates", *options, stdin="he\n\n")).splitlines()
    )
    assert list(first) == ["text", "tokens", "reason", "logprobs", "score", "others"]
    assert first["score"] >= first["others"][0]["score"]
    assert (empty["text"], empty["score"]) == ("", 0.0)
    assert list(empty) == list(first)
    assert len(empty["others"]) == len(first["others"])


def test_an_empty_line_has_as_many_columns_as_any(run: Run) -> None:
    out = good(run("translate", "translates", "--n_best", "3", "--max_tokens", "4", stdin="he\n\n"))
    assert [line.count("\t") for line in out.splitlines()] == [2, 2]
    options = ["--json", "--logprobs", "2", "--beam", "1", "--max_tokens", "4"]
    out = good(run("translate", "translates", *options, stdin="he\n\n"))
    first, empty = map(json.loads, out.splitlines())
    assert list(empty) == list(first)


def test_json_of_classes_and_vectors(run: Run, models: Path) -> None:
    model = clearhead.load(models / "decides")
    found = json.loads(good(run("classify", "decides", "the cat", "--json")))
    assert found["probabilities"] == pytest.approx(model.classify("the cat")[0].probabilities)
    assert found["label"] == model.classify("the cat")[0].label
    vector = json.loads(good(run("embed", "decides", "the cat", "--json")))["vector"]
    assert torch.equal(torch.tensor(vector), model.embed("the cat")[0])  # to the last bit


# Texts that are cut off.


def test_a_text_that_is_cut_off_is_told_of_on_standard_error(run: Run, tmp_path: Path) -> None:
    forced = [word for id in tokenizer("byte").encode("abcdef") for word in ("--forced", str(id))]
    file = write(tmp_path / "in.txt", ["x", "y"])
    for words, said in (
        (["x", "--max_tokens", "6"], "The text ended after max_tokens = 6.\n"),
        (
            ["x", "--max_tokens", "6", "--n_best", "1", "--output", str(tmp_path / "out")],
            "The text ended after ",
        ),
        (["--input", file, "--max_tokens", "6"], "2 of 2 texts ended after max_tokens = 6.\n"),
        (["x", "--max_tokens", "6", "--json"], ""),
    ):
        code, _, err = run("generate", "writes", *words, *forced)
        assert code == 0
        assert err.startswith(said) if said else err == ""
    end = str(tokenizer("byte").specials.end)
    assert run("generate", "writes", "x", *forced, "--forced", end, "--max_tokens", "9")[2] == ""
    assert run("translate", "copies", "the cat")[2] == ""


# Output files.


class Killed(BaseException):
    """What a kill does to a process: nothing of it runs any more."""


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs a command that dies before it has written so many bytes, in the middle of a line."""

    def start(run: Callable[[], Any], size: int) -> None:
        with monkeypatch.context() as patch:
            left = [size]

            def die(*values: str, file: Any = None, **more: Any) -> None:
                if file is None:
                    return
                line = f"{values[0]}\n".encode()
                file.write(line[: left[0]].decode(errors="ignore"))
                file.flush()
                if left[0] < len(line):
                    raise Killed
                left[0] -= len(line)

            patch.setattr(job, "print", die, raising=False)
            with pytest.raises(Killed):
                run()

    return start


def listed(err: str) -> list[str]:
    """What standard error says of lines with errors."""
    return [line for line in err.splitlines() if " lines were " in line or line.startswith("  line ")]


@pytest.mark.parametrize(
    ("on_error", "from_file"),
    [
        ("mark", True),
        ("skip", False),
        pytest.param("mark", False, marks=pytest.mark.prove),
        pytest.param("skip", True, marks=pytest.mark.prove),
    ],
)
def test_a_killed_command_is_continued_without_a_loss_and_without_a_repetition(
    run: Run,
    kill: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    on_error: str,
    from_file: bool,
) -> None:
    monkeypatch.setattr(lines, "SMALLEST", 2)  # lines of the first group
    monkeypatch.setattr(lines, "LARGEST", 3)
    texts = [*LINES, "the " * 60, *LINES[::-1], "my " * 50, "he is"]
    file, output, typed = (
        write(tmp_path / "in.txt", texts),
        tmp_path / "out.txt",
        "".join(f"{t}\n" for t in texts),
    )
    words = ["--output", str(output), "--on-error", on_error, *TRANSLATE]
    words, stdin = ([*words, "--input", file], None) if from_file else (words, typed)
    whole_run = run("translate", "tables", *words, stdin=stdin)
    whole = output.read_bytes()
    assert whole.count(b"\n") == len(texts) - 2 * (on_error == "skip")
    for size in range(0, len(whole), 29):  # in every place of a line
        output.unlink()
        kill(lambda size=size: run("translate", "tables", *words, stdin=stdin), size)
        assert whole.startswith(output.read_bytes())
        if size % 2 and size + 30 < len(whole):  # killed twice
            left = 25 + len(output.read_bytes()) - (output.read_bytes().rfind(b"\n") + 1)
            with contextlib.suppress(AssertionError):
                kill(lambda: run("translate", "tables", *words, stdin=stdin), left)
        done = output.read_bytes().count(b"\n")
        code, _, err = run("translate", "tables", *words, stdin=stdin)
        assert (code, output.read_bytes()) == (0, whole)
        assert (f"{output} already has {done} lines: continuing at line" in err) == (done > 0)
        assert listed(whole_run[2]) == listed(err)  # all lines with errors
    assert run("translate", "tables", *words, stdin=stdin)[0] == 0
    assert output.read_bytes() == whole


def test_a_complete_output_is_left_alone_and_continued_when_lines_are_added(run: Run, tmp_path: Path) -> None:
    file, output = write(tmp_path / "in.txt", LINES), tmp_path / "out.txt"
    words = ["--input", file, "--output", str(output), *TRANSLATE]
    assert good(run("translate", "translates", *words)) == ""
    whole = output.read_bytes()
    said = f"{output} already has 7 lines: it is complete.\n"
    assert run("translate", "translates", *words) == (0, "", said)
    assert output.read_bytes() == whole
    write(tmp_path / "in.txt", [*LINES, "the ball"])
    code, _, err = run("translate", "translates", *words)
    assert (code, err.splitlines()[0]) == (0, f"{output} already has 7 lines: continuing at line 8.")
    assert output.read_bytes().startswith(whole)
    assert output.read_bytes().count(b"\n") == 8


ADVICE = "Start again with --overwrite, or name another file.\n"


def test_what_was_made_in_another_way_is_refused_and_overwritten_where_asked(
    run: Run, tmp_path: Path
) -> None:
    file, output = write(tmp_path / "in.txt", LINES), tmp_path / "out.txt"
    words = ["--input", file, "--output", str(output), *TRANSLATE]
    changed = [*LINES]
    changed[1] = "she is old"

    def other_input() -> None:
        write(tmp_path / "in.txt", changed)

    def shorter_input() -> None:
        write(tmp_path / "in.txt", LINES[:3])

    def other_weights() -> None:
        model_folder.save(tmp_path / "model", translator("word", seed=2))

    def other_output() -> None:
        output.write_text("mine\n" * 3)

    def more_output() -> None:
        output.write_bytes(output.read_bytes() + b"more\n")

    def no_record() -> None:
        (tmp_path / "out.txt.clearhead.json").unlink()

    def damaged_record() -> None:
        path = tmp_path / "out.txt.clearhead.json"
        path.write_text(path.read_text()[:80])

    cases: list[tuple[Callable[[], None], list[str], str]] = [
        (other_input, [], "was written for another input: its first 7 lines are not those of this one."),
        (shorter_input, [], "was written for another input: its first 7 lines are not those of this one."),
        (other_weights, [], "was written with another model, or with this one before it changed."),
        (lambda: None, ["--beam", "2"], "was written with beam = null, not 2."),
        (lambda: None, ["--json"], "was written with json = false, not true."),
        (lambda: None, ["--on-error", "skip"], 'was written with on-error = "mark", not "skip".'),
        (other_output, [], "was changed since it was written."),
        (more_output, [], "has more lines than were written into it."),
        (
            no_record,
            [],
            "already exists, and without out.txt.clearhead.json beside it nothing says what it contains.",
        ),
        (damaged_record, [], "is damaged, so "),
    ]
    for change, more, reason in cases:
        write(tmp_path / "in.txt", LINES)
        model_folder.save(tmp_path / "model", translator("word"))
        assert run("translate", str(tmp_path / "model"), *words, "--overwrite")[0] == 0
        change()
        before = output.read_bytes()
        code, out, err = run("translate", str(tmp_path / "model"), *words, *more)
        assert (code, out, output.read_bytes()) == (1, "", before), reason
        assert reason in err
        assert err.endswith(ADVICE)
        assert run("translate", str(tmp_path / "model"), *words, *more, "--overwrite")[0] == 0
        assert run("translate", str(tmp_path / "model"), *words, *more)[2].endswith("it is complete.\n")


def test_another_command_does_not_continue(run: Run, tmp_path: Path) -> None:
    file, output = write(tmp_path / "in.txt", ["he"]), tmp_path / "out.txt"
    assert run("classify", "decides", "--input", file, "--output", str(output))[0] == 0
    code, _, err = run("embed", "decides", "--input", file, "--output", str(output))
    assert code == 1
    assert err.startswith(f'error: {output} was written with command = "classify", not "embed"')
    assert err.endswith(f".\n{ADVICE}")


def test_an_empty_file_and_what_is_no_file_are_written_into(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "out.txt"
    output.touch()
    good(run("classify", "decides", "--output", str(output), stdin="he\n"))
    assert output.read_text() == good(run("classify", "decides", stdin="he\n"))
    good(run("classify", "decides", "--output", "/dev/null", stdin="he\n"))
    assert not Path("/dev/null.clearhead.json").exists()


def test_the_input_is_never_the_output(run: Run, tmp_path: Path) -> None:
    file, link = write(tmp_path / "in.txt", LINES), tmp_path / "link.txt"
    before = Path(file).read_bytes()
    link.symlink_to(file)
    typed = str(tmp_path / "typed.txt")  # what standard input is
    for words in (
        ["--input", file, "--output", file],
        ["--input", file, "--output", str(link)],
        ["--output", typed],
    ):
        code, out, err = run("classify", "decides", *words, stdin=before)
        assert (code, out) == (2, "")
        assert "is also the input" in " ".join(err.replace("│", " ").split())
        assert Path(file).read_bytes() == before
        assert Path(typed).read_bytes() == before


def test_a_dash_is_standard_output(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["the cat"], ["--input", write(tmp_path / "in.txt", TEXTS)]):
        assert good(run("classify", "decides", *words, "--output", "-")) == good(
            run("classify", "decides", *words)
        )
    assert not Path("-").exists()


def test_progress_is_shown_where_it_does_not_stand_among_results(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--input", write(tmp_path / "in.txt", TEXTS)]
    expected = good(run("classify", "decides", *words))
    monkeypatch.setenv("FORCE_COLOR", "1")  # standard error as a terminal
    code, out, err = run("classify", "decides", *words)
    assert (code, out) == (0, expected)
    assert "7/7" in err
    assert "7/7" in run("classify", "decides", *words, "--output", str(tmp_path / "out.txt"))[2]
    monkeypatch.setattr("clearhead.cli.job.is_terminal", lambda stream: True)
    assert run("classify", "decides", *words) == (0, expected, "")


def test_one_text_replaces_the_output(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "out.txt"
    output.write_text("old\n")
    good(run("classify", "decides", "he", "--output", str(output)))
    assert output.read_text() == good(run("classify", "decides", "he"))


@pytest.mark.parametrize(
    ("place", "reason"), [("no/such/out.txt", "No such file or directory"), (".", "Is a directory")]
)
def test_an_output_that_cannot_be_written(run: Run, tmp_path: Path, place: str, reason: str) -> None:
    code, out, err = run("classify", "decides", "he", "--output", str(tmp_path / place))
    assert (code, out) == (1, "")
    assert err.startswith(
        f"error: {tmp_path / place} cannot be written: {reason}.\nName a file in an existing folder"
    )


# Errors.


LONG = "The source has 60 tokens, but this model has room for 46 of them (context 48)."


def test_an_error_names_the_line_and_the_lines_before_are_written(run: Run, tmp_path: Path) -> None:
    texts, output = ["he", "the cat", "the " * 60, "my dog"], tmp_path / "out.txt"
    file = write(tmp_path / "in.txt", texts)
    words = [
        "translate",
        "tables",
        "--input",
        file,
        "--output",
        str(output),
        "--on-error",
        "stop",
        *TRANSLATE,
    ]
    code, _, err = run(*words)
    assert code == 1
    assert err == (f"error: line 3: {LONG}\nShorten the source or split it; nothing is truncated silently.\n")
    assert len(output.read_text().splitlines()) == 2
    # The line keeps its number; once it is repaired, the work continues there.
    assert "error: line 3:" in run(*words)[2]
    write(tmp_path / "in.txt", [*texts[:2], "the ball", texts[3]])
    code, _, err = run(*words)
    assert (code, err.splitlines()[0]) == (0, f"{output} already has 2 lines: continuing at line 3.")
    assert len(output.read_text().splitlines()) == 4


@pytest.mark.parametrize("from_file", [True, False])
def test_a_line_with_an_error_does_not_stop_the_others(run: Run, tmp_path: Path, from_file: bool) -> None:
    texts = ["he", "the " * 60, "the cat", "\udcff", "my dog"]
    content = "".join(f"{text}\n" for text in texts).encode(errors="surrogateescape")
    (tmp_path / "in.txt").write_bytes(content)
    words = ["--input", str(tmp_path / "in.txt"), *TRANSLATE] if from_file else TRANSLATE
    expected = good(run("translate", "tables", *TRANSLATE, stdin="he\nthe cat\nmy dog\n")).splitlines()
    code, out, err = run("translate", "tables", *words, stdin=content)
    assert (code, out.splitlines()) == (0, [expected[0], "", expected[1], "", expected[2]])
    said = CUT.sub("", err).splitlines()
    assert said[:2] == ["2 lines were marked by an empty line or an error:", f"  line 2: {LONG}"]
    assert said[2].startswith("  line 4: it is not UTF-8: 'utf-8' codec can't decode byte 0xff")
    code, out, err = run("translate", "tables", *words, "--on-error", "skip", stdin=content)
    assert (code, out.splitlines()) == (0, expected)
    assert "2 lines were skipped:\n  line 2: " in err
    code, out, err = run("translate", "tables", *words, "--json", stdin=content)
    found = [json.loads(line) for line in out.splitlines()]
    assert ["error" in one for one in found] == [False, True, False, True, False]
    assert (code, found[1]["line"], found[1]["error"].splitlines()[0]) == (0, 2, LONG)
    code, out, err = run("translate", "tables", *words, "--on_error", "stop", stdin=content)
    assert (code, out.splitlines()) == (1, expected[:1])


def test_only_the_first_of_many_errors_are_listed(run: Run) -> None:
    code, out, err = run("classify", "judges", stdin="the " * 60 + "\n" + ("the " * 70 + "\n") * 40)
    assert (code, out) == (0, "\n" * 41)
    assert err.splitlines()[0] == "41 lines were marked by an empty line or an error:"
    assert err.splitlines()[-1] == "  and 31 more"
    assert len(err.splitlines()) == 12


def test_a_text_with_an_error_stops(run: Run) -> None:
    code, out, err = run("translate", "tables", "the " * 60)
    assert (code, out) == (1, "")
    assert LONG in err
    assert run("translate", "tables", "the cat", "--on-error", "mark")[0] == 2


def test_sentences_are_translated_one_by_one_where_asked_or_needed(run: Run) -> None:
    text = "the red ball . The cat sat ."
    whole = good(run("translate", "translates", text, "--no-split-sentences", *TRANSLATE))
    assert good(run("translate", "translates", text, *TRANSLATE)) == whole
    first, second = "the red ball .", "The cat sat ."
    apart = [good(run("translate", "translates", part, *TRANSLATE)).strip() for part in (first, second)]
    assert good(run("translate", "translates", text, "--split-sentences", *TRANSLATE)).strip() == " ".join(
        apart
    )


# On a terminal.


def test_control_characters_are_escaped_on_a_terminal_and_raw_in_a_pipe(
    run: Run, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = model_folder.load(models / "decides")
    bundle.labels = ["\x1b]0;bad\x07", "\x1b[2Jgood", "\x9b31mso"]
    model_folder.save(tmp_path / "labels", bundle)
    forced = [word for id in tokenizer("byte").encode("a\x1b[2J\r\tb\n") for word in ("--forced", str(id))]
    generate = ["generate", "writes", "x", *forced, "--max-tokens", "9"]
    classify = ["classify", str(tmp_path / "labels")]
    assert good(run(*generate)) == "a\x1b[2J\r\tb\n\n"
    raw = [
        good(run(*classify, "the cat")),
        good(run(*classify, "the cat", "--json")),
        good(run(*classify, stdin="he\n")),
    ]
    assert all("\x1b" in text or "\x9b" in text or "\\u001b" in text for text in raw)
    monkeypatch.setattr("clearhead.cli.terminal.is_terminal", lambda stream: True)
    assert good(run(*generate)) == "a\\u001b[2J\\u000d\tb\n\n"
    shown = [
        good(run(*classify, "the cat")),
        good(run(*classify, "the cat", "--json")),
        good(run(*classify, stdin="he\n")),
    ]
    for before, after in zip(raw, shown, strict=True):
        assert not set(after) & {"\x1b", "\x07", "\x9b"}
        assert (
            after.encode().decode("unicode_escape").split("\t")[0].rstrip()
            == before.encode().decode("unicode_escape").split("\t")[0].rstrip()
            or "\x9b" in before
        )
    assert json.loads(shown[1]) == json.loads(raw[1])
    code, _, err = run("classify", "none\x1b[2J", "he")
    assert (code, "\x1b" in err, "\\u001b[2J" in err) == (1, False, True)


@pytest.mark.parametrize("from_file", [True, False])
def test_bytes_that_are_no_text_are_an_error_with_the_line(run: Run, tmp_path: Path, from_file: bool) -> None:
    content = b"he\nthe cat\n\xff\xfe\nmy dog\n"
    (tmp_path / "in.txt").write_bytes(content)
    words = ["--on-error", "stop", *(["--input", str(tmp_path / "in.txt")] if from_file else [])]
    code, out, err = run("classify", "decides", *words, stdin=content)
    assert code == 1
    assert len(out.splitlines()) == 2  # the lines before it are answered
    assert err.startswith("error: line 3: it is not UTF-8: 'utf-8' codec can't decode byte 0xff")
    assert "Convert the file to UTF-8." in err


@pytest.mark.parametrize("from_file", [True, False])
def test_a_line_without_an_end_is_an_error_with_its_number(
    run: Run, tmp_path: Path, from_file: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "LONGEST_LINE", 1000)
    content = b"he\n" + b"x" * 999 + b"\n" + b"\0" * 5_000
    (tmp_path / "in.txt").write_bytes(content)
    words = ["--input", str(tmp_path / "in.txt")] if from_file else []
    code, out, err = run("classify", "decides", "--truncate", *words, stdin=content)
    assert (code, len(out.splitlines())) == (1, 2)
    assert err == "error: line 3 is longer than 1,000 bytes.\nIf this is a text file, split the line.\n"


def test_what_never_ends_is_refused(run: Run) -> None:
    if not Path("/dev/zero").exists():
        pytest.skip("a file without an end is known on Unix only")
    code, _, err = run("classify", "decides", "--input", "/dev/zero")
    assert code == 1
    assert err.startswith("error: line 1 is longer than 10,000,000 bytes.")


def test_a_file_that_the_system_cannot_read_is_an_error(run: Run) -> None:
    if not Path("/proc/self/mem").exists():
        pytest.skip("a file whose reading fails is known on Linux only")
    code, _, err = run("classify", "decides", "--input", "/proc/self/mem")
    assert (code, err) == (1, "error: line 1 cannot be read: Input/output error.\nCheck the file.\n")


def test_standard_input_that_is_closed_is_an_error(run: Run, models: Path) -> None:
    line = f"{shlex.join([*COMMAND, 'classify', str(models / 'decides'), '--input', '-'])} <&-"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert without_stages(done.stderr).startswith("error: Standard input is closed.\n")


@pytest.mark.parametrize(
    ("verb", "model", "words", "message"),
    [
        ("translate", "writes", ["he"], "A model of shape 'decoder' does not translate."),
        (
            "generate",
            "decides",
            ["he"],
            "A model of shape 'encoder' with head 'classifier' does not generate text.",
        ),
        ("classify", "writes", ["he"], "This model has the head 'language', so it has no classes."),
        ("generate", "nothing", ["he"], "nothing does not exist."),
        (
            "generate",
            "writes",
            ["x" * 1_000_000],
            "The prompt has 1000000 tokens, but this model has room for 4094",
        ),
        (
            "classify",
            "decides",
            ["the " * 250_000],
            "The text has 250002 tokens, but this model can read 4096 (context 48).",
        ),
        (
            "embed",
            "decides",
            ["the " * 250_000],
            "The text has 250002 tokens, but this model can read 4096 (context 48).",
        ),
        ("generate", "writes", ["he", "--beam", "3", "--temperature", "1"], "decoding.beam = 3 searches"),
        ("generate", "writes", ["he", "--banned", "-5"], "decoding.banned names the id -5"),
        ("generate", "writes", ["he", "--top_p", "2"], "decoding.top_p = 2.0 is invalid"),
        ("generate", "writes", ["--input", "no-such-file"], "The input file no-such-file does not exist."),
        ("generate", "writes", ["--input", "."], "The input file . is a folder."),
        (
            "embed",
            "judges",
            ["the " * 100],
            "The text has 102 tokens, but this model can read 48 (context 48).",
        ),
    ],
)
def test_what_cannot_be_done_is_one_clear_error(
    run: Run, verb: str, model: str, words: list[str], message: str
) -> None:
    code, out, err = run(verb, model, *words)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert message in err


@pytest.mark.parametrize("verb", ["classify", "embed"])
def test_a_line_of_a_megabyte_is_refused_with_its_number(run: Run, tmp_path: Path, verb: str) -> None:
    lines = ["he", "the " * 250_000, "my dog"]
    file, typed = write(tmp_path / "in.txt", lines), "".join(f"{line}\n" for line in lines)
    for words, stdin in ((["--input", file], None), ([], typed)):
        code, out, err = run(verb, "decides", "--on-error", "stop", *words, stdin=stdin)
        assert (code, len(out.splitlines())) == (1, 1)
        assert err.startswith(
            "error: line 2: The text has 250002 tokens, but this model can read 4096 (context 48).\nShorten"
        )


@pytest.mark.parametrize("verb", ["classify", "embed"])
def test_the_beginning_of_a_long_text_is_read_where_asked_for(run: Run, tmp_path: Path, verb: str) -> None:
    lines = ["he", "the " * 46 + "dog", "the " * 46, "the " * 100]
    code, out, err = run(verb, "decides", "--truncate", "--input", write(tmp_path / "in.txt", lines))
    first, *others = out.splitlines()
    assert (code, len(others), set(others)) == (0, 3, {others[0]})
    assert first != others[0]
    assert err == "2 texts have more tokens than the context of 48: only the beginning was read.\n"
    assert run(verb, "decides", "--truncate", "he")[2] == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["he", "--input", "file"], "Give a TEXT or --input, not both."),
        (["he", "--bean", "3"], "No such option: --bean"),
        (["he", "--beam", "many"], "unable to parse string as an integer"),
    ],
)
def test_misuse_ends_with_2(run: Run, words: list[str], message: str) -> None:
    code, out, err = run("generate", "writes", *words)
    assert (code, out) == (2, "")
    assert message in " ".join(err.replace("│", " ").split())


def test_no_text_at_a_terminal_is_misuse(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "isatty", lambda handle: True)

    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "argv", ["clearhead", "generate", "model"])
    monkeypatch.setattr(sys, "stdin", Terminal())
    with pytest.raises(SystemExit) as stop:
        main.main()
    assert stop.value.code == 2


@pytest.mark.parametrize("inner", ["best", "last"])
def test_a_run_folder_stands_for_its_model(run: Run, models: Path, tmp_path: Path, inner: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / inner).symlink_to(models / "decides")
    assert good(run("classify", str(tmp_path / "run"), "he")) == good(run("classify", "decides", "he"))


# In a process of its own.


def start(*words: str, **streams: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen([*COMMAND, *words], text=True, stderr=subprocess.PIPE, **streams)


def test_a_program_that_waits_for_each_answer_gets_it(models: Path) -> None:
    with start("classify", str(models / "decides"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for text in ("he", "the cat"):
            process.stdin.write(f"{text}\n")
            process.stdin.flush()
            assert process.stdout.readline().strip()
        # Ctrl-C while it waits for the next line: no traceback, and the code that shells expect.
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert process.stderr is not None
        assert without_stages(process.stderr.read()) == ""


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_what_the_next_one_continues(models: Path, tmp_path: Path) -> None:
    output, texts = tmp_path / "out.txt", [f"the {word}" for word in ("cat", "dog", "ball", "boy", "table")]
    words = ["classify", str(models / "decides"), "--output", str(output)]
    with start(*words, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write("".join(f"{text}\n" for text in texts[:3]))
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not output.exists() or output.read_bytes().count(b"\n") < 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.kill()
    with start(*words, stdin=subprocess.PIPE) as process:
        _, err = process.communicate("".join(f"{text}\n" for text in texts), timeout=60)
    said = f"{output} already has 3 lines: continuing at line 4.\n"
    assert (process.returncode, without_stages(err)) == (0, said)
    found = [line.split("\t")[0] for line in output.read_text().splitlines()]
    assert found == [each.label for each in clearhead.load(models / "decides").classify(texts)]


def test_a_reader_that_leaves_early_causes_no_traceback(models: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "in.txt", ["the cat"] * 5000)
    with start("classify", str(models / "decides"), "--input", file, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=60) == 1
        assert process.stderr is not None
        assert without_stages(process.stderr.read()) == ""


def test_help_shows_every_setting_and_loads_nothing_heavy() -> None:
    code = """
import atexit, sys
from clearhead.cli.main import main
atexit.register(lambda: print("loaded:", [name for name in ("torch", "numpy", "tokenizers") if name in sys.modules]))
sys.argv = ["clearhead", "generate", "--help"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "loaded: []"
    for name in ("temperature", "top-p", "beam", "max-tokens", "stop", "seed"):
        assert f"--{name} " in done.stdout


def test_a_class_of_unknown_words_comes_with_a_warning(run: Run) -> None:
    code, out, err = run("classify", "decides", "zyx the", "--json")
    assert (code, json.loads(out)["unknown"]) == (0, 0.5)
    assert err == "warning: 1 text is unknown to the model by half or more; do not trust the class.\n"
    code, out, err = run("classify", "decides", stdin="zyx\nthe cat\nzyx zyx\n")
    assert (code, len(out.splitlines())) == (0, 3)
    assert "warning: 2 texts are unknown to the model" in err
    assert "warning" not in run("classify", "decides", "the cat")[2]


@pytest.mark.parametrize("verb", ["classify", "embed"])
def test_an_empty_text_has_neither_class_nor_vector(verb: str, run: Run) -> None:
    for text in ("", " "):
        code, out, err = run(verb, "decides", text)
        assert (code, out) == (1, "")
        assert "The text is empty" in err


@pytest.mark.parametrize("verb", ["generate", "embed", "chat", "explore"])
def test_a_folder_without_a_tokenizer_says_so_once(verb: str, run: Run, models: Path) -> None:
    model_folder.save(models / "mute", Bundle(language_model("byte").module))
    words = ["--no-open"] if verb == "explore" else []
    code, out, err = run(verb, "mute", *words, stdin="one\ntwo\n")
    assert (code, out) == (1, "")
    assert err.startswith(
        "error: This model folder has no tokenizer.json, so the model can read ids but no text."
    )
    assert err.count("tokenizer") == 2


def test_a_model_trained_on_conversations_answers_a_plain_prompt(run: Run, models: Path) -> None:
    words = tokenizer("byte").with_markers({"system": "<s1>", "user": "<u>", "assistant": "<a>"})
    module = random_model("decoder", vocabulary=words.size).module
    model_folder.save(models / "talks", Bundle(module, words))
    options = ("--temperature", "0", "--max-tokens", "4")
    code, asked, err = run("generate", "talks", "hello", *options)
    assert code == 0
    assert err.startswith("Trained on conversations: a text is answered as a user's message.")
    assert run("generate", "talks", "<u>hello<a>", *options)[1:] == (asked, CUT.search(err)[0])  # type: ignore[index]
    _, raw, err = run("generate", "talks", "hello", "--no-chat", *options)
    assert "Trained on" not in err
    prompt = Generator(model_folder.load(models / "talks")).prompt("hello", chat=False)
    assert prompt.ids == [words.specials.begin, *words.encode("hello")]
    lines = run("generate", "talks", "--chat", "--json", *options, stdin="hello\nhello\n")[1].splitlines()
    assert [json.loads(line)["text"] for line in lines] == [asked.removesuffix("\n")] * 2
    assert raw != asked
    code, _, err = run("generate", "writes", "hello", "--chat")
    assert (code, err.splitlines()[0][:48]) == (1, "error: This model knows no conversations: it has")
