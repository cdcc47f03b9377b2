"""A tokenizer frames a text as its source does, and import, export and import again change nothing of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from clearhead import model_folder
from clearhead.api import Model
from clearhead.decoding.generate import Generator
from clearhead.decoding.read import Reader
from clearhead.errors import TokenizerError
from clearhead.exchange.exporting import export_model
from clearhead.exchange.exporting_gguf import export_gguf
from clearhead.exchange.families import registry
from clearhead.exchange.importing import import_model
from clearhead.exchange.tokenizers.gguf_splits import SPLITS
from clearhead.model_folder import Bundle
from clearhead.models.inputs import Inputs
from clearhead.text.tokenizers.roles import framing_processor
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.exchange.test_gguf import levels, scores, write
from tests.exchange.tiny import encoder, eurobert, gpt2, llama, marian, random, t5
from tests.exchange.torture import lines
from tests.text.tokenizers.chats import CHATML
from tests.text.tokenizers.foreign import written

VOCABULARY: dict[str, Any] = {"vocab_size": 520}
TEXTS = ["The chicken didn't cross the road.", " two  spaces\n", "12,345 naïve 日本語", "x"]
# A model of each family, and the style of its tokenizer.
FAMILIES: dict[str, tuple[Callable[[], Any], str]] = {
    "gpt2": (lambda: gpt2(**VOCABULARY), "gpt2"),
    "llama": (lambda: llama("Llama", **VOCABULARY), "llama"),
    "mistral": (lambda: llama("Mistral", **VOCABULARY), "llama"),
    "qwen2": (lambda: llama("Qwen2", **VOCABULARY), "qwen2"),
    "qwen3": (lambda: llama("Qwen3", head_dim=10, **VOCABULARY), "qwen2"),
    "bert": (lambda: encoder("Bert", "ForMaskedLM", **VOCABULARY), "bert"),
    "eurobert": (lambda: eurobert("ForMaskedLM", **VOCABULARY), "roberta"),
    "roberta": (lambda: encoder("Roberta", "ForSequenceClassification", **VOCABULARY), "roberta"),
    "distilbert": (lambda: encoder("DistilBert", "Model", **VOCABULARY), "bert"),
    "t5": (lambda: t5(**VOCABULARY), "t5"),
    "marian": (lambda: marian(**VOCABULARY), "t5"),
}
# Which tokens the tokenizer.json of a family puts before and after a text, where it is not its own.
CASES: list[tuple[str, tuple[str, ...] | None]] = [
    *((family, None) for family in FAMILIES),
    *(("gpt2", around) for around in (("<|endoftext|>", ""), ("", "<|endoftext|>"))),
    *(("llama", around) for around in (("<s>", ""), ("", ""), ("<s>", "</s>"))),
]


def source(family: str, around: tuple[str, ...] | None, folder: Path) -> Path:
    """A folder as `transformers` writes it."""
    make, style = FAMILIES[family]
    random(make()).save_pretrained(folder)
    document = json.loads(written(style))
    if around is not None:
        ids = {token["content"]: token["id"] for token in document["added_tokens"]}
        before, after = ({name: ids[name]} if name else {} for name in around)
        document["post_processor"] = framing_processor(before, after)
    (folder / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    named = {"gpt2": ("<|endoftext|>",) * 2, "qwen2": (None, "<|endoftext|>"), "llama": ("<s>", "</s>")}
    begin, end = named.get(style, (None, None))
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    settings |= {} if end is None else {"bos_token": begin, "eos_token": end, "chat_template": CHATML}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def framed(bundle: Bundle, text: str) -> list[int]:
    """The ids of a text as the model reads it."""
    reader = Reader(bundle)
    return reader.framed(reader.tokenizer.encode(text))


def described(folder: Path) -> dict[str, Any]:
    """What must not change: to the last bit, also the logits of a text."""
    bundle = model_folder.load(folder)
    ids = torch.tensor([framed(bundle, TEXTS[0])])
    with torch.no_grad():
        logits = bundle.module.outputs(Inputs(ids, source=ids if bundle.module.translates else None))
    tokenizers = [one for one in (bundle.tokenizer, bundle.source_tokenizer) if one is not None]
    return {
        "ids": [framed(bundle, text) for text in TEXTS],
        "framing": [one.specials for one in tokenizers],
        "template": [one.chat_template for one in tokenizers],
        "logits": logits.tolist(),
        "weights": {name: X.double().sum().item() for name, X in bundle.module.state_dict().items()},
    }


def test_every_family_is_here() -> None:
    assert FAMILIES.keys() == registry.FAMILIES.keys()


@pytest.mark.parametrize(("family", "around"), CASES)
def test_texts_are_framed_as_in_the_source_and_stay_so(
    family: str, around: tuple[str, ...] | None, tmp_path: Path
) -> None:
    import_model(source(family, around, tmp_path / "theirs"), tmp_path / "ours")
    bundle = model_folder.load(tmp_path / "ours")
    theirs = hf.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    is_prompt = bundle.config.shape == "decoder"
    end = [theirs.eos_token_id] if is_prompt and around is not None and around[1] else []
    for text in TEXTS:
        # What a language model continues has no end.
        assert framed(bundle, text) + end == theirs(text)["input_ids"], text
    export_model(tmp_path / "ours", tmp_path / "again")
    again = hf.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert [again(text)["input_ids"] for text in TEXTS] == [theirs(text)["input_ids"] for text in TEXTS]
    assert again.chat_template == theirs.chat_template
    import_model(tmp_path / "again", tmp_path / "ours-again")
    assert described(tmp_path / "ours-again") == described(tmp_path / "ours")


@pytest.mark.parametrize(
    "pre", ["gpt-2", "qwen2", "llama-bpe", "smollm", "tekken", "default", "deepseek-llm"]
)
@pytest.mark.parametrize("begins", [None, True, False])
def test_a_gguf_file_stays_as_it_is(pre: str, begins: bool | None, tmp_path: Path) -> None:
    def more(writer: Any) -> None:
        levels("gpt2", pre)(writer)
        writer.add_bos_token_id(writer.kv_data[-1]["tokenizer.ggml.eos_token_id"].value)
        writer.add_chat_template(CHATML)
        if begins is not None:
            writer.add_add_bos_token(begins)

    import_model(write(tmp_path / "x.gguf", "llama-tokens", more=more), tmp_path / "ours")
    tokenizer = model_folder.load(tmp_path / "ours").tokenizer
    assert tokenizer is not None
    adds = pre in ("llama-bpe", "tekken") if begins is None else begins
    assert tokenizer.specials.framing == ((tokenizer.specials.begin,) if adds else (), ())
    assert tokenizer.chat_template == CHATML
    export_gguf(tmp_path / "ours", tmp_path / "again.gguf")
    import_model(tmp_path / "again.gguf", tmp_path / "again")
    again = model_folder.load(tmp_path / "again").tokenizer
    assert again is not None
    assert described(tmp_path / "again") == described(tmp_path / "ours")
    assert all(again.encode(line) == tokenizer.encode(line) for line in lines())


@pytest.mark.parametrize("spaced", [True, False])
def test_pieces_with_scores_stay_as_they_are(spaced: bool, tmp_path: Path) -> None:
    def more(writer: Any) -> None:
        scores(writer)
        writer.add_add_space_prefix(spaced)

    import_model(write(tmp_path / "x.gguf", "llama-tokens", more=more), tmp_path / "ours")
    export_gguf(tmp_path / "ours", tmp_path / "again.gguf")
    import_model(tmp_path / "again.gguf", tmp_path / "again")
    tokenizer, again = (model_folder.load(tmp_path / name).tokenizer for name in ("ours", "again"))
    assert tokenizer is not None
    assert again is not None
    assert tokenizer.specials.framing == ((1,), ())
    assert described(tmp_path / "again") == described(tmp_path / "ours")
    assert all(again.encode(line) == tokenizer.encode(line) for line in lines())


def test_merges_that_no_scores_can_say_are_refused(tmp_path: Path) -> None:
    import_model(write(tmp_path / "x.gguf", "llama-tokens", more=scores), tmp_path / "ours")
    bundle = model_folder.load(tmp_path / "ours")
    assert bundle.tokenizer is not None
    document = json.loads(bundle.tokenizer.document)
    merges = document["model"]["merges"]
    made = ["".join(pair) for pair in merges]
    twice = next(
        at for at, piece in enumerate(made) if piece == made[at + 1]
    )  # made in two ways, of which one goes
    document["model"]["merges"] = [*merges[:twice], *merges[twice + 1 :]]
    model_folder.save(tmp_path / "other", Bundle(bundle.module, Tokenizer(json.dumps(document))))
    with pytest.raises(TokenizerError, match=r"llama\.cpp has no tokenizer of this kind"):
        export_gguf(tmp_path / "other", tmp_path / "other.gguf")


def test_every_split_that_can_be_read_is_written_under_a_name_that_means_the_same() -> None:
    firsts = {splits: name for name, splits in reversed(SPLITS.items())}
    assert firsts[SPLITS["olmo"]] == "gpt-2"
    assert firsts[SPLITS["command-r"]] == "smollm"


def test_a_prompt_without_a_beginning_starts_as_a_document_does(tmp_path: Path) -> None:
    import_model(source("gpt2", None, tmp_path / "theirs"), tmp_path / "ours")
    bundle = model_folder.load(tmp_path / "ours")
    generator = Generator(bundle)
    assert bundle.tokenizer is not None
    assert generator.prompt("x").ids == bundle.tokenizer.encode("x")
    assert generator.prompt("").ids == [bundle.tokenizer.specials.end]
    trace = Model(bundle).trace("x")
    assert torch.as_tensor(trace["decoder.0.self.q"]).shape[2] == 1


def test_a_tokenizer_made_here_is_framed_by_its_task() -> None:
    for folder in sorted((Path(__file__).parents[1] / "fixtures" / "model-folder-1").glob("*/")):
        tokenizer = Tokenizer.load(folder)
        assert tokenizer.specials.framing is None
        begin, end = tokenizer.specials.begin, tokenizer.specials.end
        after = [] if folder.name == "decoder" else [end]
        assert framed(model_folder.load(folder), "a b") == [begin, *tokenizer.encode("a b"), *after]
