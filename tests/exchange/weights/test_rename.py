"""Import and export rename weights by the same table, and name whatever does not fit."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from clearhead import model_folder
from clearhead.config.model import ModelConfig
from clearhead.config.model_base import Head
from clearhead.errors import ModelFolderError
from clearhead.exchange.exporting import export_model
from clearhead.exchange.families.registry import FAMILIES
from clearhead.exchange.families.weight_names import GPT2
from clearhead.exchange.importing import import_model
from clearhead.exchange.weights.rename import (
    AS_IS,
    FUSED,
    ROW,
    TRANSPOSED,
    Layout,
    Rename,
    WeightNames,
    conversions,
    matches,
)
from clearhead.model_folder import Bundle
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model
from clearhead.models.transformer.encoder import Encoder
from tests.exchange.tiny import ALL, Pair, pair
from tests.narrow import transformer

every_model = pytest.mark.parametrize("name", ALL)


def assert_same(some: dict[str, Tensor], others: dict[str, Tensor]) -> None:
    """The same names, and the same numbers to the last bit."""
    assert some.keys() == others.keys()
    for name, X in some.items():
        assert torch.equal(X, others[name]), name


def imported(folder: Path, both: Pair, weights: Mapping[str, Tensor], head: Head | None = None) -> Model:
    """What `import` makes of these weights beside the config of a tiny model."""
    (folder / "theirs").mkdir()
    (folder / "theirs" / "config.json").write_text(json.dumps(both.config), encoding="utf-8")
    save_file({name: X.clone() for name, X in weights.items()}, folder / "theirs" / "model.safetensors")
    import_model(folder / "theirs", folder / "ours", head=head)
    return model_folder.load(folder / "ours").module


def exported(folder: Path, model: Model) -> dict[str, Tensor]:
    """The weights that `export` writes."""
    model_folder.save(folder / "ours", Bundle(model))
    export_model(folder / "ours", folder / "theirs")
    return load_file(folder / "theirs" / "model.safetensors")


@pytest.mark.parametrize(
    ("layout", "shape", "pieces"),
    [
        (AS_IS, (5, 3), [(5, 3)]),
        (TRANSPOSED, (5, 3), [(3, 5)]),
        (TRANSPOSED, (5,), [(5,)]),
        (FUSED, (4, 6), [(2, 4)] * 3),
        (FUSED, (6,), [(2,)] * 3),
        (ROW, (1, 6), [(6,)]),
    ],
)
def test_an_operation_undoes_itself(
    layout: Layout, shape: tuple[int, ...], pieces: list[tuple[int, ...]]
) -> None:
    X = torch.randn(shape)
    assert [tuple(piece.shape) for piece in layout.split(X)] == pieces
    assert torch.equal(layout.join(layout.split(X)), X)


@every_model
def test_export_writes_the_weights_that_were_imported(name: str, tmp_path: Path) -> None:
    both = pair(name)
    rescaled = {"t5-1.1-tied": "decoder.final_layer_norm.weight"}.get(name, "")  # since its head has no scale
    written, given = (
        {key: X for key, X in weights.items() if key != rescaled}
        for weights in (exported(tmp_path, both.ours), both.weights)
    )
    assert_same(written, given)


@every_model
def test_tied_weights_may_come_under_all_their_names(name: str, tmp_path: Path) -> None:
    both = pair(name)
    model = imported(tmp_path, both, both.theirs.state_dict())
    assert_same(model.state_dict(), both.ours.state_dict())


def test_no_row_of_a_table_is_idle() -> None:
    used = {id(rule) for name in ALL for rule in rules_at_work(pair(name).ours, pair(name).names)}
    tables = {id(family.weight_names): family.weight_names for family in FAMILIES.values()}.values()
    for table in tables:
        for rule in [*table.trunk, *(rule for rules in table.heads.values() for rule in rules)]:
            assert id(rule) in used, rule.theirs


def rules_at_work(model: Model, table: WeightNames) -> Iterator[Rename]:
    """The rules that rename some weight of a model."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for rule in [*table.trunk, *table.heads.get(model.config.head, ())]:
        if rule.when(transformer(model.config)) and any(matches(rule, parameters)):
            yield rule


@pytest.mark.parametrize("name", ["gpt2", "llama2", "BertForMaskedLM", "RobertaForMaskedLM", "marian"])
def test_the_prefix_of_a_head_may_be_missing(name: str, tmp_path: Path) -> None:
    both = pair(name)
    bare = {key.removeprefix(both.names.prefix): X for key, X in both.weights.items()}
    model = imported(tmp_path, both, bare)
    assert_same(model.state_dict(), both.ours.state_dict())


def test_a_model_without_a_head_writes_no_prefix(tmp_path: Path) -> None:
    both = pair("gpt2")
    model = build(both.ours.config.replace(head="none"))
    written = exported(tmp_path, model)
    assert "h.0.ln_1.weight" in written
    assert "lm_head.weight" not in written


def test_norms_of_old_files_are_called_gamma_and_beta(tmp_path: Path) -> None:
    both = pair("BertForMaskedLM")
    old = {
        key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): X
        for key, X in both.weights.items()
    }
    assert old.keys() != both.weights.keys()
    model = imported(tmp_path, both, old)
    assert_same(model.state_dict(), both.ours.state_dict())


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("gpt2", "transformer.h.2.attn.bias"),
        ("gpt2", "h.0.attn.masked_bias"),
        ("llama2", "model.layers.1.self_attn.rotary_emb.inv_freq"),
        ("BertForMaskedLM", "bert.embeddings.position_ids"),
        ("BertForMaskedLM", "bert.pooler.dense.weight"),
        ("BertForMaskedLM", "cls.seq_relationship.bias"),
        ("BertModel", "pooler.dense.bias"),
        ("BertModel", "cls.predictions.transform.dense.weight"),
        ("RobertaForSequenceClassification", "lm_head.bias"),
        ("marian", "model.encoder.embed_positions.weight"),
        ("t5", "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"),
    ],
)
def test_what_is_computed_or_read_by_no_head_of_ours_is_left_out(
    name: str, extra: str, tmp_path: Path
) -> None:
    both = pair(name)
    model = imported(tmp_path, both, both.weights | {extra: torch.zeros(2, 3)})
    assert_same(model.state_dict(), both.ours.state_dict())


