"""Gemini's batches on the wire: the create call, the operation that a batch is, the lines of its files.

Published at https://ai.google.dev/api/batch-mode; fields in the order it documents them. Answers and metadata are
spliced in as stored. An error has no details: the SDKs read none that are objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ebbtide.dialects.fields import MAX_CUSTOM_ID, field_error, invalid, is_custom_id
from ebbtide.dialects.gemini.bodies import check_same
from ebbtide.dialects.gemini.errors import number_for
from ebbtide.dialects.gemini.files import file_id
from ebbtide.dialects.gemini.members import Members, camel
from ebbtide.dialects.values import BOM, REQUEST_DEPTH, check_json, is_crowded, members_replaced, one_line
from ebbtide.errors import InvalidRequest

State = Literal[
    "BATCH_STATE_PENDING",
    "BATCH_STATE_RUNNING",
    "BATCH_STATE_SUCCEEDED",
    "BATCH_STATE_FAILED",
    "BATCH_STATE_CANCELLED",
    "BATCH_STATE_EXPIRED",
]
TYPE: Final = "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch"
MAX_NAME: Final = 128
_ASIDE: Final = 1024 * 1024  # bytes of what is not requests
_ELSEWHERE: Final = {"webhookConfig": "not supported here: an account has one webhook, set at /v1/batch_webhook"}
_encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode

Raws = Mapping[str, msgspec.Raw]


class CreateGeminiBatch(msgspec.Struct, frozen=True):
    """A create call: either `requests` (each still to be read) or the id of a file is set."""

    display_name: str | None
    priority: int
    requests: list[msgspec.Raw] | None = None
    input_file_id: str | None = None


class GeminiRequest(msgspec.Struct, frozen=True, gc=False):
    """One request: its name, decoded, as it came, and its metadata as it came."""

    key: str
    request: dict[str, object]
    raw: bytes
    metadata: msgspec.Raw | None = None


class GeminiFailure(msgspec.Struct, frozen=True, gc=False):
    """`code` is one of google.rpc.Code."""

    code: int
    message: str


class BatchStats(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    request_count: str
    successful_request_count: str
    failed_request_count: str
    pending_request_count: str


class GeminiBatch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The metadata of a batch's operation; counts are strings, as 64-bit numbers are in this API."""

    type: str = msgspec.field(default=TYPE, name="@type")
    model: str
    name: str
    display_name: str = ""
    input_config: dict[str, str] | UnsetType = UNSET
    output: msgspec.Raw | UnsetType = UNSET
    create_time: str
    end_time: str | UnsetType = UNSET
    update_time: str
    batch_stats: BatchStats
    state: State
    priority: str = "0"


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """A batch. `error` and `response` are never told together."""

    name: str
    metadata: GeminiBatch
    done: bool
    error: GeminiFailure | UnsetType = UNSET
    response: msgspec.Raw | UnsetType = UNSET


