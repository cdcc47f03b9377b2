"""Small models of all three shapes, and a client that asks their explorer."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from clearhead.api import Model
from clearhead.serving.explorer.app import explorer_app
from tests.decoding.tiny import classifier, language_model, translator

SHAPES: dict[str, Callable[[], Model]] = {
    "decoder": lambda: Model(language_model("word")),
    "encoder": lambda: Model(classifier("word")),
    "encoder-decoder": lambda: Model(translator("word")),
}


class Asker:
    """A client of the explorer of one model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.client = TestClient(explorer_app(model, "tiny"), base_url="http://127.0.0.1:7878")

    def ask(self, text: str = "the cat sat on the table", **more: Any) -> dict[str, Any]:
        """The answer to a question about a text."""
        answer = self.client.post("/api/passes", json={"text": text, **more})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def read(self, name: str, what: str, **query: Any) -> Any:
        """A reading of a pass."""
        answer = self.client.get(f"/api/passes/{name}/{what}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, method: str, path: str, **given: Any) -> str:
        """The error text of a question that is refused."""
        answer = self.client.request(method, path, **given)
        assert answer.status_code in (404, 422), answer.text
        return str(answer.json()["error"])


def connected(shape: str) -> Iterator[Asker]:
    """An explorer of a model of this shape, with one event loop for all requests, as in a server."""
    asker = Asker(SHAPES[shape]())
    with asker.client:
        yield asker


@pytest.fixture(params=list(SHAPES))
def asker(request: pytest.FixtureRequest) -> Iterator[Asker]:
    """An explorer of every shape."""
    yield from connected(request.param)


@pytest.fixture
def writes() -> Iterator[Asker]:
    """An explorer of a language model."""
    yield from connected("decoder")


@pytest.fixture
def translates() -> Iterator[Asker]:
    """An explorer of a translator."""
    yield from connected("encoder-decoder")


@pytest.fixture
def decides() -> Iterator[Asker]:
    """An explorer of a classifier."""
    yield from connected("encoder")
