"""Every endpoint, for every site and odd parameters: an answer, or a refusal with a message; never a fault."""

from collections.abc import Iterator
from copy import deepcopy

import torch

from clearhead.api import Model
from clearhead.page.service.service import READINGS
from tests.decoding.tiny import language_model
from tests.serving.conftest import Asker

ODD = ["", "-1", "99999", "9" * 400, "nan", "1.5", "²", "ä", "a.b.c", "encoder.0.self.weights", "\0", "2:1"]
KEYS = {
    "prediction": ["position"],
    "stream": ["position", "stack"],
    "lens": ["position"],
    "effects": ["position"],
    "neighbours": ["stack", "id"],
    "projection": ["site"],
    "choice": ["position", "temperature", "top_k", "top_p", "seed", "step"],
}
Address = tuple[str, dict[str, str]]


def site_requests(sites: list[str]) -> Iterator[Address]:
    """Tensors and projections, of what was captured and of what is computed from it."""
    places = dict.fromkeys(site.rpartition(".")[0] for site in sites)
    for site in [*sites, *places, *(f"{place}.{key}" for place in places for key in ("x", "bias")), *ODD]:
        yield "projection", {"site": site}
        for head in (None, "0", "mean", "99"):
            yield "tensors", {"sites": site} | ({} if head is None else {"head": head})
    for head in ODD:
        yield "tensors", {"sites": sites[1], "head": head}


def reading_requests() -> Iterator[Address]:
    """Readings without parameters, and with one of them odd."""
    for what in [*READINGS, "thumbnails", "nothing"]:
        yield what, {}
        for key in KEYS.get(what, []):
            for value in ODD:
                yield what, {"position": "0", "id": "1"} | {key: value}


def check_answer(asker: Asker, path: str, query: dict[str, str]) -> None:
    """Raises if a request is neither answered nor refused with a message."""
    answer = asker.client.get(path, params=query)  # raises what the service does not handle
    assert answer.status_code in (200, 404, 422), (path, query, answer.text)
    if answer.status_code != 200:
        assert len(answer.json()["error"]) > 10, (path, query)


def test_every_reading_of_every_site_is_answered_or_refused(asker: Asker) -> None:
    captured = asker.ask("the cat sat")
    for what, query in [*site_requests(list(captured["sites"])), *reading_requests()]:
        check_answer(asker, f"/api/passes/{captured['name']}/{what}", query)


def test_every_part_of_a_weight_is_answered_or_refused(asker: Asker) -> None:
    names = [name for name, _ in asker.model.module.named_parameters()]
    for name in [*names[::5], *ODD]:
        for odd in ODD:
            check_answer(asker, "/api/weights", {"name": name, "rows": odd})
            check_answer(asker, "/api/weights", {"name": name, "rows": "0:1", "columns": odd})


def test_a_site_with_heads_has_no_projection(decides: Asker) -> None:
    path = f"/api/passes/{decides.ask('the cat')['name']}/projection"
    said = decides.refused("GET", path, params={"site": "encoder.0.self.weights"})
    assert "not one vector for each token" in said
    assert "such as encoder.embeddings.out." in said


def test_a_model_that_computes_nan_is_named() -> None:
    model = Model(deepcopy(language_model("word")))  # other tests share it
    with torch.no_grad():
        next(model.module.parameters()).fill_(torch.nan)
    said = Asker(model).refused("POST", "/api/passes", json={"text": "the cat"})
    assert said.startswith("The model computes NaN or infinity for this text")
