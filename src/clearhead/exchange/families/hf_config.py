"""A Hugging Face `config.json`: keys enter, checked values leave; what is missing or unsupported is refused."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from clearhead.config.labels import LabelKind
from clearhead.config.model import FeedForward
from clearhead.config.model_base import Head
from clearhead.errors import ConfigError, suggest

ACTIVATIONS: dict[str, FeedForward] = {
    "relu": "relu",
    "relu2": "relu2",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
GATES: dict[str, FeedForward] = {"silu": "swiglu", "gelu": "geglu", "gelu_tanh": "geglu_tanh"}

LARGEST = 10**12  # far above any size or factor of a real model

TOKENS, SEVERAL = "ForTokenClassification", "multi_label_classification"

# By the end of an architecture's name; the first match counts.
HEADS: dict[str, Head] = {
    "LMHeadModel": "language",
    "ForCausalLM": "language",
    "ForMaskedLM": "language",
    "ForPreTraining": "language",
    "ForConditionalGeneration": "language",
    "MTModel": "language",
    "ForSequenceClassification": "classifier",
    TOKENS: "classifier",
    "Model": "none",
}


@dataclass(frozen=True)
class HuggingFaceConfig:
    """The content of config.json, the head to import, and the names of the weights if they are known."""

    values: Mapping[str, Any]
    head: Head
    weights: Collection[str] | None = None

    def __getitem__(self, key: str) -> Any:
        """A required size or factor."""
        value = self.values.get(key)
        if value is None:
            raise ConfigError(f"config.json lacks {key}.\nThe file is incomplete; copy it again.")
        if not is_kind(value, float) or not 0 < value < LARGEST:
            raise ConfigError(f"config.json: {key} = {value!r} must be a number above 0 and below {LARGEST}.")
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """The value of an optional key, which must have the type of the default if there is one."""
        value = self.values.get(key)
        if value is None:
            return default
        if default is not None and not is_kind(value, type(default)):
            raise ConfigError(f"config.json: {key} = {value!r} must have the type of {default!r}.")
        return value

    def expect(self, **values: Any) -> None:
        """Refuses other values than these; a key may be missing."""
        for key, value in values.items():
            if self.get(key, value) != value:
                raise ConfigError(
                    f"config.json: {key} = {self.get(key)!r} is unsupported.\n"
                    f"Only models with {key} = {value!r} can be imported."
                )

    def activation(self, name: str) -> FeedForward:
        """Our name for an activation."""
        if name not in ACTIVATIONS:
            raise ConfigError(
                f"config.json: the activation {name} is unsupported. {suggest(name, ACTIVATIONS)}"
            )
        return ACTIVATIONS[name]

    def gate(self, name: str) -> FeedForward:
        """Our name for a feed-forward with this activation in its gate."""
        if self.activation(name) not in GATES:
            raise ConfigError(f"config.json: a gate with {name} is unsupported. {suggest(name, GATES)}")
        return GATES[ACTIVATIONS[name]]

    @property
    def labels(self) -> LabelKind:
        """What a classifier labels."""
        if architecture_of(self.values).endswith(TOKENS):
            return "each-word"
        return "several" if self.get("problem_type") == SEVERAL else "one"

    @property
    def classes(self) -> int:
        """How many classes a classifier has; if omitted, two, as in `transformers`."""
        labels = self.get("id2label")
        return len(labels) if isinstance(labels, dict | list) and labels else self.get("num_labels", 2)

    def rotation(self) -> dict[str, Any]:
        """Rotary settings from `rope_parameters`, or from `rope_theta` and `rope_scaling` in older files."""
        rope = HuggingFaceConfig(self.get("rope_parameters", {}) or self.get("rope_scaling", {}), self.head)
        for part in (self, rope):
            part.expect(partial_rotary_factor=1.0)
        settings = {"rotary_base": rope.get("rope_theta", self.get("rope_theta", 10_000.0))}
        kind = rope.get("rope_type", rope.get("type", "default"))
        if kind == "default":
            return settings
        if kind == "linear":
            return settings | {"rotary_scaling": {"kind": kind, "factor": rope["factor"]}}
        if kind == "llama3":
            scaling = {
                "kind": kind,
                "factor": rope["factor"],
                "low": rope["low_freq_factor"],
                "high": rope["high_freq_factor"],
                "original_context": rope["original_max_position_embeddings"],
            }
            return settings | {"rotary_scaling": scaling}
        # In some others the angles change with the length of the text, which would invalidate cached keys.
        raise ConfigError(
            f"config.json: rope_type = {kind!r} is unsupported.\n"
            "Only models with rope_type default, linear or llama3 can be imported."
        )

    def window(self) -> int | None:
        """The window that all blocks have, or None."""
        width = self.get("sliding_window") if self.get("use_sliding_window", False) else None
        blocks, kinds = self["num_hidden_layers"], self.get("layer_types", [])
        from_block = self.get("max_window_layers", 28)
        narrow = kinds.count("sliding_attention") if kinds else max(0, blocks - from_block)
        if width is None or narrow == 0:
            return None
        if narrow < blocks:
            raise ConfigError(
                f"config.json: a window of {width} in {narrow} of {blocks} blocks is unsupported.\n"
                "Only models with the same window in all blocks, or in none, can be imported."
            )
        return width


def is_kind(value: object, kind: type) -> bool:
    """Whether a JSON value has a type; an integer is a number, and true is not."""
    is_one = isinstance(value, (int, float) if kind is float else kind)
    return is_one and isinstance(value, bool) == (kind is bool)


def architecture_of(config: Mapping[str, Any]) -> str:
    """The first name in `architectures`, or nothing if there is none."""
    given = config.get("architectures")
    return str(given[0]) if isinstance(given, list) and given else ""


def head_of(config: Mapping[str, Any]) -> Head:
    """The head that `architectures` names."""
    architecture = architecture_of(config)
    for ending, head in HEADS.items():
        if architecture.endswith(ending):
            return head
    known = ", ".join(f"…{ending}" for ending in HEADS)
    raise ConfigError(
        f"config.json: architectures = {config.get('architectures')!r} names no supported head.\n"
        f"Supported: {known}. Or choose the head: language, classifier or none."
    )
