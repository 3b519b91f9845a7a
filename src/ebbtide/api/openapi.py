"""The API's own description, OpenAPI 3.1, made from the route tables and the wire types that the code itself uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from ebbtide import __version__
from ebbtide.api.auth import COOKIE
from ebbtide.api.parameters import HeaderParameter, OneOfHeader, Parameter
from ebbtide.api.routing import Admin, Closed, Endpoint, Open, Scraped, Switched
from ebbtide.dialects.anthropic.errors import MessagesError
from ebbtide.dialects.gemini.errors import GoogleError
from ebbtide.dialects.openai.errors import ErrorBody

Json = dict[str, Any]
_REF = "#/components/schemas/{name}"
_GEMINI = ("/v1beta/", "/upload/")
_PATH_PARAMETER = re.compile(r"{(\w+)(?::path)?}")
# What an endpoint of each kind may answer before its handler is reached, or instead of it.
_KEY_ERRORS: Mapping[type[Endpoint], tuple[int, ...]] = {
    Open: (),
    Closed: (401, 500, 503),
    Admin: (401, 403, 500, 503),
    Scraped: (401, 403, 500, 503),
    Switched: (401, 500, 503),
}
_SCHEMES: Json = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key: ebb-…"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "google": {"type": "apiKey", "in": "header", "name": "x-goog-api-key"},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "Changes need X-CSRF-Token too"},
}


def build_document(endpoints: Sequence[Endpoint]) -> bytes:
    """The OpenAPI document of a table, as JSON."""
    types = list(dict.fromkeys(_types(endpoints)))
    found, components = msgspec.json.schema_components(types, schema_hook=_any, ref_template=_REF)
    schemas = dict(zip(types, found, strict=True))
    paths: dict[str, Json] = {}
    for endpoint in endpoints:
        path = _PATH_PARAMETER.sub(r"{\1}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Ebbtide",
            "version": __version__,
            "summary": "LLM inference gateway with first-class batch inference",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": _SCHEMES},
    }
    return msgspec.json.encode(document)


def _any(kind: type) -> Json:
    """A field that may hold any JSON; NotImplementedError tells msgspec that the type is not ours to describe."""
    if kind is object:
        return {"description": "Any JSON"}
    raise NotImplementedError


def _types(endpoints: Sequence[Endpoint]) -> Iterator[Any]:
    yield ErrorBody
    yield MessagesError
    yield GoogleError
    for endpoint in endpoints:
        told = endpoint.described
        yield from (kind for kind in (told.request, told.answer, *(more for _, more in told.more)) if _is_type(kind))


def _is_type(kind: object) -> bool:
    return kind is not None and not isinstance(kind, (str, Mapping))


def _operation(endpoint: Endpoint, schemas: Mapping[Any, Json]) -> Json:
    told = endpoint.described
    closed = isinstance(endpoint, Closed)
    operation: Json = {
        "operationId": _operation_id(endpoint),
        "summary": endpoint.summary,
        "tags": [_tag(endpoint.path)],
        "security": [{name: []} for name in _schemes(endpoint.path)] if closed else [],
        "parameters": [
            *(_path_parameter(name) for name in _PATH_PARAMETER.findall(endpoint.path)),
            *(_parameter(parameter) for parameter in told.parameters),
        ],
        "responses": _responses(endpoint, schemas),
    }
    if told.request is not None:
        operation["requestBody"] = {"required": True, "content": _request(told.request, schemas)}
    return operation


def _tag(path: str) -> str:
    return "gemini" if path.startswith(_GEMINI) else path.removeprefix("/v1").split("/")[1].split(".")[0]


def _schemes(path: str) -> list[str]:
    """How a key is presented; Google's header elsewhere would make it a call of Gemini's API."""
    return [name for name in _SCHEMES if name != "google" or path.startswith(_GEMINI)]


def _operation_id(endpoint: Endpoint) -> str:
    """Its handler's name, and which of two paths it is."""
    name = endpoint.handler.__name__
    return f"{name}_anthropic" if endpoint.path.startswith("/anthropic/") else name


def _responses(endpoint: Endpoint, schemas: Mapping[Any, Json]) -> Json:
    told = endpoint.described
    answers = {str(status): _response(status, kind, schemas) for status, kind in ((200, told.answer), *told.more)}
    if told.streams:
        answers["200"]["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    shape = _error_shape(endpoint.path)
    for status in sorted((*_KEY_ERRORS[type(endpoint)], *told.errors)):
        answers.setdefault(str(status), _response(status, shape, schemas))
    return answers


def _error_shape(path: str) -> type:
    if path.startswith(_GEMINI):
        return GoogleError
    return MessagesError if path.startswith(("/anthropic/", "/v1/messages")) else ErrorBody


def _response(status: int, kind: object, schemas: Mapping[Any, Json]) -> Json:
    response: Json = {"description": HTTPStatus(status).phrase}
    if isinstance(kind, str):
        response["content"] = {kind: {"schema": {} if kind == "application/json" else {"type": "string"}}}
    elif kind is not None:
        response["content"] = {"application/json": {"schema": schemas[kind]}}
    return response


def _request(kind: object, schemas: Mapping[Any, Json]) -> Json:
    if isinstance(kind, Mapping):
        return {"multipart/form-data": {"schema": kind}}
    if isinstance(kind, str):
        return {kind: {"schema": {"type": "string", "format": "binary"}}}
    return {"application/json": {"schema": schemas[kind]}}


def _path_parameter(name: str) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _parameter(parameter: Parameter) -> Json:
    place = "header" if isinstance(parameter, (HeaderParameter, OneOfHeader)) else "query"
    return {"name": parameter.name, "in": place, "description": parameter.about, "schema": parameter.schema()}
