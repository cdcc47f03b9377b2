"""Requests without the token of the opened address are refused."""

import pytest
from starlette.testclient import TestClient

from clearhead.api import Model
from clearhead.serving.access_token import new_token
from clearhead.serving.explorer.app import explorer_app
from tests.decoding.tiny import language_model

PATHS = ["/", "/page/main.js", "/api/model", "/api/passes/x/heads", "/api/weights", "/nothing"]
TOKEN = new_token()


@pytest.fixture
def client() -> TestClient:
    app = explorer_app(Model(language_model("word")), token=TOKEN)
    return TestClient(app, base_url="http://127.0.0.1:7878", follow_redirects=False)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "given", [None, "", "x", TOKEN[:-1], f"{TOKEN}x", "ä"], ids=range(6)
)  # new each time
def test_without_the_token_everything_is_refused(client: TestClient, path: str, given: str | None) -> None:
    answer = client.get(path, params={} if given is None else {"token": given})
    assert answer.status_code == 403
    assert "Open the address with ?token=" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "set-cookie" not in answer.headers


def test_no_pass_runs_without_the_token(client: TestClient) -> None:
    assert client.post("/api/passes", json={"text": "the cat"}).status_code == 403
    assert client.post("/api/generations", json={"text": "the cat"}).status_code == 403


def test_the_opened_address_gives_a_cookie_and_leads_to_the_page_without_the_token(
    client: TestClient,
) -> None:
    answer = client.get("/", params={"token": TOKEN})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert "httponly" in answer.headers["set-cookie"].lower()
    assert [client.get(path).status_code for path in PATHS] == [200, 200, 200, 404, 422, 404]
    assert client.post("/api/passes", json={"text": "the cat"}).status_code == 200


def test_a_program_sends_it_in_a_header_or_in_the_address(client: TestClient) -> None:
    assert client.get("/api/model", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.get("/api/model", params={"token": TOKEN}).status_code == 200
    assert client.get("/api/model", headers={"authorization": f"Basic {TOKEN}"}).status_code == 403
    client.cookies.clear()
    assert client.get("/api/model").status_code == 403


def test_the_cookie_of_another_port_does_not_count(client: TestClient) -> None:
    assert client.get("/api/model", headers={"cookie": f"clearhead-7879={TOKEN}"}).status_code == 403


def test_tokens_differ() -> None:
    assert len({new_token() for _ in range(100)}) == 100
