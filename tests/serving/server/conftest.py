"""A server with three small models, in this process."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from clearhead.api import Model
from clearhead.config.serving import ServingConfig
from clearhead.serving.server.access import Keys
from clearhead.serving.server.app import server_app
from clearhead.serving.server.served import ServedModel
from clearhead.serving.server.service import Service
from clearhead.text.tokenizers.tokenizer import Tokenizer
from tests.decoding.tiny import classifier, language_model, random_model, tokenizer, translator

KEY = "a-key-of-the-tests-0123456789"
TEMPLATE = (
    "{% for one in messages %}{{ one.role }}: {{ one.content }}\n{% endfor %}"
    "{{ 'assistant:' if add_generation_prompt }}"
)


def chat_model(context: int = 256) -> Model:
    """A language model that came with a chat template."""
    bundle = random_model("decoder", "byte", context=context)
    words: Tokenizer = tokenizer("byte").with_chat_template(TEMPLATE)
    bundle.tokenizer = words
    return Model(bundle)


def service_of(settings: ServingConfig, **models: Model) -> Service:
    """A service whose thread runs."""
    service = Service([ServedModel(name, model, settings) for name, model in models.items()], settings)
    service.start()
    return service


def client_of(service: Service, keys: Keys | None = None) -> TestClient:
    """A client, whose requests fail as those of others do."""
    return TestClient(
        server_app(service, keys), base_url="http://127.0.0.1:8000", raise_server_exceptions=False
    )


def full_service(context: int = 256) -> Service:
    """A service of all models, with this context of the one that chats."""
    models = {
        "talks": chat_model(context),
        "writes": Model(language_model()),
        "translates": Model(translator("word")),
        "decides": Model(classifier()),
    }
    return service_of(ServingConfig(slots=4, queue=60), **models)


@pytest.fixture(scope="package")
def service() -> Iterator[Service]:
    service = full_service()
    yield service
    service.stop()


@pytest.fixture(scope="package")
def client(service: Service) -> Iterator[TestClient]:
    """One event loop for all requests, as in a server."""
    with client_of(service) as client:
        yield client
