"""Pictures of attention: the weights of every head, rows that sum to one, and pictures that show them."""

import xml.etree.ElementTree as ET

import pytest
import torch

from clearhead.config.model import ModelConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.errors import InputError
from clearhead.inspection.figures import (
    MOST_TOKENS,
    AttentionPicture,
    attention_of,
    for_terminal,
    large,
    small,
)
from clearhead.model_folder import Bundle
from clearhead.models.build import build
from clearhead.text.tokenizers.tokenizer import Tokenizer

WORDS = "the dog <b> sees a cat"


def bundle(shape: str, **settings: object) -> Bundle:
    tokenizer = Tokenizer.train([WORDS], TokenizerConfig(kind="word", minimum_frequency=1))
    config = {
        "shape": shape,
        "vocabulary": tokenizer.size,
        "d": 12,
        "h": 3,
        "encoder_blocks": 2,
        "decoder_blocks": 2,
    }
    return Bundle(build(ModelConfig.model_validate(config | settings), 1).eval(), tokenizer)


@pytest.mark.parametrize(
    ("shape", "target", "first", "rows"),
    [
        ("decoder", None, "decoder.0.self.0", ["<s>", "the", "dog", "sees"]),
        ("encoder", None, "encoder.0.self.0", ["<s>", "the", "dog", "sees", "</s>"]),
        ("encoder-decoder", "a cat", "decoder.0.cross.0", ["<s>", "a", "cat"]),
    ],
)
def test_every_head_is_there_and_its_rows_sum_to_one(
    shape: str, target: str | None, first: str, rows: list[str]
) -> None:
    attention = attention_of(bundle(shape), "the dog sees", target)
    assert attention.rows == rows
    assert attention.columns[:2] == ["<s>", "the"]
    assert len(attention.heads) == 6
    assert next(iter(attention.heads)) == first
    for weights in attention.heads.values():
        A = torch.tensor(weights)
        assert A.shape == (len(attention.rows), len(attention.columns))
        torch.testing.assert_close(A.sum(-1), torch.ones(len(A)))


def test_heads_that_pruning_left_keep_their_names() -> None:
    attention = attention_of(bundle("decoder", kept_heads={"decoder.1.self": (2,)}), "the dog")
    assert list(attention.heads)[-1] == "decoder.1.self.2"
    assert len(attention.heads) == 4


def test_a_long_text_is_shortened_to_what_can_be_read() -> None:
    attention = attention_of(bundle("decoder"), "dog " * 100)
    assert len(attention.rows) == MOST_TOKENS
    assert len(attention_of(bundle("decoder", context=5), "dog " * 100).rows) == 5


def test_one_text_too_many_or_too_few_is_refused() -> None:
    with pytest.raises(InputError, match="Omit the target"):
        attention_of(bundle("decoder"), "the dog", "a cat")
    with pytest.raises(InputError, match="Give the target too"):
        attention_of(bundle("encoder-decoder"), "the dog")


GRID = AttentionPicture(
    ["<s>", "car"],
    ["<s>", "un", "coche"],
    {
        "decoder.0.cross.0": [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]],
        "decoder.0.cross.1": [[0.4, 0.6, 0.0], [0.0, 0.1, 0.9]],
    },
)


def test_the_sharpest_head_looks_at_words_and_not_at_the_beginning() -> None:
    assert GRID.sharpest == "decoder.0.cross.1"


def test_the_picture_has_a_field_for_each_weight_and_says_it() -> None:
    picture = ET.fromstring(large(GRID, "decoder.0.cross.1"))
    assert [title.text for title in picture.iter("title")] == [
        "<s> → <s>: 0.400", "<s> → un: 0.600", "<s> → coche: 0.000",
        "car → <s>: 0.000", "car → un: 0.100", "car → coche: 0.900",
    ]  # fmt: skip
    shades = [float(field.get("fill-opacity", 1)) for field in picture.iter("rect")]
    assert shades[5] == max(shades)
    assert shades[2] == shades[3] == 0
    ET.fromstring(small(GRID.heads["decoder.0.cross.1"]))


def test_the_terminal_shows_names_downwards_and_weights_as_shades() -> None:
    assert for_terminal(GRID, "decoder.0.cross.1").split("\n") == [
        "          c",
        "          o",
        "    <     c",
        "    s  u  h",
        "    >  n  e",
        "<s> ▒▒ ▓▓",
        "car    ░░ ██",
    ]