@torch.no_grad()
def test_a_masked_language_model_can_come_in_without_its_head(tmp_path: Path) -> None:
    both = pair("BertForMaskedLM")
    model = imported(tmp_path, both, both.weights, head="none")
    assert isinstance(model, Encoder)
    tokens = torch.tensor([[5, 8, 13, 2]])
    theirs = both.theirs.bert(tokens).last_hidden_state
    assert (model.vectors(Inputs(tokens)) - theirs).abs().max() <= 1e-4 * max(1.0, float(theirs.abs().max()))


def test_missing_and_unknown_names_are_told(tmp_path: Path) -> None:
    both = pair("llama3")
    weights = dict(both.weights)
    del weights["model.layers.1.mlp.gate_proj.weight"]
    weights["model.layers.1.mlp.gait_proj.weight"] = torch.zeros(1)
    with pytest.raises(ModelFolderError) as error:
        imported(tmp_path, both, weights)
    assert str(error.value) == (
        "Missing weights: model.layers.1.mlp.gate_proj.weight.\n"
        "Unexpected weights: model.layers.1.mlp.gait_proj.weight.\n"
        "Check that config.json belongs to these weights."
    )


def test_many_names_are_cut_short(tmp_path: Path) -> None:
    both = pair("gpt2")
    with pytest.raises(ModelFolderError, match=r"Missing weights: transformer\.h\.0\..* and 32 more\.\n"):
        imported(tmp_path, both, {})


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("llama2", "lm_head.bias"),  # a bias that the settings do not have
        ("llama2", "model.layers.0.self_attn.q_proj.bias"),
        ("llama2", "model.layers.3.mlp.up_proj.weight"),  # a block too many
        ("llama2", "layers.0.mlp.up_proj.weight"),  # there already, with the prefix
        ("t5", "encoder.block.0.layer.1.DenseReluDense.wi_0.weight"),  # of a gate
        ("marian-two-tables", "model.shared.weight"),
        ("gpt2", "transformer.h.0.crossattention.c_attn.weight"),
        ("BertForSequenceClassification", "classifier.weight_scale"),
    ],
)
def test_nothing_is_left_out_silently(name: str, extra: str, tmp_path: Path) -> None:
    both = pair(name)
    with pytest.raises(ModelFolderError, match="Unexpected weights: ") as error:
        imported(tmp_path, both, both.weights | {extra: torch.zeros(2)})
    assert extra in str(error.value)


@pytest.mark.parametrize(
    ("name", "key", "wrong", "right"),
    [
        ("gpt2", "transformer.h.0.attn.c_attn.weight", (30, 30), (30, 90)),
        ("gpt2", "transformer.h.0.attn.c_attn.bias", (2,), (90,)),
        ("gpt2", "transformer.h.0.mlp.c_fc.weight", (120, 30), (30, 120)),
        ("gpt2", "transformer.h.0.mlp.c_fc.weight", (2, 3, 4), (30, 120)),
        ("marian", "final_logits_bias", (61,), (1, 61)),
        ("marian", "final_logits_bias", (), (1, 61)),
        ("t5", "shared.weight", (60, 30), (61, 30)),
    ],
)
def test_a_wrong_shape_is_told(
    name: str, key: str, wrong: tuple[int, ...], right: tuple[int, ...], tmp_path: Path
) -> None:
    both = pair(name)
    with pytest.raises(ModelFolderError) as error:
        imported(tmp_path, both, both.weights | {key: torch.zeros(wrong)})
    assert str(error.value).startswith(f"{key} has shape {wrong}, but config.json implies {right}.\n")


def test_tied_weights_that_differ_are_refused(tmp_path: Path) -> None:
    both = pair("gpt2")
    weights = both.weights | {"lm_head.weight": both.weights["transformer.wte.weight"] + 1}
    with pytest.raises(ModelFolderError) as error:
        imported(tmp_path, both, weights)
    assert str(error.value) == (
        "transformer.wte.weight and lm_head.weight differ, but config.json ties them.\n"
        "If they are meant to differ, set tie_word_embeddings = false in config.json."
    )


@pytest.mark.parametrize(
    ("change", "weight"),
    [
        ({"attention_bias": "k"}, "decoder.blocks.0.self.W_k.bias"),
        ({"attention_bias": "qk"}, "decoder.blocks.0.self.W_q.bias"),
        ({"norm_placement": "both"}, "decoder.blocks.0.add_ffn.norm_after.bias"),
        ({"feedforward": "swiglu"}, "decoder.blocks.0.ffn.W_g.bias"),
        ({"head_bias": True}, "head.bias"),
    ],
)
def test_a_model_that_the_family_does_not_have_is_told(change: dict[str, object], weight: str) -> None:
    settings = pair("gpt2").ours.config
    model = build(ModelConfig(**(settings.given() | {"decoder_blocks": 1} | change)))
    with pytest.raises(ModelFolderError, match="This family has no name for the weights") as error:
        conversions(model, GPT2)
    assert weight in str(error.value)
