"""Recipes: what TOML and the command line say is what the run is, and what is written reads the same."""

import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config import DataConfig, ModelConfig, RunConfig, TokenizerConfig
from clearhead.config import run as run_module
from clearhead.config.run import parse_overrides, shipped
from clearhead.config.tasks import TASKS, Task
from clearhead.errors import ConfigError

RECIPE = """\
task = "translate"

[data]
train = ["train.es", "train.en"]
validation = 0.02
test = "/data/pairs-test.tsv"
columns = ["spanish", "english"]
options = {direction = "es-en"}

[tokenizer]
kind = "bpe"
vocabulary = 8000

[model]
d = 128
context = "none"
kept_heads = {"decoder.0.cross" = [0, 2]}
rotary_scaling = {kind = "linear", factor = 2.0}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(RECIPE)
    return path


def test_a_recipe(recipe: Path) -> None:
    run = RunConfig.read(recipe)
    folder = recipe.parent
    assert run.task == "translate"
    assert run.kind == "pair"
    assert run.data.train == (f"{folder}/train.es", f"{folder}/train.en")
    assert run.data.test == "/data/pairs-test.tsv"
    assert run.data.options == {"direction": "es-en"}
    assert run.tokenizer == TokenizerConfig(kind="bpe", vocabulary=8000)
    assert run.model.shape == "encoder-decoder"
    assert run.model.context is None
    assert run.model.d == 128


@pytest.mark.parametrize("complete", [False, True])
def test_what_is_written_reads_as_the_same_run(recipe: Path, tmp_path: Path, complete: bool) -> None:
    run = RunConfig.read(recipe, {"data.on_error": "skip"})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run.write(elsewhere / "recipe.toml", complete)
    assert RunConfig.read(elsewhere / "recipe.toml") == run
    table = tomllib.loads((elsewhere / "recipe.toml").read_text())
    assert ("seed" in table["data"]) == ("h" in table["model"]) == complete


sources = st.one_of(
    st.text(min_size=1),
    st.lists(st.one_of(st.text(min_size=1), st.tuples(st.text(min_size=1), st.text(min_size=1))), min_size=1),
    st.dictionaries(
        st.text(), st.one_of(st.text(min_size=1), st.lists(st.text(min_size=1), min_size=1)), min_size=1
    ),
)


def is_no_number(source: Any) -> bool:
    """Whether a source is not a text that spells a number: as validation data that is refused, being a share."""
    try:
        float(source)
    except (TypeError, ValueError):
        return True
    return False


@given(
    sources,
    st.one_of(st.none(), st.floats(0, 0.9), sources.filter(is_no_number)),
    st.none() | st.lists(st.text() | st.integers(1)),
)
def test_any_data_survives_being_written(
    tmp_path_factory: pytest.TempPathFactory, train: Any, validation: Any, columns: Any
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    data = DataConfig(train=train, validation=validation, columns=columns or None)
    run = RunConfig(task="translate", data=data)
    run.write(path)
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    assert RunConfig(**table) == run


@pytest.mark.parametrize("name", [".", "..", "1.2.3"])
def test_a_name_of_dots_and_digits_is_no_share(name: str) -> None:
    assert DataConfig(train="a.txt", validation=name).validation == name


@pytest.mark.parametrize("task", get_args(Task))
def test_the_task_chooses_the_shape(task: Task) -> None:
    data = DataConfig(train="a.tsv")
    assert list(TASKS) == list(get_args(Task))
    for model in ({"d": 64}, ModelConfig(d=64)):
        run = RunConfig(task=task, data=data, model=model)  # type: ignore[arg-type]
        assert run.model.shape == TASKS[task].shapes[0]
        assert run.model.d == 64
    assert RunConfig(task=task, data=data).model.shape == TASKS[task].shapes[0]


OVERRIDES = [
    ("model.d", "256", 256),
    ("model.norm_epsilon", "1e-6", 1e-6),
    ("model.norm", "none", "none"),
    ("model.window", "none", None),
    ("model.window", "5", 5),
    ("model.query_key_norm", "true", True),
    ("model.attention_bias", "qkv", "qkv"),
    ("model.rotary_scaling.factor", "4", 4.0),
    ("model.kept_heads.decoder.1.self", "0,1", (0, 1)),
    ("tokenizer.kind", "word", "word"),
    ("tokenizer.vocabulary", "1_000", 1000),
    ("data.validation", "0.1", 0.1),
    ("data.validation", "/data/5", "/data/5"),
    ("data.columns", "1,2", (1, 2)),
    ("data.columns", "spanish,english", ("spanish", "english")),
    ("data.columns", '["a", 2]', ("a", 2)),
    ("data.delimiter", "5", "5"),
    ("data.delimiter", ",", ","),
    ("data.test", "/a,/b", "/a,/b"),
    ("data.train", '{x = "/a", y = ["/b"]}', {"x": "/a", "y": ("/b",)}),
    ("task", "translate", "translate"),
]


@pytest.mark.parametrize(("name", "text", "value"), OVERRIDES)
def test_an_override_has_the_type_of_its_setting(recipe: Path, name: str, text: str, value: Any) -> None:
    found: Any = RunConfig.read(recipe, {name: text})
    first, *rest = name.split(".")
    found = getattr(found, first)
    while rest:
        found = found[".".join(rest)] if isinstance(found, dict) else getattr(found, rest[0])
        rest = rest[1:] if not isinstance(found, tuple | str | int | float | None) else []
    assert found == value
    assert type(found) is type(value)


def test_options_of_a_corpus_are_strings(recipe: Path) -> None:
    stated = {"data.train": "builtin:spanish", "data.options.direction": "en-es"}
    assert RunConfig.read(recipe, stated).data.options == {"direction": "en-es"}


def test_paths_of_an_override_are_taken_from_here(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    run = RunConfig.read(recipe, {"data.train": '["x.es", "x.en"]', "data.test": "./12"})
    assert run.data.train == (f"{tmp_path}/here/x.es", f"{tmp_path}/here/x.en")
    assert run.data.test == f"{tmp_path}/here/12"
    assert RunConfig.read(recipe, {"data.train": "-"}).data.train == "-"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("d = 128", "dd = 128"), "model.dd is not a setting. Did you mean d?"),
        (("d = 128", "d = 129"), "model.d = 129 does not split into model.h = 4 heads."),
        (("d = 128", 'd = "wide"'), "model.d = 'wide' is invalid: it should be a valid integer"),
        (
            ('"translate"', '"translat"'),
            "task = 'translat' is unknown. Did you mean translate?",
        ),
        (('task = "translate"', ""), "task is required. Known: classify, language-model,"),
        (("[tokenizer]", "[tokeniser]"), "tokeniser is not a setting. Did you mean tokenizer?"),
        (
            ("d = 128", 'd = 128\nshape = "decoder"'),
            "task = 'translate' is not possible with model.shape = 'decoder'",
        ),
        (('"translate"', "[1]"), "task = [1] is unknown. Known: classify"),
        (("validation = 0.02", "validation = 2"), "data.validation = 2 is invalid"),
        (("d = 128", "d = "), "invalid TOML: Invalid value (at line "),
        (("[data]", "[dta]"), "data is required: table of the data to learn from"),
    ],
)
def test_a_wrong_recipe_says_which_file_and_key(recipe: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in RECIPE
    recipe.write_text(RECIPE.replace(*change))
    with pytest.raises(ConfigError) as caught:
        RunConfig.read(recipe)
    assert str(caught.value).startswith(f"{recipe}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("model.dd", "5", "model.dd is not a setting. Did you mean model.d?"),
        ("modle.d", "5", "modle.d is not a setting. Did you mean model?"),
        ("model", "5", "model is a table of settings. Give one of them: model.family, model.shape, "),
        ("model.d.e", "5", "model.d.e is not a setting: model.d has no settings of its own."),
        ("model.d", "x", "model.d = 'x' is invalid: it should be a valid integer"),
        ("model.d", "-5", "model.d = -5 is invalid: it should be greater than 0"),
        ("model.query_key_norm", "perhaps", "model.query_key_norm = 'perhaps' is invalid"),
        ("tokenizer.added", "[5]", "tokenizer.added.0 = 5 is invalid: it should be a valid string"),
        ("training.frozen", "[3]", "training.frozen.0 = 3 is invalid: it should be a valid string"),
    ],
)
def test_a_wrong_override_says_so(recipe: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RunConfig.read(recipe, {name: text})
    assert str(caught.value).startswith(f"{recipe} with --{name} {text}: ")
    assert message in str(caught.value)


def test_overrides_of_a_command_line() -> None:
    assert parse_overrides([]) == {}
    arguments = [
        "--model.d",
        "256",
        "--model.norm=layer",
        "--data.train",
        "-",
        "--model.window",
        "-1",
        "--data.x=a=b",
    ]
    assert parse_overrides(arguments) == {
        "model.d": "256",
        "model.norm": "layer",
        "data.train": "-",
        "model.window": "-1",
        "data.x": "a=b",
    }
    assert parse_overrides(["--task", "a", "--task=b"]) == {"task": "b"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model.d", "5"], "'model.d' is not a setting.\nWrite settings as --model.d 256"),
        (["--model.d"], "--model.d has no value.\nWrite --model.d VALUE"),
        (["--model.d", "--model.h", "4"], "--model.d has no value."),
        (["--"], "'--' is not a setting."),
        (["--=5"], "'--=5' is not a setting."),
    ],
)
def test_a_wrong_command_line(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_overrides(arguments)
    assert str(caught.value).startswith(message)


def test_shipped_recipes_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "RECIPES", tmp_path)
    (tmp_path / "spanish-translator.toml").write_text(
        'task = "translate"\n[data]\ntrain = "builtin:spanish"\n'
    )
    assert shipped() == {"spanish-translator": tmp_path / "spanish-translator.toml"}
    run = RunConfig.read("spanish-translator")
    assert run.data.train == "builtin:spanish"
    with pytest.raises(ConfigError) as caught:
        RunConfig.read("spanish-translater")
    assert str(caught.value) == (
        "There is no recipe 'spanish-translater', neither a file nor a shipped one. "
        "Did you mean spanish-translator? Known: spanish-translator."
    )


def test_every_shipped_recipe_is_whole() -> None:
    for name, path in shipped().items():
        assert RunConfig.read(name) == RunConfig.read(path)


def test_a_recipe_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b'task = "\xff"')
    with pytest.raises(ConfigError, match=r"a.toml: invalid TOML: 'utf-8' codec can't decode"):
        RunConfig.read(tmp_path / "a.toml")
    (tmp_path / "b.toml").write_text(
        '\ufefftask = "translate"\ndata = {train = "builtin:x"}\n', encoding="utf-8"
    )
    assert RunConfig.read(tmp_path / "b.toml").task == "translate"
