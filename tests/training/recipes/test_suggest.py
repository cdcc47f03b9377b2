"""A recipe made for files: it can be run, follows from the amount of text, and keeps what the user says."""

import json
import random
from pathlib import Path

import pytest

from clearhead.config.model import ModelConfig
from clearhead.config.run import RunConfig
from clearhead.config.tasks import Task
from clearhead.config.training import TrainingConfig
from clearhead.data.prepare import prepare
from clearhead.errors import ClearheadError, ConfigError, DataError
from clearhead.model_folder import Bundle, save
from clearhead.models.build import build
from clearhead.training.recipes import machine
from clearhead.training.recipes.columns import guess_columns
from clearhead.training.recipes.data_sample import SAMPLE_CHARACTERS, sample_data
from clearhead.training.recipes.machine import CORE_SPEED
from clearhead.training.recipes.sizing import DROPOUTS, QUICK_RATE
from clearhead.training.recipes.suggest import recipe_for
from clearhead.training.run.plan import count_steps
from clearhead.training.run.run import make_run
from tests.narrow import transformer

LETTERS = random.Random(1)
TWO_CORES = {"training.threads": "2"}


@pytest.fixture(autouse=True)
def _steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same speed whatever else computes, so that the same sizes are chosen each time."""
    monkeypatch.setattr(machine, "measured_speed", lambda d, threads, precision: threads * CORE_SPEED)
    monkeypatch.setattr(machine, "usable_cores", lambda: range(64))


def words(count: int) -> str:
    return " ".join("".join(LETTERS.choices("abcdefghij", k=LETTERS.randint(2, 6))) for _ in range(count))


def text_file(folder: Path, characters: int) -> str:
    path = folder / f"{characters}.txt"
    line = words(12) + "\n"
    lines = [f"{k} {line}" for k in range(characters // len(line) + 1)]
    path.write_text("".join(lines)[:characters])
    return str(path)


def labelled_file(folder: Path, labels: dict[str, int], name: str = "d.csv", head: str = "text,label") -> str:
    rows = [f"{words(6)},{label}" for label, count in labels.items() for _ in range(count)]
    (folder / name).write_text("\n".join([head, *rows]) + "\n")
    return str(folder / name)


def weights(config: RunConfig) -> int:
    model = config.model
    return model.d**2 * (model.decoder_blocks if model.shape == "decoder" else model.encoder_blocks)


def test_more_text_means_larger_pieces_and_models_that_read_it_less_often(tmp_path: Path) -> None:
    made = [recipe_for("language-model", [text_file(tmp_path, size)], 60, TWO_CORES)[0]
            for size in (10_000, 100_000, 1_000_000, 6_000_000)]  # fmt: skip
    vocabularies = [config.tokenizer.vocabulary if config.tokenizer.kind == "bpe" else 0 for config in made]
    assert vocabularies == sorted(vocabularies)
    assert (vocabularies[0], vocabularies[1] > 0) == (0, True)
    assert [weights(config) for config in made] == sorted(weights(config) for config in made)
    contexts = [config.model.context or 0 for config in made]
    assert contexts == sorted(contexts)
    dropouts = [config.model.dropout for config in made]
    assert dropouts == sorted(dropouts, reverse=True)
    assert dropouts[-1] < dropouts[0]
    shares = [config.data.validation for config in made]
    assert shares == sorted(shares, reverse=True)  # type: ignore[type-var]
    assert all(config.training.minutes == 60 and config.training.epochs == 30 for config in made)


def test_more_time_and_more_cores_mean_a_larger_model(tmp_path: Path) -> None:
    file = text_file(tmp_path, 3_000_000)
    sizes = [
        weights(recipe_for("language-model", [file], minutes, TWO_CORES)[0]) for minutes in (0.2, 10, 1000)
    ]
    assert sizes == sorted(set(sizes))
    many = recipe_for("language-model", [file], 10, {"training.threads": "64"})[0]
    assert weights(many) > sizes[1]


@pytest.mark.parametrize("characters", [1, 18, 300, 2_000, 30_000])
def test_tiny_files_make_a_run_that_can_start(characters: int, tmp_path: Path) -> None:
    config, reasons = recipe_for(
        "language-model", [text_file(tmp_path, characters)], overrides={"training.steps": "2"}
    )
    run = make_run(config, tmp_path / "run")
    records = list(run.train())
    assert records
    validation = run.data.splits.get("validation")
    assert validation is None or validation.examples > 0
    assert (config.data.validation == 0) == any("nothing is held out" in reason for reason in reasons)
    if characters >= 2_000:
        assert validation is not None


def test_every_choice_has_its_line_and_its_value(tmp_path: Path) -> None:
    config, reasons = recipe_for("classify", [labelled_file(tmp_path, {"a": 30, "b": 30})])
    stated = config.model_dump(exclude_unset=True)
    for section in ("tokenizer", "model", "training"):
        for key in stated[section]:
            if key not in ("shape", "vocabulary"):
                assert any(f"{section}.{key} = " in reason for reason in reasons), key
    assert all(": " in reason and "\n" not in reason for reason in reasons)


def test_what_the_user_says_is_kept_and_the_rest_follows(tmp_path: Path) -> None:
    file = text_file(tmp_path, 100_000)
    overrides = {
        "model.d": "96",
        "tokenizer.kind": "character",
        "training.steps": "7",
        "model.context": "none",
    }
    config, reasons = recipe_for("language-model", [file], overrides=overrides)
    assert (config.model.d, transformer(config.model).h) == (96, 3)
    assert (config.tokenizer.kind, config.model.context) == ("character", None)
    assert (config.training.steps, config.training.minutes, config.training.epochs) == (7, None, None)
    assert not any("model.d =" in reason or "model.context" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("length", "readings"),
    [
        ({"training.steps": "400", "training.batch_tokens": "512"}, 400 * 512 / 20_000),
        ({"training.steps": "40000", "training.batch_tokens": "512"}, 40_000 * 512 / 20_000),
        ({"training.steps": "40", "training.batch_tokens": "512"}, 40 * 512 / 20_000),
        ({"training.epochs": "70"}, 70),
        ({"training.epochs": "5", "training.minutes": "10"}, 5),
    ],
)
def test_dropout_follows_how_much_can_be_memorised(
    length: dict[str, str], readings: float, tmp_path: Path
) -> None:
    config, reasons = recipe_for(
        "language-model", [text_file(tmp_path, 20_000)], overrides=TWO_CORES | length
    )
    can_memorise = readings * 12 * weights(config) / 20_000
    dropout = next(share for most, share in DROPOUTS if can_memorise < most)
    assert config.model.dropout == dropout
    told = [reason for reason in reasons if "read about" in reason]
    how_often = f"the data is read about {readings:.0f} times"
    assert told == [f"model.dropout = {dropout:g}: {how_often}, and could be memorised"] * (dropout > 0)


def test_a_model_that_cannot_memorise_the_text_has_no_dropout(tmp_path: Path) -> None:
    """However often it reads it: with dropout such a model learned less."""
    file = text_file(tmp_path, 400_000)
    small, large = (
        recipe_for("language-model", [file], 10, {"model.d": d, "training.epochs": "8"})[0]
        for d in ("32", "256")
    )
    assert (small.model.dropout, large.model.dropout) == (0.0, 0.3)


def test_minutes_alone_are_not_cut_by_readings(tmp_path: Path) -> None:
    file = text_file(tmp_path, 20_000)
    times = [
        int(reason.split(" times")[0].split()[-1])
        for minutes in ("10", "20")
        for reason in recipe_for(
            "language-model", [file], overrides=TWO_CORES | {"training.minutes": minutes}
        )[1]
        if "read about" in reason
    ]
    assert times[1] == pytest.approx(2 * times[0], rel=0.01)


def test_a_rare_label_is_left_to_training(tmp_path: Path) -> None:
    labels = {"a": 40, "b": 40, "rare": 1, "seldom": 2}
    config, _ = recipe_for("classify", [labelled_file(tmp_path, labels)])
    prepared = prepare(config)
    assert prepared.labels == ("a", "b", "rare", "seldom")
    assert prepared.splits["validation"].examples > 0


def test_one_label_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"All 20 examples have the label 'a'; a classifier needs two.\nAdd examples"
    ):
        recipe_for("classify", [labelled_file(tmp_path, {"a": 20})])


def test_equal_texts_are_an_error(tmp_path: Path) -> None:
    """If all texts are the same, no label follows from them."""
    place = tmp_path / "equal.csv"
    place.write_text("text,label\n" + "".join(f"the same,{'ab'[k % 2]}\n" for k in range(20)))
    with pytest.raises(DataError, match=r"All 20 texts are equal, so no label can be learned.*'the same'"):
        recipe_for("classify", [str(place)])


def test_labels_that_are_texts_are_an_error(tmp_path: Path) -> None:
    labels = {f"words {k}": 1 for k in range(60)}
    with pytest.raises(DataError, match=r"60 different labels for 60 examples.*they look like texts"):
        recipe_for("classify", [labelled_file(tmp_path, labels)])


def test_columns_of_other_names_are_found_though_the_file_is_sorted(tmp_path: Path) -> None:
    file = labelled_file(tmp_path, {"pos": 300, "neg": 300}, "reviews.csv", "review,sentiment")
    config, reasons = recipe_for("classify", [file])
    assert config.data.columns == ("review", "sentiment")
    assert reasons[0].endswith("the longest texts, and the column with the fewest values (2)")


@pytest.mark.parametrize(
    ("kind", "rows", "columns"),
    [
        ("text", [{"id": k, "body": f"long text {k}", "by": "x"} for k in range(9)], ["body"]),
        ("pair", [{"es": f"uno {k}", "en": f"one {k}"} for k in range(9)], ["es", "en"]),
        (
            "labelled",
            [{"n": k, "stars": k % 3, "review": f"a review {k}"} for k in range(9)],
            ["review", "stars"],
        ),
        ("labelled", [{"text": "a", "label": "b"}, {"text": "c", "label": "d"}], None),
        ("labelled", [{"a": f"x{k}", "b": f"y{k}"} for k in range(9)], None),
        ("pair", [{"a": "x", "b": "y", "c": "z"}, {"a": "x", "b": "y", "c": "z"}], None),
    ],
)
def test_columns_of_jsonl_are_guessed_or_left_alone(
    kind: str, rows: list[dict[str, object]], columns: list[str] | None, tmp_path: Path
) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    guess = guess_columns(str(path), kind)  # type: ignore[arg-type]
    assert (None if guess is None else guess[0]) == columns


def test_labels_may_stand_before_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("good", "bad", "worse"):
        Path(f"{name}.txt").write_text("".join(f"{name} {words(3)}\n" for _ in range(30)))
    config, _ = recipe_for("classify", ["up=good.txt", "down=bad.txt", "down=worse.txt"])
    files = [str(tmp_path / f"{name}.txt") for name in ("good", "bad", "worse")]
    assert config.data.train == {"up": (files[0],), "down": (files[1], files[2])}


def test_two_files_are_aligned_and_long_pairs_have_a_limit(tmp_path: Path) -> None:
    sources = [words(8) for _ in range(300)] + ["x " * 5000]
    (tmp_path / "a.es").write_text("\n".join(sources) + "\n")
    (tmp_path / "a.en").write_text("\n".join(sources) + "\n")
    config, reasons = recipe_for("translate", [str(tmp_path / "a.es"), str(tmp_path / "a.en")])
    assert config.model.context is not None
    assert 128 <= config.model.context <= 256
    assert any("99 % of the texts; longer pairs are dropped" in reason for reason in reasons)
    assert prepare(config).audit.splits["train"].dropped <= 1


def sequences(folder: Path, lengths: tuple[int, int], letters: str = "ACGT") -> list[str]:
    for name in ("yes", "no"):
        rows = [
            f">s{k}\n{''.join(LETTERS.choices(letters, k=LETTERS.randint(*lengths)))}\n" for k in range(30)
        ]
        (folder / f"{name}.fa").write_text("".join(rows))
    return [f"{name}={folder / name}.fa" for name in ("yes", "no")]


def labelled(folder: Path, texts: list[str]) -> list[str]:
    rows = [f"{text},{'ab'[k % 2]}" for k, text in enumerate(texts)]
    (folder / "d.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    return [str(folder / "d.csv")]


def truncated(config: RunConfig) -> int:
    return prepare(config).audit.splits["train"].truncated


@pytest.mark.parametrize(
    ("lengths", "letters", "overrides", "chosen"),
    [
        ((81, 81), "ACGT", {}, ("dna", 3, 1, "learned")),
        (
            (81, 81),
            "ACGTN",
            {},
            ("dna", 1, 2, "rotary"),
        ),  # an unknown letter would shift the threes behind it
        ((60, 81), "ACGT", {}, ("dna", 1, 2, "rotary")),
        ((60, 81), "ACGT", {"tokenizer.k": "2"}, ("dna", 2, 1, "rotary")),
        ((81, 81), "ACGT", {"tokenizer.kind": "byte"}, ("byte", 1, 2, "rotary")),
    ],
)
def test_dna_is_read_in_threes_where_they_line_up(
    lengths: tuple[int, int],
    letters: str,
    overrides: dict[str, str],
    chosen: tuple[str, int, int, str],
    tmp_path: Path,
) -> None:
    config, _ = recipe_for("classify", sequences(tmp_path, lengths, letters), overrides=overrides)
    tokens, model = config.tokenizer, transformer(config.model)
    assert (tokens.kind, tokens.k, model.encoder_blocks, model.positions) == chosen
    assert truncated(config) == 0


def test_words_that_come_again_are_tokens_of_a_classifier(tmp_path: Path) -> None:
    few = words(50).split()
    texts = [" ".join(LETTERS.choices(few, k=8)) for _ in range(200)]
    config, reasons = recipe_for("classify", labelled(tmp_path, texts))
    assert (config.tokenizer.kind, config.model.encoder_blocks, config.model.dropout) == ("word", 1, 0.5)
    assert (config.model.initial_deviation, transformer(config.model).norm_epsilon) == (0.02, 1.0)
    assert any("100 % of the words of unseen texts are known" in reason for reason in reasons)
    assert prepare(config).tokenizers.target.size < 70


@pytest.mark.parametrize(
    "texts",
    [
        ["".join(LETTERS.choices("我你他们是不好书人大中国", k=12)) for _ in range(200)],
        [f"word{k}" for k in range(200) for _ in range(2)],  # what comes again is the whole text
    ],
    ids=["no spaces", "one word"],
)
def test_words_that_are_not_known_elsewhere_are_cut_into_pieces(texts: list[str], tmp_path: Path) -> None:
    config, _ = recipe_for("classify", labelled(tmp_path, texts))
    assert (config.tokenizer.kind, transformer(config.model).norm_epsilon) == (
        "bpe",
        ModelConfig().norm_epsilon,
    )


@pytest.mark.parametrize("letters", ["0123456789", "😀😡🎉👍"])
def test_short_words_have_room(letters: str, tmp_path: Path) -> None:
    texts = [" ".join(LETTERS.choices(letters, k=60)) for _ in range(200)]
    config, _ = recipe_for("classify", labelled(tmp_path, texts))
    assert config.tokenizer.kind == "word"
    assert truncated(config) == 0


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "character", "byte"])
def test_a_stated_kind_has_no_settings_of_words(kind: str, tmp_path: Path) -> None:
    files = labelled(tmp_path, ["good bad fine poor " * 3 + str(k % 7) for k in range(200)])
    config, reasons = recipe_for("classify", files, overrides={"tokenizer.kind": kind})
    assert transformer(config.model).norm_epsilon == ModelConfig().norm_epsilon
    assert config.tokenizer.vocabulary < 32_768
    assert not any("unseen texts are known" in reason for reason in reasons)


@pytest.mark.parametrize("vocabulary", [8, 20, 32])
def test_few_words_can_be_asked_for(vocabulary: int, tmp_path: Path) -> None:
    files = labelled(tmp_path, [f"good bad fine poor {k % 7}" for k in range(200)])
    stated = {"tokenizer.vocabulary": str(vocabulary), "tokenizer.kind": "word"}
    config, _ = recipe_for("classify", files, overrides=stated)
    assert (config.tokenizer.vocabulary, truncated(config)) == (vocabulary, 0)


def test_a_few_letters_are_no_dna(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.txt").write_text("a cat")
    assert recipe_for("language-model", [str(tmp_path / "a.txt")])[0].tokenizer.kind == "byte"
    (tmp_path / "a.txt").write_text("a")
    config, reasons = recipe_for("language-model", [str(tmp_path / "a.txt")])
    assert config.tokenizer.kind == "byte"
    assert any("nothing is held out" in reason for reason in reasons)
    assert "Only 1 example: quality cannot be measured." in caplog.text


def test_blanks_alone_teach_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n\n  \n")
    with pytest.raises(DataError, match=r"a.txt: nothing to learn from, only whitespace"):
        recipe_for("language-model", [str(tmp_path / "a.txt")])


def test_letters_outside_ascii_are_characters_and_not_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Все счастливые семьи похожи друг на друга.\n" * 100, encoding="utf-8")
    config, _ = recipe_for("language-model", [str(tmp_path / "a.txt")])
    assert config.tokenizer.kind == "character"


def test_a_model_to_start_from_gives_its_settings(tmp_path: Path) -> None:
    model = ModelConfig(shape="encoder", vocabulary=300, d=24, h=3, encoder_blocks=5, feedforward="silu")
    save(tmp_path / "model", Bundle(build(model)))
    file = labelled_file(tmp_path, {"a": 30, "b": 30})
    config, _ = recipe_for("classify", [file], overrides={"training.init_from": str(tmp_path / "model")})
    assert (config.model.d, transformer(config.model).h, config.model.encoder_blocks) == (24, 3, 5)
    assert transformer(config.model).feedforward == "silu"
    assert config.training.learning_rate < 1e-3


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_model_to_start_from_keeps_its_dropout_and_its_targets(dropout: float, tmp_path: Path) -> None:
    """What keeps a new model from overfitting harms one that has learned without it."""
    sizes = {"vocabulary": 300, "d": 24, "h": 3, "dropout": dropout}
    save(tmp_path / "reads", Bundle(build(ModelConfig.model_validate({"shape": "encoder"} | sizes))))
    save(tmp_path / "writes", Bundle(build(ModelConfig.model_validate({"shape": "decoder"} | sizes))))
    save(
        tmp_path / "translates",
        Bundle(build(ModelConfig.model_validate({"shape": "encoder-decoder"} | sizes))),
    )
    (tmp_path / "pairs.tsv").write_text("".join(f"uno {k}\tone {k}\n" for k in range(90)))
    cases: list[tuple[Task, str, str]] = [
        ("classify", labelled_file(tmp_path, {"a": 30, "b": 30}), "reads"),
        ("language-model", text_file(tmp_path, 3000), "writes"),
        ("masked-language-model", text_file(tmp_path, 3000), "reads"),
        ("translate", str(tmp_path / "pairs.tsv"), "translates"),
    ]
    for task, file, start in cases:
        for lora in ({}, {"training.lora_rank": "4"}):
            config, _ = recipe_for(
                task, [file], overrides={"training.init_from": str(tmp_path / start)} | lora
            )
            assert (config.model.dropout, config.training.label_smoothing) == (dropout, 0.0)
            assert config.training.learning_rate == (1e-3 if lora else 2e-4)
    new, _ = recipe_for("translate", [str(tmp_path / "pairs.tsv")])
    assert new.training.label_smoothing > 0


def test_of_large_data_a_sample_tells_about_all(tmp_path: Path) -> None:
    size = SAMPLE_CHARACTERS + 2_000_000
    config, _ = recipe_for("language-model", [text_file(tmp_path, size)])
    sample = sample_data(config.data, "text")
    assert not sample.is_whole
    assert sample.characters == pytest.approx(size, rel=0.02)
    assert isinstance(config.data.validation, float)
    assert 0 < config.data.validation * size < 200_000


@pytest.mark.parametrize("task", ["language-model", "translate", "classify", "masked-language-model"])
def test_a_file_that_is_not_there_is_an_error_of_ours(task: Task) -> None:
    with pytest.raises(ClearheadError, match="does not exist"):
        recipe_for(task, ["nosuch.csv"])


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"minutes": 2.0, "epochs": 3.0}, 30),
        ({"minutes": 0.1, "epochs": 3.0}, 12),
        ({"minutes": 2.0}, 240),
        ({"epochs": 0.5}, 5),
        ({"steps": 7}, 7),
        ({}, 100),
    ],
)
def test_of_minutes_and_epochs_the_fewer_steps_count(settings: dict[str, float], steps: int) -> None:
    training = TrainingConfig.model_validate(settings)
    assert count_steps(training, batches=10, seconds=0.5) == steps


def test_steps_stand_alone() -> None:
    with pytest.raises(ConfigError, match=r"steps = 5 and epochs = 2\.0 exclude each other"):
        TrainingConfig(steps=5, epochs=2.0)


def test_the_reason_for_a_batch_is_true_for_much_text(tmp_path: Path) -> None:
    (tmp_path / "little.txt").write_text("some words to learn\n" * 500)
    _, little = recipe_for("language-model", [str(tmp_path / "little.txt")])
    (tmp_path / "much.txt").write_text("".join(f"words {k} to learn\n" for k in range(900_000)))
    _, much = recipe_for("language-model", [str(tmp_path / "much.txt")], minutes=1)
    (small,), (large,) = ([line for line in lines if "batch_tokens" in line] for lines in (little, much))
    assert "little text" in small
    assert "little text" not in large
    assert not any("1 minutes" in line for line in much)


def test_a_share_that_leaves_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(f"text {k},{k % 2}\n" for k in range(20)))
    config, _ = recipe_for("classify", [str(tmp_path / "a.csv")], overrides={"data.validation": "0.99999"})
    with pytest.raises(ConfigError, match=r"^data.validation = 0.99999 leaves nothing to train on\."):
        make_run(config, tmp_path / "run")


def test_a_high_rate_is_for_new_models_and_not_for_matrices(tmp_path: Path) -> None:
    """By AdamW alone the rate would be that of matrices too; what is stated is kept."""
    file = text_file(tmp_path, 20_000)

    def rates(**stated: str) -> tuple[str, float]:
        overrides = {name.replace("__", "."): value for name, value in stated.items()}
        training = recipe_for("language-model", [file], overrides=overrides)[0].training
        return training.schedule, training.learning_rate

    usual = TrainingConfig().learning_rate
    assert rates() == ("stable", QUICK_RATE)
    assert rates(training__optimizer="adamw") == ("stable", usual)
    assert rates(training__schedule="cosine", training__learning_rate="0.001") == ("cosine", 0.001)
    reviews = recipe_for("classify", [labelled_file(tmp_path, {"a": 30, "b": 30})])[0].training
    assert (reviews.schedule, reviews.learning_rate) == (TrainingConfig().schedule, usual)
