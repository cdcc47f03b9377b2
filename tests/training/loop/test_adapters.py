"""Only what should learn does: adapters, or all but the frozen parts; merged, a model is what it was beside them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead import model_folder
from clearhead.config.run import RunConfig
from clearhead.config.training import ALL_MATRICES, TrainingConfig
from clearhead.errors import ConfigError
from clearhead.inspection.capture import capture
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model
from clearhead.training.checkpoints.files import list_checkpoints
from clearhead.training.checkpoints.restore import read
from clearhead.training.loop.adapters import (
    Adapted,
    GrownTable,
    freeze_weights,
    is_part,
    merged,
    named_parts,
    part_names,
)
from clearhead.training.loop.optimizers import make_optimizers
from clearhead.training.run.run import make_run
from tests.models.cases import Case
from tests.models.test_laws import cases
from tests.training.run.test_start import BYTES, kept, model_of, started, weights
from tests.training.small import final_weights, killed_and_resumed


def training(**settings: Any) -> TrainingConfig:
    return TrainingConfig.model_validate({"init_from": "x", **settings})


def stirred(model: Model) -> Model:
    """A model whose adapters have learned something."""
    generator = torch.Generator().manual_seed(3)
    for part in model.modules():
        if isinstance(part, Adapted):
            part.B.data = torch.randn(part.B.shape, generator=generator)
    return model


def learning(model: Model) -> set[str]:
    return {name for name, weight in model.named_parameters() if weight.requires_grad}


# LoRA.


@pytest.mark.parametrize("shape", ["decoder", "encoder", "encoder-decoder"])
def test_at_first_an_adapted_model_is_the_model(shape: str) -> None:
    model, plain = model_of(shape), model_of(shape)
    freeze_weights(model, training(lora_rank=3))
    tokens = torch.arange(4, 11)[None]
    inputs = Inputs(tokens, source=tokens + 3 if model.translates else None)
    assert torch.equal(model(inputs), plain(inputs))
    assert all(name.endswith((".A", ".B")) for name in learning(model))


@pytest.mark.parametrize("shape", ["decoder", "encoder", "encoder-decoder"])
def test_merged_is_adapted_and_comes_apart_to_the_last_bit(shape: str) -> None:
    model = stirred(adapted(model_of(shape)))
    before, names = weights(model), [name for name, _ in model_of(shape).named_parameters()]
    tokens = torch.arange(4, 11)[None]
    inputs = Inputs(tokens, source=tokens + 3 if model.translates else None)
    apart = model(inputs)
    state = torch.get_rng_state()
    with merged(model):
        assert [name for name, _ in model.named_parameters()] == names
        assert not learning(model)
        together = model(inputs)
    assert torch.equal(state, torch.get_rng_state())
    assert (together - apart).abs().max() <= 1e-5 * apart.abs().max()
    assert not torch.allclose(together, model_of(shape)(inputs), atol=1e-3)
    after = weights(model)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def adapted(model: Model, **settings: Any) -> Model:
    freeze_weights(model, training(**{"lora_rank": 3} | settings))
    return model


@cases(has_attention=True)
def test_every_kind_of_model_can_be_adapted_and_merged(case: Case) -> None:
    model, plain = build(case.config), build(case.config)
    stirred(adapted(model))
    with merged(model):
        names = [(name, weight.shape) for name, weight in model.named_parameters()]
    assert names == [(name, weight.shape) for name, weight in plain.named_parameters()]


def test_an_adapted_model_can_be_watched() -> None:
    model = stirred(adapted(model_of("decoder")))
    tokens = torch.arange(4, 11)[None]
    fast = model(Inputs(tokens)).detach()
    with capture(model, "decoder.0.self.weights", "decoder.1.self.q") as trace:
        slow = model(Inputs(tokens))
    assert set(trace) == {"decoder.0.self.weights", "decoder.1.self.q"}
    assert torch.allclose(fast, slow, atol=1e-5 * float(fast.abs().max()))


def test_targets_get_adapters_and_others_none() -> None:
    model = adapted(model_of("encoder"), lora_targets=["W_q", "W_2"])
    found = {name.rsplit(".", 1)[1] for name, part in model.named_modules() if isinstance(part, Adapted)}
    assert found == {"W_q", "W_2"}
    assert {"W_q", "W_2"} < set(ALL_MATRICES)


def test_targets_that_are_not_there_are_refused() -> None:
    with pytest.raises(ConfigError, match="names no matrix of this model"):
        adapted(model_of("encoder"), lora_targets=["W_g"])


def test_adapters_are_for_a_model_that_has_learned_something() -> None:
    with pytest.raises(ConfigError, match="Name its folder"):
        TrainingConfig(lora_rank=8)


def test_adamw_takes_the_adapters_whatever_the_rest_has() -> None:
    model = adapted(model_of("encoder"))
    (optimizer,) = make_optimizers(model, training(lora_rank=3, optimizer="muon"))
    held = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
    assert isinstance(optimizer, torch.optim.AdamW)
    assert held == {id(weight) for weight in model.parameters() if weight.requires_grad}


def test_only_adapters_and_the_new_head_learn_and_the_folder_is_an_ordinary_model(tmp_path: Path) -> None:
    given = model_of("decoder")
    run = started("classify", tmp_path, kept(tmp_path / "given", given), lora_rank=2, learning_rate=0.05)
    before = weights(run.model)
    list(run.train())
    after = weights(run.model)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == learning(run.model)
    assert {name for name in changed if not name.endswith((".A", ".B"))} == {
        "head.out.weight",
        "head.out.bias",
    }
    last = model_folder.load(run.out / "last").module
    assert {name for name, _ in last.named_parameters()} == {
        name for name in after if name[-2:] not in (".A", ".B")
    }
    tokens = torch.arange(4, 20)[None]
    expected = run.model.eval()(Inputs(tokens)).detach()
    assert (last(Inputs(tokens)) - expected).abs().max() <= 1e-5 * max(1.0, float(expected.abs().max()))
    latest = list_checkpoints(run.out / "checkpoints")[-1]
    _, tensors = read(latest)
    kept_weights = {name.removeprefix("weights.") for name in tensors if name.startswith("weights.")}
    assert kept_weights == learning(run.model)  # adapters, and what is new


def test_a_run_with_adapters_that_was_killed_ends_with_the_same_bits(tmp_path: Path) -> None:
    init_from = kept(tmp_path / "given", model_of("decoder", dropout=0.2))
    settings: dict[str, Any] = {"lora_rank": 2, "average": "exponential", "checkpoint_every": 3}
    whole = started("classify", tmp_path / "a", init_from, **settings)
    list(whole.train())
    assert final_weights(killed_and_resumed(whole.config, tmp_path / "b")) == final_weights(whole)


# New rows of tables.


ADDED, TABLES = range(40, 43), ("tokens.weight", "table.weight")


def grown(shape: str, **settings: Any) -> Model:
    """A model that learns the rows of three tokens, which have moved, and adapters."""
    model = model_of(shape, **settings)
    tables = [name for name, _ in model.named_parameters() if name.endswith(TABLES)]
    freeze_weights(model, training(lora_rank=2), (), dict.fromkeys(tables, ADDED))
    for part in {part for part in model.modules() if isinstance(part, GrownTable)}:
        part.rows.data += torch.randn(part.rows.shape, generator=torch.Generator().manual_seed(4))
    return stirred(model)


@pytest.mark.parametrize(
    ("shape", "settings"),
    [
        ("decoder", {}),
        ("decoder", {"tied": False, "head_bias": True, "head_scale": 0.5, "soft_cap": 5.0}),
        ("encoder", {}),
        ("encoder-decoder", {}),
        ("encoder-decoder", {"source_vocabulary": 70}),
    ],
)
def test_of_a_table_that_has_grown_only_the_new_rows_learn(shape: str, settings: dict[str, Any]) -> None:
    model = grown(shape, **settings)
    rows = {name: weight for name, weight in model.named_parameters() if name.endswith(".rows")}
    assert all(weight.shape == (len(ADDED), 8) for weight in rows.values())
    assert len(rows) == len(
        {id(p) for n, p in model_of(shape, **settings).named_parameters() if n.endswith(TABLES)}
    )
    assert learning(model) == {*rows, *(name for name in learning(model) if name.endswith((".A", ".B")))}

    tokens = torch.tensor([[5, 41, 40, 7, 42, 6]])
    inputs = Inputs(tokens, source=tokens if model.translates else None)
    apart = model(inputs)
    with merged(model):
        assert [name for name, _ in model.named_parameters()] == [
            name for name, _ in model_of(shape, **settings).named_parameters()
        ]
        together = model(inputs)
    assert (together - apart).abs().max() <= 1e-5 * apart.abs().max()
    assert torch.equal(model(inputs), apart)

    # The gradient is that of the whole table, at its new rows.
    goal = torch.randn(apart.shape, generator=torch.Generator().manual_seed(5))
    (apart * goal).sum().backward()
    with merged(model):
        for weight in model.parameters():
            weight.requires_grad_(True)
        (model(inputs) * goal).sum().backward()
        whole = {name: weight.grad for name, weight in model.named_parameters()}
    for name, weight in rows.items():
        expected = whole[name.replace(".rows", ".weight")]
        assert expected is not None
        assert weight.grad is not None
        assert torch.allclose(weight.grad, expected[ADDED.start : ADDED.stop], rtol=1e-4, atol=1e-4)


def test_adapters_on_conversations_keep_checkpoints_small_and_resume_to_the_same_bits(tmp_path: Path) -> None:
    chats = tmp_path / "chats.jsonl"
    rows = [
        [{"role": "user", "content": f"{k}?"}, {"role": "assistant", "content": f"{k}!"}] for k in range(40)
    ]
    chats.write_text("".join(json.dumps({"messages": row}) + "\n" for row in rows))
    given = model_of("decoder", vocabulary=BYTES.size)
    init_from, wanted = kept(tmp_path / "given", given), {"lora_rank": 2, "steps": 6, "checkpoint_every": 3}
    config = RunConfig.model_validate(
        {
            "task": "language-model",
            "data": {"train": str(chats), "validation": 0.2},
            "training": wanted
            | {"init_from": init_from, "evaluate_every": 3, "batch_tokens": 64, "log_every": 1},
        }
    )
    whole = make_run(config, tmp_path / "a")
    list(whole.train())
    _, tensors = read(list_checkpoints(whole.out / "checkpoints")[-1])
    assert tensors["weights.decoder.tokens.rows"].shape == (3, 8)  # the markers of the three roles
    assert not any(name.startswith("weights.") and "tokens.weight" in name for name in tensors)
    table = weights(model_folder.load(whole.out / "last").module)["decoder.tokens.weight"]
    before = weights(given)["decoder.tokens.weight"]
    assert torch.equal(table[: BYTES.size], before)
    assert whole.trainer is not None

    assert final_weights(killed_and_resumed(config, tmp_path / "b")) == final_weights(whole)


# Frozen parts.


@pytest.mark.parametrize(
    ("shape", "frozen", "names"),
    [
        ("encoder", "embeddings", {"encoder.tokens.weight"}),
        ("encoder", "encoder.1.self", {f"encoder.blocks.1.self.W_{x}.weight" for x in "qkvo"}),
        (
            "encoder",
            "encoder.*.ffn",
            {f"encoder.blocks.{i}.ffn.W_{j}.weight" for i in (0, 1) for j in (1, 2)},
        ),
        ("encoder", "head", {"encoder.tokens.weight"}),  # the table is the head
        ("encoder-decoder", "decoder.embeddings.tokens", {"encoder.tokens.weight"}),  # one table for both
        ("decoder", "decoder.norm", {"decoder.norm.weight"}),
    ],
)
def test_a_name_freezes_its_part_and_no_other(shape: str, frozen: str, names: set[str]) -> None:
    model = model_of(shape)
    freeze_weights(model, training(frozen=frozen))
    assert {name for name, _ in model.named_parameters()} - learning(model) == names


def test_frozen_parts_keep_their_bits_and_have_no_optimizer(tmp_path: Path) -> None:
    given = model_of("encoder", head="none")
    frozen = ["embeddings", "encoder.0"]
    for optimizer in ("adamw", "muon"):
        place = tmp_path / optimizer
        run = started(
            "classify", place, kept(place / "given", given),
            frozen=frozen, optimizer=optimizer, weight_decay=0.5, learning_rate=0.01, average="exponential",
        )  # fmt: skip
        list(run.train())
        last = weights(model_folder.load(run.out / "last").module)
        for name, weight in weights(given).items():
            is_frozen = name.startswith(("encoder.tokens", "encoder.blocks.0."))
            assert torch.equal(last[name], weight) is is_frozen, name
        assert run.trainer is not None
        held = [w for one in run.trainer.optimizers for group in one.param_groups for w in group["params"]]
        assert all(weight.requires_grad for weight in held)


def test_an_unknown_part_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        ConfigError, match=r"names 'encoder.7', which this model does not have. Did you mean encoder"
    ):
        freeze_weights(model_of("encoder"), training(frozen=["encoder.7"]))
    with pytest.raises(ConfigError, match="leaves nothing to train"):
        freeze_weights(model_of("encoder"), training(frozen=["*"]))


@cases()
def test_every_part_of_every_kind_can_be_named(case: Case) -> None:
    model = build(case.config)
    for name, _ in named_parts(model):
        assert name.rsplit(".", 1)[0] in part_names(model)
        assert is_part(name, name.split(".")[0])
        assert is_part(name, name)
