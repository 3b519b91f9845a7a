"""Naming the request at fault in a create call: by index, and by its custom_id where that can be read. Pure.

Only for the way to a refusal, since it reads again what was read before. A call that is no JSON as a whole is walked
with Python's own reader, which takes much of what msgspec refuses (NaN, half characters) and tells where a value ends.
"""

from __future__ import annotations

import json
import re

from ebbtide.dialects.fields import is_custom_id
from ebbtide.dialects.values import REQUEST_DEPTH, check_json, too_deep
from ebbtide.errors import InvalidRequest

_scan = json.JSONDecoder().raw_decode
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"[ \t\n\r]*")


def with_name(error: InvalidRequest, custom_id: str | None) -> InvalidRequest:
    """The same complaint, remembering for at_index which request it is about."""
    named = InvalidRequest(error.message, code=error.code, param=error.param)
    if custom_id is not None:
        named.add_note(custom_id)
    return named


def at_index(error: InvalidRequest, index: int) -> InvalidRequest:
    """What is wrong with one request as the create call's error, naming it. Its code is left out."""
    where = f"requests[{index}]"
    custom_id = getattr(error, "__notes__", [None])[0]
    named = "" if custom_id is None else f" (custom_id {custom_id!r})"
    return InvalidRequest(f"{where}{named}: {error.message}", param=f"{where}.{error.param}" if error.param else where)


def read_custom_id(raw: bytes | memoryview) -> str | None:
    """The custom_id of a request that is otherwise not readable, or None."""
    try:
        request = json.loads(bytes(raw).decode("utf-8", "replace"), parse_int=float)
    except (ValueError, RecursionError):
        return None
    found = request.get("custom_id") if isinstance(request, dict) else None
    return found if is_custom_id(found) and _SURROGATE.search(found) is None else None


def find_faulty_request(raw: bytes) -> InvalidRequest | None:
    """What is wrong with the first element of `requests` that is no JSON, named; None when it is something else."""
    text = raw.decode("latin-1")  # a character for each byte, so that places in the text are places in the bytes
    at = _start_of_requests(text)
    index = 0
    while at is not None and text[at : at + 1] != "]":
        try:
            end = _scan(text, at)[1]
        except RecursionError:
            return at_index(too_deep(), index)
        except ValueError:
            return at_index(InvalidRequest("Not parseable as valid JSON"), index)
        try:
            check_json(raw[at:end], max_depth=REQUEST_DEPTH)
        except InvalidRequest as error:
            return at_index(with_name(error, read_custom_id(raw[at:end])), index)
        at = _next(text, end)
        index += 1
    return None


def _start_of_requests(text: str) -> int | None:
    """Where the first element of the call's `requests` stands; None when there is no way to it."""
    start = _skip(text, 0)
    at = _skip(text, start + 1) if text.startswith("{", start) else None
    try:
        while at is not None:
            name, end = _scan(text, at)
            colon = _skip(text, end)
            if not isinstance(name, str) or not text.startswith(":", colon):
                return None
            value = _skip(text, colon + 1)
            if name == "requests":
                return _skip(text, value + 1) if text.startswith("[", value) else None
            at = _next(text, _scan(text, value)[1])
    except (ValueError, RecursionError):
        pass  # the fault stands before them
    return None


def _next(text: str, end: int) -> int | None:
    """Where the value after the one that ends at `end` begins; None when there is none."""
    at = _skip(text, end)
    return _skip(text, at + 1) if text.startswith(",", at) else None


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
