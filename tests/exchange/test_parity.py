"""The measure of the design: families of Hugging Face are settings of our model, with the same logits.

Both sides compute the same sums in another order, so they differ by rounding. The bound is 1e-4 of the
largest logit; a wrong epsilon, position, bias or mask moves these random models by far more.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.models.transformer.decoder import Decoder
from clearhead.models.transformer.encoder import Encoder
from tests.exchange.tiny import CLASSIFIERS, DECODERS, ENCODERS, TOKENS, TRANSLATORS, Pair, pair

N, M = 13, 9  # longer than every window, so that its edge is crossed
COUNTS = torch.tensor([13, 4, 9])
SOURCE_COUNTS = torch.tensor([5, 9, 2])

decoders = pytest.mark.parametrize("name", DECODERS)
translators = pytest.mark.parametrize("name", TRANSLATORS)
encoders = pytest.mark.parametrize("name", ENCODERS)


def ids(n: int, seed: int = 0, limit: int = TOKENS - 4) -> Tensor:
    """Ids (3, n) that are no special tokens."""
    return torch.randint(2, limit, (3, n), generator=torch.Generator().manual_seed(seed))


def padded(tokens: Tensor, counts: Tensor, padding: int) -> tuple[Tensor, Tensor]:
    """The same ids with padding on the right, and their attention mask."""
    real = torch.arange(tokens.shape[1]) < counts[:, None]
    return tokens.where(real, padding), real.long()


def assert_equal(ours: Tensor, theirs: Tensor, real: Tensor | None = None) -> None:
    """Within 1e-4 of the largest logit, where tokens are real."""
    assert ours.shape == theirs.shape
    difference = (ours - theirs).abs()
    if real is not None:
        difference = difference[real.bool()]
    assert difference.max() <= 1e-4 * max(1.0, float(theirs.abs().max()))
    assert theirs.std() > 0.1  # the test could fail


def stepwise(both: Pair, tokens: Tensor, source: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Logits through the cache, a prompt of another length in each row and then single tokens; and where.

    Rows that are done take no further token.
    """
    model, b = both.ours, torch.arange(len(tokens))
    assert isinstance(model, Decoder)
    state = model.start(len(tokens), N + 2, **source)
    counts = torch.tensor([5, 2, 7])
    logits, seen = model.step(tokens[:, :7], state, counts), torch.zeros(tokens.shape, dtype=torch.bool)
    full = torch.zeros(*tokens.shape, logits.shape[-1])
    full[:, :7] = logits
    seen[:, :7] = torch.arange(7) < counts[:, None]
    while bool((state.lengths < N).any()):
        at = state.lengths.clamp(max=N - 1).clone()
        alive = state.lengths < N
        step = model.step(tokens[b, at][:, None], state, alive.long())[:, 0]
        full[b[alive], at[alive]] = step[alive]
        seen[b[alive], at[alive]] = True
    return full, seen


@decoders
@torch.no_grad()
def test_a_decoder_has_their_logits(name: str) -> None:
    both, tokens = pair(name), ids(N)
    assert_equal(both.ours(Inputs(tokens)), both.theirs(tokens).logits)
    assert_equal(both.ours(Inputs(tokens[:1, :1])), both.theirs(tokens[:1, :1]).logits)
    tokens, mask = padded(tokens, COUNTS, padding=1)
    assert_equal(both.ours(Inputs(tokens, COUNTS)), both.theirs(tokens, attention_mask=mask).logits, mask)


@decoders
@torch.no_grad()
def test_a_decoder_has_their_logits_through_the_cache(name: str) -> None:
    both, tokens = pair(name), ids(N)
    logits, seen = stepwise(both, tokens, {})
    assert bool(seen.all())
    assert_equal(logits, both.theirs(tokens).logits)


@pytest.mark.parametrize("name", [*DECODERS, *ENCODERS])
@torch.no_grad()
def test_the_longest_text_has_their_output(name: str) -> None:
    both = pair(name)
    assert both.ours.config.context is not None
    tokens = ids(both.ours.config.context)[:1]
    if both.ours.config.head == "none":
        assert isinstance(both.ours, Encoder)
        assert_equal(both.ours.vectors(Inputs(tokens)), both.theirs(tokens).last_hidden_state)
    else:
        assert_equal(both.ours(Inputs(tokens)), both.theirs(tokens).logits)


