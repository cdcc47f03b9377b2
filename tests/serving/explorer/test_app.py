"""What the explorer's service answers is what the model computes, for every shape."""

import gzip
import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch

from clearhead.api import Model
from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.generate import Generator
from clearhead.decoding.sampling import draw, narrow, number
from clearhead.inspection.capture import intervene, zero
from clearhead.inspection.passes import Inspector
from clearhead.inspection.readings import heads as head_readings
from clearhead.inspection.variants import without
from clearhead.model_folder import Calibration
from clearhead.models.inputs import Inputs
from clearhead.page import page_files
from clearhead.page.lessons.files import FOLDER
from clearhead.page.service.requests import MOST_CHARACTERS
from tests.decoding.tiny import assert_same_or_tied, classifier
from tests.narrow import transformer
from tests.page.service.packets import unpack
from tests.serving.conftest import Asker

TEXT = "the cat sat on the green table"


def tensors(asker: Asker, name: str, *sites: str, **query: Any) -> dict[str, torch.Tensor]:
    answer = asker.client.get(f"/api/passes/{name}/tensors", params={"sites": ",".join(sites), **query})
    assert answer.status_code == 200, answer.text
    return unpack(answer.content)


def last_shares(model: Model, ids: dict[str, list[int]], module: Any = None) -> torch.Tensor:
    """The probabilities at the end, by the model alone."""
    top = "decoder" if "decoder" in ids else "encoder"
    source = torch.tensor([ids["encoder"]]) if len(ids) == 2 else None
    with torch.no_grad():
        Z = (module or model.module)(Inputs(torch.tensor([ids[top]]), source=source))
    return torch.softmax((Z[0] if Z.ndim == 2 else Z[0, -1]).double(), -1)


def ids_of(answer: dict[str, Any]) -> dict[str, list[int]]:
    return {stack: [token["id"] for token in tokens] for stack, tokens in answer["tokens"].items()}


def test_every_site_is_that_of_the_model(asker: Asker) -> None:
    answer = asker.ask(TEXT)
    trace = asker.model.trace(TEXT)
    assert answer["sites"] == {name: list(X.shape[1:]) for name, X in trace.items()}
    found = tensors(asker, answer["name"], *trace)
    for name, X in trace.items():
        assert torch.equal(found[name], X[0]), name


def test_a_part_of_a_tensor(writes: Asker) -> None:
    name, trace = writes.ask(TEXT)["name"], writes.model.trace(TEXT)

    def part(query: str) -> torch.Tensor:
        (found,) = unpack(writes.client.get(f"/api/passes/{name}/tensors?{query}").content).values()
        return found

    assert torch.equal(part("sites=logits&rows=1:3"), trace["logits"][0, 1:3])
    assert torch.equal(
        part("sites=decoder.0.self.weights&head=1&rows=2:3"), trace["decoder.0.self.weights"][0, 1, 2:3]
    )
    assert torch.equal(part("sites=decoder.0.self.q&rows=0:2"), trace["decoder.0.self.q"][0, :, :2])
    said = writes.client.get(f"/api/passes/{name}/tensors?sites=logits&rows=all")
    assert (said.status_code, said.json()) == (422, {"error": "'all' is not a range such as 0:8."})


def test_the_captured_pass_is_the_fast_pass(asker: Asker) -> None:
    answer = asker.ask(TEXT)
    assert 0 <= answer["difference"] < 1e-4 * max(1.0, answer["largest"])
    assert answer["seconds"].keys() == {"fast", "captured"}


def test_tokens_have_their_bytes_and_places(writes: Asker) -> None:
    tokens = writes.ask("the cat")["tokens"]["decoder"]
    assert [token["special"] for token in tokens] == [True, False, False]
    assert [(token["start"], token["end"]) for token in tokens] == [(0, 0), (0, 3), (4, 7)]
    assert bytes.fromhex(tokens[1]["bytes"]).decode() == tokens[1]["text"] == "the"


