"""Text in, text out: pieces that join to the whole, stop strings, lists, and prompts that cannot be used."""

import time
from typing import Any

import pytest

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.generate import Generation, Generator
from clearhead.decoding.sentences import split_sentences
from clearhead.errors import ConfigError, InputError
from clearhead.model_folder import Bundle
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.decoding.hand_built import copier
from tests.decoding.tiny import (
    SENTENCES,
    assert_same_or_tied,
    classifier,
    language_model,
    next_logits,
    random_model,
    tokenizer,
    translator,
)

GREEDY: dict[str, Any] = {"temperature": 0.0, "beam": 1}


def write(bundle: Bundle, *texts: str, slots: int = 32, **settings: Any) -> list[Generation]:
    """The best generation of every text."""
    found = Generator(bundle, slots=slots).write(texts, DecodingConfig(**settings))
    return [best[0] for best in found]


def joined(bundle: Bundle, text: str, **settings: Any) -> tuple[str, list[str]]:
    pieces = [piece.text for piece in Generator(bundle).stream(text, DecodingConfig(**settings))]
    return "".join(pieces), pieces


# Streaming.


@pytest.mark.parametrize("kind", ["byte", "bpe", "unigram", "word", "wordpiece", "character"])
@pytest.mark.parametrize("seed", range(3))
def test_joined_pieces_are_the_whole(kind: str, seed: int) -> None:
    settings: dict[str, Any] = {"temperature": 1.0, "seed": seed, "max_tokens": 30}
    (whole,) = write(language_model(kind), "the red", **settings)
    assert joined(language_model(kind), "the red", **settings)[0] == whole.text
    end = tokenizer(kind).specials.end
    visible = [token for token in whole.tokens if token != end]
    assert whole.text == tokenizer(kind).decode(visible)


@pytest.mark.parametrize("text", ["né", "5 €", "a😀b", "日本語", "👩\u200d🚀"])
def test_a_piece_never_splits_a_character(text: str) -> None:
    """The bytes of the text are forced, a token each; a piece comes when its character is whole."""
    ids = tokenizer("byte").encode(text)
    assert len(ids) > len(text)
    whole, pieces = joined(language_model(), "", forced=tuple(ids), max_tokens=len(ids))
    assert whole == tokenizer("byte").normalize(text)
    assert [piece for piece in pieces if piece] == list(whole)
    assert len(pieces) == len(ids)


def test_pieces_tell_the_token_and_the_reason() -> None:
    pieces = list(Generator(language_model()).stream("x", DecodingConfig(**GREEDY, max_tokens=5)))
    (whole,) = write(language_model(), "x", **GREEDY, max_tokens=5)
    assert [piece.token.id for piece in pieces if piece.token] == whole.tokens
    assert [piece.reason for piece in pieces] == [None] * (len(pieces) - 1) + [whole.reason]


def test_a_beam_comes_in_one_piece() -> None:
    settings = {"beam": 3, "max_tokens": 6}
    (whole,) = write(translator(), "my dog", **settings)
    assert joined(translator(), "my dog", **settings) == (whole.text, [whole.text])


def test_a_stream_that_is_left_does_no_further_work() -> None:
    stream = Generator(language_model()).stream(
        "x", DecodingConfig(**GREEDY, max_tokens=1 << 20, banned=(2,))
    )
    assert next(stream).reason is None
    del stream


# Stopping.


def test_text_ends_before_a_stop_string_that_lies_across_tokens() -> None:
    (free,) = write(language_model(), "he", **GREEDY, max_tokens=30, banned=(2,))
    stop = free.text[4:7]
    (cut,) = write(language_model(), "he", **GREEDY, max_tokens=30, banned=(2,), stop=(stop,))
    assert len(tokenizer("byte").encode(stop)) > 1
    assert cut.text == free.text[: free.text.index(stop)]
    assert cut.reason == "stop"
    assert len(cut.tokens) < len(free.tokens)
    assert joined(language_model(), "he", **GREEDY, max_tokens=30, banned=(2,), stop=(stop,))[0] == cut.text


def test_half_a_stop_string_at_the_end_is_text() -> None:
    ids = tokenizer("byte").encode("abST")
    (whole,) = write(language_model(), "", forced=tuple(ids), max_tokens=4, stop=("STOP",))
    assert (whole.text, whole.reason) == ("abST", "length")


