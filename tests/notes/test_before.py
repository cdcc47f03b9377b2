"""What came before the transformer, as the notes tell it: N41 to N45, and the order of words (N7, N14)."""

import importlib
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead.config.convolutional import ConvolutionalConfig
from clearhead.config.families import read_model_config
from clearhead.config.recurrent import RecurrentConfig
from clearhead.config.run import RunConfig
from clearhead.inspection.capture import capture, intervene, scale, zero
from clearhead.layers.recurrence import CELLS
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model
from clearhead.models.recurrent.models import RecurrentTranslator
from clearhead.models.recurrent.stack import AttendingBlock
from tests.models.cases import gap, randomise, some_ids
from tests.training.trainers import make_trainer, run_through

TOLERANCE = 1e-5


@pytest.mark.notes("N41")
@pytest.mark.parametrize("cell", CELLS)
def test_a_state_follows_from_the_one_before_and_the_token(cell: str) -> None:
    """s_i = f(s_{i−1}, x_i): whoever knows the state needs nothing else of the text."""
    model = randomise(
        build(read_model_config({"family": "recurrent", "vocabulary": 23, "d": 6, "cell": cell}))
    )
    tokens = some_ids(2, 7)
    full = model(Inputs(tokens))
    state = model.start(2, 7)
    for i in range(7):
        before = state.used_bytes
        assert gap(model.step(tokens[:, i : i + 1], state), full[:, i : i + 1]) < TOLERANCE
        assert state.used_bytes == before  # however much was read


@pytest.mark.notes("N41")
def test_a_recurrent_language_model_learns_by_the_same_loss(tmp_path: Path) -> None:
    family = {"family": "recurrent", "d": 8, "context": 64}
    trainer = make_trainer("language-model", tmp_path, steps=30, learning_rate=0.02)
    recurrent = build(read_model_config(family | {"vocabulary": trainer.model.config.vocabulary}))
    trainer = type(trainer)(trainer.run, trainer.data, recurrent, 30)
    steps, evaluations = run_through(trainer)
    assert steps[-1].loss < 0.8 * steps[0].loss
    assert evaluations[-1].validation_loss < evaluations[0].validation_loss


def gradient_by_distance(model: Model, distances: tuple[int, ...]) -> list[float]:
    """How much the last prediction depends on the vector of a word so many words before it."""
    X = torch.randn(
        8, max(distances) + 1, model.config.d, generator=torch.Generator().manual_seed(2)
    ).requires_grad_()
    model(Inputs(X))[:, -1].logsumexp(-1).sum().backward()
    assert X.grad is not None
    norms = X.grad.norm(dim=-1).mean(0)
    return [float(norms[-1 - distance]) for distance in distances]


@pytest.mark.notes("N42")
def test_the_gradient_vanishes_over_distance_in_an_rnn_and_not_in_a_transformer() -> None:
    sizes: dict[str, Any] = {"vocabulary": 50, "d": 32, "decoder_blocks": 2, "context": 256}
    rnn = gradient_by_distance(
        build(read_model_config(sizes | {"family": "recurrent", "cell": "rnn"})), (1, 16, 128)
    )
    transformer = gradient_by_distance(build(read_model_config(sizes | {"h": 4})), (1, 16, 128))
    assert rnn[2] < 1e-3 * rnn[1] < 1e-3 * rnn[0]
    assert transformer[2] > 0.05 * transformer[0]


@pytest.mark.notes("N43")
def test_the_attention_of_2014_is_the_formula() -> None:
    """α_i = softmax_j v · tanh(W s_{i−1} + U h_j), and s_i = f(s_{i−1}, [x_i, c_i])."""
    config = RecurrentConfig(shape="encoder-decoder", vocabulary=23, d=6, cell="gru")
    model = randomise(build(config))
    assert isinstance(model, RecurrentTranslator)
    block = model.decoder.blocks[0]
    assert isinstance(block, AttendingBlock)
    tokens, source = some_ids(1, 4), some_ids(1, 5, seed=3)
    with torch.no_grad(), capture(model) as trace:
        model(Inputs(tokens, source=source))
        H, S, cross = trace["encoder.0.state"][0], trace["decoder.0.state"][0], block.cross
        first = torch.tanh(model.bridge(model.encoder.summary(H[None], None)))
        previous = torch.cat([first, S[:-1]])  # s_{i−1}
        v = cross.similarity.get_parameter("v")[0]
        scores = torch.tanh(cross.W_q(previous)[:, None] + cross.W_k(H)[None]) @ v
        A = torch.softmax(scores, -1)
        assert gap(trace["decoder.0.cross.weights"][0, 0], A) < TOLERANCE
        context = cross.W_o(A @ cross.W_v(H))
        read = torch.cat([trace["decoder.embeddings.out"][0], context], -1)
        expected = torch.nn.GRUCell(12, 6)
        weights = block.recurrences[0].cell.state_dict()
        expected.load_state_dict({name.removesuffix("_l0"): X for name, X in weights.items()})
        assert gap(S, expected(read, previous)) < TOLERANCE


