"""From a model folder of ours to a folder that `transformers` loads without code of ours.

Config, weights and tokenizer are written in the words of the family that can say what the model is. Weights go
from file to file, one tensor at a time.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from clearhead.checkpoint import (
    CARD,
    LABELS,
    SOURCE_TOKENIZER,
    TOKENIZER,
    WEIGHTS,
    check_file,
    check_names,
    find,
    is_labels,
    read_config,
    read_json,
)
from clearhead.config.model import ModelConfig
from clearhead.data.frames import Frame, document_frame, input_frame, target_frame
from clearhead.errors import CheckpointError, ConfigError
from clearhead.exchange.expressing import Expression, express
from clearhead.exchange.families import FAMILIES
from clearhead.exchange.folder import CONFIG, check_free
from clearhead.exchange.rules import AS_IS, Move, moves
from clearhead.exchange.sentences import sentence_files
from clearhead.exchange.stored import Stored, read_safetensors
from clearhead.exchange.tokens import TARGET
from clearhead.exchange.vocabularies import SETTINGS
from clearhead.exchange.writing import copy_span, header, kind_of, write_tensor
from clearhead.models.build import SHAPES, Model
from clearhead.storage import written_beside
from clearhead.text.fast import QWEN
from clearhead.text.tokenizer import Tokenizer

# The key of `tokenizer_config.json` for each role, in models that write and in those that read.
OF_WRITERS = {"begin": "bos_token", "end": "eos_token", "separator": "sep_token"}
OF_READERS = {"begin": "cls_token", "end": "sep_token"}
ONES = "ones"  # where the numbers of a tensor come from that ours lacks
OF_ALL = {"padding": "pad_token", "unknown": "unk_token", "mask": "mask_token"}


def export_model(folder: str | Path, out: str | Path) -> Expression:
    """Writes the folder `out` for `transformers`, and says as which family."""
    folder, out = find(Path(folder)), Path(out)
    check_free(out)
    config = read_config(folder)
    target, source = tokenizers_of(folder)
    made = express(config, without=unfit(source or target))
    check_file(folder / WEIGHTS)
    held = read_safetensors(folder / WEIGHTS)
    with safe_open(folder / WEIGHTS, framework="pt") as file:
        check_names(folder / WEIGHTS, file, empty(config))
    check_padding(made, source or target)
    settings = numbers_of(config, target) | made.config | labels_of(folder, config)
    settings["dtype"] = str(next(iter(held.values())).dtype).removeprefix("torch.")
    with written_beside(out) as place:
        write(place / CONFIG, settings)
        write_weights(place / WEIGHTS, their_weights(made, held))
        write_around(place, folder, config)
        if target is not None:
            write(place / "generation_config.json", numbers_of(config, target))
            write_tokenizer(place, source or target, config)
            if source is not None:
                write_tokenizer(place / TARGET, target, config)
    return made


def write_around(place: Path, folder: Path, config: ModelConfig) -> None:
    """How vectors are made, and the card."""
    if config.head == "none":
        for name, content in sentence_files(config).items():
            write(place / name, content)
    if (folder / CARD).exists():
        card = (folder / CARD).read_text(encoding="utf-8", errors="replace")
        (place / "README.md").write_text(card, encoding="utf-8")


def empty(config: ModelConfig) -> Model:
    """A model that takes no memory."""
    with torch.device("meta"):
        return SHAPES[config.shape](config)


def write(path: Path, content: Any) -> None:
    """A JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def their_weights(made: Expression, held: Mapping[str, Stored]) -> Iterator[tuple[str, Stored]]:
    """Every tensor of theirs, made from ours when it is read; a tied one once."""
    model = empty(made.target)
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    dtype = kind_of("the first tensor", next(iter(held.values())))
    written = set()
    for move in moves(model, FAMILIES[made.family].names):
        if move.ours not in written:
            written.add(move.ours)
            yield move.theirs, their_tensor(move, shapes, held, "feedforward" in made.added, dtype)


def their_tensor(
    move: Move,
    shapes: Mapping[str, torch.Size],
    held: Mapping[str, Stored],
    has_new_gate: bool,
    dtype: torch.dtype,
) -> Stored:
    """One tensor of theirs: ours, several of ours together, or numbers that stand for what ours lacks."""
    sources = [ungated(name) if has_new_gate else name for name in move.ours]
    first = held.get(sources[0])
    dtype = dtype if first is None else kind_of(sources[0], first)
    if first is not None and first.span is not None and move.operation is AS_IS and first.dtype == dtype:
        return first

    def read() -> Tensor:
        pieces = [
            held[source].read().to(dtype)
            if source in held
            else torch.full(shapes[name], float(source == ONES), dtype=dtype)
            for name, source in zip(move.ours, sources, strict=True)
        ]
        return move.operation.join(pieces)

    shape = move.operation.join([torch.empty(shapes[name], device="meta") for name in move.ours]).shape
    return Stored(shape, dtype, read)


