"""The description of the routes: the table of operations enters, OpenAPI 3.1 leaves."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response

from clearhead import __version__
from clearhead.serving.server.schemas import Body

ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": "integer"},
            },
        }
    },
}


@dataclass(frozen=True)
class Operation:
    """A route, what answers it, what it takes and what it gives."""

    method: str
    path: str
    answer: Callable[[Any, Request], Awaitable[Response]]
    summary: str
    body: type[Body] | None = None
    gives: tuple[str, ...] = ("application/json",)


def describe(operations: Sequence[Operation], models: Sequence[str]) -> dict[str, Any]:
    """The routes as OpenAPI."""
    bodies = [operation.body for operation in operations if operation.body is not None]
    names, schemas = models_json_schema(
        [(body, "validation") for body in bodies], ref_template="#/components/schemas/{model}"
    )
    for schema in schemas["$defs"].values():
        if "model" in schema.get("properties", {}):
            schema["properties"]["model"]["enum"] = list(models)
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = described(operation, names)
    return {
        "openapi": "3.1.0",
        "info": {"title": "clearhead", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {**schemas["$defs"], "Error": ERROR},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def described(operation: Operation, names: Any) -> dict[str, Any]:
    """One route."""
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    result: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": operation.path.strip("/").replace("/", "_").replace("{", "").replace("}", "")
        or "page",
        "responses": {
            "200": {"description": "the answer", "content": {kind: {} for kind in operation.gives}},
            "default": {"description": "an error", "content": error},
        },
    }
    if "{name}" in operation.path:
        result["parameters"] = [
            {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        ]
    if operation.body is not None:
        schema = names[operation.body, "validation"]
        result["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return result