@pytest.mark.notes("N42", "N43")
def test_what_is_changed_at_a_gate_acts_on_every_state_after_it() -> None:
    model = randomise(build(RecurrentConfig(vocabulary=23, d=6)))
    tokens = some_ids(1, 5)
    with torch.no_grad():
        plain = model.vectors(Inputs(tokens))
        with intervene(model, zero("decoder.0.gates.output")):
            assert model.vectors(Inputs(tokens)).abs().max() == 0  # o tanh(c) with o = 0
        with capture(model, "decoder.0.gates.forget", edits=(scale("decoder.0.gates.forget", 0.5),)) as trace:
            changed = model.vectors(Inputs(tokens))
    assert trace["decoder.0.gates.forget"].shape == (1, 5, 6)
    assert trace["decoder.0.gates.forget"].max() <= 0.5
    assert gap(changed[:, :1], plain[:, :1]) < TOLERANCE  # nothing to forget yet
    assert gap(changed[:, 1:], plain[:, 1:]) > 1e-3


@pytest.mark.notes("N44")
def test_a_pair_of_words_that_are_far_apart_falls_outside_the_filters() -> None:
    words = "This book , which is about a girl from India , was written by Johan".split()  # noqa: SIM905
    ids = torch.tensor([[sorted(set(words)).index(word) for word in words]])
    other = ids.clone()
    other[0, words.index("book")] = 0  # another word in the place of the book
    distance = words.index("Johan") - words.index("book")
    for blocks, reaches in ((2, False), (3, True)):
        config = ConvolutionalConfig(vocabulary=20, d=8, decoder_blocks=blocks)
        assert (config.reach > distance) is reaches
        model = randomise(build(config))
        with torch.no_grad():
            change = gap(model(Inputs(other))[:, -1], model(Inputs(ids))[:, -1])
        assert (change > 100 * TOLERANCE) is reaches


@pytest.mark.notes("N44")
def test_a_filter_weighs_by_relative_position_alone() -> None:
    """The same words later in a text are found by the same filters."""
    model = randomise(
        build(ConvolutionalConfig(shape="encoder", vocabulary=23, d=9, head="none", widths=(3,)))
    )
    words, blank = some_ids(1, 6), torch.full((1, 4), 7)
    with torch.no_grad():
        early = model.vectors(Inputs(torch.cat([blank, words, blank], 1)))
        late = model.vectors(Inputs(torch.cat([blank, blank, words, blank], 1)))
    assert gap(late[:, 8:14], early[:, 4:10]) < TOLERANCE


@pytest.mark.slow
@pytest.mark.prove
@pytest.mark.notes("N42")
def test_an_rnn_forgets_what_a_transformer_looks_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiment of `benchmarks/recall_distance.py`: the RNN has learned what it fails at from afar."""
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "benchmarks")
    experiment = importlib.import_module("recall_distance")
    for farthest in experiment.STAGES:
        experiment.write_texts(tmp_path / f"{farthest}.tsv", farthest)
    rnn, transformer = (experiment.train(name, tmp_path) for name in ("RNN", "transformer"))
    assert all(experiment.accuracy(transformer, distance) > 0.99 for distance in experiment.DISTANCES)
    assert experiment.accuracy(rnn, 4) > 0.9
    assert experiment.accuracy(rnn, 128) < 0.5


@pytest.mark.prove
@pytest.mark.notes("N45")
def test_both_classifiers_understand_the_sentence_of_the_notes(tmp_path: Path) -> None:
    for family in ("transformer", "recurrent"):
        recipe = {
            "task": "classify",
            "data": {"train": "builtin:reviews"},
            "tokenizer": {"kind": "word"},
            "model": {"family": family, "d": 64, "context": 64, "encoder_blocks": 1, "dropout": 0.1},
            "training": {"steps": 300, "batch_tokens": 2048, "samples": 0},
        }
        model = clearhead.train(RunConfig.model_validate(recipe), tmp_path / family)
        answer = model.classify(["Terrible video by Lennart"])[0]
        assert answer.label == "negative"
        assert math.isclose(sum(answer.probabilities.values()), 1, abs_tol=1e-5)


@pytest.mark.prove
@pytest.mark.notes("N7", "N14")
def test_without_positions_an_encoder_cannot_say_what_is_asked(tmp_path: Path) -> None:
    """They are rich, but are they happy? The words of "are they rich, but they are happy" are the same."""
    adjectives = ("rich", "happy", "old", "young", "tired", "clever")
    pairs = [(one, two) for one in adjectives for two in adjectives if one != two]
    rows = [(f"they are {one} but are they {two}", "second") for one, two in pairs]
    rows += [(f"are they {one} but they are {two}", "first") for one, two in pairs]
    (tmp_path / "asked.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows * 20))
    right = {}
    for positions in ("learned", "none"):
        recipe = {
            "task": "classify",
            "data": {"train": str(tmp_path / "asked.tsv"), "validation": 0.0},
            "tokenizer": {"kind": "word"},
            "model": {"d": 32, "h": 2, "encoder_blocks": 2, "context": 16, "positions": positions},
            "training": {"steps": 150, "batch_tokens": 1024, "learning_rate": 3e-3, "samples": 0},
        }
        model = clearhead.train(RunConfig.model_validate(recipe), tmp_path / positions)
        found = model.classify([text for text, _ in rows])
        right[positions] = sum(one.label == label for one, (_, label) in zip(found, rows, strict=True)) / len(
            rows
        )
    assert right["learned"] > 0.95
    assert right["none"] < 0.6
