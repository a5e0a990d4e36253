"""The REST API's document in OpenAPI 3.1, made of the table of routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import date, datetime
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from gateway.console.binding import MAX_LIST, without_none
from gateway.console.routes import ConsoleDownload, ConsolePart, ConsoleRoute, ConsoleStream, Who

_WHO = {
    Who.LOGGED_IN: "Everybody who is logged in",
    Who.AUDITOR: "Auditors and administrators",
    Who.ADMINISTRATOR: "Administrators",
}
_SCALARS: Mapping[Any, Mapping[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    Any: {},
    object: {},
}
_PROBLEM = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {"type": "array", "items": {"type": "string"}},
    },
}


def build_document(parts: Sequence[ConsolePart], version: str) -> dict[str, Any]:
    """Return the document. Raises TypeError for a type that has no schema."""
    schemas: dict[str, Any] = {"Problem": _PROBLEM}
    paths: dict[str, dict[str, Any]] = {}
    for part in parts:
        for route in part.routes:
            paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
        for stream in part.streams:
            paths.setdefault(stream.path, {})["get"] = _of_stream(stream)
        for download in part.downloads:
            paths.setdefault(download.path, {})["get"] = _of_download(download, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sluice", "version": version},
        "servers": [{"url": "/api/v1"}],
        "security": [{"basic": []}, {"bearer": []}, {"session": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "__Host-sluice-console"},
            },
        },
    }


def _operation(route: ConsoleRoute, schemas: dict[str, Any]) -> dict[str, Any]:
    is_body = route.method in ("POST", "PUT")
    listed, body, required = _list_parameters(route, schemas, is_body=is_body)
    content: dict[str, Any] = {"application/json": {"schema": schema_of(route.result, schemas)}}
    content |= {kind: {"schema": {"type": "string"}} for kind in route.formats}
    answer = {"description": "Done." if route.changes else "What was asked for.", "content": content}
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.about,
        "description": f"{_WHO[route.who]}. {route.own}".strip(),
        "parameters": listed,
        "responses": {"200": answer, "default": _describe_error()},
    }
    if body:
        schema = {"type": "object", "properties": body, "additionalProperties": False, "required": required}
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return found


def _list_parameters(
    used: ConsoleRoute | ConsoleDownload, schemas: dict[str, Any], *, is_body: bool
) -> tuple[list[dict[str, Any]], dict[str, Any], list[str]]:
    """Return the parameters of path and query, the fields of the body, and those of it that are required."""
    hints = get_type_hints(used.parameters)
    listed, body, required = [], {}, []
    for one in fields(used.parameters):
        schema = _of_parameter(one, hints[one.name], schemas)
        place = "path" if one.name in used.names_in_path else "" if is_body else "query"
        has_default = one.default is not MISSING or one.default_factory is not MISSING
        if place:
            told: dict[str, Any] = {"name": one.name, "in": place, "schema": schema}
            told |= {"description": one.metadata["about"], "required": place == "path" or not has_default}
            listed.append(told | _example(used, one.name))
        else:
            body[one.name] = schema | {"description": one.metadata["about"]}
            required += [] if has_default else [one.name]
    return listed, body, required


def _of_download(download: ConsoleDownload, schemas: dict[str, Any]) -> dict[str, Any]:
    content = {download.content_type.partition(";")[0]: {"schema": {"type": "string"}}}
    return {
        "operationId": download.name,
        "summary": download.about,
        "description": f"{_WHO[download.who]}. {download.own}".strip(),
        "parameters": _list_parameters(download, schemas, is_body=False)[0],
        "responses": {
            "200": {"description": "The file.", "content": content},
            "default": _describe_error(),
        },
    }


def _of_stream(stream: ConsoleStream) -> dict[str, Any]:
    content = {"text/event-stream": {"schema": {"type": "string"}}}
    return {
        "operationId": stream.name,
        "summary": stream.about,
        "description": f"{_WHO[stream.who]}. {stream.own}".strip(),
        "responses": {"200": {"description": "Events.", "content": content}, "default": _describe_error()},
    }


def _example(route: ConsoleRoute | ConsoleDownload, name: str) -> dict[str, Any]:
    return {"example": route.examples[name]} if name in route.examples else {}


def _describe_error() -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": "A problem.", "content": {"application/problem+json": {"schema": schema}}}


def _of_parameter(one: Field[Any], hint: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    found = dict(schema_of(without_none(hint)[0], schemas))
    most = one.metadata.get("most")
    if found.get("type") == "string" and "enum" not in found and "format" not in found:
        found["maxLength"] = most
    elif found.get("type") == "integer":
        found |= {"minimum": 0, "maximum": most}
    elif found.get("type") == "array":
        found["maxItems"] = one.metadata.get("items", MAX_LIST)
    if one.default is not MISSING and one.default not in (None, ()):
        found["default"] = one.default.value if isinstance(one.default, Enum) else one.default
    return found


def schema_of(hint: Any, schemas: dict[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a type; dataclasses are put into `schemas`. Raises TypeError."""
    inner, optional = without_none(hint)
    if optional:
        return {"anyOf": [schema_of(inner, schemas), {"type": "null"}]}
    if inner in _SCALARS:
        return _SCALARS[inner]
    origin, arguments = get_origin(inner), get_args(inner)
    if origin is Literal:
        return {"type": "string", "enum": [str(one) for one in arguments]}
    if isinstance(inner, type) and issubclass(inner, Enum):
        return {"type": "string", "enum": [str(one.value) for one in inner]}
    if origin is Union or (origin is not None and origin.__name__ == "UnionType"):
        kinds = [one for one in arguments if one is not type(None)]
        none = [{"type": "null"}] if len(kinds) < len(arguments) else []
        return {"anyOf": [*(schema_of(one, schemas) for one in kinds), *none]}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema_of(arguments[1], schemas)}
    if isinstance(origin, type) and issubclass(origin, Sequence | set | frozenset):
        return {"type": "array", "items": schema_of(arguments[0], schemas)}
    if isinstance(inner, type) and is_dataclass(inner):
        if inner.__name__ not in schemas:
            schemas[inner.__name__] = {}  # one that holds itself
            hints = get_type_hints(inner)
            schemas[inner.__name__] = {
                "type": "object",
                "properties": {one.name: schema_of(hints[one.name], schemas) for one in fields(inner)},
            }
        return {"$ref": f"#/components/schemas/{inner.__name__}"}
    raise TypeError(f"{inner} has no schema")
