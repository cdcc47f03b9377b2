"""Infers what an incomplete config.json omits: its settings and the weights enter; a complete one and notes leave.

Old files have neither `model_type` nor `architectures`, and some conversions drop them.
"""

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any

from clearhead.config.model_base import Head
from clearhead.exchange.families.hf_config import TOKENS, architecture_of, head_of
from clearhead.exchange.families.registry import FAMILIES, UNSUPPORTED
from clearhead.exchange.families.weight_names import is_pooled
from clearhead.exchange.weights.read import StoredTensor

# Weights that only one family has; the first match counts.
WEIGHTS = {
    "*albert_layer_groups.*": "albert",
    "*SelfAttention.q.weight": "t5",
    "final_logits_bias": "marian",
    "*attn.c_attn.weight": "gpt2",
    "*attention.q_lin.weight": "distilbert",
    "roberta.*": "roberta",
    "lm_head.dense.*": "roberta",
    "*attention.self.query.weight": "bert",
    "*self_attn.q_norm.weight": "qwen3",
    "*mlp.gate_proj.weight": "llama",
}


def complete_config(
    config: Mapping[str, Any], weights: Mapping[str, StoredTensor], head: Head | None
) -> tuple[dict[str, Any], Head, list[str]]:
    """The settings with a family and the number of classes, the head to import, and what was inferred."""
    found, notes = dict(config), []
    if config.get("model_type") is None and (family := infer_family(config, weights)):
        found["model_type"] = family
        notes.append(f"config.json has no model_type; by its other settings and weights this is a {family}")
    family = str(found.get("model_type"))
    if family not in FAMILIES:
        return found, head or "none", notes  # refused by whoever looks the family up
    if head is None and not config.get("architectures"):
        head = infer_head(family, weights)
        notes.append(f"config.json has no architectures; by its weights the head is {head}")
        if head == "classifier" and labels_words(family, weights):
            found["architectures"] = [TOKENS]
    head = head or head_of(config)
    if head == "classifier":
        found, more = with_classes(found, weights)
        notes += more
    return found, head, notes


def infer_family(config: Mapping[str, Any], weights: Collection[str]) -> str | None:
    """The family by the name of the architecture, or else by the names of its weights."""
    architecture = architecture_of(config).lower()
    names = sorted((*FAMILIES, *UNSUPPORTED), key=len, reverse=True)
    if by_name := next((name for name in names if architecture.startswith(name)), None):
        return by_name
    family = next((kind for pattern, kind in WEIGHTS.items() if has_any(weights, pattern)), None)
    if family == "bert" and config.get("type_vocab_size") == 1:
        return "roberta"
    if family != "llama":
        return family
    if "classifier_pooling" in config:
        return "eurobert"
    if has_any(weights, "*self_attn.q_proj.bias") and not has_any(weights, "*self_attn.o_proj.bias"):
        return "qwen2"
    return "mistral" if config.get("sliding_window") else "llama"


def infer_head(family: str, weights: Collection[str]) -> Head:
    """The head whose weights are present; a tied head has none, so that a decoder has a language head otherwise."""
    names = FAMILIES[family].weight_names
    heads: tuple[Head, Head] = ("classifier", "language")
    for head in heads:
        own = [row.theirs.replace("{p}", "weight") for row in names.heads.get(head, ()) if is_own(row.ours)]
        if any(name in weights for name in own):
            return head
    return "none" if FAMILIES[family].shape == "encoder" else "language"


def labels_words(family: str, weights: Collection[str]) -> bool:
    """Whether a classifier lacks all weights of one that labels texts; in some families both have the same."""
    rows = FAMILIES[family].weight_names.heads["classifier"]
    of_texts = [row for row in rows if str(row.ours).startswith("head.dense.") or row.when is is_pooled]
    return bool(of_texts) and not any(row.theirs.replace("{p}", "weight") in weights for row in of_texts)


def is_own(ours: str | tuple[str, ...]) -> bool:
    """Whether no other head has such a weight, as the pooler of a BERT is also in models without a classifier."""
    return isinstance(ours, str) and not ours.startswith("head.dense.")


def with_classes(
    config: dict[str, Any], weights: Mapping[str, StoredTensor]
) -> tuple[dict[str, Any], list[str]]:
    """The settings with as many classes as the weights have, if the settings say nothing or contradict themselves."""
    rows = FAMILIES[str(config["model_type"])].weight_names.heads.get("classifier", ())
    names = [row.theirs.replace("{p}", "weight") for row in rows if str(row.ours).startswith("head.out.")]
    shape = next((weights[name].shape for name in names if name in weights), None)
    labels, count = config.get("id2label"), config.get("num_labels")
    stated = len(labels) if isinstance(labels, dict | list) and labels else count
    if not shape or stated == shape[0] or (stated is not None and count != shape[0]):
        return config, []
    rest = {key: value for key, value in config.items() if key not in ("id2label", "label2id")}
    reason = "num_labels says" if count == shape[0] else "the weights have"
    return rest | {"num_labels": shape[0]}, [f"{shape[0]} classes, as {reason}; they have no names"]


def has_any(weights: Collection[str], pattern: str) -> bool:
    """Whether the name of a weight matches a pattern."""
    return any(fnmatchcase(name, pattern) for name in weights)
