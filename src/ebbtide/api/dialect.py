"""In which dialect a caller speaks, by path and headers: errors, and lists that several SDKs ask for, are told in it.

`/v1/models` is one path for all: there the header anthropic-version tells a caller of the Messages API. On paths of
batches and files it belongs to a batch of Messages requests, and tells no dialect.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

from ebbtide.dialects.base import Caller
from ebbtide.dialects.targets import CALLERS
from ebbtide.dialects.values import Target

VERSION: Final = "anthropic-version"
_MESSAGES: Final = ("/v1/messages", "/anthropic/")


def speaks_messages(scope: Scope) -> bool:
    """Whether the caller is one of the Messages API."""
    path = scope["path"]
    if path.startswith(_MESSAGES):
        return True
    return (path == "/v1/models" or path.startswith("/v1/models/")) and VERSION in Headers(scope=scope)


def caller_of(scope: Scope) -> Caller:
    """The row of the dialect in which errors are told."""
    target: Target = "messages" if speaks_messages(scope) else "chat"
    return CALLERS[target]
