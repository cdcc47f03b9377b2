"""OpenAI's own client, unchanged, talks to the server."""

from typing import Any

import openai
import pytest
from openai.types.chat import completion_create_params as chat_params
from openai.types.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.embedding_create_params import EmbeddingCreateParams
from starlette.testclient import TestClient

from clearhead.serving.server.access import Keys
from clearhead.serving.server.app import server_app
from clearhead.serving.server.schemas import ChatBody, CompletionBody, EmbeddingBody
from clearhead.serving.server.service import Service
from tests.serving.server.conftest import KEY


@pytest.fixture(scope="module")
def official(service: Service) -> openai.OpenAI:
    transport = TestClient(server_app(service, Keys([KEY])), base_url="http://127.0.0.1:8000")
    return openai.OpenAI(
        base_url="http://127.0.0.1:8000/v1", api_key=KEY, http_client=transport, max_retries=0
    )


def test_models_texts_and_vectors(official: openai.OpenAI) -> None:
    assert [model.id for model in official.models.list()] == ["talks", "writes", "translates", "decides"]
    text = official.completions.create(
        model="writes", prompt="the cat", max_tokens=4, temperature=0, logprobs=2
    )
    assert text.choices[0].finish_reason == "length"
    assert text.usage is not None
    assert text.usage.completion_tokens == 4
    assert text.choices[0].logprobs is not None
    assert len(text.choices[0].logprobs.token_logprobs or []) == 4
    vectors = official.embeddings.create(model="decides", input=["the cat", "my dog"])  # as base64
    assert len(vectors.data[0].embedding) == 24


def test_a_conversation_and_its_stream(official: openai.OpenAI) -> None:
    talk: Any = [{"role": "user", "content": "hello"}]
    whole = official.chat.completions.create(
        model="talks",
        messages=talk,
        max_completion_tokens=5,
        temperature=0,
        logprobs=True,
        top_logprobs=1,
    )
    stream = official.chat.completions.create(
        model="talks", messages=talk, max_tokens=5, temperature=0, stream=True,
        stream_options={"include_usage": True},
    )  # fmt: skip
    chunks = list(stream)
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert said == whole.choices[0].message.content
    assert chunks[-1].usage is not None
    assert chunks[-1].usage == whole.usage


def test_errors_are_those_that_the_client_knows(official: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="There is no model 'nobody'"):
        official.completions.create(model="nobody", prompt="x")
    with pytest.raises(openai.BadRequestError, match="'best_of' is not supported") as error:
        official.completions.create(model="writes", prompt="x", best_of=2)
    assert error.value.param == "best_of"
    with pytest.raises(openai.AuthenticationError, match="needs a key"):
        official.with_options(api_key="wrong").models.list()


PARAMETERS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "/v1/completions": (CompletionCreateParamsNonStreaming, CompletionBody, {"prompt": "x"}),
    "/v1/chat/completions": (
        chat_params.CompletionCreateParamsNonStreaming,
        ChatBody,
        {"messages": [{"role": "user", "content": "x"}]},
    ),
    "/v1/embeddings": (EmbeddingCreateParams, EmbeddingBody, {"input": "x"}),
}


@pytest.mark.parametrize("path", PARAMETERS)
def test_every_parameter_of_the_client_is_known_or_refused_by_its_name(client: TestClient, path: str) -> None:
    """Those that are known are tested for their effect; of the others none is ignored."""
    documented, body, given = PARAMETERS[path]
    known = {field.alias or name for name, field in body.model_fields.items()}
    unknown = set(documented.__annotations__) - known
    assert {"user"} <= unknown
    for name in unknown:
        answer = client.post(path, json={"model": "talks", **given, name: "something"})
        assert answer.status_code == 400, name
        assert answer.json()["error"]["param"] == name
        assert f"'{name}' is not supported" in answer.json()["error"]["message"]