def test_a_stop_string_that_ends_with_the_last_token_is_the_reason() -> None:
    ids = tokenizer("byte").encode("abSTOP")
    (whole,) = write(language_model(), "", forced=tuple(ids), max_tokens=6, stop=("STOP", "zzz"))
    assert (whole.text, whole.reason, whole.tokens) == ("ab", "stop", ids)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_search_ends_at_a_stop_string_too(beam: int) -> None:
    ids = tokenizer("byte").encode("abSTOPcd")
    settings: dict[str, Any] = {
        "beam": beam,
        "temperature": 0.0,
        "max_tokens": 20,
        "forced": tuple(ids),
        "stop": ("STOP",),
    }
    (whole,) = write(translator(), "my dog", **settings)
    assert (whole.text, whole.reason, whole.tokens) == ("ab", "stop", ids[:6])


@pytest.mark.parametrize("beam", [1, 2])
def test_half_a_character_is_no_stop_string(beam: int) -> None:
    """What a character's first bytes are shown as, U+FFFD, stops a text only where the character stays broken."""
    whole, broken = (
        tokenizer("byte").encode("né"),
        [*tokenizer("byte").encode("né")[:2], *tokenizer("byte").encode("a")],
    )
    for ids, reason in ((whole, "length"), (broken, "stop")):
        settings: dict[str, Any] = {"forced": tuple(ids), "max_tokens": 3, "beam": beam, "temperature": 0.0}
        (found,) = write(language_model(), "", **settings, stop=("\ufffd",))
        assert (found.tokens, found.reason) == (ids, reason)


def test_the_end_token_is_in_the_tokens_and_not_in_the_text() -> None:
    ids = tokenizer("byte").encode("ab")
    (whole,) = write(language_model(), "", forced=(*ids, 2))
    assert (whole.text, whole.tokens, whole.reason) == ("ab", [*ids, 2], "end")
    assert len(whole.logprobs) == 3


# Lists.


@pytest.mark.parametrize("slots", [2, 32])
@pytest.mark.parametrize("beam", [1, 3])
def test_a_list_keeps_its_order_and_every_text_is_as_alone(beam: int, slots: int) -> None:
    bundle = translator()
    texts = ["the red ball", "he", "my dog wanted to see the red ball", "", "a cat", "he is old", "  "]
    settings: dict[str, Any] = {"beam": beam, "temperature": 0.0, "max_tokens": 12}
    together = write(bundle, *texts, slots=slots, **settings)
    for text, found in zip(texts, together, strict=True):
        (single,) = write(bundle, text, **settings)
        source = Generator(bundle).prompt(text).source
        if beam == 1 and source:
            assert_same_or_tied(bundle, [1], found.tokens, single.tokens, source)
        else:
            assert (found.text, found.reason) == (single.text, single.reason)


def test_no_texts_give_no_texts() -> None:
    assert write(language_model()) == []
    assert write(translator(), beam=3) == []


def test_a_copier_translates_words_to_themselves() -> None:
    words = tokenizer("word")
    bundle = Bundle(copier(words.size, context=40), words)
    assert [found.text for found in write(bundle, *SENTENCES)] == SENTENCES  # by a beam of five
    assert [found.text for found in write(bundle, *SENTENCES, beam=1)] == SENTENCES
    assert [found.text for found in write(bundle, *SENTENCES, temperature=0.3, seed=1)] == SENTENCES


def test_source_and_target_may_have_tokenizers_of_their_own() -> None:
    words, letters = tokenizer("word"), tokenizer("byte")
    module = random_model("encoder-decoder", "word", source_vocabulary=letters.size).module
    generator = Generator(Bundle(module, words, source_tokenizer=letters))
    assert generator.prompt("he is").source == letters.encode("he is", begin=True, end=True)
    (best,) = generator.write(["he is"], DecodingConfig(max_tokens=4))[0]
    assert best.text == words.decode([token for token in best.tokens if token != 2])


# What is left open.


