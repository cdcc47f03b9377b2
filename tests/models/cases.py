"""The models that every law is tried on: settings from the tables enter, small random models leave.

Similarity × positions × shape are taken in full, every other axis one kind at a time, and some settings that
meet in real models are mixed. All sizes differ, so that a swapped axis cannot pass by luck.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, get_args

import torch
from torch import Tensor

from clearhead.config import model as kinds
from clearhead.config.families import read_model_config
from clearhead.config.labels import LabelKind
from clearhead.config.model import ModelConfig
from clearhead.config.model_base import AnyModelConfig, Head
from clearhead.errors import ConfigError
from clearhead.layers.feedforward import FEEDFORWARDS
from clearhead.layers.norms import NORMS
from clearhead.layers.positions import POSITIONS
from clearhead.layers.residual import PLACEMENTS
from clearhead.layers.similarity import SIMILARITIES
from clearhead.models.build import FAMILIES, build
from clearhead.models.heads import POOL_DENSE, POOLS
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model

SHAPES = FAMILIES["transformer"]
B, N, M = 2, 5, 7  # sequences, target tokens, source tokens
VOCABULARY, CONTEXT = 23, 19
SMALL = {
    "vocabulary": VOCABULARY, "context": CONTEXT, "d": 10, "h": 3, "d_k": 4, "d_ff": 9,
    "encoder_blocks": 2, "decoder_blocks": 2, "relative_buckets": 8, "relative_distance": 9,
}  # fmt: skip
OF_SHAPE: dict[str, dict[str, Any]] = {
    "decoder": {},
    "encoder": {},
    "encoder-decoder": {"encoder_d": 14, "source_vocabulary": 29},
}
OF_ALL = ("vocabulary", "context", "d", "encoder_blocks", "decoder_blocks")  # sizes that every family has
ALONE: dict[str, Any] = {"h": 1, "d_k": None, "encoder_d": None}  # what projections = "none" asks for

# One axis at a time, over the kinds that the tables list.
AXES: dict[str, Iterable[Any]] = {
    "norm": NORMS,
    "encoder_norm": NORMS,
    "norm_placement": PLACEMENTS,
    "feedforward": FEEDFORWARDS,
    "projections": get_args(kinds.Projections),
    "pool": POOLS,
    "pool_dense": POOL_DENSE,
    "labels": get_args(LabelKind),
    "head": get_args(Head),
    "sinusoid_layout": ("interleaved", "halves"),
}
BESIDE: dict[str, dict[str, Any]] = {  # what a setting needs beside it
    "pool": {"head": "classifier", "classes": 4},
    "pool_dense": {"head": "classifier", "classes": 4, "pool": "last"},
    "labels": {"head": "classifier", "classes": 4},
    "sinusoid_layout": {"positions": "sinusoidal"},
}

MIXED: dict[str, dict[str, Any]] = {
    "grouped": {"h": 6, "h_kv": 2},
    "one key head": {"h": 3, "h_kv": 1, "positions": "alibi"},
    "window": {"window": 3, "positions": "learned"},
    "window rotary grouped": {"window": 3, "h": 4, "h_kv": 2, "norm": "layer"},
    "window alibi": {"window": 4, "positions": "alibi"},
    "window relative": {"window": 2, "positions": "relative"},
    "window sinusoidal additive": {"window": 3, "positions": "sinusoidal", "similarity": "additive"},
    "window none": {"window": 3, "positions": "none"},
    "narrow values": {"d_v": 2},
    "wide values": {"d_v": 7, "positions": "relative"},
    "wide values gaussian": {"d_v": 7, "similarity": "gaussian", "h": 4, "h_kv": 2},
    "kept": {"kept_heads": {"decoder.0.self": (0, 2), "decoder.1.self": (1,)}, "positions": "alibi"},
    "kept grouped": {"kept_heads": {"decoder.1.self": (0, 1, 5)}, "h": 6, "h_kv": 3, "positions": "relative"},
    "kept additive": {"kept_heads": {"decoder.0.self": (1, 2)}, "similarity": "additive"},
    "kept encoder": {"kept_heads": {"encoder.0.self": (0, 2)}, "positions": "relative", "h_kv": 1},
    "kept cross": {"kept_heads": {"decoder.1.cross": (2,), "encoder.1.self": (0, 1)}, "positions": "learned"},
    "query-key norm": {"query_key_norm": True, "attention_bias": "qkvo"},
    "biases": {"attention_bias": "qkvo", "feedforward_bias": True, "head_bias": True, "norm": "layer"},
    "some biases": {"attention_bias": "qv", "feedforward": "geglu", "feedforward_bias": True},
    "soft cap": {"soft_cap": 2.0, "head_scale": 0.7, "tied": False},
    "own head": {"tied": False, "head_bias": True, "embedding_scale": 3.1},
    "transform": {"head_transform": True, "norm": "layer", "head_bias": True},
    "relu cosine": {"projections": "relu", "similarity": "cosine", "positions": "learned"},
    "relu additive biases": {"projections": "relu", "similarity": "additive", "attention_bias": "qkv"},
    "none dot": {"projections": "none", **ALONE, "similarity": "dot", "positions": "none"},
    "none distance": {"projections": "none", **ALONE, "similarity": "distance", "positions": "none"},
    "none gaussian": {"projections": "none", **ALONE, "similarity": "gaussian", "query_key_norm": True},
    "distance window": {"similarity": "distance", "positions": "none", "window": 3, "scale": 0.3},
    "scaled": {"scale": 1.0, "rotary_base": 100.0},
    "stretched": {"rotary_scaling": {"kind": "linear", "factor": 3.0}},
    "stretched as llama": {
        "rotary_scaling": {"kind": "llama3", "factor": 4.0, "original_context": 16, "high": 2.0}
    },
    "post": {"norm_placement": "post", "norm": "layer", "embedding_norm": True, "positions": "learned"},
    "both": {"norm_placement": "both", "norm": "layer", "norm_bias": False, "final_norm": False},
    "offset": {"positions": "learned", "position_offset": 2, "token_types": 2},
    "bert": {
        "norm_placement": "post", "norm": "layer", "embedding_norm": True, "positions": "learned",
        "token_types": 3, "attention_bias": "qkvo", "feedforward_bias": True, "head_transform": True,
        "head_bias": True,
    },
    "whole post": {"norm_placement": "post", "encoder_norm": "whole", "embedding_norm": True},
    "whole both window": {"norm_placement": "both", "encoder_norm": "whole", "norm": "rms", "window": 3},
    "whole transform": {"norm": "whole", "head_transform": True, "positions": "learned"},
    "shared": {"encoder_d": None, "source_vocabulary": None},
    "own tables": {"encoder_d": None, "source_vocabulary": None, "shared": False},
    "no limit": {"context": None},
    "no blocks": {"encoder_blocks": 1, "decoder_blocks": 0},
    "convolution": {"convolution": 3, "positions": "learned"},
    "convolution window": {"convolution": 4, "window": 3, "norm": "layer"},
}  # fmt: skip

DENSE: tuple[dict[str, Any], ...] = (
    {"pool_dense": "gelu"},
    {"pool_dense": "tanh"},
    {},
    {"pool_dense": "relu"},
    {},
)
# The other families; every kind of every axis of theirs is in some row.
OTHERS: dict[str, dict[str, Any]] = {
    "recurrence rnn": {"family": "recurrent", "cell": "rnn"},
    "recurrence gru": {"family": "recurrent", "cell": "gru", "tied": False, "head_bias": True},
    "recurrence lstm": {"family": "recurrent", "cell": "lstm", "embedding_scale": 2.1, "context": None},
    "recurrence one way": {"family": "recurrent", "bidirectional": False, "encoder_blocks": 3},
    "recurrence one way gru": {
        "family": "recurrent",
        "bidirectional": False,
        "cell": "gru",
        "attention": "none",
    },
    "recurrence without attention": {"family": "recurrent", "attention": "none", "decoder_blocks": 1},
    "recurrence shared": {"family": "recurrent", "source_vocabulary": None, "decoder_blocks": 3},
    "recurrence vectors": {"family": "recurrent", "head": "none", "pool": "mean"},
    **{
        f"recurrence labels {labels}": {
            "family": "recurrent",
            "head": "classifier",
            "classes": 4,
            "labels": labels,
        }
        for labels in ("several", "each-word")
    },
    **{
        f"recurrence pool {pool}": {
            "family": "recurrent",
            "head": "classifier",
            "classes": 4,
            "pool": pool,
            **dense,
        }
        for pool, dense in zip(POOLS, DENSE, strict=True)
    },
    "filters": {"family": "convolutional"},
    "filters one width": {"family": "convolutional", "widths": (2,), "dilation": 3, "tied": False},
    "filters many widths": {
        "family": "convolutional",
        "widths": (1, 3, 4, 6),
        "dilation": 1,
        "soft_cap": 3.0,
    },
    "filters vectors": {"family": "convolutional", "head": "none"},
    "filters positions": {"family": "convolutional", "positions": "learned", "token_d": 6},
    "filters period": {"family": "convolutional", "period": 3, "token_d": 7, "widths": (1, 2)},
    "filters period runs": {"family": "convolutional", "period": 2, "ngrams": (2,), "ngram_rows": 31},
    "filters runs": {"family": "convolutional", "ngrams": (2, 4), "ngram_rows": 31},
    "filters logs": {"family": "convolutional", "ngrams": (1, 3), "ngram_rows": 31, "ngram_repeats": "log"},
    "runs alone": {
        "family": "convolutional",
        "encoder_blocks": 0,
        "ngrams": (2, 3),
        "ngram_words": 2,
        "word_breaks": (3, 4, 5, 6, 7, 8, 9),
        "ngram_rows": 31,
        "head": "classifier",
        "classes": 4,
        "pool": "mean",
    },
    **{
        f"filters labels {labels}": {
            "family": "convolutional",
            "head": "classifier",
            "classes": 4,
            "labels": labels,
        }
        for labels in ("several", "each-word")
    },
    **{
        f"filters pool {pool}": {
            "family": "convolutional",
            "head": "classifier",
            "classes": 4,
            "pool": pool,
            **dense,
        }
        for pool, dense in zip(POOLS, DENSE, strict=True)
    },
}


@dataclass(frozen=True)
class Case:
    """One model to try the laws on."""

    name: str
    config: AnyModelConfig

    @property
    def is_causal(self) -> bool:
        """Whether the tokens are read from left to right."""
        return self.config.shape != "encoder"

    @property
    def is_writer(self) -> bool:
        """Whether it can go on with a text step by step."""
        return self.is_causal and self.config.head == "language"

    @property
    def has_source(self) -> bool:
        """Whether it also reads a source."""
        return self.config.shape == "encoder-decoder"

    @property
    def has_blocks(self) -> bool:
        """Whether there is any attention in the stack that is read out."""
        config = self.config
        return bool(config.encoder_blocks if config.shape == "encoder" else config.decoder_blocks)

    @property
    def is_set_to_set(self) -> bool:
        """Whether nothing but a causal mask tells one order from another."""
        config = self.config
        if not isinstance(config, ModelConfig) or config.convolution is not None:
            return False
        return config.positions == "none" and config.similarity != "distance" and config.window is None

    @property
    def has_attention(self) -> bool:
        """Whether any token looks at any other."""
        return bool(self.config.attentions())

    @property
    def can_go_back(self) -> bool:
        """Whether what was read can be forgotten again from some token on."""
        return isinstance(self.config, ModelConfig) and self.config.convolution is None

    @property
    def window(self) -> int | None:
        """How far a token sees."""
        return self.config.window if isinstance(self.config, ModelConfig) else None

    @property
    def kind(self) -> str:
        """The name without the shape."""
        return self.name.split(": ")[1]

    @property
    def is_sampled(self) -> bool:
        """Whether it is one of the few cases for laws that depend on little but positions and heads."""
        return self.kind in MIXED or self.kind in OTHERS or self.kind.startswith("scaled_dot")

    @property
    def is_double(self) -> bool:
        """Whether the same settings are also tried in a shape with one stack."""
        return self.has_source and any(f"{shape}: {self.kind}" in CASES for shape in ("decoder", "encoder"))

    @property
    def is_crossed(self) -> bool:
        """Whether two axes meet in it that are each tried elsewhere: for laws that ask nothing of both."""
        similarity, _, positions = self.kind.partition(" ")
        in_grid = similarity in SIMILARITIES and positions in POSITIONS
        return in_grid and similarity != "scaled_dot" and positions != "learned"

    def model(self) -> Model:
        """The model, the same for every test: nobody may change it."""
        return random_model(self.name)


def configure(shape: str, settings: dict[str, Any]) -> ModelConfig:
    """A small transformer of a shape."""
    config = configure_any(shape, settings)
    assert isinstance(config, ModelConfig)
    return config


def configure_any(shape: str, settings: dict[str, Any]) -> AnyModelConfig:
    """A small model of a shape, of any family."""
    sizes = {**SMALL, **OF_SHAPE[shape]}
    if "family" in settings:
        sizes = {key: value for key, value in sizes.items() if key in (*OF_ALL, "source_vocabulary")}
    return read_model_config({**sizes, "shape": shape, **settings})


def listed() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, shape and settings of everything that is tried."""
    for shape, similarity, positions in product(SHAPES, SIMILARITIES, POSITIONS):
        yield f"{similarity} {positions}", shape, {"similarity": similarity, "positions": positions}
    for shape, (axis, values) in product(SHAPES, AXES.items()):
        for value in values:
            settings = {axis: value, **BESIDE.get(axis, {})}
            settings |= {"classes": 4} if value == "classifier" else {}
            settings |= ALONE if value == "none" and axis == "projections" else {}
            yield f"{axis} {value}", shape, settings
    for shape, (name, settings) in product(SHAPES, {**MIXED, **OTHERS}.items()):
        yield name, shape, settings