class Operations(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    operations: list[Operation]
    next_page_token: str | UnsetType = UNSET


class _Elements(msgspec.Struct, gc=False):
    request: msgspec.Raw


_decode_elements = msgspec.json.Decoder(list[_Elements]).decode


def parse_create(raw: bytes, most: int, model: str) -> CreateGeminiBatch:
    """Read a create call of up to `most` requests for the model of its path, leaving these as bytes.

    Raises InvalidRequest.
    """
    batch = _inner("", _object("", raw.removeprefix(BOM)), "batch", frozenset({"batch"}))
    told = frozenset({"displayName", "inputConfig", "priority", "model"})
    config = _inner("batch", batch, "inputConfig", told)
    aside = Members(
        "batch", {name: _checked(f"batch.{name}", it) for name, it in batch.items() if name != "inputConfig"}
    )
    name = aside.text("displayName")
    if name is not None and (len(name) > MAX_NAME or "\0" in name):
        raise invalid(aside.at("displayName"), f"must be at most {MAX_NAME} characters, without NUL")
    check_same(aside, model)
    priority = aside.whole("priority", -(2**63), 2**63 - 1) or 0
    if ("requests" in config) == ("fileName" in config):
        raise invalid("batch.inputConfig", "must hold one of requests and fileName")
    if "fileName" in config:
        return CreateGeminiBatch(name, priority, input_file_id=_file(config["fileName"]))
    requests = _inner("batch.inputConfig", config, "requests", frozenset({"requests", "fileName"}))
    return CreateGeminiBatch(name, priority, requests=_requests(requests, most))


def read_requests(create: CreateGeminiBatch) -> Iterator[GeminiRequest]:
    """The requests, each checked to be one and named by its number; what it says is not checked.

    Raises InvalidRequest naming its place.
    """
    for index, element in enumerate(create.requests or ()):
        path = f"batch.inputConfig.requests.requests[{index}]"
        members = _object(path, bytes(element))
        checked = Members(path, _checked(path, element))
        checked.only(frozenset({"request", "metadata"}), "not supported here: name a request in its metadata")
        request = checked.get("request")
        if not isinstance(request, dict):
            raise invalid(checked.at("request"), "expected object")
        checked.inner("metadata")
        metadata = members["metadata"] if "metadata" in checked else None
        yield GeminiRequest(f"request-{index}", request, bytes(members["request"]), metadata)


def parse_line(raw: bytes | memoryview) -> GeminiRequest:
    """Check a line of a file: `{"key", "request"}`. Raises InvalidRequest, its code as lists of errors tell it."""
    try:
        line = check_json(raw, max_depth=REQUEST_DEPTH)
    except InvalidRequest as error:
        raise InvalidRequest(error.message, code="invalid_json_line") from None
    if not isinstance(line, dict):
        raise InvalidRequest("Must be a JSON object", code="invalid_json_line")
    key, request = line.get("key"), line.get("request")
    if not is_custom_id(key):
        raise invalid("key", f"required: 1 to {MAX_CUSTOM_ID} characters, no NUL", "invalid_request")
    if not isinstance(request, dict):
        raise invalid("request", "required: an object", "invalid_request")
    if line.get("metadata") is not None:
        raise invalid("metadata", "belongs to inline requests: a file's have their key", "invalid_request")
    return GeminiRequest(key, request, bytes(_decode_object(raw)["request"]))


def stored_line(request: GeminiRequest, url: str, model: str) -> bytes:
    """The request as a line of a batch for `url`, as every batch's requests are stored; its metadata beside them."""
    body = members_replaced(request.raw, {"model": model})
    line: dict[str, object] = {"custom_id": request.key, "method": "POST", "url": url, "body": msgspec.Raw(body)}
    if request.metadata is not None:
        line["metadata"] = request.metadata
    return one_line(_encode(line))


def metadata_of(line: bytes) -> msgspec.Raw | None:
    """The metadata of a stored line."""
    return _decode_object(line).get("metadata")


def failure(status: int, message: str) -> GeminiFailure:
    """What failed with an HTTP status."""
    return GeminiFailure(number_for(status), message)


def inlined(answer: bytes | GeminiFailure, metadata: msgspec.Raw | None) -> dict[str, object]:
    """One of a batch's inline answers."""
    told: dict[str, object] = {} if metadata is None else {"metadata": metadata}
    return told | _outcome(answer)


def result_line(key: str, answer: bytes | GeminiFailure) -> bytes:
    """A line of a file of responses."""
    return one_line(_encode({"key": key, **_outcome(answer)})) + b"\n"


def responses_inline(answers: list[dict[str, object]]) -> msgspec.Raw:
    """The output of a batch of inline requests."""
    return msgspec.Raw(_encode({"inlinedResponses": {"inlinedResponses": answers}}))


def responses_file(name: str) -> msgspec.Raw:
    """The output of a batch of a file's requests."""
    return msgspec.Raw(_encode({"responsesFile": name}))


def _outcome(answer: bytes | GeminiFailure) -> dict[str, object]:
    return {"error": answer} if isinstance(answer, GeminiFailure) else {"response": msgspec.Raw(answer)}


def _object(path: str, raw: bytes) -> Raws:
    """An object's members by their names in camelCase, each still to be read."""
    try:
        return {camel(name): value for name, value in _decode_object(raw).items()}
    except msgspec.ValidationError:
        raise invalid(path, "expected object") if path else InvalidRequest("The body must be a JSON object") from None
    except RecursionError:
        raise InvalidRequest("Nested too deeply") from None
    except ValueError as error:
        raise InvalidRequest(f"The body is not parseable as valid JSON: {error}") from None


def _inner(path: str, members: Raws, name: str, known: frozenset[str]) -> Raws:
    """The members of an object within one that has no others than these."""
    within = f"{path}.{name}".removeprefix(".")
    for member, value in members.items():
        if member not in known and bytes(value) != b"null":
            raise invalid(f"{path}.{member[:100]}".removeprefix("."), _ELSEWHERE.get(member, "not supported here"))
    if sum(len(memoryview(value)) for member, value in members.items() if member != name) > _ASIDE:
        raise InvalidRequest(f"The members beside {within} are larger than {_ASIDE // 1024} KiB together")
    if name not in members:
        raise invalid(within, "required: an object")
    return {member: value for member, value in _object(within, bytes(members[name])).items() if bytes(value) != b"null"}


def _requests(members: Raws, most: int) -> list[msgspec.Raw]:
    path = "batch.inputConfig.requests.requests"
    for name in members:
        if name != "requests":
            raise invalid(f"batch.inputConfig.requests.{name[:100]}", "not supported here")
    raw = bytes(members["requests"]) if "requests" in members else b"[]"
    try:
        count = len(_decode_elements(raw))
        requests = _decode_list(raw)
    except msgspec.ValidationError as error:
        named = field_error(error)
        raise invalid(f"{path}{named.param or ''}", named.message.partition(": ")[2]) from None
    if not 0 < count <= most:
        raise invalid(path, f"must hold 1 to {most} requests")
    return requests


def _file(raw: msgspec.Raw) -> str:
    name = _checked("batch.inputConfig.fileName", raw)
    found = file_id(name) if isinstance(name, str) else None
    if found is None:
        raise invalid("batch.inputConfig.fileName", "must be files/ and the id of an uploaded file")
    return found


def _checked(path: str, raw: msgspec.Raw) -> object:
    if is_crowded(bytes(raw)):
        raise invalid(path, "holds too much")
    try:
        return check_json(raw, max_depth=REQUEST_DEPTH)
    except InvalidRequest as error:
        raise invalid(path, error.message) from None
