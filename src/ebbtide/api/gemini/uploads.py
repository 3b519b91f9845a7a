"""Gemini's uploads: whole in one call (`raw`), or in parts: one call begins, others, at the URL that it answers with,
bring the bytes.

Those carry no key: the secret in the URL is theirs. Every answer tells how the upload stands, which is what clients go
on by; bytes that are sent again, and the last call again, change nothing.
"""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json
from ebbtide.api.bodies import MIB, check_length, read_body, refuse_encoded
from ebbtide.api.dialect import ASKED
from ebbtide.api.form import UNNAMED, in_blocks
from ebbtide.api.gateway import Gateway
from ebbtide.api.gemini.render import gemini_file
from ebbtide.api.routing import Closed, Described, Endpoint, Open
from ebbtide.api.uploads import take_file
from ebbtide.dialects.gemini.files import StartUpload, UploadedFile
from ebbtide.dialects.gemini.members import Members
from ebbtide.dialects.gemini.wire import Empty
from ebbtide.dialects.values import check_json
from ebbtide.errors import InvalidRequest, NotFound
from ebbtide.files import resumable
from ebbtide.files.model import StoredFile
from ebbtide.files.resumable import Announced, Standing
from ebbtide.files.upload import NewFile, Upload, check_may_upload

_PATH: Final = "/upload/v1beta/files"
_COMMAND: Final = "x-goog-upload-command"
_STATUS: Final = "x-goog-upload-status"
_RECEIVED: Final = "x-goog-upload-size-received"
_PROTOCOL: Final = "x-goog-upload-protocol"
_FILE_NAME: Final = "x-goog-upload-file-name"
_LONGEST_NAME: Final = 512
_NO_MEMBER: Final = "not supported here"
_PROTOCOLS: Final = {"resumable": False, "raw": True, "media": True}
_MEDIA: Final = re.compile(r"(?:image|audio|video)/|application/pdf", re.IGNORECASE)
_COMMANDS: Final = frozenset({"upload", "finalize", "query", "cancel"})


async def start_gemini_upload(gateway: Gateway, request: Request, principal: Principal) -> Response:
    if _is_raw(request):
        return await _take_whole(gateway, request, principal)
    settings, now = gateway.settings.current, gateway.clock.now()
    if request.headers.get(_COMMAND, "start").strip().lower() != "start":
        raise InvalidRequest("X-Goog-Upload-Command: must be start, where an upload begins", param=_COMMAND)
    await check_may_upload(
        gateway.database, principal, settings, now, gateway.failed_uploads.count(principal.account_id, now)
    )
    announced = _announced(request, await read_body(request, MIB))
    secret = await resumable.begin_upload(gateway.database, principal, announced, settings, now)
    answer = answer_json(Empty())
    asked = request.scope[ASKED].rstrip("/")
    answer.headers["x-goog-upload-url"] = f"{request.url.scheme}://{request.url.netloc}{asked}/{secret}"
    answer.headers[_STATUS] = "active"
    return answer


async def _take_whole(gateway: Gateway, request: Request, principal: Principal) -> Response:
    """The body is the file."""
    _refuse_media(request.headers.get("content-type"), "content-type")
    name = _checked_name(request.headers.get(_FILE_NAME))

    async def read(upload: Upload, now: datetime) -> NewFile:
        async for block in in_blocks(request.stream()):
            await asyncio.to_thread(upload.write, block)
        return NewFile(principal.account_id, name, now)

    return _final(await take_file(gateway, request, principal, read), request)


async def continue_gemini_upload(gateway: Gateway, request: Request) -> Response:
    secret = request.path_params["secret"]
    settings, now = gateway.settings.current, gateway.clock.now()
    if not settings.batch_enabled:
        raise NotFound("Batch inference is not available on this gateway")
    commands = _commands(request)
    standing = await resumable.find_upload(gateway.database, secret, now)
    if "cancel" in commands:
        return await _give_up(gateway, secret, standing, now)
    if "upload" in commands:
        refuse_encoded(request)
        check_length(request, settings.batch_max_body_mb * MIB)
        place = (secret, _offset(request, standing))
        standing = await resumable.add_bytes(gateway.database, place, request.stream(), settings, now)
    if "finalize" not in commands and standing.file_id is None:
        return Response(status_code=200, headers={_STATUS: "active", _RECEIVED: str(standing.received)})
    return _final(await _finish(gateway, secret, standing, now), request)