def sort_out() -> tuple[dict[str, Case], dict[str, str]]:
    """The cases that the config accepts, and why it refuses the others."""
    cases: dict[str, Case] = {}
    refused: dict[str, str] = {}
    for name, shape, settings in listed():
        full = f"{shape}: {name}"
        try:
            case = Case(full, configure_any(shape, settings))
        except ConfigError as error:
            refused[full] = str(error)
            continue
        if all(case.config != other.config for other in cases.values()):
            cases[full] = case
    return cases, refused


CASES, REFUSED = sort_out()


@cache
def random_model(name: str) -> Model:
    """A model with every weight random: norms, biases and tables too."""
    return randomise(build(CASES[name].config), seed=len(name))


def randomise(model: Model, seed: int = 1) -> Model:
    """Moves every weight away from where it starts."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.3)
    return model


def some_ids(*shape: int, seed: int = 1, below: int = VOCABULARY) -> Tensor:
    """Random ids."""
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(seed))


def gap(X: Tensor, Y: Tensor) -> float:
    """The largest difference, relative to the largest number where that is above 1."""
    assert X.shape == Y.shape, (X.shape, Y.shape)
    X, Y = X.detach(), Y.detach()
    return float((X - Y).abs().max() / Y.abs().max().clamp(min=1)) if X.numel() else 0.0


def some_source(case: Case, b: int = B, seed: int = 2) -> Tensor | None:
    """Random source ids for a translator, nothing for the others."""
    if case.config.shape != "encoder-decoder":
        return None
    return some_ids(b, M, seed=seed, below=case.config.vocabulary_encoder)


def say(
    model: Model,
    tokens: Tensor,
    source: Tensor | None = None,
    counts: Tensor | None = None,
    source_counts: Tensor | None = None,
) -> Tensor:
    """What a model says of every token: logits, or vectors where its head does not speak of tokens."""
    inputs = Inputs(tokens, counts, source, source_counts)
    return model(inputs) if model.config.head == "language" else model.vectors(inputs)


read = torch.no_grad()(say)
