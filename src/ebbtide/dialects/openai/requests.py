"""The create call of a batch, and its requests: elements of that call, or lines of a file.

Errors name the field by its path and never quote what a prompt holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from ebbtide.dialects.fields import MAX_CUSTOM_ID, convert, expiry_seconds, field_error, invalid, is_custom_id
from ebbtide.dialects.openai.faults import find_faulty_request, read_custom_id, with_name
from ebbtide.dialects.values import (
    BOM,
    ENDPOINT_AT,
    MAX_DEPTH,
    REQUEST_DEPTH,
    Target,
    check_json,
    too_deep,
)
from ebbtide.errors import InvalidRequest

T = TypeVar("T")

DEFAULT_URL = "/v1/chat/completions"
WINDOW = "24h"
_ASIDE = 1024 * 1024  # bytes
MAX_METADATA_PAIRS, MAX_METADATA_KEY, MAX_METADATA_VALUE = 16, 64, 512


class CreateBatch(msgspec.Struct, frozen=True):
    """A create call: either `requests` (each still to go through parse_line) or `input_file_id` is set.

    `endpoint` and `completion_window` are set and checked for a file, and None for direct requests; `output_seconds` is
    how long the result files of a file's batch are wanted.
    """

    requests: list[msgspec.Raw] | None = None
    input_file_id: str | None = None
    endpoint: str | None = None
    completion_window: str | None = None
    metadata: dict[str, str] | None = None
    output_seconds: int | None = None


class Line(msgspec.Struct, frozen=True, gc=False):
    """One request of a batch, its body decoded so that check_batch_body need not decode again."""

    custom_id: str
    url: str
    body: dict[str, object]


class _Create(msgspec.Struct, gc=False):
    """A create call's members beside `requests`."""

    input_file_id: str | None = None
    endpoint: object = None
    completion_window: object = None
    metadata: dict[str, str] | None = None
    output_expires_after: object = None
    anthropic_version: object = None


class _First(msgspec.Struct, gc=False):
    url: object = None


class _Outline(msgspec.Struct, gc=False):
    requests: msgspec.Raw = msgspec.Raw()


class _Element(msgspec.Struct, gc=False):
    custom_id: str


class _Elements(msgspec.Struct, gc=False):
    requests: list[_Element] | None = None


_decode_first = msgspec.json.Decoder(_First).decode
_decode_outline = msgspec.json.Decoder(_Outline).decode
_decode_elements = msgspec.json.Decoder(_Elements).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_requests = msgspec.json.Decoder(list[msgspec.Raw] | None).decode


def parse_create(raw: bytes, max_requests: int) -> CreateBatch:
    """Read a create call, leaving the elements of `requests` as bytes. Raises InvalidRequest.

    Unknown members and explicit nulls are no error.
    """
    raw = raw.removeprefix(BOM)
    check_outline(raw, max_requests)
    requests, rest = _split(raw)
    create = convert(rest, _Create)
    if create.anthropic_version is not None:
        raise invalid("anthropic_version", "not allowed in the body")
    if create.metadata is not None:
        _check_metadata(create.metadata)
    if (requests is None) == (create.input_file_id is None):
        raise InvalidRequest("Exactly one of requests and input_file_id is required")
    if requests is not None:
        return _direct(create, requests)
    return _from_file(create)


def create_target(create: CreateBatch) -> Target | None:
    """What a create call's requests are for, by its endpoint or its first request; None where that names no target."""
    url: object = create.endpoint
    if create.requests is not None:
        try:
            first = _decode_first(create.requests[0])
        except (ValueError, RecursionError):
            return None
        url = DEFAULT_URL if first.url is None else first.url
    return ENDPOINT_AT[url].target if isinstance(url, str) and url in ENDPOINT_AT else None


def check_outline(raw: bytes, max_requests: int | None = None) -> None:
    """Refuse a create call that would weigh many times its bytes once decoded. Raises InvalidRequest.

    In a large one each element of `requests` must have a custom_id, and all else must be small: neither can be made of
    next to nothing then. Up to 1 MiB, anything is left to the checks that follow.
    """
    if len(raw) <= _ASIDE:
        return
    outline = _decoded(_decode_outline, raw)
    if len(raw) - len(outline.requests) > _ASIDE:
        raise InvalidRequest(f"The body: more than {_ASIDE // 1024} KiB beside requests")
    requests = _decoded(_decode_elements, raw).requests
    if requests is not None and max_requests is not None:
        check_count(len(requests), max_requests)


def check_count(requests: int, most: int) -> None:
    """Raises InvalidRequest when these are more requests than a batch may hold."""
    if requests > most:
        raise InvalidRequest(f"requests holds {requests} requests; a batch may hold {most}", param="requests")