@pytest.mark.parametrize(
    ("translates", "given", "beam", "temperature"),
    [
        (False, {}, 1, 0.8),
        (False, {"temperature": 0.0}, 1, 0.0),
        (False, {"beam": 3}, 3, 0.0),
        (False, {"n_best": 2}, 2, 0.0),
        (True, {}, 5, 0.0),
        (True, {"beam": 2}, 2, 0.0),
        (True, {"temperature": 0.7}, 1, 0.7),
        (True, {"n_best": 8}, 8, 0.0),
        (True, {"temperature": 0.0}, 1, 0.0),
        (True, {"temperature": 0.0, "n_best": 2}, 2, 0.0),
    ],
)
def test_a_language_model_draws_and_a_translator_searches(
    translates: bool, given: dict[str, Any], beam: int, temperature: float
) -> None:
    settled = Generator(translator() if translates else language_model()).settle(DecodingConfig(**given))
    assert (settled.beam, settled.temperature) == (beam, temperature)


def test_a_beam_of_one_is_greedy() -> None:
    bundle = translator()
    greedy = write(bundle, *SENTENCES, temperature=0.0, beam=1, max_tokens=15)
    for text, one, many in zip(
        SENTENCES,
        greedy,
        write(bundle, *SENTENCES, beam=1, max_tokens=15, length_penalty=3.0),
        strict=True,
    ):
        assert one == many
        assert_same_or_tied(
            bundle,
            [1],
            one.tokens,
            argmaxes(bundle, text, len(one.tokens)),
            Generator(bundle).prompt(text).source,
        )


def argmaxes(bundle: Bundle, text: str, count: int) -> list[int]:
    source = Generator(bundle).prompt(text).source
    ids: list[int] = []
    for _ in range(count):
        ids.append(int(next_logits(bundle, [1, *ids], source).argmax()))
    return ids


def test_the_n_best_of_a_beam() -> None:
    (best,) = Generator(translator()).write(["my dog"], DecodingConfig(beam=6, n_best=4, max_tokens=8))
    assert len(best) == 4
    scores = [found.score for found in best if found.score is not None]
    assert scores == sorted(scores, reverse=True)
    assert all(sum(found.logprobs) / len(found.tokens) == pytest.approx(found.score) for found in best)


# What cannot be used.


def test_an_empty_prompt_begins_from_nothing() -> None:
    assert Generator(language_model()).prompt("").ids == [1]
    assert write(language_model(), "", **GREEDY, max_tokens=4)[0].tokens


@pytest.mark.parametrize("beam", [1, 5])
@pytest.mark.parametrize("text", ["", " ", "\t  "])
def test_an_empty_source_is_translated_to_nothing(text: str, beam: int) -> None:
    nothing = Generation("", [], "end", score=None if beam == 1 else 0.0)
    assert write(translator(), text, beam=beam) == [nothing]
    best = Generator(translator()).write([text, "my dog"], DecodingConfig(beam=5, n_best=3, max_tokens=4))
    assert [len(found) for found in best] == [3, 3]
    assert joined(translator(), text, beam=beam)[0] == ""


def test_a_prompt_longer_than_a_table_of_positions_is_refused_with_its_length() -> None:
    model = language_model(positions="learned")
    fits = "x" * 46  # with the beginning token and one new token: 48
    assert len(write(model, fits, **GREEDY)[0].tokens) == 1
    with pytest.raises(InputError) as caught:
        write(model, fits + "x", **GREEDY)
    assert str(caught.value) == (
        "The prompt has 47 tokens, but this model has room for 46 of them (context 48).\n"
        "Shorten the prompt or split it; nothing is truncated silently."
    )


def test_a_source_longer_than_a_table_of_positions_is_refused_with_its_length() -> None:
    model = translator(positions="learned")
    fits = "x" * 46  # with the beginning and the end token: 48
    write(model, fits, max_tokens=2)
    with pytest.raises(InputError, match=r"The source has 47 tokens, .* room for 46 of them \(context 48\)"):
        write(model, fits + "x")


@pytest.mark.parametrize("positions", ["rotary", "alibi", "relative", "sinusoidal", "none"])
@pytest.mark.parametrize("beam", [1, 3])
def test_without_a_table_of_positions_longer_texts_are_read_with_one_warning(
    positions: str, beam: int, caplog: pytest.LogCaptureFixture
) -> None:
    settings = DecodingConfig(max_tokens=70, min_tokens=70, beam=beam, temperature=0)
    for bundle, text in (
        (language_model(positions=positions), "x" * 60),
        (translator(positions=positions), "x" * 60),
    ):
        caplog.clear()
        generator = Generator(bundle)
        fits, first, second = generator.write(["x" * 20, text, text], settings)
        assert len(fits[0].tokens) <= 48  # the context is still where a text ends, if it leaves enough room
        assert len(first[0].tokens) > 48
        assert first[0].tokens == second[0].tokens
        (record,) = caplog.records
        assert "has 6" in record.message
        assert "trained on at most 48: the result may be poor" in record.message