async def _give_up(gateway: Gateway, secret: str, standing: Standing, now: datetime) -> Response:
    await resumable.give_up_upload(gateway.database, secret)
    if standing.file_id is None:
        gateway.failed_uploads.note(standing.account_id, now)
    return Response(status_code=200, headers={_STATUS: "cancelled"})


async def _finish(gateway: Gateway, secret: str, standing: Standing, now: datetime) -> StoredFile:
    """The upload's file. One that is whole and cannot be kept is an upload that failed; one to go on with is not."""
    settings = gateway.settings.current
    if standing.file_id is not None:
        return await resumable.finish_upload(gateway.database, secret, settings, now)
    resumable.check_whole(standing)
    with gateway.failed_uploads.noted(standing.account_id, now):
        return await resumable.finish_upload(gateway.database, secret, settings, now)


def _final(file: StoredFile, request: Request) -> Response:
    answer = answer_json(UploadedFile(gemini_file(file, request)))
    answer.headers[_STATUS] = "final"
    answer.headers[_RECEIVED] = str(file.size)
    return answer


def _is_raw(request: Request) -> bool:
    """Whether the body is the file itself. Raises InvalidRequest for a protocol that is not spoken here."""
    told = request.headers.get(_PROTOCOL) or request.query_params.get("uploadType") or "resumable"
    if told.lower() not in _PROTOCOLS:
        raise InvalidRequest(f"{_PROTOCOL}: must be resumable, or raw where the body is the file", param=_PROTOCOL)
    return _PROTOCOLS[told.lower()]


def _announced(request: Request, raw: bytes) -> Announced:
    """What the call that begins an upload says of its file."""
    body = Members("", check_json(raw) if raw.strip() else {})
    body.only(frozenset({"file"}), _NO_MEMBER)
    file = body.inner("file") or Members("file", {})
    if "name" in file:
        raise InvalidRequest("file.name: names are given by the gateway", param="file.name")
    file.only(frozenset({"displayName", "mimeType", "sizeBytes"}), _NO_MEMBER)
    _refuse_media(file.text("mimeType") or request.headers.get("x-goog-upload-header-content-type"), "file.mimeType")
    name = _checked_name(file.text("displayName") or request.headers.get(_FILE_NAME))
    length = request.headers.get("x-goog-upload-header-content-length")
    if length is None:
        return Announced(name, file.whole("sizeBytes", 0, 2**62))
    return Announced(name, _whole(length, "x-goog-upload-header-content-length"))


def _checked_name(told: str | None) -> str:
    if "\0" in (told or ""):
        raise InvalidRequest("file.displayName: must not contain NUL", param="file.displayName")
    return (told or UNNAMED)[:_LONGEST_NAME]


def _refuse_media(kind: str | None, param: str) -> None:
    """Files here hold requests of batches and nothing else. Raises InvalidRequest for what surely does not."""
    if _MEDIA.match(kind or ""):
        raise InvalidRequest(
            f"{param}: only JSONL files are kept here; images go into a request's inlineData", param=param
        )


def _commands(request: Request) -> frozenset[str]:
    told = frozenset(word.strip().lower() for word in request.headers.get(_COMMAND, "").split(",") if word.strip())
    if not told or not told <= _COMMANDS:
        raise InvalidRequest("X-Goog-Upload-Command: must be upload, finalize, query or cancel", param=_COMMAND)
    return told


def _offset(request: Request, standing: Standing) -> int:
    """Where the bytes begin; without the header, where the ones before ended."""
    told = request.headers.get("x-goog-upload-offset")
    return standing.received if told is None else _whole(told, "x-goog-upload-offset")


def _whole(text: str, header: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidRequest(f"{header}: must be a number of bytes", param=header)
    return int(text)


ROUTES: tuple[Endpoint, ...] = (
    Closed(
        "POST",
        _PATH,
        start_gemini_upload,
        "Begin an upload in parts, x-goog-upload-url tells where they go; or send a whole file as raw",
        Described(request=StartUpload, answer=Empty, errors=(400, 403, 404, 413, 429)),
        batch=True,
    ),
    Open(
        "POST",
        f"{_PATH}/{{secret}}",
        continue_gemini_upload,
        "Send a part of an upload, or end it; the secret in the path stands for a key",
        Described(answer=UploadedFile, errors=(400, 404, 409, 413, 429)),
    ),
)
