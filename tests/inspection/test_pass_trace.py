"""The tensors of a pass are those of a whole capture, and never take more than their limit."""

from dataclasses import asdict, replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from clearhead.config.model import ModelConfig
from clearhead.errors import InputError
from clearhead.inspection import pass_bytes
from clearhead.inspection.capture import capture, zero
from clearhead.inspection.pass_bytes import PassBytes, block_of_site, forward
from clearhead.inspection.pass_trace import PassTrace
from clearhead.inspection.passes import Inspector, Pass
from clearhead.inspection.readings import heads, stream, tensors
from clearhead.inspection.readings.change import change_of
from clearhead.inspection.readings.predictions import predictions, text_loss
from clearhead.inspection.variants import without
from clearhead.model_folder import Bundle
from clearhead.models.build import build
from clearhead.models.model import Model
from tests.decoding.tiny import classifier, language_model, translator
from tests.models.cases import Case
from tests.models.test_laws import cases

IDS = {"encoder": [3, 1, 4, 1, 5, 9, 2], "decoder": [2, 7, 1, 8, 3]}


def ids_of(model: Model) -> dict[str, list[int]]:
    names = ("encoder", "decoder") if model.translates else (model.config.shape,)
    return {name: IDS[name] for name in names}


@cases(has_blocks=True)
def test_every_site_is_that_of_a_whole_capture(case: Case) -> None:
    model = build(case.config).eval()
    ids = ids_of(model)
    with torch.no_grad(), capture(model) as whole:
        forward(model, ids)
    found = PassTrace(model, ids)
    found.record()
    assert set(found) == set(whole)
    for name, X in whole.items():
        assert found.sizes[name] == (tuple(X.shape[1:]), X.nbytes)
        assert torch.equal(found[name], X), name


def test_muted_heads_and_removed_parts_hold_inside_the_blocks_too() -> None:
    model, edits = (
        without(translator("word").module, "projections"),
        (zero("decoder.0.cross.1"), zero("encoder.0.self.0")),
    )
    ids = ids_of(model)
    with torch.no_grad(), capture(model, edits=edits) as whole:
        forward(model, ids)
    found = PassTrace(model, ids, edits)
    found.record()
    assert all(torch.equal(found[name], X) for name, X in whole.items())
    assert all(found.sizes[name][0] == tuple(X.shape[1:]) for name, X in whole.items())


def test_the_block_that_is_asked_for_first_does_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model, edits = translator("word").module, (zero("decoder.0.cross.1"),)
    ids = ids_of(model)
    with torch.no_grad(), capture(model, edits=edits) as whole:
        forward(model, ids)
    found = PassTrace(model, ids, edits)
    found.record(first="decoder.0")
    monkeypatch.setattr(PassTrace, "run_block", None)
    names = [name for name in whole if name.startswith("decoder.0.")]
    assert "decoder.0.cross.weights" in names
    assert all(torch.equal(found[name], whole[name]) for name in names)
    with pytest.raises(TypeError):
        found["decoder.1.self.weights"]  # any other does
    small = PassTrace(model, ids, limit=found.bytes.least)
    small.record(first="decoder.0")
    assert small.kept_bytes <= small.room