@pytest.mark.notes("N1")
def test_half_a_character_is_shown_as_bytes() -> None:
    from tests.decoding.tiny import language_model

    tokens = Asker(Model(language_model("byte"))).ask("€")["tokens"]["decoder"][1:]
    assert [token["bytes"] for token in tokens] == ["e2", "82", "ac"]
    assert [token["partial"] for token in tokens] == [True] * 3
    assert [token["text"] for token in tokens] == [r"\xe2", r"\x82", r"\xac"]


@pytest.mark.notes("N12", "N15")
def test_rows_sum_to_one_and_masked_cells_are_zero(asker: Asker) -> None:
    answer = asker.ask(TEXT)
    for attention in asker.client.get("/api/model").json()["attentions"]:
        site = f"{attention['name']}.weights"
        A = tensors(asker, answer["name"], site)[site]
        assert torch.allclose(A.sum(-1), torch.ones(A.shape[:2]), atol=1e-6)
        if answer["causal"][attention["stack"]] and attention["kind"] == "self":
            assert bool((A.triu(1) == 0).all())


def test_one_head_or_the_mean_of_all(asker: Asker) -> None:
    answer = asker.ask(TEXT)
    site = asker.client.get("/api/model").json()["attentions"][0]["name"] + ".weights"
    whole = tensors(asker, answer["name"], site)[site]
    assert torch.equal(tensors(asker, answer["name"], site, head=2)[site], whole[2])
    assert torch.allclose(tensors(asker, answer["name"], site, head="mean")[site], whole.mean(0))


def test_what_a_sublayer_is_given_leads_to_its_queries(asker: Asker) -> None:
    answer = asker.ask(TEXT)
    for attention in asker.client.get("/api/model").json()["attentions"]:
        name = attention["name"]
        found = tensors(asker, answer["name"], f"{name}.x", f"{name}.q")
        W = asker.model.module.get_parameter(f"{attention['weights']}.W_q.weight").detach()
        Q = (found[f"{name}.x"] @ W.T).unflatten(-1, (len(attention["heads"]), attention["d_k"]))
        lengths = found[f"{name}.q"].norm(dim=-1)  # rotation turns, and keeps the length
        assert torch.allclose(Q.transpose(0, 1).norm(dim=-1), lengths, atol=1e-4)


def test_a_muted_head_gives_the_prediction_of_the_same_intervention(asker: Asker) -> None:
    attention = asker.client.get("/api/model").json()["attentions"][-1]["name"]
    answer = asker.ask(TEXT, mute=[f"{attention}.1"])
    with intervene(asker.model.module, zero(f"{attention}.1")):
        P = last_shares(asker.model, ids_of(answer))
    for entry in answer["prediction"]:
        assert entry["p"] == pytest.approx(float(P[entry["id"]]), abs=1e-6)
    plain = asker.ask(TEXT)
    assert [entry["p"] for entry in plain["prediction"]] != [entry["p"] for entry in answer["prediction"]]


