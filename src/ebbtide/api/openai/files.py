"""OpenAI's /v1/files: upload, list, get, delete, download. Only files for batches exist here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import Streamed, answer_json
from ebbtide.api.form import read_form
from ebbtide.api.gateway import Gateway
from ebbtide.api.openai.render import file_list, file_object
from ebbtide.api.parameters import ChoiceParameter, IntegerParameter, TextParameter
from ebbtide.api.ranges import Slice, Unsatisfiable, content_disposition, is_unchanged, read_range
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.api.uploads import take_file
from ebbtide.dialects.fields import LONGEST_LIFE, SHORTEST_LIFE
from ebbtide.dialects.openai.batch import FileDeleted, FileObject, ListPage
from ebbtide.errors import InvalidRequest
from ebbtide.files import library
from ebbtide.files.download import download_file
from ebbtide.files.model import UPLOADED, FileQuery, StoredFile
from ebbtide.files.upload import NewFile, Upload

JSONL = "application/jsonl"

AFTER = TextParameter("after", "The id of the last file of the page before")
LIMIT = IntegerParameter("limit", 10_000, 1, 10_000, "Files in a page")
ORDER = ChoiceParameter("order", "desc", ("asc", "desc"), "Oldest or newest first")
PURPOSE = TextParameter("purpose", "Only files of this purpose")

UPLOAD_FORM = {
    "type": "object",
    "required": ["file", "purpose"],
    "properties": {
        "file": {"type": "string", "format": "binary", "description": "JSONL, one request a line"},
        "purpose": {"type": "string", "enum": [UPLOADED]},
        "source_file_id": {
            "type": "string",
            "description": "The uploaded file that this is a batch's own copy of, with changed requests: it is not "
            "listed, and is deleted with that file or with the batch that is made of it",
        },
        "expires_after[anchor]": {"type": "string", "enum": ["created_at"]},
        "expires_after[seconds]": {"type": "integer", "minimum": SHORTEST_LIFE, "maximum": LONGEST_LIFE},
    },
}


async def upload_file(gateway: Gateway, request: Request, principal: Principal) -> Response:
    async def read(upload: Upload, now: datetime) -> NewFile:
        form = await read_form(request, upload.write)
        _check_purpose(form.fields)
        expires_at, source_id = _expires_at(form.fields, now), form.fields.get("source_file_id")
        return NewFile(principal.account_id, form.filename, now, expires_at, source_id)

    return answer_json(file_object(await take_file(gateway, request, principal, read)))


async def list_files(gateway: Gateway, request: Request, principal: Principal) -> Response:
    query = FileQuery(AFTER.read(request), LIMIT.read(request), ORDER.read(request) == "desc", PURPOSE.read(request))
    page = await library.list_files(gateway.database, principal, query, gateway.clock.now())
    return answer_json(file_list(page))


async def get_file(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return answer_json(file_object(await _file(gateway, request, principal)))


async def delete_file(gateway: Gateway, request: Request, principal: Principal) -> Response:
    file_id = request.path_params["id"]
    await library.delete_file(gateway.database, principal, file_id, gateway.clock.now())
    return answer_json(FileDeleted(id=file_id))


async def get_file_content(gateway: Gateway, request: Request, principal: Principal) -> Response:
    file = await _file(gateway, request, principal)
    etag = f'"{file.sha256.hex()}"'
    headers = {"etag": etag, "accept-ranges": "bytes", "content-disposition": content_disposition(file.filename)}
    if is_unchanged(request.headers, etag):
        return Response(status_code=304, headers=headers)
    try:
        part = read_range(request.headers, etag, file.size)
    except Unsatisfiable:
        return Response(status_code=416, headers={**headers, "content-range": f"bytes */{file.size}"})
    return _content(gateway, file, part, headers)


def _content(gateway: Gateway, file: StoredFile, part: Slice | None, headers: dict[str, str]) -> Response:
    sent = part or Slice(0, file.size)
    headers = {**headers, "content-type": JSONL, "content-length": str(sent.stop - sent.start)}
    if part is not None:
        headers["content-range"] = f"bytes {part.start}-{part.stop - 1}/{file.size}"
    longest = gateway.settings.current.stream_request_timeout_seconds
    chunks = download_file(gateway.database, file, (sent.start, sent.stop), longest)
    return Streamed(chunks, 200 if part is None else 206, headers)


async def _file(gateway: Gateway, request: Request, principal: Principal) -> StoredFile:
    return await library.get_file(gateway.database, principal, request.path_params["id"], gateway.clock.now())


def _check_purpose(fields: Mapping[str, str]) -> None:
    if "purpose" not in fields:
        raise InvalidRequest("The form has no 'purpose': it must be 'batch'", param="purpose")
    if fields["purpose"] != UPLOADED:
        raise InvalidRequest("'purpose' must be 'batch': only files for batches are kept here", param="purpose")


def _expires_at(fields: Mapping[str, str], now: datetime) -> datetime | None:
    """When the caller wants the file gone; None takes the deployment's retention."""
    anchor, seconds = fields.get("expires_after[anchor]"), fields.get("expires_after[seconds]")
    if anchor is None and seconds is None:
        return None
    if anchor != "created_at":
        raise InvalidRequest("'expires_after[anchor]' must be 'created_at'", param="expires_after[anchor]")
    text = seconds or ""
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and SHORTEST_LIFE <= int(text) <= LONGEST_LIFE):
        raise InvalidRequest(
            f"'expires_after[seconds]' must be a whole number between {SHORTEST_LIFE} and {LONGEST_LIFE}",
            param="expires_after[seconds]",
        )
    return now + timedelta(seconds=int(text))


ROUTES: tuple[Endpoint, ...] = (
    Closed(
        "POST",
        "/v1/files",
        upload_file,
        "Upload a file of batch requests",
        Described(request=UPLOAD_FORM, answer=FileObject, errors=(400, 403, 413, 429)),
        batch=True,
    ),
    Closed(
        "GET",
        "/v1/files",
        list_files,
        "List your files",
        Described(answer=ListPage[FileObject], parameters=(AFTER, LIMIT, ORDER, PURPOSE), errors=(400,)),
        batch=True,
    ),
    Closed("GET", "/v1/files/{id}", get_file, "Get a file", Described(answer=FileObject, errors=(404,)), batch=True),
    Closed(
        "DELETE",
        "/v1/files/{id}",
        delete_file,
        "Delete a file",
        Described(answer=FileDeleted, errors=(404,)),
        batch=True,
    ),
    Closed(
        "GET",
        "/v1/files/{id}/content",
        get_file_content,
        "Download a file",
        Described(answer=JSONL, more=((206, JSONL), (304, None), (416, None)), errors=(404,)),
        batch=True,
    ),
)
