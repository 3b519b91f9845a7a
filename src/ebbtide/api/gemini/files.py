"""Gemini's files: list, get, delete, download. They are the account's files, whichever API they came by."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import Streamed, answer_json
from ebbtide.api.gateway import Gateway
from ebbtide.api.gemini.pages import PAGE_SIZE, PAGE_TOKEN, page_asked
from ebbtide.api.gemini.render import gemini_file
from ebbtide.api.ranges import content_disposition
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.dialects.gemini.files import MEDIA_TYPE, GeminiFile, GeminiFiles, file_id, file_name
from ebbtide.dialects.gemini.wire import Empty
from ebbtide.errors import InvalidRequest, NotFound
from ebbtide.files import library
from ebbtide.files.download import download_file
from ebbtide.files.model import FileQuery, StoredFile

_PATH: Final = "/v1beta/files"


async def list_gemini_files(gateway: Gateway, request: Request, principal: Principal) -> Response:
    token, size = page_asked(request)
    after = None if token is None else file_id(token)
    if token is not None and after is None:
        raise InvalidRequest("pageToken is none that a page before told", param="pageToken")
    found = await library.list_files(gateway.database, principal, FileQuery(after, size), gateway.clock.now())
    page = GeminiFiles(files=[gemini_file(file, request) for file in found.items])
    if found.has_more and found.items:
        page = msgspec.structs.replace(page, next_page_token=file_name(found.items[-1].id).removeprefix("files/"))
    return answer_json(page)


async def get_gemini_file(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return answer_json(gemini_file(await _file(gateway, request, principal), request))


async def delete_gemini_file(gateway: Gateway, request: Request, principal: Principal) -> Response:
    file = await _file(gateway, request, principal)
    await library.delete_file(gateway.database, principal, file.id, gateway.clock.now())
    return answer_json(Empty())


async def download_gemini_file(gateway: Gateway, request: Request, principal: Principal) -> Response:
    file = await _file(gateway, request, principal)
    headers = {
        "content-type": MEDIA_TYPE,
        "content-length": str(file.size),
        "content-disposition": content_disposition(file.filename),
    }
    longest = gateway.settings.current.stream_request_timeout_seconds
    return Streamed(download_file(gateway.database, file, (0, file.size), longest), headers=headers)


async def _file(gateway: Gateway, request: Request, principal: Principal) -> StoredFile:
    """The file that the path names. Raises NotFound in the path's own words."""
    name = request.path_params["id"]
    try:
        return await library.get_file(gateway.database, principal, file_id(name) or name, gateway.clock.now())
    except NotFound:
        raise NotFound(f"No such file: files/{name}") from None


ROUTES: tuple[Endpoint, ...] = (
    Closed(
        "GET",
        _PATH,
        list_gemini_files,
        "List your files, in Gemini's shape",
        Described(answer=GeminiFiles, parameters=(PAGE_SIZE, PAGE_TOKEN), errors=(400, 404)),
        batch=True,
    ),
    Closed(
        "GET",
        f"{_PATH}/{{id}}:download",
        download_gemini_file,
        "Download a file",
        Described(answer=MEDIA_TYPE, errors=(404,)),
        batch=True,
    ),
    Closed(
        "GET",
        f"{_PATH}/{{id}}",
        get_gemini_file,
        "Get a file, in Gemini's shape",
        Described(answer=GeminiFile, errors=(404,)),
        batch=True,
    ),
    Closed(
        "DELETE",
        f"{_PATH}/{{id}}",
        delete_gemini_file,
        "Delete a file",
        Described(answer=Empty, errors=(404,)),
        batch=True,
    ),
)