def test_effects_are_those_of_muting_each_head(asker: Asker) -> None:
    answer = asker.ask(TEXT)
    before = last_shares(asker.model, ids_of(answer))
    effects = asker.read(answer["name"], "effects", position=-1)
    assert asker.read(answer["name"], "prediction", position=-1) == answer["prediction"]
    assert len(effects) == sum(
        len(one["heads"]) for one in asker.client.get("/api/model").json()["attentions"]
    )
    for effect in effects[:: max(1, len(effects) // 4)]:
        with intervene(asker.model.module, zero(f"{effect['attention']}.{effect['head']}")):
            after = last_shares(asker.model, ids_of(answer))
        # Heads are muted in the rows of a batch, whose sums round differently.
        assert effect["moved"] == pytest.approx(float((before * (before / after).log()).sum()), abs=1e-5)
    name = effects[-1]["attention"]
    some = asker.read(answer["name"], "effects", position=-1, attention=name)
    assert some == [effect for effect in effects if effect["attention"] == name]
    path = f"/api/passes/{answer['name']}/effects?position=-1&attention=x"
    assert "is not an attention" in asker.refused("GET", path)


def test_statistics_of_heads(writes: Asker) -> None:
    answer = writes.ask(TEXT)
    A = writes.model.trace(TEXT)["decoder.1.self.weights"][0, 2].double()
    row = next(
        row
        for row in writes.read(answer["name"], "heads")
        if (row["attention"], row["head"]) == ("decoder.1.self", 2)
    )
    n = len(A)
    assert row["entropy"] == pytest.approx(float(-(A * A.clamp(min=1e-300).log()).sum(-1).mean()))
    assert row["first"] == pytest.approx(float(A[1:, 0].mean()))  # the first query sees nothing else
    assert row["previous"] == pytest.approx(sum(float(A[i, i - 1]) for i in range(1, n)) / (n - 1))
    far = sum(float(A[i, j]) * abs(i - j) for i in range(n) for j in range(n)) / n
    assert row["distance"] == pytest.approx(far)
    assert row["itself"] == pytest.approx(float(A.diagonal().mean()))
    ids = writes.model.reader.ids(TEXT)
    twins = [(i, [j for j in range(i) if ids[j] == ids[i]]) for i in range(n)]
    same = [float(A[i, others].sum()) for i, others in twins if others]
    assert row["same"] == pytest.approx(sum(same) / len(same))


def test_thumbnails_are_the_weights_while_they_are_small(asker: Asker) -> None:
    answer = asker.ask(TEXT)
    trace = asker.model.trace(TEXT)
    pictures = unpack(asker.client.get(f"/api/passes/{answer['name']}/thumbnails").content)
    for name, X in pictures.items():
        assert torch.equal(X, trace[f"{name}.weights"][0])


@pytest.mark.parametrize("part", ["projections", "scaling", "mask", "positions"])
def test_what_if_runs_the_model_without_a_part(writes: Asker, part: str) -> None:
    answer = writes.ask(TEXT, off=[part])
    P = last_shares(writes.model, ids_of(answer), without(writes.model.module, part))
    assert answer["prediction"][0]["p"] == pytest.approx(float(P.max()), abs=1e-5)
    assert answer["difference"] < 1e-4 * max(1.0, answer["largest"])


def test_a_change_names_the_prediction_that_moves_most(asker: Asker) -> None:
    config = asker.model.config
    heads = [f"{config.attentions()[-1]}.{head}" for head in config.heads(config.attentions()[-1])]
    assert asker.ask(TEXT)["change"] is None
    answer = asker.ask(TEXT, mute=heads)
    source = torch.tensor([ids_of(answer)["encoder"]]) if config.shape == "encoder-decoder" else None
    inputs = Inputs(torch.tensor([ids_of(answer)[config.shape.split("-")[-1]]]), source=source)
    with torch.no_grad():
        before = torch.atleast_2d(asker.model.module(inputs)[0].double().log_softmax(-1))
        with intervene(asker.model.module, *map(zero, heads)):
            after = torch.atleast_2d(asker.model.module(inputs)[0].double().log_softmax(-1))
    moved = (before.exp() * (before - after)).sum(-1)
    change, i = answer["change"], int(moved.argmax())
    assert change["position"] == i
    assert (change["before"]["id"], change["after"]["id"]) == (
        int(before[i].argmax()),
        int(after[i].argmax()),
    )
    assert change["after"]["p"] == pytest.approx(float(after[i].max().exp()), abs=1e-6)
    assert (change["own_before"] is None) == (config.shape != "encoder-decoder")


def test_a_changed_translator_translates_by_itself(translates: Asker) -> None:
    heads = [f"decoder.1.cross.{head}" for head in range(3)]
    change = translates.ask(TEXT, mute=heads)["change"]
    assert change["own_before"] == translates.model.translate(TEXT)
    with intervene(translates.model.module, *map(zero, heads)):
        generator = Generator(translates.model.bundle, translates.model.module)
        assert change["own_after"] == generator.write([TEXT], DecodingConfig())[0][0].text
    variant, ids = without(translates.model.module, "mask"), list(translates.model.generator.frame.before)
    source = torch.tensor([translates.model.generator.prompt(TEXT).source])
    for _ in range(20):  # without a mask no cache can be used: every step reads all anew
        with torch.no_grad():
            ids.append(int(variant(Inputs(torch.tensor([ids]), source=source))[0, -1].argmax()))
    shown = translates.ask(TEXT, off=["mask"])["change"]["own_after"]
    ours = translates.model.tokenizer.decode(ids[1:])
    assert shown.startswith(ours) or ours.startswith(shown)


@pytest.mark.parametrize("muted", [[], ["decoder.1.self.0", "decoder.0.self.2"]])
def test_a_changed_model_generates(writes: Asker, muted: list[str]) -> None:
    request = {"text": "the cat", "max_tokens": 6, "mute": muted, "off": ["positions"]}
    steps = writes.client.post("/api/generations", json=request).json()["steps"]
    variant, ids = without(writes.model.module, "positions"), writes.model.generator.prompt("the cat").ids
    for step in steps:
        with torch.no_grad(), intervene(variant, *map(zero, muted)):
            ids = [*ids, int(variant(Inputs(torch.tensor([ids])))[0, -1].argmax())]
        assert step["token"]["id"] == ids[-1]
        assert step["difference"] < 1e-3


@pytest.mark.notes("N33")
def test_the_loss_of_a_text_is_that_of_training(writes: Asker, translates: Asker, decides: Asker) -> None:
    answer = writes.ask(TEXT)
    found, ids = writes.read(answer["name"], "loss"), torch.tensor(ids_of(answer)["decoder"])
    Z = writes.model.trace(TEXT)["logits"][0, :-1].double()
    assert found["mean"] == pytest.approx(float(torch.nn.functional.cross_entropy(Z, ids[1:])), abs=1e-6)
    assert [row["id"] for row in found["tokens"]] == ids[1:].tolist()
    target = translates.read(translates.ask(TEXT, target="he is old")["name"], "loss")["tokens"]
    assert [row["text"] for row in target] == ["he", "is", "old", "</s>"]
    name = decides.ask(TEXT)["name"]
    assert "predicts no next token" in decides.refused("GET", f"/api/passes/{name}/loss")


def test_words_that_the_vocabulary_lacks_keep_their_spelling(writes: Asker) -> None:
    answer = writes.ask("the Cat saw xyzzy")
    tokens = answer["tokens"]["decoder"]
    assert [token["text"] for token in tokens] == ["<s>", "the", "Cat", "saw", "xyzzy"]
    assert [token["unknown"] for token in tokens] == [False, False, True, True, True]
    assert len({token["id"] for token in tokens if token["unknown"]}) == 1
    hints = {word["text"]: word["hint"] for word in answer["unknown_words"]}
    assert hints == {"Cat": "cat", "saw": None, "xyzzy": None}


def test_the_strongest_pair_of_each_head(asker: Asker) -> None:
    answer = asker.ask(TEXT)
    trace = asker.model.trace(TEXT)
    names = [one["name"] for one in asker.client.get("/api/model").json()["attentions"]]
    pairs = [pair for name in names for pair in asker.read(answer["name"], "pairs", attention=name)]
    assert len(pairs) == 3 * len(names)
    opening = asker.client.get("/api/model").json()["opening"]
    assert answer["pairs"] == [pair for pair in pairs if pair["attention"] == opening]
    for pair in pairs:
        A = trace[f"{pair['attention']}.weights"][0, pair["head"]]
        assert pair["weight"] == pytest.approx(float(A[pair["query"], pair["key"]]))
        stack = pair["attention"].split(".")[0]
        assert len(answer["tokens"][stack][pair["query"]]["text"]) >= 4
        assert pair["query"] != pair["key"] or pair["attention"].endswith("cross")
    assert "is not an attention" in asker.refused("GET", f"/api/passes/{answer['name']}/pairs?attention=x")


def test_the_last_row_of_the_lens_is_the_prediction(asker: Asker) -> None:
    answer = asker.ask(TEXT)
    top = asker.model.config.shape.split("-")[-1]
    lens = asker.read(answer["name"], "lens", position=len(answer["tokens"][top]) - 1)
    assert lens[-1]["top"][0]["p"] == pytest.approx(answer["prediction"][0]["p"], abs=1e-6)
    assert len(lens) == 1 + len(
        [site for site in answer["sites"] if site.startswith(f"{top}.") and "residual" in site]
    )


@pytest.mark.notes("N21", "N32")
def test_the_stream_is_what_it_was_and_what_was_added(asker: Asker) -> None:
    answer = asker.ask(TEXT)
    trace = asker.model.trace(TEXT)
    rows = asker.read(answer["name"], "stream", position=2)
    for row in rows[1:]:
        assert row["added"] == pytest.approx(float(trace[f"{row['name']}.out"][0, 2].norm()), rel=1e-5)
    for row, after in itertools.pairwise(rows):
        assert row["after"] == pytest.approx(after["before"], rel=1e-6)


@pytest.mark.notes("N4")
def test_neighbours_by_cosine_and_by_dot_product(asker: Asker) -> None:
    answer = asker.ask(TEXT)
    stack, tokens = next(iter(answer["tokens"].items()))
    id = tokens[2]["id"]
    E = getattr(asker.model.module, stack).tokens.weight.detach()
    found = asker.read(answer["name"], "neighbours", stack=stack, id=id)
    cosine = torch.nn.functional.cosine_similarity(E, E[id][None], dim=-1)
    assert found["cosine"][0]["value"] == pytest.approx(float(cosine.sort().values[-2]), abs=1e-6)
    assert all(
        entry["value"] == pytest.approx(float(E[entry["id"]] @ E[id]), abs=1e-5) for entry in found["dot"]
    )
    assert id not in [entry["id"] for entry in found["cosine"] + found["dot"]]


def test_the_projection_keeps_the_widest_distances(writes: Asker) -> None:
    answer = writes.ask(TEXT)
    found = writes.read(answer["name"], "projection", site="decoder.embeddings.tokens")
    X = writes.model.trace(TEXT)["decoder.embeddings.tokens"][0].double()
    X = X - X.mean(0)
    points = torch.tensor(found["points"], dtype=torch.double)
    assert points.shape == (len(X), 2)
    assert float(points.square().sum() / X.square().sum()) == pytest.approx(sum(found["share"]))
    assert torch.allclose(points.sum(0), torch.zeros(2, dtype=torch.double), atol=1e-9)


@pytest.mark.notes("N39")
def test_the_choice_is_that_of_the_sampler(writes: Asker) -> None:
    answer = writes.ask(TEXT)
    rules: dict[str, Any] = {"temperature": 0.7, "top_k": 9, "top_p": 0.8}
    Z = writes.model.trace(TEXT)["logits"][:, -1]
    kept = narrow(Z, DecodingConfig(**rules))
    for seed in range(5):
        found = writes.read(answer["name"], "choice", position=-1, seed=seed, step=3, **rules)
        drawn = torch.tensor([number(seed, 3)], dtype=torch.double)
        assert found["chosen"] == int(draw(kept, drawn))
        row = next(row for row in found["rows"] if row["id"] == found["chosen"])
        assert row["from"] <= found["drawn"] <= row["to"]
        assert found["kept"] == int((kept > -torch.inf).sum())
    P = torch.softmax(Z[0], -1)
    assert all(row["p"] == pytest.approx(float(P[row["id"]]), abs=1e-6) for row in found["rows"])
    certain = writes.read(answer["name"], "choice", position=-1, temperature=0)
    assert (certain["chosen"], certain["kept"], certain["drawn"]) == (int(Z.argmax()), 1, None)


@pytest.mark.notes("N38", "N40")
@pytest.mark.parametrize("temperature", [0.0, 1.2])
def test_a_text_is_written_as_generate_writes_it(
    temperature: float, writes: Asker, translates: Asker
) -> None:
    for asker in (writes, translates):
        request = {"text": "the cat", "max_tokens": 7, "temperature": temperature, "seed": 3}
        found = asker.client.post("/api/generations", json=request).json()
        ids = [step["token"]["id"] for step in found["steps"]]
        theirs = asker.model.generate("the cat", max_tokens=7, temperature=temperature, seed=3, beam=1).tokens
        prompt = asker.model.generator.prompt("the cat")
        if temperature:
            assert ids == theirs
        else:
            assert_same_or_tied(asker.model.bundle, prompt.ids, ids, theirs, prompt.source)
        assert max(step["difference"] for step in found["steps"]) < 1e-3
        assert [step["computed"] for step in found["steps"][1:]] == [1] * (len(ids) - 1)
        config, last = transformer(asker.model.config), found["steps"][-1]
        assert last["cache_bytes"] == 4 * 2 * config.decoder_blocks * config.h * config.width_k * last["read"]


def test_tokens_that_follow_a_text(writes: Asker) -> None:
    plain = writes.ask("the cat")
    more = writes.ask("the cat", more=[5, 9])
    assert ids_of(more)["decoder"] == [*ids_of(plain)["decoder"], 5, 9]
    assert [token["added"] for token in more["tokens"]["decoder"]][-2:] == [True, True]


@pytest.mark.notes("N17", "N29")
def test_a_translator_takes_its_own_translation_or_another(translates: Asker) -> None:
    own = translates.ask("the cat")
    assert own["own_target"] == translates.model.translate("the cat")
    given = translates.ask("the cat", target="he is old")
    assert given["own_target"] is None
    words = translates.model.tokenizer.encode("he is old")
    assert ids_of(given)["decoder"] == [*translates.model.generator.frame.before, *words]
    assert given["sites"]["decoder.0.cross.weights"][1:] == [4, 4]


@pytest.mark.notes("N30")
def test_words_left_out_of_a_classified_text(decides: Asker) -> None:
    answer = decides.ask("the cat is happy")
    found = decides.read(answer["name"], "without")
    assert [row["word"] for row in found["words"]] == ["the", "cat", "is", "happy"]
    ids = [token["id"] for token in answer["tokens"]["encoder"]]
    P = last_shares(decides.model, {"encoder": [id for place, id in enumerate(ids) if place != 2]})
    assert found["words"][1]["p"] == pytest.approx(P.tolist(), abs=1e-6)
    assert found["whole"] == pytest.approx(last_shares(decides.model, {"encoder": ids}).tolist(), abs=1e-6)
    assert found["unit"] == "word"


def test_tokens_left_out_of_a_text_that_is_one_word(decides: Asker) -> None:
    """Such as DNA."""
    answer = decides.ask("cat,the,dog")
    found = decides.read(answer["name"], "without")
    assert found["unit"] == "token"
    assert [(row["word"], row["places"]) for row in found["words"]] == [
        ("cat", [1]), (",", [2]), ("the", [3]), (",", [4]), ("dog", [5]),
    ]  # fmt: skip
    ids = [token["id"] for token in answer["tokens"]["encoder"]]
    P = last_shares(decides.model, {"encoder": [id for place, id in enumerate(ids) if place != 3]})
    assert found["words"][2]["p"] == pytest.approx(P.tolist(), abs=1e-6)


def test_a_part_of_a_weight(writes: Asker) -> None:
    name = "decoder.blocks.0.self.W_o.weight"
    query = {"name": name, "rows": "2:5", "columns": "8:16"}
    found = unpack(writes.client.get("/api/weights", params=query).content)
    assert torch.equal(found[name], dict(writes.model.module.named_parameters())[name][2:5, 8:16].detach())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"text": "the " * 60}, "The decoder would read 61 tokens, but 48 is the model's context."),
        ({"text": "a" * (MOST_CHARACTERS + 1)}, f"at most {MOST_CHARACTERS} characters"),
        ({"text": "a", "off": ["mush"]}, "'mush' is not a part that can be removed."),
        ({"text": "a", "mute": ["decoder.0.self.9"]}, "decoder.0.self has no head 9. Its heads: 0, 1, 2."),
        ({"text": "a", "mute": ["decoder.7.self.0"]}, "decoder.7.self.heads is not a site of this model."),
        ({"text": "a", "target": "b"}, "A model of shape 'decoder' takes no target."),
        ({"text": "a", "more": [10**9]}, "1000000000 is not an id of this model"),
        ({"text": "a", "colour": 1}, "colour is not a setting."),
        ({}, "text is required"),
    ],
)
def test_questions_that_are_refused(writes: Asker, given: dict[str, Any], message: str) -> None:
    assert message in writes.refused("POST", "/api/passes", json=given)


