"""The object that `clearhead.load` returns, as a notebook uses it."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import clearhead
from clearhead.api import Model
from clearhead.decoding.generate import Generation
from clearhead.errors import ConfigError, InputError, ModelFolderError
from clearhead.model_folder import Bundle
from tests.decoding.tiny import SENTENCES, classifier, language_model, tokenizer, translator
from tests.training.small import small_config


@pytest.fixture(scope="module")
def writes() -> Model:
    return Model(language_model("word"))


@pytest.fixture(scope="module")
def translates() -> Model:
    return Model(translator("word"))


@pytest.fixture(scope="module")
def decides() -> Model:
    return Model(classifier())


def ids(*texts: str) -> Tensor:
    return torch.tensor([tokenizer("word").encode(text, begin=True) for text in texts])


def test_a_model_is_saved_and_loaded_with_everything(tmp_path: Path, decides: Model) -> None:
    assert decides.save(tmp_path / "model") is decides
    loaded = clearhead.load(tmp_path / "model")
    assert loaded.config == decides.config
    assert loaded.tokenizer.digest == decides.tokenizer.digest
    assert torch.equal(loaded.logits(ids("the cat")), decides.logits(ids("the cat")))
    assert loaded.classify(SENTENCES) == decides.classify(SENTENCES)
    assert isinstance(loaded, clearhead.Model)


def test_a_model_is_loaded_in_another_type(tmp_path: Path, writes: Model) -> None:
    writes.save(tmp_path / "model")
    half = clearhead.load(str(tmp_path / "model"), torch.bfloat16)
    assert half.logits(ids("the cat")).dtype == torch.float32
    assert half.generate("the cat", max_tokens=4, temperature=0.0).tokens


def test_a_folder_that_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="does not exist"):
        clearhead.load(tmp_path / "nothing")


def test_logits(writes: Model, translates: Model, decides: Model) -> None:
    tokens = ids("the cat sat", "he is old")
    Z = writes.logits(tokens)
    assert (Z.shape, Z.dtype) == ((2, 4, writes.config.vocabulary), torch.float32)
    Z[0] = 0.0  # an ordinary tensor, free to be changed
    assert translates.logits(tokens[:, :2], tokens).shape == (2, 2, translates.config.vocabulary)
    assert decides.logits(tokens).shape == (2, 3)


GIVE = "Give source = the ids of the source text (b, m)."
NO_ENCODER = "It has no encoder that reads one for a decoder.\nPut the source into the prompt."


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("translates", 1, "A model of shape 'encoder-decoder' needs a source.\n" + GIVE),
        ("writes", 2, "A model of shape 'decoder' takes no source. " + NO_ENCODER),
        ("decides", 2, "A model of shape 'encoder' takes no source. " + NO_ENCODER),
    ],
)
def test_logits_of_what_does_not_fit(
    request: pytest.FixtureRequest, name: str, given: int, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        request.getfixturevalue(name).logits(*[ids("he")] * given)
    assert str(caught.value) == message


def test_generate_one_or_many(writes: Model) -> None:
    settings: dict[str, Any] = {"max_tokens": 6, "temperature": 0.8, "top_p": 0.9, "seed": 1}
    one = writes.generate("the cat", **settings)
    assert isinstance(one, Generation)
    assert one.text == tokenizer("word").decode([token for token in one.tokens if token != 2])
    assert len(one.logprobs) == len(one.tokens) <= 6
    assert one.reason in ("end", "length")
    many = writes.generate(["he is", "the cat"], **settings)
    assert (many[1].text, many[1].tokens) == (one.text, one.tokens)
    assert many[1].logprobs == pytest.approx(one.logprobs, abs=1e-4)
    assert writes.generate([], **settings) == []


def test_alternatives_are_reported_where_asked_for(writes: Model) -> None:
    found = writes.generate("the cat", max_tokens=3, temperature=0.0, logprobs=4)
    assert [len(top) for top in found.top] == [4] * len(found.tokens)
    assert [top[0][0] for top in found.top] == found.tokens
    assert writes.generate("the cat", max_tokens=3).top == []


def test_stream_gives_the_same_text(writes: Model) -> None:
    settings: dict[str, Any] = {"max_tokens": 8, "seed": 3}
    pieces = list(writes.stream("the cat", **settings))
    assert "".join(piece.text for piece in pieces) == writes.generate("the cat", **settings).text


def test_a_seed_makes_it_again_and_none_does_not(writes: Model) -> None:
    settings: dict[str, Any] = {"max_tokens": 20, "temperature": 2.0}
    one, again = (writes.generate("the", seed=5, **settings) for _ in range(2))
    assert one.text == again.text
    assert one.tokens == again.tokens
    assert one.logprobs == pytest.approx(again.logprobs, abs=1e-4)  # weights may lie in another order by now
    assert len({writes.generate("the", **settings).text for _ in range(5)}) > 1


def test_translate_a_string_or_a_list(translates: Model) -> None:
    one = translates.translate("the cat", beam=5)
    assert isinstance(one, str)
    assert translates.translate(["he is old", "the cat", ""], beam=5)[1:] == [one, ""]
    assert translates.generate("the cat", beam=5).text == one


def test_the_next_best_translations(translates: Model) -> None:
    best = translates.generate("the cat", beam=4, n_best=3)
    assert len(best.others) == 2
    assert best.others[0].score is not None
    assert best.score is not None
    assert best.score >= best.others[0].score
    with pytest.raises(InputError, match=r"one string, not n_best = 3.\nUse generate"):
        translates.translate("the cat", n_best=3)


def test_classify(decides: Model) -> None:
    found = decides.classify(["the cat", "he is old"])
    assert [set(each.probabilities) for each in found] == [{"bad", "good", "so-so"}] * 2
    assert all(each.probabilities[each.label] == max(each.probabilities.values()) for each in found)
    assert sum(found[0].probabilities.values()) == pytest.approx(1, abs=1e-5)
    (alone,) = decides.classify("the cat")
    assert alone.label == found[0].label
    assert alone.probabilities == pytest.approx(found[0].probabilities, abs=1e-4)


def test_embed(writes: Model, translates: Model, decides: Model) -> None:
    for model in (writes, translates, decides):
        E = model.embed(SENTENCES)
        assert (E.shape, E.dtype, E.requires_grad) == ((4, 24), torch.float32, False)
        torch.testing.assert_close(model.embed(SENTENCES[2])[0], E[2], atol=1e-4, rtol=1e-4)


def test_trace_of_a_text(writes: Model, decides: Model) -> None:
    trace = writes.trace("the cat sat")
    A = trace["decoder.0.self.weights"]
    assert A.shape == (1, 3, 4, 4)
    torch.testing.assert_close(A.sum(-1), torch.ones(1, 3, 4))
    torch.testing.assert_close(trace["logits"], writes.logits(ids("the cat sat")), atol=1e-4, rtol=1e-4)
    assert decides.trace("the cat sat")["encoder.1.self.weights"].shape == (1, 3, 5, 5)


def test_trace_of_a_translation(translates: Model) -> None:
    trace = translates.trace("the cat", target="he is old")
    assert trace["decoder.1.cross.weights"].shape == (1, 3, 4, 4)  # begin he is old; begin the cat end
    assert trace["encoder.0.self.weights"].shape == (1, 3, 4, 4)
    own = translates.translate("the cat")
    length = 1 + len(tokenizer("word").encode(own))
    traced = translates.trace("the cat")
    assert traced["decoder.1.cross.weights"].shape[2] == length
    assert torch.equal(traced["logits"], translates.trace("the cat", own)["logits"])


def test_what_is_refused(writes: Model, translates: Model, decides: Model) -> None:
    with pytest.raises(InputError, match=r"A model of shape 'decoder' does not translate.\nUse generate"):
        writes.translate("the cat")
    with pytest.raises(InputError, match="does not generate text"):
        decides.generate("the cat")
    with pytest.raises(InputError, match="has no classes"):
        translates.classify(["the cat"])
    with pytest.raises(InputError, match="takes no target"):
        writes.trace("the cat", target="he")
    with pytest.raises(ConfigError, match=r"decoding.temprature is not a setting. Did you mean temperature"):
        writes.generate("the cat", temprature=1.0)
    with pytest.raises(InputError, match=r"no tokenizer\.json"):
        _ = Model(Bundle(language_model("word").module)).tokenizer


@pytest.mark.parametrize("verb", ["generate", "translate", "classify", "embed"])
def test_an_error_says_which_text_of_a_list_it_means(
    verb: str, writes: Model, translates: Model, decides: Model
) -> None:
    model = {"generate": writes, "translate": translates, "classify": decides, "embed": writes}[verb]
    with pytest.raises(InputError, match=r"^text 2 of the list: The (prompt|source|text) has \d+ tokens"):
        getattr(model, verb)(["he", "is", "the " * 5000])


def test_a_model_shows_what_it_is(translates: Model) -> None:
    assert repr(translates).startswith("<clearhead encoder-decoder, ")
    assert translates.module is translates.bundle.module


@pytest.mark.parametrize("wrong", [123, None, [b"bytes"], ["good", 5]])
def test_what_is_no_text_is_refused(wrong: Any, writes: Model, decides: Model) -> None:
    for use in (writes.generate, writes.embed, decides.classify):
        with pytest.raises(InputError, match="A text is a str, not a"):
            use(wrong)
    with pytest.raises(InputError, match="A text is a str, not a"):
        writes.stream(wrong)


def test_train_gives_the_best_model_and_never_writes_over_a_run(tmp_path: Path) -> None:
    config = small_config("classify", tmp_path / "data")
    heard: list[object] = []
    model = clearhead.train(config, tmp_path / "run", on_record=heard.append)
    assert model.classify("good 1 <b>")[0].label in ("<up>", "down|&")
    assert len(heard) > 6
    assert json.loads((tmp_path / "run" / "quality.json").read_text(encoding="utf-8"))["split"] == "test"
    with pytest.raises(ConfigError, match=r"already contains a run(.|\n)*in Python resume=True"):
        clearhead.train(config, tmp_path / "run")


def test_a_classifier_says_what_it_can_do_instead_of_translating() -> None:
    with pytest.raises(InputError, match=r"This is a classifier.*\nUse classify or embed\."):
        Model(classifier()).translate("he")


def test_ids_are_continued_as_they_are(writes: Model, translates: Model) -> None:
    text = "the cat sat"
    settings: dict[str, Any] = {"max_tokens": 5, "temperature": 0.0}
    framed = writes.generator.prompt(text).ids
    expected = writes.generate(text, **settings)
    assert writes.generate(ids=framed, **settings) == expected
    assert writes.generate(ids=torch.tensor(framed), **settings) == expected
    both = writes.generate(ids=torch.tensor([framed, framed]), **settings)
    assert [one.tokens for one in both] == [expected.tokens] * 2
    assert writes.generate(ids=[framed, framed[:2]], **settings)[0].tokens == expected.tokens
    assert writes.generate(ids=framed[1:], **settings).tokens  # nothing is added before them
    source = translates.generator.prompt(text).source
    assert source is not None
    assert translates.generate(ids=source).text == translates.translate(text)


def test_one_stop_string_is_not_its_letters(writes: Model) -> None:
    whole = writes.generate("the cat", max_tokens=8, temperature=0.0).text
    word = whole.split()[1]
    found = writes.generate("the cat", max_tokens=8, temperature=0.0, stop=word)
    assert (found.reason, found.text) == ("stop", whole.split(word)[0])


def test_a_trace_knows_what_was_read(writes: Model, translates: Model, decides: Model) -> None:
    seen = writes.trace("the cat")
    assert seen.tokens == ["<s>", "the", "cat"]
    assert seen.ids == writes.tokenizer.encode("the cat", begin=True)
    assert seen["decoder.0.self.weights"].shape[-1] == len(seen.ids)
    assert seen.source_ids == []
    both = translates.trace("the cat", "he is")
    assert (both.tokens, both.source_tokens) == (["<s>", "he", "is"], ["<s>", "the", "cat", "</s>"])
    assert decides.trace("the cat").tokens == ["<s>", "the", "cat", "</s>"]


def test_a_folder_is_overwritten_only_where_asked_for(tmp_path: Path, writes: Model, decides: Model) -> None:
    folder = tmp_path / "model"
    folder.mkdir()  # an empty folder is nothing to lose
    writes.save(folder)
    with pytest.raises(
        InputError,
        match=r"already exists.\nChoose another name, or replace it: --overwrite \(in Python overwrite=True\)",
    ):
        decides.save(folder)
    assert clearhead.load(folder).config == writes.config
    decides.save(folder, overwrite=True)
    assert clearhead.load(folder).config == decides.config
    (tmp_path / "notes.txt").write_text("mine")
    for other in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(InputError, match="already exists and is not a model folder"):
            writes.save(other, overwrite=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_what_belongs_to_other_programs_names_the_import(tmp_path: Path) -> None:
    (tmp_path / "x y.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelFolderError) as caught:
        clearhead.load(tmp_path / "x y.gguf")
    assert f"clearhead import '{tmp_path}/x y.gguf' 'x y-clearhead'" in str(caught.value)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "config.json").write_text('{"model_type": "llama"}')
    (theirs / "model.safetensors").write_bytes(b"")
    for source in (theirs, theirs / "model.safetensors"):
        with pytest.raises(ModelFolderError) as caught:
            clearhead.load(source)
        assert f"clearhead import {theirs} theirs-clearhead" in str(caught.value)


def test_the_type_of_weights_has_a_name(tmp_path: Path, writes: Model) -> None:
    writes.save(tmp_path / "model")
    assert next(clearhead.load(tmp_path / "model", "bfloat16").module.parameters()).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.generate(), "A text is a str, not a NoneType"),
        (lambda m: m.generate("a", ids=[1]), "generate takes a prompt or its ids, not both"),
        (lambda m: m.generate(ids=[]), "is not a list of whole numbers"),
        (lambda m: m.generate(ids=[[1], []]), "is not a list of whole numbers"),
        (lambda m: m.generate(ids="abc"), "is not a list of whole numbers"),
        (lambda m: m.generate(ids=[1.5]), "is not a list of whole numbers"),
        (lambda m: m.generate(ids=torch.randn(2)), "but are whole numbers"),
        (lambda m: m.generate(ids=[10**6]), "ids contain 1000000, but the model has ids 0 to"),
        (lambda m: m.generate(b"the"), "A text is a str, not a bytes"),
        (lambda m: m.trace("the", target="a"), "takes no target"),
        (lambda m: m.trace("the")[3], "A site has a name such as"),
        (lambda m: m.save(None), "A path is a str or a Path, not None"),
        (lambda m: clearhead.load(None), "A path is a str or a Path, not None"),  # type: ignore[arg-type]
        (lambda m: clearhead.load("x", "float33"), "dtype = 'float33' is not a type of weights"),
        (lambda m: clearhead.load("x", torch.int64), "dtype = torch.int64 is not a type of weights"),
        (lambda m: clearhead.train({"task": "x"}, "y"), "A recipe is a file, .* not a dict"),  # type: ignore[arg-type]
        (lambda m: clearhead.train("spanish-translator", 5), "A path is a str or a Path, not 5"),  # type: ignore[arg-type]
    ],
)
def test_what_python_can_get_wrong_is_explained(writes: Model, call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(writes)