def ungated(name: str) -> str:
    """Where the numbers of a new gate come from: W_g is our W_1, and the other side is 0 x + 1."""
    if ".ffn.W_g." in name:
        return name.replace(".W_g.", ".W_1.")
    if name.endswith(".ffn.W_1.bias"):
        return ONES
    return "zeros" if name.endswith(".ffn.W_1.weight") else name


def write_weights(path: Path, tensors: Iterator[tuple[str, Stored]]) -> None:
    """A safetensors file of tensors that are read one at a time."""
    rows = list(tensors)
    with path.open("wb") as file:
        file.write(header((name, stored.shape, stored.dtype) for name, stored in rows))
        for _, stored in rows:
            copy_span(file, stored.span) if stored.span else write_tensor(file, stored.read())


def tokenizers_of(folder: Path) -> tuple[Tokenizer | None, Tokenizer | None]:
    """The tokenizer of the text or the target, and that of the source where it is another."""
    found = [
        Tokenizer.load(folder / name) if (folder / name).exists() else None
        for name in (TOKENIZER, SOURCE_TOKENIZER)
    ]
    return found[0], found[1]


def unfit(tokenizer: Tokenizer | None) -> tuple[str, ...]:
    """Families whose tokenizer `transformers` makes anew from pieces and merges, whatever `tokenizer.json` says."""
    if tokenizer is None or json.dumps(QWEN) in json.dumps(json.loads(tokenizer.document)["pre_tokenizer"]):
        return ()
    return ("qwen2",)


def check_padding(made: Expression, tokenizer: Tokenizer | None) -> None:
    """RoBERTa counts positions by the padding token, which has to be the one before the first position."""
    wanted = made.target.position_offset - 1
    if (
        made.family == "roberta"
        and tokenizer is not None
        and tokenizer.specials.padding not in (None, wanted)
    ):
        raise ConfigError(
            f"model.position_offset = {wanted + 1} makes {wanted} the padding of a RoBERTa, but the tokenizer's "
            f"padding is {tokenizer.specials.padding}.\nNo other family has an offset; train without one."
        )


def numbers_of(config: ModelConfig, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """The ids of special tokens that `transformers` looks for in a config, where it has defaults of its own."""
    if tokenizer is None:
        start = 0 if config.shape == "encoder-decoder" else None
        keys = ("bos_token_id", "eos_token_id", "forced_eos_token_id")
        return dict.fromkeys(keys) | {"pad_token_id": start, "decoder_start_token_id": start}
    specials = tokenizer.specials
    frame = target_frame(specials) if config.shape == "encoder-decoder" else None
    end = specials.end if frame is None else frame.after[0]
    numbers = {"bos_token_id": specials.begin, "eos_token_id": end, "pad_token_id": specials.padding}
    if frame is not None:
        numbers |= {"decoder_start_token_id": frame.before[0], "forced_eos_token_id": None}
        numbers["pad_token_id"] = end if specials.padding is None else specials.padding
    return numbers


def labels_of(folder: Path, config: ModelConfig) -> dict[str, Any]:
    """The names of the classes."""
    if config.classes is None or not (folder / LABELS).exists():
        return {}
    labels = read_json(folder / LABELS)
    if not is_labels(labels, config.classes):
        raise CheckpointError(f"{folder / LABELS} must be a list of {config.classes} different texts.")
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }


def write_tokenizer(place: Path, tokenizer: Tokenizer, config: ModelConfig) -> None:
    """`tokenizer.json`, which frames a text as the model was trained, and the settings that name its tokens."""
    document = json.loads(tokenizer.document)
    if not document.get("post_processor"):
        document["post_processor"] = template(tokenizer, config)
    keys = OF_ALL | (OF_READERS if config.shape == "encoder" else OF_WRITERS)
    numbers = {key: getattr(tokenizer.specials, role) for role, key in keys.items()}
    names = {key: tokenizer.spelling(number) for key, number in numbers.items() if number is not None}
    inputs = ["input_ids", *(["token_type_ids"] if config.token_types > 1 else []), "attention_mask"]
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config.context or 1 << 30,
        "clean_up_tokenization_spaces": False,
        "model_input_names": inputs,
    }
    place.mkdir(parents=True, exist_ok=True)
    (place / TOKENIZER).write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    write(place / SETTINGS, settings | names)


def template(tokenizer: Tokenizer, config: ModelConfig) -> dict[str, Any] | None:
    """What is put around a text: a beginning before a prompt, beginning and end around what is read."""
    specials = tokenizer.specials
    if specials.begin is specials.end is specials.separator is None:
        return None
    is_prompt = config.shape == "decoder" and config.head != "classifier"
    frame = Frame(document_frame(specials).before) if is_prompt else input_frame(specials)
    before, after = frame.before, frame.after
    names = {number: str(tokenizer.spelling(number)) for number in (*before, *after)}

    def special(number: int, side: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": names[number], "type_id": side}}

    def text(name: str, side: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": side}}

    single = [*(special(n, 0) for n in before), text("A", 0), *(special(n, 0) for n in after)]
    if not names:
        return None
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, text("B", 1), *(special(n, 1) for n in after)],
        "special_tokens": {name: {"id": name, "ids": [n], "tokens": [name]} for n, name in names.items()},
    }
