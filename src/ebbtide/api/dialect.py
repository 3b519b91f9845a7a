"""In which dialect a caller speaks, by path and headers: errors, and lists that several SDKs ask for, are told in it.

Some paths are those of several dialects. On `/v1/models` the header anthropic-version tells a caller of the Messages
API; on paths of batches and files it belongs to a batch of Messages requests, and tells no dialect. On all three a key
in x-goog-api-key or `?key=`, x-goog-api-client, or a verb at the path's end (`:cancel`) tells a caller of Gemini's.
The front door puts every request on the one path that the table of routes has for it: `/openai/v1/…` on `/v1/…`, and
Gemini's on `/v1beta/…`, whichever version and prefix it came by.
"""

from __future__ import annotations

import re
from typing import Final, Literal
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.types import Scope

from ebbtide.dialects.base import Caller
from ebbtide.dialects.targets import CALLERS
from ebbtide.dialects.values import Target

Dialect = Literal["openai", "anthropic", "gemini"]
VERSION: Final = "anthropic-version"
GOOGLE_KEY: Final = "x-goog-api-key"
ASKED: Final = "ebbtide.asked_path"
"""Where a request's scope holds its path as the caller wrote it."""
_DIALECT: Final = "ebbtide.dialect"
_TARGETS: Final[dict[Dialect, Target]] = {"openai": "chat", "anthropic": "messages", "gemini": "gemini"}
_MESSAGES: Final = ("/v1/messages", "/anthropic/")
_GEMINI: Final = re.compile(r"(?:/gemini)?(?P<upload>/upload)?/(?:v1beta|v1)(?P<rest>/.*)")
_GEMINI_ALONE: Final = ("/gemini/", "/upload/", "/v1beta/")
# Resources with two words in their name are Google's alone; they are not here, and told so in Google's shape.
_SHARED: Final = re.compile(r"/v1/(?:models|batches|files|[a-z]+[A-Z][A-Za-z]*)(?:/.*)?")
_VERB: Final = re.compile(
    r"/v1/(?:batches/[^/]+:cancel|files/[^/]+:download"
    r"|models/.+:(?:generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents"
    r"|batchGenerateContent|asyncBatchEmbedContent))"
)


def addressed(scope: Scope) -> Scope:
    """A request on the path that the table of routes has for it, its dialect known."""
    path: str = scope["path"]
    scope = {**scope, ASKED: path}
    if path.startswith("/openai/v1/"):
        return scope | {_DIALECT: "openai", "path": path.removeprefix("/openai")}
    if _is_gemini(scope):
        found = _GEMINI.fullmatch(path)
        told = path if found is None else f"{found['upload'] or ''}/v1beta{found['rest']}"
        return scope | {_DIALECT: "gemini", "path": told}
    return scope | {_DIALECT: "anthropic" if _is_messages(scope) else "openai"}


def dialect_of(scope: Scope) -> Dialect:
    """The dialect of a request that was addressed."""
    dialect: Dialect = scope[_DIALECT]
    return dialect


def speaks_messages(scope: Scope) -> bool:
    """Whether the caller is one of the Messages API."""
    return dialect_of(scope) == "anthropic"


def caller_of(scope: Scope) -> Caller:
    """The row of the dialect in which errors are told."""
    return CALLERS[_TARGETS[dialect_of(scope)]]


def query_key(scope: Scope) -> str | None:
    """The API key in the query, where the dialect has it there."""
    if scope.get(_DIALECT) != "gemini" or b"key=" not in scope["query_string"]:
        return None
    keys = parse_qs(scope["query_string"].decode("latin-1")).get("key", [])
    return keys[-1] if keys else None


def _is_gemini(scope: Scope) -> bool:
    path: str = scope["path"]
    if path.startswith(_GEMINI_ALONE):
        return True
    if not _SHARED.fullmatch(path):
        return False
    headers = Headers(scope=scope)
    if _VERB.fullmatch(path) or GOOGLE_KEY in headers or "x-goog-api-client" in headers:
        return True
    query: bytes = scope["query_string"]
    return query.startswith(b"key=") or b"&key=" in query


def _is_messages(scope: Scope) -> bool:
    path: str = scope["path"]
    if path.startswith(_MESSAGES):
        return True
    return (path == "/v1/models" or path.startswith("/v1/models/")) and VERSION in Headers(scope=scope)