def _decoded(decode: Callable[[bytes], T], raw: bytes) -> T:
    """What `decode` makes of a create call; a fault inside one of its requests is told of that request."""
    try:
        return decode(raw)
    except msgspec.ValidationError as error:
        raise field_error(error) from None
    except RecursionError:
        raise find_faulty_request(raw) or too_deep() from None
    except ValueError as error:
        general = InvalidRequest(f"The body is not parseable as valid JSON: {error}")
        raise find_faulty_request(raw) or general from None


def _split(raw: bytes) -> tuple[list[msgspec.Raw] | None, dict[str, object]]:
    """The elements of a create call's `requests`, unread, and its other members, checked whole."""
    members = _decoded(_decode_members, raw)
    try:
        requests = _decode_requests(members.pop("requests", b"null"))
    except msgspec.ValidationError:
        raise invalid("requests", "expected array") from None
    if sum(len(memoryview(value)) for value in members.values()) > _ASIDE:
        raise InvalidRequest(f"The members beside requests are larger than {_ASIDE // 1024} KiB together")
    return requests, {name: _checked(name, value) for name, value in members.items()}


def _checked(name: str, value: msgspec.Raw) -> object:
    try:
        return check_json(value, max_depth=MAX_DEPTH)
    except InvalidRequest as error:
        raise invalid(name[:100], error.message) from None


def _direct(create: _Create, requests: list[msgspec.Raw]) -> CreateBatch:
    if not requests:
        raise invalid("requests", "must hold at least one request")
    if create.output_expires_after is not None:
        raise invalid("output_expires_after", "a batch of direct requests has no output files")
    return CreateBatch(requests=requests, metadata=create.metadata)


def _from_file(create: _Create) -> CreateBatch:
    if not create.input_file_id or "\0" in create.input_file_id:
        raise invalid("input_file_id", "must not be empty or contain NUL")
    endpoint = create.endpoint
    if not isinstance(endpoint, str) or endpoint not in ENDPOINT_AT:
        raise invalid("endpoint", f"must be one of {', '.join(ENDPOINT_AT)}")
    if create.completion_window != WINDOW:
        raise invalid("completion_window", f"must be {WINDOW}")
    return CreateBatch(
        input_file_id=create.input_file_id,
        endpoint=endpoint,
        completion_window=WINDOW,
        metadata=create.metadata,
        output_seconds=expiry_seconds("output_expires_after", create.output_expires_after),
    )


def parse_line(raw: bytes | memoryview | msgspec.Raw, *, require_url: bool) -> Line:
    """Check one element of `requests`, or one line of a file (`require_url`: url and method must be there).

    Raises InvalidRequest naming the field, and remembering the custom_id (`at_index` tells it); for a file its `code`
    is the one that `errors.data` shows (`invalid_json_line` or `invalid_request`). Whether the url fits, and the body,
    are the caller's next checks.
    """
    codes = (_INVALID_JSON, _INVALID_LINE) if require_url else (None, None)
    try:
        line = check_json(raw, max_depth=REQUEST_DEPTH)
    except InvalidRequest as error:
        custom_id = None if require_url else read_custom_id(memoryview(raw))
        raise with_name(InvalidRequest(error.message, code=codes[0]), custom_id) from None
    if not isinstance(line, dict):
        raise InvalidRequest("Must be a JSON object", code=codes[0])
    custom_id = line.get("custom_id")
    if not is_custom_id(custom_id):
        raise invalid("custom_id", f"required: 1 to {MAX_CUSTOM_ID} characters, no NUL", codes[1])
    return _line(custom_id, line, require_url=require_url)


def _line(custom_id: str, line: dict[str, object], *, require_url: bool) -> Line:
    code = _INVALID_LINE if require_url else None
    method, url, body = line.get("method"), line.get("url"), line.get("body")
    if not require_url:
        method, url = ("POST" if method is None else method), (DEFAULT_URL if url is None else url)
    if method != "POST":
        raise with_name(invalid("method", "must be POST", code), custom_id)
    if not isinstance(url, str):
        raise with_name(invalid("url", "must be a string", code), custom_id)
    if not isinstance(body, dict):
        raise with_name(invalid("body", "required: an object", code), custom_id)
    return Line(custom_id, url, body)


_INVALID_JSON = "invalid_json_line"
_INVALID_LINE = "invalid_request"


def _check_metadata(metadata: dict[str, str]) -> None:
    if len(metadata) > MAX_METADATA_PAIRS:
        raise invalid("metadata", f"at most {MAX_METADATA_PAIRS} pairs")
    for key, value in metadata.items():
        if not 0 < len(key) <= MAX_METADATA_KEY:
            raise invalid("metadata", f"keys are 1 to {MAX_METADATA_KEY} characters long")
        if len(value) > MAX_METADATA_VALUE:
            raise invalid("metadata", f"values are at most {MAX_METADATA_VALUE} characters long")
        if "\0" in key or "\0" in value:
            raise invalid("metadata", "must not contain NUL")
