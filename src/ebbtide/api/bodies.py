"""Request bodies, limited while they stream in: early by Content-Length, and by count when that lies or is missing.

A body grows in one buffer that becomes its bytes: a list of pieces, joined, would hold it twice for a moment.
"""

from __future__ import annotations

import io

from starlette.requests import Request

from ebbtide.errors import InvalidRequest, TooLarge

MIB = 1024 * 1024
JSON_BODY_LIMIT = 32 * MIB


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body. Raises TooLarge above `limit` bytes, InvalidRequest for an encoded one."""
    refuse_encoded(request)
    check_length(request, limit)
    body = io.BytesIO()
    async for piece in request.stream():
        if body.tell() + len(piece) > limit:
            raise _too_large(limit)
        body.write(piece)
    return body.getvalue()


def check_length(request: Request, limit: int) -> None:
    """Refuse by Content-Length, before anything is read. Raises TooLarge."""
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:18]) > limit:
        raise _too_large(limit)


def refuse_encoded(request: Request) -> None:
    """A compressed body would escape every limit. Raises InvalidRequest."""
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise InvalidRequest("Content-Encoding is not supported: send the body as it is")


def _too_large(limit: int) -> TooLarge:
    shown = f"{limit // MIB} MiB" if limit >= MIB and limit % MIB == 0 else f"{limit:,} bytes"
    return TooLarge(f"The request body is larger than {shown}")
