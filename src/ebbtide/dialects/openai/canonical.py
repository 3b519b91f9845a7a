"""A create call in the one form that spacing and the order of keys do not change, and its digest: equal digests, equal
requests. Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import msgspec

from ebbtide.dialects.openai.requests import DEFAULT_URL, check_outline
from ebbtide.dialects.values import BOM, ENDPOINT_AT, is_crowded
from ebbtide.errors import InvalidRequest

_decode = msgspec.json.Decoder().decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_elements = msgspec.json.Decoder(list[msgspec.Raw] | None).decode


def create_digest(raw: bytes, version: str | None = None) -> bytes:
    """SHA-256 over the canonical JSON (sorted keys, no spaces) of a create call's surface, target, version and body.

    `version` is what its anthropic-version header says. Never raises: what is no JSON, or holds too much, counts byte
    for byte, since such a call is refused afterwards and so cannot be the first one of its key. Work for a thread when
    `raw` is large; an element of `requests` is decoded at a time.
    """
    digest = hashlib.sha256()
    for piece in _pieces(raw.removeprefix(BOM), version):
        digest.update(piece)
    return digest.digest()


def _pieces(raw: bytes, version: str | None) -> Iterator[bytes]:
    try:
        check_outline(raw)
        members = _decode_members(raw)
        requests = _decode_elements(members["requests"]) if "requests" in members else None
    except (InvalidRequest, ValueError, RecursionError):
        yield raw
        return
    yield b'{"body":{'
    for number, name in enumerate(sorted(members)):
        yield b"%b%b:" % (b"," if number else b"", _dumped(name))
        if name == "requests" and requests is not None:
            yield from _array(requests)
        else:
            yield _canonical(members[name])
    surface = "openai_file" if requests is None else "openai_inline"
    yield b'},"surface":%b,"target":%b,"version":%b}' % (
        _dumped(surface),
        _dumped(_target(members, requests)),
        _dumped(version),
    )


def _array(elements: list[msgspec.Raw]) -> Iterator[bytes]:
    yield b"["
    for number, element in enumerate(elements):
        if number:
            yield b","
        yield _canonical(element)
    yield b"]"


def _target(members: dict[str, msgspec.Raw], requests: list[msgspec.Raw] | None) -> object:
    """What the requests are for: the batch's endpoint, or the first request's url."""
    if requests is None:
        url = _value(members["endpoint"]) if "endpoint" in members else None
    else:
        first = _value(requests[0]) if requests else None
        url = (first.get("url") if isinstance(first, dict) else None) or DEFAULT_URL
    if not isinstance(url, str):
        return None
    return ENDPOINT_AT[url].target if url in ENDPOINT_AT else url


def _canonical(raw: msgspec.Raw) -> bytes:
    if is_crowded(bytes(raw)):
        return bytes(raw)
    try:
        return _dumped(_decode(raw))
    except (ValueError, RecursionError):
        return bytes(raw)


def _value(raw: msgspec.Raw) -> object:
    try:
        value: object = _decode(raw)
    except (ValueError, RecursionError):
        return None
    return value


def _dumped(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
