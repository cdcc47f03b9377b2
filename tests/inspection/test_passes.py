"""A captured pass is the model's own: what it is given, what is muted or removed, and what it rejects."""

from typing import Any

import pytest
import torch

from clearhead.errors import InputError
from clearhead.inspection import passes
from clearhead.inspection.capture import capture, zero
from clearhead.inspection.passes import Inspector, largest_difference
from clearhead.inspection.variants import without
from clearhead.model_folder import Bundle
from clearhead.models.inputs import Inputs
from tests.decoding.tiny import classifier, language_model, translator

TEXT = "the cat sat on the green table"


@pytest.fixture(params=[language_model, classifier, translator])
def bundle(request: pytest.FixtureRequest) -> Bundle:
    """A model of every shape."""
    found: Bundle = request.param("word")
    return found


def test_a_muted_head_is_the_edit_zero(bundle: Bundle) -> None:
    head = f"{bundle.config.attentions()[-1]}.1"
    muted = Inspector(bundle).run(TEXT, muted=[head, head])
    plain = Inspector(bundle).run(TEXT)
    assert muted.ids == plain.ids
    assert torch.equal(plain.rerun(zero(head)), muted.rerun())
    assert muted.difference.size <= 1e-4 * float(muted.trace["logits"].abs().max())
    assert not torch.equal(muted.trace["logits"], plain.trace["logits"])


def test_a_part_is_removed_as_by_without() -> None:
    bundle = language_model("word")
    found = Inspector(bundle).run(TEXT, off=["mask", "scaling"])
    other = without(bundle.module, "mask", "scaling")
    with torch.no_grad(), capture(other) as trace:
        other(Inputs(torch.tensor([found.ids["decoder"]])))
    assert found.trace.keys() == trace.keys()
    for name, X in trace.items():  # computed again from the stream, by products of the same shapes
        assert torch.equal(found.trace[name], X), name


def test_tokens_are_appended_and_removed() -> None:
    inspector = Inspector(language_model("word"))
    plain = inspector.run(TEXT).ids["decoder"]
    assert inspector.run(TEXT, appended=[5, 9]).ids["decoder"] == [*plain, 5, 9]
    assert inspector.run(TEXT, removed=[1, 3]).ids["decoder"] == [plain[0], plain[2], *plain[4:]]


def test_a_translator_without_a_target_uses_its_own() -> None:
    inspector = Inspector(translator("word"))
    own = inspector.run(TEXT)
    assert own.own_target == inspector.translate(TEXT)
    assert inspector.run(TEXT, own.own_target).ids == own.ids
    assert inspector.run(TEXT, own.own_target).own_target is None


@pytest.mark.parametrize(
    ("bundle", "given", "message"),
    [
        (language_model, {"text": "the " * 60}, "61 tokens, but 48 is the model's context"),
        (language_model, {"text": "the " * 9}, "10 tokens, but 7 is the limit for a captured pass"),
        (language_model, {"text": "a", "target": "b"}, "A model of shape 'decoder' takes no target"),
        (language_model, {"text": "a", "appended": [10**9]}, "1000000000 is not an id of this model"),
        (classifier, {"text": "a", "appended": [5]}, "An encoder generates no tokens"),
    ],
)
def test_what_is_rejected(bundle: Any, given: dict[str, Any], message: str) -> None:
    most = 7 if "limit" in message else None
    with pytest.raises(InputError, match=message):
        Inspector(bundle("word"), most).run(**given)


def test_the_memory_of_a_pass_is_known_before_it_runs(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured = Inspector(bundle).run(TEXT)
    known = captured.trace.bytes
    assert known.all == captured.bytes == sum(X.nbytes for X in captured.trace.values())
    target = captured.own_target
    assert Inspector(bundle, most_bytes=known.least).run(TEXT, target).ids == captured.ids
    monkeypatch.setattr(passes, "forward", lambda *given: pytest.fail("the pass was computed"))
    message = r"A pass over \d+ tokens of this model needs .* MiB is the limit\.\nShorten the text\."
    with pytest.raises(InputError, match=message):
        Inspector(bundle, most_bytes=known.least - 1).run(TEXT, target)


def test_the_largest_difference_is_found_in_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "PART", 7)
    one = torch.zeros(5, 6)
    for place in ((0, 0), (1, 1), (4, 5)):
        other = one.clone()
        other[place] = 0.5
        found = largest_difference(one, other)
        assert (found.place, found.size) == (place, 0.5)
    other[2, 3] = torch.nan
    assert largest_difference(one, other).place == (2, 3)