@pytest.mark.parametrize("name", CLASSIFIERS)
@torch.no_grad()
def test_a_causal_classifier_has_their_logits(name: str) -> None:
    both, tokens = pair(name), ids(N)
    assert_equal(both.ours(Inputs(tokens)), both.theirs(tokens).logits)
    tokens, mask = padded(tokens, COUNTS, padding=1)
    theirs = both.theirs(tokens, attention_mask=mask).logits
    assert_equal(both.ours(Inputs(tokens, COUNTS)), theirs, mask if theirs.ndim == 3 else None)


@translators
@torch.no_grad()
def test_a_translator_has_their_logits(name: str) -> None:
    both, tokens, source = pair(name), ids(N), ids(M, seed=1)
    assert_equal(
        both.ours(Inputs(tokens, source=source)), both.theirs(source, decoder_input_ids=tokens).logits
    )
    source, mask = padded(source, SOURCE_COUNTS, padding=0)
    tokens, target_mask = padded(tokens, COUNTS, padding=0)
    theirs = both.theirs(
        source, attention_mask=mask, decoder_input_ids=tokens, decoder_attention_mask=target_mask
    )
    assert_equal(
        both.ours(Inputs(tokens, source=source, counts=COUNTS, source_counts=SOURCE_COUNTS)),
        theirs.logits,
        target_mask,
    )


@translators
@torch.no_grad()
def test_a_translator_has_their_logits_through_the_cache(name: str) -> None:
    both, tokens = pair(name), ids(N)
    source, mask = padded(ids(M, seed=1), SOURCE_COUNTS, padding=0)
    logits, seen = stepwise(both, tokens, {"source": source, "source_counts": SOURCE_COUNTS})
    assert bool(seen.all())
    assert_equal(logits, both.theirs(source, attention_mask=mask, decoder_input_ids=tokens).logits)


@encoders
@torch.no_grad()
def test_an_encoder_has_their_output(name: str) -> None:
    both, tokens = pair(name), ids(N)
    call, key = both.ours.outputs, "last_hidden_state" if both.ours.config.head == "none" else "logits"
    assert_equal(call(Inputs(tokens)), both.theirs(tokens)[key])
    assert_equal(call(Inputs(tokens[:1, :1])), both.theirs(tokens[:1, :1])[key])
    tokens, mask = padded(tokens, COUNTS, padding=1)
    theirs = both.theirs(tokens, attention_mask=mask)[key]
    assert_equal(call(Inputs(tokens, COUNTS)), theirs, mask if theirs.ndim == 3 else None)


@pytest.mark.parametrize("head", ["ForMaskedLM", "ForSequenceClassification"])
@torch.no_grad()
def test_bert_reads_two_segments(head: str) -> None:
    both, tokens = pair(f"Bert{head}"), ids(N)
    types = (torch.arange(N) > 5).long().expand(3, -1)
    theirs = both.theirs(tokens, token_type_ids=types).logits
    assert_equal(both.ours(Inputs(tokens, types=types)), theirs)
    assert (theirs - both.theirs(tokens).logits).abs().max() > 0.01


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("gpt2", {"norm_epsilon": 0.02}),
        ("gpt2", {"feedforward": "relu"}),
        ("gpt2", {"similarity": "dot"}),
        ("llama3", {"rotary_scaling": None}),
        ("llama3", {"rotary_base": 290.0}),
        ("llama-linear", {"rotary_scaling": {"kind": "linear", "factor": 2.6}}),
        ("mistral", {"window": 6}),
        ("mistral", {"window": 4}),
        ("qwen3", {"norm_epsilon": 0.03}),
        ("BertForMaskedLM", {"norm_epsilon": 0.02}),
        ("RobertaForMaskedLM", {"position_offset": 1, "context": 32}),
        ("DistilBertForSequenceClassification", {"pool_dense": "tanh"}),
        ("marian", {"sinusoid_layout": "interleaved"}),
        ("marian", {"embedding_scale": 5.0}),
        ("t5", {"similarity": "scaled_dot"}),
        ("t5", {"relative_distance": 12}),
        ("t5", {"head_scale": 1.0}),
    ],
)
@torch.no_grad()
def test_a_wrong_setting_would_show(name: str, change: dict[str, Any]) -> None:
    both, tokens = pair(name), ids(N)
    wrong = build(both.ours.config.replace(**change))
    wrong.load_state_dict(both.ours.state_dict())
    inputs = Inputs(tokens, source=ids(M, seed=1) if name in TRANSLATORS else None)
    right = both.ours(inputs)
    assert (wrong(inputs) - right).abs().max() > 1e-3 * max(1.0, float(right.abs().max()))
