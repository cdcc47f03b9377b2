"""Only this machine's own page may send requests."""

import pytest

from tests.serving.conftest import Asker


@pytest.mark.parametrize("host", ["127.0.0.1:7878", "localhost:7878", "[::1]:7878", "localhost"])
def test_our_own_names_are_answered(writes: Asker, host: str) -> None:
    assert writes.client.get("/api/model", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:7878", "192.168.0.4:7878", "", "[::1"]
)
def test_foreign_names_are_refused(writes: Asker, host: str) -> None:
    answer = writes.client.get("/api/model", headers={"host": host})
    assert answer.status_code == 403
    assert "only to 127.0.0.1, ::1, localhost." in answer.text


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://127.0.0.1"]
)
def test_foreign_pages_are_refused(writes: Asker, origin: str) -> None:
    answer = writes.client.post("/api/passes", json={"text": "a"}, headers={"origin": origin})
    assert answer.status_code == 403
    assert answer.text == f"A page from {origin!r} may not send requests to this service."


def test_our_own_page_is_answered(writes: Asker) -> None:
    headers = {"origin": "http://127.0.0.1:7878", "sec-fetch-site": "same-origin"}
    assert writes.client.post("/api/passes", json={"text": "a"}, headers=headers).status_code == 200


def test_requests_from_other_sites_are_refused_but_a_link_may_be_followed(writes: Asker) -> None:
    foreign = {"sec-fetch-site": "cross-site"}
    assert writes.client.get("/api/model", headers=foreign).status_code == 403
    assert writes.client.get("/", headers=foreign | {"sec-fetch-dest": "document"}).status_code == 200


def test_every_answer_is_marked(writes: Asker) -> None:
    for path in ("/", "/page/main.js", "/api/model", "/nothing", "/api/passes/x/heads"):
        headers = writes.client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "require-trusted-types-for 'script'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_no_file_outside_the_page_is_served(writes: Asker) -> None:
    for path in ("/page/../explorer.py", "/page/%2e%2e/explorer.py", "/page//etc/passwd"):
        assert writes.client.get(path).status_code == 404
