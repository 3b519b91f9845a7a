"""Message Batches on the wire: the create call, the batch object, and the lines of its results.

Published at https://docs.anthropic.com/en/api/creating-message-batches; fields in the order it documents them. Messages
are spliced in as stored, but for the tier in their usage: it is the batches'.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from ebbtide.dialects.anthropic.errors import type_of
from ebbtide.dialects.fields import field_error, invalid
from ebbtide.dialects.values import BOM, REQUEST_DEPTH, check_json, is_crowded, members_replaced, one_line
from ebbtide.errors import InvalidRequest

_ASIDE: Final = 1024 * 1024  # bytes of what is not `requests`
_NO_USAGE: Final = msgspec.Raw(b"null")
_NOTHING: Final = frozenset({b"null", b"false", b'""', b"[]", b"{}"})
_CUSTOM_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_encode = msgspec.json.Encoder().encode
_decode_create = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_requests = msgspec.json.Decoder(list[msgspec.Raw]).decode


class CreateMessageBatch(msgspec.Struct, frozen=True):
    requests: list[msgspec.Raw]


class BatchRequest(msgspec.Struct, frozen=True, gc=False):
    """One request of a create call: its `params` decoded, and as they came."""

    custom_id: str
    params: dict[str, object]
    raw: bytes


class MessageCounts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0


class MessageBatch(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    type: Literal["message_batch"] = "message_batch"
    processing_status: Literal["in_progress", "canceling", "ended"]
    request_counts: MessageCounts
    ended_at: str | None
    created_at: str
    expires_at: str
    archived_at: None = None
    cancel_initiated_at: str | None
    results_url: str | None


class MessageBatchPage(msgspec.Struct, frozen=True, kw_only=True):
    data: list[MessageBatch]
    has_more: bool
    first_id: str | None
    last_id: str | None


class MessageBatchDeleted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    id: str
    type: Literal["message_batch_deleted"] = "message_batch_deleted"


class _Element(msgspec.Struct, gc=False):
    params: msgspec.Raw


class _Named(msgspec.Struct, gc=False):
    custom_id: str


class _Outline(msgspec.Struct, gc=False):
    requests: list[_Named]


class _Used(msgspec.Struct, gc=False):
    usage: msgspec.Raw = _NO_USAGE


_decode_outline = msgspec.json.Decoder(_Outline).decode
_decode_element = msgspec.json.Decoder(_Element).decode
_decode_used = msgspec.json.Decoder(_Used).decode


def parse_create(raw: bytes, most: int) -> CreateMessageBatch:
    """Read a create call of up to `most` requests, leaving these as bytes. Raises InvalidRequest."""
    raw = raw.removeprefix(BOM)
    try:
        count = len(_decode_outline(raw).requests)
        members = _decode_create(raw)
        requests = _decode_requests(members.pop("requests"))
    except msgspec.ValidationError as error:
        raise field_error(error) from None
    except RecursionError:
        raise InvalidRequest("Nested too deeply") from None
    except ValueError as error:
        raise InvalidRequest(f"The body is not parseable as valid JSON: {error}") from None
    if sum(len(memoryview(value)) for value in members.values()) > _ASIDE:
        raise InvalidRequest(f"The members beside requests are larger than {_ASIDE // 1024} KiB together")
    for name, value in members.items():
        if bytes(value) not in _NOTHING:
            raise invalid(name[:100], "not a member of a create call")
    if not 0 < count <= most:
        raise invalid("requests", f"must hold 1 to {most} requests")
    return CreateMessageBatch(requests)


def read_requests(create: CreateMessageBatch) -> Iterator[BatchRequest]:
    """The requests, each checked to be one; what its params say is not. Raises InvalidRequest naming its place."""
    seen: set[str] = set()
    for index, element in enumerate(create.requests):
        path = f"requests[{index}]"
        request = _element(path, element)
        custom_id, params = request.get("custom_id"), request.get("params")
        if not isinstance(custom_id, str) or not _CUSTOM_ID.fullmatch(custom_id):
            raise invalid(f"{path}.custom_id", "must be 1 to 64 letters, digits, _ and -")
        if custom_id in seen:
            raise invalid(f"{path}.custom_id", "is used twice")
        if not isinstance(params, dict):
            raise invalid(f"{path}.params", "expected object")
        if more := sorted(request.keys() - {"custom_id", "params"}):
            raise invalid(f"{path}.{more[0][:100]}", "not a member of a request: what is asked stands in params")
        seen.add(custom_id)
        yield BatchRequest(custom_id, params, bytes(_decode_element(element).params))


def _element(path: str, element: msgspec.Raw) -> dict[str, object]:
    if is_crowded(bytes(element)):
        raise invalid(path, "holds too much")
    try:
        request = check_json(element, max_depth=REQUEST_DEPTH)
    except InvalidRequest as error:
        raise invalid(path, error.message) from None
    if not isinstance(request, dict):
        raise invalid(path, "expected object")
    return request


def stored_line(request: BatchRequest) -> bytes:
    """The request as a line of a batch for /v1/messages, as every batch's requests are stored."""
    line = {"custom_id": request.custom_id, "method": "POST", "url": "/v1/messages", "body": msgspec.Raw(request.raw)}
    return one_line(_encode(line))


def succeeded_line(custom_id: str, message: bytes) -> bytes:
    """The line of a request that has its message."""
    return _line(custom_id, {"type": "succeeded", "message": msgspec.Raw(_as_batched(message))})


def errored_line(custom_id: str, status: int | None, message: str, request_id: str | None) -> bytes:
    """The line of a request that failed; `status` is the HTTP status behind it, if any."""
    error = {"type": type_of(status or 500), "message": message}
    return _line(custom_id, {"type": "errored", "error": {"type": "error", "error": error, "request_id": request_id}})


def unrun_line(custom_id: str, kind: Literal["canceled", "expired"]) -> bytes:
    """The line of a request that never ran."""
    return _line(custom_id, {"type": kind})


def _as_batched(message: bytes) -> bytes:
    """The message with the tier of batches, where it tells its usage."""
    usage = bytes(_decode_used(message).usage)
    if not usage.startswith(b"{"):
        return message
    tiered = members_replaced(usage, {"service_tier": "batch"})
    return members_replaced(message, {"usage": msgspec.Raw(tiered)})


def _line(custom_id: str, result: dict[str, object]) -> bytes:
    return one_line(_encode({"custom_id": custom_id, "result": result})) + b"\n"
