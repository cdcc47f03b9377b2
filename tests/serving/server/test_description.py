"""The OpenAPI description matches the server: whatever it allows, or nearly allows, is answered without a fault."""

import os
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from starlette.testclient import TestClient

from clearhead.serving.server.app import OPERATIONS
from clearhead.serving.server.openapi import Operation
from tests.serving.server.conftest import client_of, full_service

CASES = int(os.environ.get("CLEARHEAD_CASES", "250"))  # of each route; `make soak` asks for ten times as many
ANSWERED = {200, 400, 404, 405, 413, 415, 429}
WITH_CASES = [operation for operation in OPERATIONS if operation.body is not None or "{" in operation.path]
CONTEXT = 64  # few cases say when an answer ends, so that it fills the context


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    service = full_service(CONTEXT)
    with client_of(service) as client:
        yield client
    service.stop()


def test_every_route_is_described(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    assert {(path, method.upper()) for path, methods in described["paths"].items() for method in methods} == {
        (operation.path, operation.method) for operation in OPERATIONS
    }
    body = described["components"]["schemas"]["CompletionBody"]
    assert body["properties"]["model"]["enum"] == ["talks", "writes", "translates", "decides"]
    assert body["properties"]["n"]["maximum"] == 16


def test_every_field_is_bounded(client: TestClient) -> None:
    """No string, number or list of a request may be of any size; a JSON schema is bounded as a whole."""
    described = client.get("/openapi.json").json()["components"]["schemas"]
    bodies = {operation.body.__name__ for operation in OPERATIONS if operation.body is not None}
    bounds = {
        "string": {"maxLength", "enum", "const", "pattern"},
        "integer": {"maximum", "exclusiveMaximum"},
        "number": {"maximum"},
        "array": {"maxItems"},
        "object": {"maxProperties", "additionalProperties"},
    }
    unbounded: list[str] = []

    def look(value: Any, place: str) -> None:
        if isinstance(value, dict):
            kind = value.get("type")
            if isinstance(kind, str) and kind in bounds and not bounds[kind] & set(value):
                unbounded.append(place)
            for name, inner in value.items():
                look(inner, f"{place}.{name}")
        elif isinstance(value, list):
            for inner in value:
                look(inner, place)

    assert bodies <= set(described)
    for name in described.keys() - {"Error"}:
        look(described[name], name)
    assert unbounded == []


@pytest.mark.slow
@pytest.mark.parametrize("operation", WITH_CASES, ids=[operation.path for operation in WITH_CASES])
def test_no_case_of_schemathesis_is_a_fault(client: TestClient, operation: Operation) -> None:
    """Of the bodies, half are invalid in some way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from schemathesis import GenerationMode, openapi
    schema = openapi.from_dict(client.get("/openapi.json").json())
    modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE][: 1 if operation.body is None else 2]
    found: Counter[int] = Counter()
    for mode in modes:
        cases = schema[operation.path][operation.method].as_strategy(generation_mode=mode)
        try_cases(client, cases, CASES // len(modes), found)
    assert client.get("/health/ready").status_code == 200
    assert found[404 if operation.body is None else 400] > 0


def try_cases(client: TestClient, cases: Any, count: int, found: Counter[int]) -> None:
    """Sends so many cases, and counts what is answered."""

    @settings(max_examples=count, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=cases)
    def ask(case: Any) -> None:
        content: Any = {}
        if case.method == "POST":
            content = {"content": case.body} if isinstance(case.body, bytes) else {"json": case.body}
        headers = {"content-type": case.media_type or "application/json"}
        answer = client.request(case.method, case.formatted_path, headers=headers, **content)
        found[answer.status_code] += 1
        assert answer.status_code in ANSWERED, answer.text
        if answer.status_code >= 400:
            assert answer.json()["error"]["message"]

    ask()
