"""The OpenAPI description matches the server: whatever it allows, or nearly allows, is answered without a fault."""

import os
import warnings
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from starlette.testclient import TestClient

from clearhead.serving.server.app import OPERATIONS

MANY = int(os.environ.get("CLEARHEAD_CASES", "300"))  # of each route; `make soak` asks for more
ANSWERED = {200, 400, 404, 405, 413, 415, 429}
BODIES = [operation for operation in OPERATIONS if operation.body is not None]


def test_every_route_is_described(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    assert {(path, method.upper()) for path, methods in described["paths"].items() for method in methods} == {
        (operation.path, operation.method) for operation in OPERATIONS
    }
    body = described["components"]["schemas"]["CompletionBody"]
    assert body["properties"]["model"]["enum"] == ["talks", "writes", "translates", "decides"]
    assert body["properties"]["n"]["maximum"] == 16


@pytest.mark.parametrize(
    "count", [10, pytest.param(MANY, marks=pytest.mark.prove)], ids=["some cases", "many cases"]
)
def test_no_case_of_schemathesis_is_a_fault(client: TestClient, count: int) -> None:
    """So many bodies for each route that takes one, half of them invalid in some way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from schemathesis import GenerationMode, openapi
    schema = openapi.from_dict(client.get("/openapi.json").json())
    found: Counter[int] = Counter()
    for operation in BODIES:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            cases = schema[operation.path][operation.method].as_strategy(generation_mode=mode)
            try_cases(client, cases, count // 2, found)
    assert client.get("/health/ready").status_code == 200
    assert found[200] > 0
    assert found[400] > 0


def try_cases(client: TestClient, cases: Any, count: int, found: Counter[int]) -> None:
    """Sends so many cases, and counts what is answered."""

    @settings(max_examples=count, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=cases)
    def ask(case: Any) -> None:
        content: Any = {"content": case.body} if isinstance(case.body, bytes) else {"json": case.body}
        headers = {"content-type": case.media_type or "application/json"}
        answer = client.request(case.method, case.operation.path, headers=headers, **content)
        found[answer.status_code] += 1
        assert answer.status_code in ANSWERED, answer.text
        if answer.status_code >= 400:
            assert answer.json()["error"]["message"]

    ask()
