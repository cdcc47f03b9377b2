"""`generate`, `translate`, `classify` and `embed` as a user meets them: a text, a file, standard input."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead import checkpoint
from clearhead.api import Model
from clearhead.checkpoint import Checkpoint
from clearhead.cli import main, options
from clearhead.decoding import lines
from tests.decoding.hand_built import copier
from tests.decoding.tiny import SENTENCES, classifier, language_model, tokenizer, translator

COMMAND = [sys.executable, "-c", "from clearhead.cli.main import main; main()"]
LINES = ["the cat", "he is old but she is a great friend", "", "my dog", "he", "the red ball", "   "]

# What standard error says of texts that did not come to their own end.
CUT = re.compile(
    r"^(The text|\d+ of \d+ texts) ended (after max_tokens = \d+|where the model's context was full)\.\n",
    re.M,
)

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of each kind."""
    folder = tmp_path_factory.mktemp("models")
    words = tokenizer("word")
    checkpoint.save(folder / "writes", language_model("byte"))
    checkpoint.save(folder / "translates", translator("word"))
    checkpoint.save(folder / "decides", classifier())
    checkpoint.save(folder / "copies", Checkpoint(copier(words.size, context=40), words))
    return folder


@pytest.fixture
def run(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Run:
    """Runs a command in this process: exit code, standard output, standard error."""

    def command(verb: str, model: str, *words: str, stdin: str | bytes | None = None) -> tuple[int, str, str]:
        typed = tmp_path / "typed.txt"
        typed.write_bytes(stdin.encode() if isinstance(stdin, str) else stdin or b"")
        monkeypatch.setattr(sys, "argv", ["clearhead", verb, str(models / model), *words])
        capfd.readouterr()
        with typed.open() as file:
            monkeypatch.setattr(sys, "stdin", file)
            with pytest.raises(SystemExit) as stop:
                main.main()
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return int(stop.value.code or 0), out, err

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
        found = model.classify(LINES)
        return [f"{each.label}\t{each.probabilities[each.label]:.4f}" for each in found]
    return [" ".join(f"{value:.9g}" for value in vector) for vector in model.embed(LINES).tolist()]


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
    file = write(tmp_path / "in.txt", LINES)
    by_file = good(run(verb, name, "--input", file, *options))
    typed = "".join(f"{line}\n" for line in LINES)
    if verb == "embed":
        assert close(by_file, good(run(verb, name, *options, stdin=typed)))
    else:
        assert good(run(verb, name, *options, stdin=typed)) == by_file
        assert good(run(verb, name, "--input", "-", *options, stdin=typed)) == by_file
    if "--beam" not in options:
        assert by_file.split("\n") == [*python(clearhead.load(models / name), verb), ""]
    for line, result in list(zip(LINES, by_file.split("\n"), strict=False))[:4]:
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


def test_a_half_written_output_is_gone_on_with(run: Run, tmp_path: Path) -> None:
    file, output = write(tmp_path / "in.txt", LINES), tmp_path / "out.txt"
    command = ["--input", file, "--output", str(output), *TRANSLATE]
    assert good(run("translate", "translates", *command)) == ""
    whole = output.read_bytes()
    for size in (0, 1, len(whole) // 2, whole.index(b"\n") + 1, len(whole) - 1):
        output.write_bytes(whole[:size])
        done = whole[:size].count(b"\n")
        code, _, err = run("translate", "translates", *command)
        assert (code, output.read_bytes()) == (0, whole)
        gone_on = f"{output} has {done} lines already: going on with line {done + 1}.\n" if done else ""
        assert CUT.sub("", err) == gone_on


def test_what_is_there_is_not_made_again(run: Run, tmp_path: Path) -> None:
    file, output = write(tmp_path / "in.txt", LINES), tmp_path / "out.txt"
    write(output, ["mine", "mine too"])
    run("translate", "translates", "--input", file, "--output", str(output), *TRANSLATE)
    assert output.read_text().split("\n")[:2] == ["mine", "mine too"]
    assert len(output.read_text().splitlines()) == len(LINES)
    before = output.read_bytes()
    code, out, err = run("translate", "translates", "--input", file, "--output", str(output), *TRANSLATE)
    assert (code, out, err) == (0, "", f"{output} has 7 lines already: it is complete.\n")
    assert output.read_bytes() == before


def test_standard_input_is_resumed_too(run: Run, tmp_path: Path) -> None:
    typed, output = "".join(f"{line}\n" for line in LINES), tmp_path / "out.txt"
    run("classify", "decides", "--output", str(output), stdin=typed)
    whole = output.read_bytes()
    output.write_bytes(whole[:20])
    code, _, err = run("classify", "decides", "--output", str(output), stdin=typed)
    assert (code, output.read_bytes()) == (0, whole)
    assert "going on with line" in err


def test_the_output_of_another_file_is_not_touched(run: Run, tmp_path: Path) -> None:
    file, output = write(tmp_path / "in.txt", ["he"]), tmp_path / "out.txt"
    output.write_text("one\ntwo\nhalf")
    code, _, err = run("classify", "decides", "--input", file, "--output", str(output))
    assert (code, output.read_text()) == (1, "one\ntwo\nhalf")
    assert err == (
        f"error: {output} has 2 lines already, but {file} only 1: it was made from another file.\n"
        "Delete it, or name another.\n"
    )


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
        assert "is the file that is read" in " ".join(err.replace("│", " ").split())
        assert Path(file).read_bytes() == before
        assert Path(typed).read_bytes() == before


def test_standard_input_shorter_than_the_output_is_an_error(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "out.txt"
    write(output, ["one", "two", "three"])
    code, _, err = run("classify", "decides", "--output", str(output), stdin="he\n")
    assert (code, output.read_text()) == (1, "one\ntwo\nthree\n")
    assert err.splitlines()[1:] == [
        f"error: {output} has 3 lines already, but standard input only 1: it was made from another file.",
        "Delete it, or name another.",
    ]


def test_a_dash_is_standard_output(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["the cat"], ["--input", write(tmp_path / "in.txt", LINES)]):
        assert good(run("classify", "decides", *words, "--output", "-")) == good(
            run("classify", "decides", *words)
        )
    assert not Path("-").exists()


def test_json_and_plain_lines_are_not_mixed(run: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "in.txt", LINES)
    for verb, model in (("classify", "decides"), ("embed", "decides"), ("translate", "translates")):
        for begun, now, way, advice in (
            ([], ["--json"], "without", "Leave out --json"),
            (["--json"], [], "with", "Give --json"),
        ):
            output = tmp_path / "out.txt"
            words = ["--input", file, "--output", str(output)]
            assert run(verb, model, *words, *begun)[0] == 0
            half = output.read_bytes().split(b"\n")[0] + b"\nhalf"
            output.write_bytes(half)
            code, _, err = run(verb, model, *words, *now)
            assert (code, output.read_bytes()) == (1, half)
            assert err.startswith(
                f"error: {output} was begun {way} --json, and its lines should all be alike.\n{advice}"
            )
            assert run(verb, model, *words, *begun)[0] == 0
            output.unlink()


def test_progress_is_shown_where_it_does_not_stand_among_results(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--input", write(tmp_path / "in.txt", LINES)]
    expected = good(run("classify", "decides", *words))
    monkeypatch.setenv("FORCE_COLOR", "1")  # standard error as a terminal
    code, out, err = run("classify", "decides", *words)
    assert (code, out) == (0, expected)
    assert "7/7" in err
    assert "7/7" in run("classify", "decides", *words, "--output", str(tmp_path / "out.txt"))[2]
    monkeypatch.setattr("clearhead.cli.options.is_terminal", lambda stream: True)
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
    assert err.startswith(f"error: {tmp_path / place} cannot be written: {reason}.\nName a file in a folder")


# Errors.


def test_an_error_names_the_line_and_the_lines_before_are_written(run: Run, tmp_path: Path) -> None:
    texts = ["he", "the cat", "the " * 60, "my dog"]
    output = tmp_path / "out.txt"
    code, _, err = run(
        "translate",
        "translates",
        "--input",
        write(tmp_path / "in.txt", texts),
        "--output",
        str(output),
        *TRANSLATE,
    )
    assert code == 1
    assert err == (
        "error: line 3: The source has 60 tokens, but this model has room for 46 of them (context 48).\n"
        "Shorten the source or split it; nothing is cut off silently.\n"
    )
    assert len(output.read_text().splitlines()) == 2
    # Mended, the work goes on; the line that was wrong keeps its number.
    write(tmp_path / "in.txt", [*texts[:3], "my " * 70])
    assert (
        "error: line 3:"
        in run(
            "translate",
            "translates",
            "--input",
            str(tmp_path / "in.txt"),
            "--output",
            str(output),
            *TRANSLATE,
        )[2]
    )


@pytest.mark.parametrize("from_file", [True, False])
def test_bytes_that_are_no_text_are_an_error_with_the_line(run: Run, tmp_path: Path, from_file: bool) -> None:
    content = b"he\nthe cat\n\xff\xfe\nmy dog\n"
    (tmp_path / "in.txt").write_bytes(content)
    words = ["--input", str(tmp_path / "in.txt")] if from_file else []
    code, out, err = run("classify", "decides", *words, stdin=content)
    assert code == 1
    assert len(out.splitlines()) == 2  # the lines before it are answered
    assert err.startswith("error: line 3 is not UTF-8: 'utf-8' codec can't decode byte 0xff")
    assert "Convert the file to UTF-8." in err


@pytest.mark.parametrize("from_file", [True, False])
def test_a_line_without_an_end_is_an_error_with_its_number(
    run: Run, tmp_path: Path, from_file: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "LONGEST_LINE", 1000)
    content = b"he\n" + b"x" * 999 + b"\n" + b"\0" * 5_000
    (tmp_path / "in.txt").write_bytes(content)
    words = ["--input", str(tmp_path / "in.txt")] if from_file else []
    code, out, err = run("classify", "decides", "--cut", *words, stdin=content)
    assert (code, len(out.splitlines())) == (1, 2)
    assert err == "error: line 3 is longer than 1,000 bytes.\nIs this a text file? Then break it.\n"


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
    assert done.stderr.startswith("error: Standard input is closed.\n")


@pytest.mark.parametrize(
    ("verb", "model", "words", "message"),
    [
        ("translate", "writes", ["he"], "A model of shape 'decoder' does not translate."),
        ("generate", "decides", ["he"], "A model of shape 'encoder' with head 'classifier' writes no text."),
        ("classify", "writes", ["he"], "This model has the head 'language', so it knows no classes."),
        ("generate", "nothing", ["he"], "nothing does not exist."),
        (
            "generate",
            "writes",
            ["x" * 1_000_000],
            "The prompt has 1000000 tokens, but this model has room for 46",
        ),
        (
            "classify",
            "decides",
            ["the " * 250_000],
            "The text has 250002 tokens, but the model's context is 48.",
        ),
        (
            "embed",
            "decides",
            ["the " * 250_000],
            "The text has 250002 tokens, but the model's context is 48.",
        ),
        ("generate", "writes", ["he", "--beam", "3", "--temperature", "1"], "decoding.beam = 3 searches"),
        ("generate", "writes", ["he", "--banned", "-5"], "decoding.banned names the id -5"),
        ("generate", "writes", ["he", "--top_p", "2"], "decoding.top_p = 2.0 cannot be used"),
        ("generate", "writes", ["--input", "no-such-file"], "The input file no-such-file does not exist."),
        ("generate", "writes", ["--input", "."], "The input file . is a folder."),
        ("embed", "decides", ["the " * 100], "The text has 102 tokens, but the model's context is 48."),
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
        code, out, err = run(verb, "decides", *words, stdin=stdin)
        assert (code, len(out.splitlines())) == (1, 1)
        assert err.startswith(
            "error: line 2: The text has 250002 tokens, but the model's context is 48.\nShorten"
        )


@pytest.mark.parametrize("verb", ["classify", "embed"])
def test_the_beginning_of_a_long_text_is_read_where_asked_for(run: Run, tmp_path: Path, verb: str) -> None:
    lines = ["he", "the " * 46 + "dog", "the " * 46, "the " * 100]
    code, out, err = run(verb, "decides", "--cut", "--input", write(tmp_path / "in.txt", lines))
    first, *others = out.splitlines()
    assert (code, len(others), set(others)) == (0, 3, {others[0]})
    assert first != others[0]
    assert err == "2 texts have more tokens than the context of 48: only the beginning was read.\n"
    assert run(verb, "decides", "--cut", "he")[2] == ""


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
        assert process.stderr.read() == ""


def test_a_reader_that_leaves_early_causes_no_traceback(models: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "in.txt", ["the cat"] * 5000)
    with start("classify", str(models / "decides"), "--input", file, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=60) == 1
        assert process.stderr is not None
        assert process.stderr.read() == ""


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
    for name in ("temperature", "top_p", "beam", "max_tokens", "stop", "seed"):
        assert f"--{name} " in done.stdout