def test_requests_that_are_refused(writes: Asker) -> None:
    name = writes.ask("the cat")["name"]

    def get(path: str) -> str:
        return writes.refused("GET", path)

    assert "no longer kept" in get("/api/passes/nothing/heads")
    assert "is not a tensor of this pass" in get(f"/api/passes/{name}/tensors?sites=decoder.9.self.q")
    assert "so there is no head at place 7" in get(
        f"/api/passes/{name}/tensors?sites=decoder.0.self.q&head=7"
    )
    assert "is not a reading" in get(f"/api/passes/{name}/feelings")
    assert "position = 'x' is not a number" in get(f"/api/passes/{name}/stream?position=x")
    assert "there is no token 99" in get(f"/api/passes/{name}/stream?position=99")
    assert "is not a weight of this model" in get("/api/weights?name=W")
    assert "is not a range" in get("/api/weights?name=decoder.norm.weight&rows=a")
    assert "knows no classes" in get(f"/api/passes/{name}/without")
    assert "must be application/json" in writes.refused("POST", "/api/passes", content=b"{}")
    json = {"content-type": "application/json"}
    half = writes.refused("POST", "/api/passes", content=b'{"text": "\\ud800"}', headers=json)
    assert "a valid string" in half
    assert "one JSON object" in writes.refused("POST", "/api/passes", content=b"[1]", headers=json)
    large = b'"' + b"a" * 300_000 + b'"'
    assert "262144 bytes" in writes.refused("POST", "/api/passes", content=large, headers=json)


