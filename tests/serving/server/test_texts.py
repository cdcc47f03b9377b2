"""Completions, chat, embeddings and clearhead's own tasks: what is answered, and what is refused by its name."""

import base64
import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

from clearhead.decoding.live import grammar
from clearhead.decoding.search import finish
from clearhead.serving.server.served import in_steps
from clearhead.serving.server.service import Service
from tests.decoding.tiny import language_model, next_logits, tokenizer

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
TALK = [{"role": "user", "content": "hello"}]


def ask(client: TestClient, path: str, **body: Any) -> dict[str, Any]:
    answer = client.post(path, json={"model": "writes", **body})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def refused(client: TestClient, path: str, status: int = 400, **body: Any) -> dict[str, Any]:
    answer = client.post(path, json={"model": "writes", **body})
    assert answer.status_code == status, answer.text
    return dict(answer.json()["error"])


def events(client: TestClient, path: str, **body: Any) -> list[dict[str, Any]]:
    answer = client.post(path, json={"model": "writes", "stream": True, **body})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    *lines, last = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    assert last == "[DONE]"
    return [json.loads(line) for line in lines]


def test_a_completion_is_what_the_model_writes(client: TestClient, service: Service) -> None:
    model = service.models["writes"].model
    ours = ask(client, COMPLETIONS, prompt="the cat", temperature=0, max_tokens=9)
    theirs = model.generate("the cat", temperature=0.0, max_tokens=9)
    assert ours["choices"] == [{"index": 0, "text": theirs.text, "logprobs": None, "finish_reason": "length"}]
    assert ours["usage"]["prompt_tokens"] == 8  # with the beginning
    assert ours["usage"]["completion_tokens"] == 9
    assert ours["object"] == "text_completion"


def test_a_stream_says_the_same_as_the_whole(client: TestClient) -> None:
    asked: dict[str, Any] = {
        "prompt": ["the cat", "my dog"],
        "seed": 3,
        "max_tokens": 7,
        "n": 2,
        "logprobs": 1,
    }
    whole = ask(client, COMPLETIONS, **asked)["choices"]
    parts = events(client, COMPLETIONS, **asked, stream_options={"include_usage": True})
    assert parts[-1]["usage"]["completion_tokens"] == 28
    assert len({choice["text"] for choice in whole}) == 4
    for choice in whole:
        own = [part["choices"][0] for part in parts[:-1] if part["choices"][0]["index"] == choice["index"]]
        assert "".join(part["text"] for part in own) == choice["text"]
        assert [part["finish_reason"] for part in own] == [None] * 6 + ["length"]
        assert [token for part in own for token in part["logprobs"]["tokens"]] == choice["logprobs"]["tokens"]


def test_the_same_seed_gives_the_same_text_and_another_does_not(client: TestClient) -> None:
    one, two, other = (
        ask(client, COMPLETIONS, prompt="the", seed=seed, max_tokens=12)["choices"][0]["text"]
        for seed in (-5, -5, 6)
    )
    assert one == two != other


def test_echo_scores_the_prompt(client: TestClient) -> None:
    """As evaluation harnesses ask: nothing is written, and every token of the prompt has its log-probability."""
    ids = [1, *range(60, 70)]
    choice = ask(client, COMPLETIONS, prompt=ids, echo=True, logprobs=1, max_tokens=0, temperature=0)[
        "choices"
    ][0]
    scores = choice["logprobs"]
    assert scores["token_logprobs"][0] is None
    assert len(scores["tokens"]) == len(scores["top_logprobs"]) == len(ids)
    for place in range(1, len(ids)):
        log_P = torch.log_softmax(next_logits(language_model(), ids[:place]), -1)
        assert scores["token_logprobs"][place] == pytest.approx(float(log_P[ids[place]]), abs=1e-4)
        assert max(scores["top_logprobs"][place].values()) == pytest.approx(float(log_P.max()), abs=1e-4)
    more = ask(client, COMPLETIONS, prompt="the cat", echo=True, logprobs=0, max_tokens=2, temperature=0)
    choice = more["choices"][0]
    assert choice["text"].startswith("the cat")
    assert len(choice["logprobs"]["tokens"]) == 10
    assert choice["logprobs"]["text_offset"][:4] == [0, 0, 1, 2]  # the beginning spells nothing