class Meter(TorchDispatchMode):
    """Counts the bytes of all tensors that are alive, and their peak."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.alive: Any = WeakIdKeyDictionary()
        self.peak = 0

    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        result = function(*given, **(named or {}))
        for X in tree_leaves(result):
            if isinstance(X, torch.Tensor):
                self.alive[X.untyped_storage()] = X.untyped_storage().nbytes()
        self.peak = max(self.peak, sum(self.alive.values()))
        return result


def wide_model() -> Bundle:
    """A model whose scores are most of what a pass takes."""
    words = language_model("word")
    config = ModelConfig(vocabulary=words.config.vocabulary, d=32, h=4, decoder_blocks=6, context=300)
    return Bundle(build(config), words.tokenizer)


def looked_at(bundle: Bundle, limit: int, text: str) -> Pass:
    """A pass, of which all heads and the lens were read."""
    captured = Inspector(bundle, most_bytes=limit).run(text)
    heads.head_statistics(captured)
    heads.thumbnails(captured)
    stream.logit_lens(captured, -1)
    return captured


@pytest.mark.parametrize("share", [1.0, 0.5, 0.25])
def test_all_views_together_stay_within_the_limit(share: float) -> None:
    bundle = wide_model()
    text = "the cat sat on the green table " * 30
    everything = Inspector(bundle).run(text).trace.bytes
    limit = max(everything.least, int(share * everything.all))
    meter = Meter()
    with meter:
        captured = looked_at(bundle, limit, text)
        for position in (0, -1):
            stream.stream_steps(captured, "decoder", position)
        for name in captured.trace:
            tensors.tensor(captured, name)
    assert everything.recorded < meter.peak <= limit
    if share < 1:
        assert meter.peak < everything.all
    kept = captured.trace.kept
    assert captured.trace.kept_bytes <= limit - everything.least
    assert (len(kept) == 6) is (limit >= everything.all + everything.working)


def in_rows(bundle: Bundle, text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Pass, Pass]:
    """A pass as a whole, and the same in rows: some queries, and the logits of some tokens, at a time."""
    whole = Inspector(bundle).run(text)
    monkeypatch.setattr(pass_bytes, "PART_BYTES", 4000)
    found = Inspector(bundle, most_bytes=whole.trace.bytes.least - 1).run(text)
    rows = found.trace.bytes.rows
    assert rows is not None
    assert 1 <= rows < len(whole.ids[whole.top])
    return whole, found


@pytest.mark.parametrize("kind", ["decoder", "alibi", "encoder", "translator"])
def test_a_pass_in_rows_has_the_same_numbers(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"encoder": classifier, "translator": translator}.get(kind, language_model)("word")
    changes = {"alibi": {"positions": "alibi", "window": 9}, "decoder": {"positions": "rotary", "h_kv": 2}}
    bundle = replace(
        words, module=build(words.config.replace(h=4, context=90, **changes.get(kind, {}))).eval()
    )
    text = "the cat sat on the green table " * (2 if kind == "translator" else 10)
    whole, found = in_rows(bundle, text, monkeypatch)
    assert found.difference.size <= 1e-4
    assert found.largest == pytest.approx(whole.largest)
    for name, X in whole.trace.items():
        if not found.trace.is_apart(name):
            torch.testing.assert_close(found.trace[name], X, msg=name)
            continue
        rows, head = (slice(3, 5), None) if name == "logits" else (slice(None), "1")
        torch.testing.assert_close(
            tensors.tensor(found, name, head, rows), tensors.tensor(whole, name, head, rows)
        )
        if name != "logits":
            torch.testing.assert_close(tensors.tensor(found, name, "mean"), X[0].mean(0))
        with pytest.raises(InputError, match=r"too much at once\.\nAsk for (one head|some rows) of it\."):
            found.trace[name]
    for mine, other in zip(heads.head_statistics(found), heads.head_statistics(whole), strict=True):
        assert asdict(mine) == pytest.approx(asdict(other), abs=1e-6)
    pictures = heads.thumbnails(whole)
    assert all(torch.allclose(X, pictures[name], atol=1e-6) for name, X in heads.thumbnails(found).items())
    for name in bundle.config.attentions():
        for one, two in zip(
            heads.strongest_pairs(found, name), heads.strongest_pairs(whole, name), strict=True
        ):
            assert one.weight == pytest.approx(two.weight, abs=1e-6)
    assert [one.p for one in predictions(found)] == pytest.approx([one.p for one in predictions(whole)])


def test_losses_and_changes_are_read_in_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, found = in_rows(wide_model(), "the cat sat on the green table " * 9, monkeypatch)
    losses = [[one.loss for one in text_loss(one).tokens] for one in (found, whole)]
    assert losses[0] == pytest.approx(losses[1])
    changes = [
        change_of(one.inspector.run(one.text, muted=["decoder.0.self.1"]), ()) for one in (found, whole)
    ]
    assert changes[0] is not None
    assert changes[1] is not None
    assert changes[0].position == changes[1].position
    assert changes[0].after.p == pytest.approx(changes[1].after.p)
    moved = [heads.mute_effects(one, 20)[:3] for one in (found, whole)]
    assert [one.moved for one in moved[0]] == pytest.approx([one.moved for one in moved[1]], abs=1e-6)


def test_a_long_text_takes_what_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle, text = wide_model(), "the cat sat on the green table " * 40
    monkeypatch.setattr(pass_bytes, "PART_BYTES", 1 << 16)
    limit = PassBytes(bundle.module, Inspector(bundle).run(text).trace.sizes, in_rows=True).least
    meter = Meter()
    with meter:
        captured = looked_at(bundle, limit, text)
        for name in captured.trace:
            tensors.tensor(captured, name, "1" if name.endswith(("scores", "weights")) else None, slice(0, 9))
    assert captured.trace.is_in_rows
    assert meter.peak <= limit < Inspector(bundle).run(text).trace.bytes.least
    with pytest.raises(InputError, match="MiB is the limit"):
        Inspector(bundle, most_bytes=limit // 4).run(text)


def test_only_the_block_that_is_asked_for_runs_again() -> None:
    captured = Inspector(wide_model()).run("the cat sat")
    assert not captured.trace.kept
    before = captured.trace["decoder.2.self.weights"]
    assert list(captured.trace.kept) == ["decoder.2"]
    assert captured.trace["decoder.2.ffn.hidden"].shape == (1, 4, 128)
    assert captured.trace["decoder.2.self.weights"] is before
    assert captured.trace["2.self.weights"] is before


def test_a_site_is_inside_a_block_or_outside() -> None:
    assert block_of_site("decoder.10.cross.weights") == "decoder.10"
    assert block_of_site("encoder.0.ffn.hidden") == "encoder.0"
    for name in ("encoder.3.residual.1", "decoder.embeddings.out", "logits", "head.pooled", "encoder.norm"):
        assert block_of_site(name) is None
    inside = {block_of_site(name) for name in Inspector(classifier("word")).run("the cat").trace}
    assert None in inside
