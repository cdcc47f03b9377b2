"""The tables of kinds and the config's choices are the same, and the battery of laws runs over them all."""

from typing import Any, get_args

import pytest

from clearhead.config import model as kinds
from clearhead.config import model_base as shared
from clearhead.config import recurrent
from clearhead.config.families import FAMILIES as CONFIGS
from clearhead.config.model import GATED, ModelConfig
from clearhead.layers.feedforward import FEEDFORWARDS, Gated
from clearhead.layers.norms import NORMS
from clearhead.layers.positions import POSITIONS
from clearhead.layers.recurrence import CELLS
from clearhead.layers.residual import PLACEMENTS
from clearhead.layers.similarity import SIMILARITIES
from clearhead.models.build import FAMILIES
from clearhead.models.heads import POOL_DENSE, POOLS
from tests.models.cases import AXES, CASES, MIXED, REFUSED

TABLES: dict[str, tuple[Any, Any]] = {
    "family": (shared.Family, FAMILIES),
    "family of settings": (shared.Family, CONFIGS),
    "shape": (shared.Shape, FAMILIES["transformer"]),
    "cell": (recurrent.Cell, CELLS),
    "similarity": (kinds.Similarity, SIMILARITIES),
    "positions": (kinds.Positions, POSITIONS),
    "norm": (kinds.Norm, NORMS),
    "norm_placement": (kinds.Placement, PLACEMENTS),
    "feedforward": (kinds.FeedForward, FEEDFORWARDS),
    "pool": (shared.Pool, POOLS),
    "pool_dense": (shared.PoolDense, POOL_DENSE),
}


@pytest.mark.parametrize("axis", TABLES)
def test_the_config_offers_what_the_table_holds(axis: str) -> None:
    choice, table = TABLES[axis]
    assert get_args(choice) == tuple(table)


def test_the_config_knows_which_kinds_are_gated() -> None:
    assert set(GATED) == {name for name, (kind, _) in FEEDFORWARDS.items() if kind is Gated}


def test_every_choice_of_the_config_is_tried() -> None:
    """A field with a closed choice that no case sets to each of its values would go untested."""
    for family, group in CONFIGS.items():
        of_family = [case.config for case in CASES.values() if case.config.family == family]
        for name, field in group.model_fields.items():
            values = {value for value in choices(field.annotation) if value is not None} - set(CONFIGS)
            tried = {getattr(config, name) for config in of_family} if values else set()
            untried = values - tried - ({"encoder-decoder"} if family == "convolutional" else set())
            assert not untried, f"{family}, {name}: {untried} is in no case"


def choices(annotation: Any) -> set[Any]:
    """The literal values that an annotation allows."""
    parts = get_args(annotation)
    return (
        set().union(*(choices(part) for part in parts))
        if any(map(get_args, parts))
        else {part for part in parts if isinstance(part, str)}
    )


def test_a_case_is_refused_only_for_a_known_reason() -> None:
    """The battery leaves out what the config refuses; nothing else may slip out of it."""
    reasons = {
        "distance rotary": "'distance' has no queries and keys that rotary",
        "norm whole": "a causal stack would see the future",
        "whole transform": "a causal stack would see the future",
        "encoder_norm": "'decoder' has no encoder",
        "whole post": "'decoder' has no encoder",
        "whole both window": "'decoder' has no encoder",
        "pool first": ("a token that sees no other", "does not work with shape = 'encoder-decoder'"),
        "pool": "does not work with shape = 'encoder-decoder'",
        "head": "does not work with shape = 'encoder-decoder'",
        "labels": "does not work with shape = 'encoder-decoder'",
        "kept": "which this model does not have",
        "filters positions": ("is for a convolutional encoder", "has no shape = 'encoder-decoder'"),
        "filters period": ("is for a convolutional encoder", "has no shape = 'encoder-decoder'"),
        "runs alone": ("is for a convolutional encoder", "has no shape = 'encoder-decoder'"),
        "filters runs": ("is for a convolutional encoder", "has no shape = 'encoder-decoder'"),
        "filters logs": ("is for a convolutional encoder", "has no shape = 'encoder-decoder'"),
        "filters": ("has no shape = 'encoder-decoder'", "a token that sees no other"),
        "recurrence pool first": (
            "a token that sees no other",
            "does not work with shape = 'encoder-decoder'",
        ),
        "recurrence": "does not work with shape = 'encoder-decoder'",
    }
    for case, message in REFUSED.items():
        name = case.split(": ")[1]
        reason = next(reasons[key] for key in reasons if name.startswith(key))
        assert any(part in message for part in ([reason] if isinstance(reason, str) else reason)), case
    names = {case.split(": ")[1] for case in CASES}
    unused = {name for name in MIXED if name not in names}
    assert not unused, f"no shape takes {unused}"
    assert set(AXES) <= set(ModelConfig.model_fields)