def test_the_page_is_light_and_names_no_other_host(writes: Asker) -> None:
    files = page_files()
    assert {"index.html", "style.css", "main.js", "views/heads.js"} <= files.keys()
    page = b"".join(path.read_bytes() for path in files.values())
    assert len(gzip.compress(page, 9, mtime=0)) < 100_000
    sizes = {name: len(gzip.compress(path.read_bytes(), 9, mtime=0)) for name, path in files.items()}
    # A browser receives the lessons in one language.
    texts = {path.parent.name: b"" for path in FOLDER.rglob("*.toml")}
    for path in sorted(FOLDER.rglob("*.toml")):
        texts[path.parent.name] += path.read_bytes()
    assert (
        sum(sizes.values()) + max(len(gzip.compress(text, 9, mtime=0)) for text in texts.values()) < 150_000
    )
    for where in files:
        answer = writes.client.get("/" if where == "index.html" else f"/page/{where}")
        assert answer.status_code == 200
        own = answer.text.replace("http://www.w3.org/", "").replace("http://x/", "")  # names, not places
        assert "http:" not in own, where
        assert "https:" not in own, where
        assert "innerHTML" not in own, where
    for other in ("__init__.py", "../api.py", "views"):
        assert writes.client.get(f"/page/{other}").status_code == 404