def test_fields_mean_what_they_say(client: TestClient) -> None:
    def text(**more: Any) -> str:
        answer = ask(client, COMPLETIONS, **{"prompt": "the", "temperature": 0, "max_tokens": 8, **more})
        return str(answer["choices"][0]["text"])

    plain, (h,) = text(), tokenizer("byte").encode("h")
    assert text(logit_bias={str(h): 100}) == "h" * 8
    assert text(logit_bias={str(h): 100}, stop="hh") == ""
    assert text(logit_bias={str(h): 100}, stop=["hh", "x"], echo=True) == "the"
    assert text(temperature=1.5, top_k=1) == plain
    assert text(temperature=1.5, top_p=1e-9) == plain
    assert text(temperature=1.5, min_p=1.0) == plain
    assert text(top_k=None) == plain  # null counts as omitted


def test_a_conversation_is_answered(client: TestClient) -> None:
    asked: dict[str, Any] = {
        "model": "talks",
        "messages": [{"role": "developer", "content": "Be brief."}, *TALK],
    }
    asked |= {"temperature": 0, "max_tokens": 6, "logprobs": True, "top_logprobs": 2}
    (choice,) = ask(client, CHAT, **asked)["choices"]
    assert choice["message"]["role"] == "assistant"
    first = choice["logprobs"]["content"][0]
    assert len(first["top_logprobs"]) == 2
    assert first["logprob"] == first["top_logprobs"][0]["logprob"]
    parts = [event["choices"][0]["delta"] for event in events(client, CHAT, **asked)]
    assert parts[0]["role"] == "assistant"
    assert "".join(part["content"] for part in parts) == choice["message"]["content"]
    listed = [{"role": "user", "content": [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]}]
    same = ask(client, CHAT, **asked | {"messages": [asked["messages"][0], *listed]})
    assert same["choices"][0]["message"] == choice["message"]


def test_an_answer_follows_a_json_schema(client: TestClient) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 3}, "count": {"enum": [1, 2]}},
        "required": ["name", "count"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "thing", "schema": schema}}
    for temperature in (0, 1.2):
        (choice,) = ask(
            client, CHAT, model="talks", messages=TALK, temperature=temperature, seed=1, max_tokens=90,
            response_format=wanted,
        )["choices"]  # fmt: skip
        assert choice["finish_reason"] == "stop"
        found = json.loads(choice["message"]["content"])
        assert set(found) == {"name", "count"}
        assert found["count"] in (1, 2)
    text = ask(client, COMPLETIONS, prompt="x", max_tokens=5, response_format={"type": "json_object"})[
        "choices"
    ][0]["text"]
    assert text.startswith("{")


def test_vectors_are_those_of_the_model(client: TestClient, service: Service) -> None:
    texts = ["the cat sat", "my dog"]
    answer = ask(client, "/v1/embeddings", model="decides", input=texts)
    expected = service.models["decides"].model.embed(texts)
    for place, row in enumerate(answer["data"]):
        np.testing.assert_allclose(row["embedding"], expected[place], rtol=1e-5)
        packed = ask(client, "/v1/embeddings", model="decides", input=texts[place], encoding_format="base64")
        raw = np.frombuffer(base64.b64decode(packed["data"][0]["embedding"]), "<f4")
        np.testing.assert_allclose(raw, expected[place], rtol=1e-5)
    assert answer["usage"]["prompt_tokens"] > 5


def test_texts_are_translated_and_classified(client: TestClient, service: Service) -> None:
    texts = ["the cat sat on the table", "", "my dog is old. the boy is happy."]
    for more in ({}, {"beam": 1}, {"split_sentences": True}):
        answer = ask(client, "/v1/translate", model="translates", input=texts, max_tokens=12, **more)
        expected = service.models["translates"].model.translate(texts, max_tokens=12, **more)
        assert [row["text"] for row in answer["data"]] == expected
    answer = ask(client, "/v1/classify", model="decides", input=texts[0])
    (expected_class,) = service.models["decides"].model.classify(texts[0])
    assert answer["data"][0]["label"] == expected_class.label
    assert answer["data"][0]["probabilities"] == pytest.approx(expected_class.probabilities)


def test_long_texts_are_read_a_few_at_a_time() -> None:
    """So many tokens between two steps of the engines, and at least one text."""
    sizes: list[int] = []

    def read(rows: Sequence[str]) -> Sequence[str]:
        sizes.append(len(rows))
        return rows

    texts, lengths = ["a", "b", "c", "d", "e"], [600, 100, 300, 200, 5]
    steps: Any = in_steps(texts, lengths, read)
    assert finish(steps) == texts
    assert sizes == [1, 2, 2]