def test_a_source_longer_than_the_context_is_translated_by_its_sentences() -> None:
    text = f"{SENTENCES[0]}. The boy is happy!  Is she old?"
    sentences = [sentence for sentence, _ in split_sentences(text)]
    generator, settings = Generator(translator()), DecodingConfig(max_tokens=9, n_best=2, beam=3)
    assert len(sentences) == 3
    assert generator.prompt(sentences[1]).parts == ()
    (found,), alone = generator.write([text], settings), generator.write(sentences, settings)
    for rank in range(2):
        first, second, third = (each[rank] for each in alone)
        assert found[rank].text == f"{first.text} {second.text}  {third.text}"
        assert found[rank].tokens == first.tokens + second.tokens + third.tokens
        assert len(found[rank].logprobs) == len(found[rank].tokens)
    assert found[0].score is not None
    assert joined(translator(), text, max_tokens=9)[0] == write(translator(), text, max_tokens=9)[0].text


def test_sentences_are_split_or_not_as_asked() -> None:
    generator, short, long = (
        Generator(translator()),
        "The cat. The dog.",
        f"{SENTENCES[0]}. {SENTENCES[1].title()}.",
    )
    assert [len(generator.prompt(short, split).parts) for split in (None, True, False)] == [0, 2, 0]
    assert [len(generator.prompt(long, split).parts) for split in (None, True, False)] == [2, 2, 0]


@pytest.mark.parametrize("kind", ["byte", "bpe", "word", "unigram", "character"])
@pytest.mark.parametrize("unit", ["x", "the ball ", "€"])
def test_a_prompt_of_a_megabyte_is_refused_soon(kind: str, unit: str) -> None:
    text = unit * (1_000_000 // len(unit.encode()))
    start = time.monotonic()
    if kind == "word" and unit == "x":  # one word of a million letters is one unknown word
        assert len(Generator(language_model(kind)).prompt(text).ids) == 2
    else:
        with pytest.raises(InputError, match="nothing is truncated silently"):
            Generator(language_model(kind)).prompt(text)
    assert time.monotonic() - start < 30


def test_a_character_that_is_not_known_becomes_the_unknown_token() -> None:
    words = tokenizer("word")
    prompt = Generator(language_model("word")).prompt("the Ωmega ball").ids
    assert prompt == [1, *words.encode("the"), words.specials.unknown, *words.encode("ball")]
    for kind in ("byte", "bpe", "unigram", "character"):  # kinds without unknowns read it as its bytes
        assert tokenizer(kind).decode(Generator(language_model(kind)).prompt("Ω").ids) == "Ω"


def test_half_a_character_is_refused() -> None:
    with pytest.raises(InputError, match="Character 1 of the text is"):
        write(language_model(), "a\ud800b")


def test_an_encoder_writes_nothing() -> None:
    with pytest.raises(
        InputError, match=r"shape 'encoder' with head 'classifier' does not generate text.\nUse a language"
    ):
        Generator(classifier())


def test_a_model_without_a_tokenizer_meets_no_text() -> None:
    with pytest.raises(InputError, match=r"no tokenizer.json, so the model can read ids but no text"):
        Generator(Bundle(language_model().module))


def test_ids_of_another_vocabulary_are_refused_at_the_border() -> None:
    with pytest.raises(ConfigError, match=r"decoding\.banned names the id 999999"):
        write(language_model(), "x", banned=(999999,))


def test_everything_banned_is_an_error() -> None:
    size = language_model().config.vocabulary
    for beam in (1, 2):
        with pytest.raises(InputError, match="Every token is banned"):
            write(language_model(), "x", beam=beam, temperature=0.0, banned=tuple(range(size)))


def test_ids_without_a_token_are_no_text() -> None:
    """A vocabulary larger than the tokenizer's, as in many models of other projects."""
    words: Tokenizer = tokenizer("byte")
    bundle = random_model("decoder", vocabulary=words.size + 7)
    (found,) = write(bundle, "x", forced=(words.size + 3, *words.encode("ab")), max_tokens=3)
    assert found.text == "ab"
