"""The three shapes of the notes, built up from their parts: N28, N29, N30."""

import pytest
import torch
import torch.nn.functional as F

from clearhead.config.model import ModelConfig
from clearhead.inspection.capture import capture
from clearhead.layers.masks import View
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.models.transformer.decoder import Decoder
from clearhead.models.transformer.encoder import Encoder
from clearhead.models.transformer.translator import Translator
from tests.models.cases import B, M, N, configure, gap, randomise, some_ids


@pytest.mark.notes("N28")
def test_a_language_model_is_embeddings_causal_blocks_and_a_head() -> None:
    """Embed, pass the blocks, multiply by W, softmax: every position predicts its next token, all at once."""
    model = randomise(build(configure("decoder", {"positions": "learned", "tied": False, "head_bias": True})))
    assert isinstance(model, Decoder)
    tokens, at = some_ids(B, N), torch.arange(N)[None]
    X = (
        model.get_parameter("decoder.tokens.weight")[tokens]
        + model.get_parameter("decoder.positions.weight")[:N]
    )
    for block in model.decoder.blocks:
        X = block(X, View(at, at, causal=True, aligned=True))
    X = model.decoder.norm(X)
    Z = X @ model.get_parameter("head.table.weight").T + model.get_parameter("head.bias")
    P = Z.softmax(-1)
    assert gap(model(Inputs(tokens)).softmax(-1), P) < 1e-5
    assert torch.allclose(P.sum(-1), torch.ones(B, N))
    for n in range(1, N + 1):  # one parallel pass predicts what each prefix alone would
        assert gap(model(Inputs(tokens[:, :n]))[:, -1].softmax(-1), P[:, n - 1]) < 1e-5


@pytest.mark.notes("N29", "N17")
def test_a_source_enters_the_encoder_and_a_target_leaves_the_decoder() -> None:
    """The encoder sees all of 'Tengo un coche.', the decoder its own past and the encoder's output."""
    settings = {"source_vocabulary": 29, "encoder_d": 14}  # two languages, two widths
    model = randomise(build(configure("encoder-decoder", settings)))
    assert isinstance(model, Translator)
    target, source = some_ids(B, N), some_ids(B, M, below=29)
    logits = model(Inputs(target, source=source))
    assert logits.shape == (B, N, 23)

    with capture(model, "encoder.norm", "decoder.1.cross.k") as trace:
        model(Inputs(target, source=source))
    memory = model.encode(source)
    assert memory.shape == (B, M, 14)
    assert gap(trace["encoder.norm"], memory) < 1e-6
    cross = model.get_submodule("decoder.blocks.1.cross")
    assert gap(trace["decoder.1.cross.k"], cross.keys_values(memory)[0]) < 1e-6  # type: ignore[operator]

    other = source.clone()
    other[:, -1] = (other[:, -1] + 1) % 29
    changed = model(Inputs(target, source=other))
    assert (changed - logits).abs().amax((0, 2)).min() > 1e-4  # the last source word reaches every prediction
    other = target.clone()
    other[:, -1] = (other[:, -1] + 1) % 23
    assert (
        gap(model(Inputs(other, source=source))[:, :-1], logits[:, :-1]) < 1e-5
    )  # but no later target word does


SENTENCES = {
    "Terrible video by Lennart": "negative",
    "Great video by Lennart": "positive",
    "A video by Lennart": "neutral",
}


@pytest.mark.notes("N30")
def test_terrible_video_by_lennart() -> None:
    """One vector per word, each of which has seen the whole sentence, and an opinion read from them."""
    labels = ["positive", "negative", "neutral"]
    known = sorted({word for sentence in SENTENCES for word in sentence.split()})
    ids = torch.tensor([[known.index(word) for word in sentence.split()] for sentence in SENTENCES])
    wanted = torch.tensor([labels.index(label) for label in SENTENCES.values()])
    config = ModelConfig(
        shape="encoder",
        vocabulary=len(known),
        d=8,
        h=2,
        encoder_blocks=1,
        head="classifier",
        classes=3,
        context=8,
    )
    model = build(config)
    assert isinstance(model, Encoder)
    vectors = model.vectors(Inputs(ids))
    assert vectors.shape == (3, 4, 8)
    first_word_differs = (vectors[0] - vectors[1]).abs().amax(-1)
    assert (first_word_differs > 1e-4).all()  # 'video', 'by' and 'Lennart' have seen it too

    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    for _ in range(30):
        optimizer.zero_grad()
        F.cross_entropy(model(Inputs(ids)), wanted).backward()
        optimizer.step()
    P = model(Inputs(ids)).softmax(-1)
    assert [labels[i] for i in P.argmax(-1)] == list(SENTENCES.values())
    assert (P.amax(-1) > 0.9).all()