def test_tokens_and_back(client: TestClient) -> None:
    tokens = ask(client, "/tokenize", text="the café")
    assert tokens["count"] == len(tokens["tokens"]) == 9
    assert tokens["pieces"][:3] == ["t", "h", "e"]
    assert tokens["pieces"][-1] == "bytes:\\xa9"
    assert ask(client, "/detokenize", tokens=tokens["tokens"])["text"] == "the café"


def test_models_say_what_they_are_for(client: TestClient) -> None:
    models = {model["id"]: model["tasks"] for model in client.get("/v1/models").json()["data"]}
    assert models == {
        "talks": ["completions", "chat", "embeddings"],
        "writes": ["completions", "embeddings"],
        "translates": ["translate", "embeddings"],
        "decides": ["classify", "embeddings"],
    }
    assert client.get("/v1/models/decides").json()["labels"] == ["bad", "good", "so-so"]
    assert client.get("/v1/models/nobody").status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "field", "message"),
    [
        (COMPLETIONS, {"prompt": "x", "best_of": 2}, "best_of", "'best_of' is not supported"),
        (COMPLETIONS, {"prompt": "x", "user": "me"}, "user", "'user' is not supported"),
        (CHAT, {"messages": TALK, "tools": []}, "tools", "'tools' is not supported"),
        (CHAT, {"messages": [{**TALK[0], "name": "x"}]}, "messages.0.name", "not supported"),
        (CHAT, {"messages": TALK, "model": "writes"}, "model", "is not for chat"),
        (COMPLETIONS, {}, "prompt", "'prompt' is required"),
        (COMPLETIONS, {"prompt": "x", "model": "translates"}, "model", "is not for completions; it is for translate"),
        (COMPLETIONS, {"prompt": "x", "n": 10**9}, "n", "less than or equal to 16"),
        (COMPLETIONS, {"prompt": "x", "n": "2"}, "n", "valid integer"),
        (COMPLETIONS, {"prompt": "x", "n": True}, "n", "valid integer"),
        (COMPLETIONS, {"prompt": ["x"] * 60, "n": 2}, "n", "asks for 120 texts; the limit is 64"),
        (COMPLETIONS, {"prompt": ["x"] * 100_000}, "prompt", "at most 64"),
        (COMPLETIONS, {"prompt": "x", "stop": ["x"] * 100_000}, "stop", "at most 16"),
        (COMPLETIONS, {"prompt": "x", "stop": ""}, "stop", "at least 1"),
        (COMPLETIONS, {"prompt": "x", "logit_bias": {str(i): 1 for i in range(2000)}}, "logit_bias", "at most 300"),
        (COMPLETIONS, {"prompt": "x", "logit_bias": {str(i): 1 for i in range(100_000)}}, None, "100,000 keys"),
        (COMPLETIONS, {str(i): 1 for i in range(100_000)}, None, "100,001 keys"),
        (COMPLETIONS, {"prompt": "x", "logit_bias": {"999999": 1}}, None, "names the id 999999"),
        (COMPLETIONS, {"prompt": "x", "max_tokens": 5000}, "max_tokens", "this server's 4096"),
        (COMPLETIONS, {"prompt": "x", "max_tokens": 0}, "max_tokens", "asks for nothing without echo"),
        (COMPLETIONS, {"prompt": "x", "min_tokens": 17}, "min_tokens", "more than the 16 that the text may have"),
        (CHAT, {"messages": TALK, "max_tokens": 2, "max_completion_tokens": 3}, "max_tokens", "Send one of them"),
        (COMPLETIONS, {"prompt": "x", "logprobs": 1000}, "logprobs", "less than or equal to 20"),
        (COMPLETIONS, {"prompt": [1, 10**7]}, None, "but the model has ids 0 to"),
        (COMPLETIONS, {"prompt": [1, -1]}, "prompt", "greater than or equal to 0"),
        (COMPLETIONS, {"prompt": "x" * 10**6}, None, "The text has 1,000,000 characters"),
        (COMPLETIONS, {"prompt": "x" * 5000}, None, "The prompt has 5000 tokens"),
        (COMPLETIONS, {"prompt": "x", "stream_options": {}}, "stream_options", "is for a stream"),
        (COMPLETIONS, {"prompt": "x", "response_format": {"type": "json_schema"}}, "response_format", "needs a"),
        ("/v1/embeddings", {"input": "x", "dimensions": 3}, "dimensions", "'dimensions' is not supported"),
        ("/v1/embeddings", {"input": [10**6]}, "input", "input contains the id"),
        ("/v1/embeddings", {"input": ""}, None, "The text is empty"),
        ("/v1/classify", {"input": "x"}, None, "has no classes"),
        ("/v1/translate", {"input": "x"}, "model", "is not for translate"),
        ("/v1/translate", {"input": "x", "model": "translates", "max_tokens": 5000}, "max_tokens", "server's 4096"),
        ("/detokenize", {"tokens": [10**6]}, "tokens", "there are ids 0 to"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_by_name(
    client: TestClient, path: str, body: dict[str, Any], field: str | None, message: str
) -> None:
    error = refused(client, path, **body)
    assert message in error["message"]
    assert error["type"] == "invalid_request_error"
    assert (error["param"] or "").startswith(field or "")
    if field is None:
        assert error["param"] in (None, "model")
    assert client.get("/health/live").status_code == 200


def schema_of(schema: Any) -> dict[str, Any]:
    return {"prompt": "x", "response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "description": "x" * 40_000},
        {"$ref": "#/$defs/nothing"},
        {"type": "nonsense"},
        {"type": "string", "pattern": "(" * 500},
        {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"allOf": [{"type": "string", "pattern": f".*{place}.*"} for place in range(40)]},
    ],
    ids=["huge", "missing", "nonsense", "pattern", "recursive", "endless"],
)
def test_schemas_that_cannot_be_followed_are_refused(client: TestClient, schema: Any) -> None:
    error = refused(client, COMPLETIONS, **schema_of(schema))
    assert "JSON schema" in error["message"]


def test_texts_without_a_schema_do_not_wait_until_schemas_are_tried(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    def slow(schema: str) -> str:
        has_begun.set()
        may_end.wait(60)
        return "it takes too long"

    monkeypatch.setattr(grammar, "fault_of", slow)
    with ThreadPoolExecutor(3) as threads:
        waiting = [
            threads.submit(refused, client, COMPLETIONS, **schema_of({"enum": [place]})) for place in range(3)
        ]
        assert has_begun.wait(60)
        assert ask(client, COMPLETIONS, prompt="x", max_tokens=1)["choices"]
        assert not any(one.done() for one in waiting)
        may_end.set()
    assert all("it takes too long" in one.result()["message"] for one in waiting)


def test_a_json_text_that_may_neither_end_nor_continue_is_refused(client: TestClient) -> None:
    error = refused(client, COMPLETIONS, **schema_of({"enum": [1]}), max_tokens=9, min_tokens=9)
    assert "min_tokens" in error["message"]


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (b"nonsense", 400),
        (b"[1]", 400),
        (b"null", 400),
        (b"[" * 100_000, 400),
        (b'{"a":' * 100_000, 400),
        (b'{"model": "writes", "prompt": "\\ud800"}', 400),
        (b'{"model": "writes", "prompt": "\xff"}', 400),
        (b'{"model": "writes", "prompt": "x", "temperature": NaN}', 400),
        (b'{"model": "writes", "prompt": "x", "temperature": 1e999}', 400),
        (b'{"model": "writes", "prompt": "x", "top_p": -Infinity}', 400),
        (b'{"model": "writes", "prompt": "x", "seed": ' + b"9" * 5000 + b"}", 400),
        (b'{"model": "nobody", "prompt": "x"}', 404),
        (b'{"model": "writes", "prompt": "' + b"x" * (3 << 20) + b'"}', 413),
    ],
)
def test_bad_bodies_are_refused(client: TestClient, content: bytes, status: int) -> None:
    headers = {"content-type": "application/json"}
    answer = client.post(COMPLETIONS, content=content, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]
    assert len(answer.content) < 2000


def test_other_methods_and_types_are_refused(client: TestClient) -> None:
    assert client.post(COMPLETIONS, content=b"{}", headers={"content-type": "text/plain"}).status_code == 415
    for method in ("GET", "PUT", "DELETE", "TRACE", "ODD"):
        answer = client.request(method, COMPLETIONS)
        assert answer.status_code == 405
        assert answer.json()["error"]["type"] == "invalid_request_error"
    assert client.get("/nowhere").json()["error"]["code"] == 404
    assert client.get("/v1/models", headers=[(f"x-{i}", "1") for i in range(100)]).status_code == 431