def test_a_pass_says_what_is_unknown_and_the_calibrated_probabilities() -> None:
    model = Model(replace(classifier("word"), calibration=Calibration(temperature=2.0, examples=9)))
    answer = Asker(model).ask("the zyx")
    (found,) = model.classify("the zyx")
    assert answer["unknown_share"] == found.unknown == 0.5
    assert answer["temperature"] == 2.0
    calibrated = {one["text"]: one["p"] for one in answer["calibrated"]}
    assert calibrated == pytest.approx(found.probabilities, abs=1e-5)
    assert calibrated != pytest.approx({one["text"]: one["p"] for one in answer["prediction"]}, abs=1e-4)


def test_no_other_model_has_calibrated_probabilities(writes: Asker) -> None:
    answer = writes.ask("the zyx cat")
    assert (answer["calibrated"], answer["temperature"]) == ([], 1.0)
    assert answer["unknown_share"] == pytest.approx(1 / 3)


def test_the_same_question_gets_the_pass_that_is_kept(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    first = asker.ask("the cat")
    heads = asker.read(first["name"], "heads")
    monkeypatch.setattr(Inspector, "run", None)
    again = asker.ask("the cat")
    assert again == first
    monkeypatch.setattr(head_readings, "head_statistics", None)
    assert asker.read(again["name"], "heads") == heads
