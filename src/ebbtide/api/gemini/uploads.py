"""Gemini's resumable uploads: one call begins one, and others, at the URL that it answers with, bring the bytes.

Those carry no key: the secret in the URL is theirs. Every answer tells how the upload stands, which is what clients go
on by; bytes that are sent again, and the last call again, change nothing.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json
from ebbtide.api.bodies import MIB, check_length, read_body, refuse_encoded
from ebbtide.api.dialect import ASKED
from ebbtide.api.gateway import Gateway
from ebbtide.api.gemini.render import gemini_file
from ebbtide.api.routing import Closed, Described, Endpoint, Open
from ebbtide.dialects.fields import convert
from ebbtide.dialects.gemini.files import FileWish, StartUpload, UploadedFile
from ebbtide.dialects.gemini.members import Members, camel
from ebbtide.dialects.gemini.wire import Empty
from ebbtide.dialects.values import check_json
from ebbtide.errors import InvalidRequest
from ebbtide.files import resumable
from ebbtide.files.resumable import Announced, Standing
from ebbtide.files.upload import check_may_upload

_PATH: Final = "/upload/v1beta/files"
_COMMAND: Final = "x-goog-upload-command"
_STATUS: Final = "x-goog-upload-status"
_RECEIVED: Final = "x-goog-upload-size-received"
_LONGEST_NAME: Final = 512
_COMMANDS: Final = frozenset({"upload", "finalize", "query", "cancel"})


async def start_gemini_upload(gateway: Gateway, request: Request, principal: Principal) -> Response:
    settings, now = gateway.settings.current, gateway.clock.now()
    if request.headers.get("x-goog-upload-protocol", "resumable") != "resumable":
        raise InvalidRequest("X-Goog-Upload-Protocol: must be resumable", param="x-goog-upload-protocol")
    await check_may_upload(gateway.database, principal, settings, now)
    wish = _wish(await read_body(request, MIB))
    announced = _announced(request, wish)
    secret = await resumable.begin_upload(gateway.database, principal, announced, settings, now)
    answer = answer_json(Empty())
    asked = request.scope[ASKED].rstrip("/")
    answer.headers["x-goog-upload-url"] = f"{request.url.scheme}://{request.url.netloc}{asked}/{secret}"
    answer.headers[_STATUS] = "active"
    return answer


async def continue_gemini_upload(gateway: Gateway, request: Request) -> Response:
    secret = request.path_params["secret"]
    settings, now = gateway.settings.current, gateway.clock.now()
    commands = _commands(request)
    standing = await resumable.find_upload(gateway.database, secret, now)
    if "cancel" in commands:
        await resumable.give_up_upload(gateway.database, secret)
        return Response(status_code=200, headers={_STATUS: "cancelled"})
    if "upload" in commands:
        refuse_encoded(request)
        check_length(request, settings.batch_max_body_mb * MIB)
        place = (secret, _offset(request, standing))
        standing = await resumable.add_bytes(gateway.database, place, request.stream(), settings, now)
    if "finalize" not in commands and standing.file_id is None:
        return Response(status_code=200, headers={_STATUS: "active", _RECEIVED: str(standing.received)})
    file = await resumable.finish_upload(gateway.database, secret, settings, now)
    answer = answer_json(UploadedFile(gemini_file(file, request)))
    answer.headers[_STATUS] = "final"
    answer.headers[_RECEIVED] = str(file.size)
    return answer


def _wish(raw: bytes) -> FileWish:
    if not raw.strip():
        return FileWish()
    body = check_json(raw)
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be a JSON object")
    file = Members("", body).get("file")
    named = {camel(name): value for name, value in file.items()} if isinstance(file, dict) else {}
    wish = convert({"file": named}, StartUpload).file or FileWish()
    if wish.name is not None:
        raise InvalidRequest("file.name: names are given by the gateway", param="file.name")
    return wish


def _announced(request: Request, wish: FileWish) -> Announced:
    name = wish.display_name or request.headers.get("x-goog-upload-file-name") or "upload.jsonl"
    if "\0" in name:
        raise InvalidRequest("file.displayName: must not contain NUL", param="file.displayName")
    length = request.headers.get("x-goog-upload-header-content-length")
    if length is None:
        size = Members("file", {"sizeBytes": wish.size_bytes}).whole("sizeBytes", 0, 2**62)
        return Announced(name[:_LONGEST_NAME], size)
    return Announced(name[:_LONGEST_NAME], _whole(length, "x-goog-upload-header-content-length"))


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
        "Begin an upload in parts; x-goog-upload-url tells where they go",
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
