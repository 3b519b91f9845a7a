"""/console: the web front end, served from the files that the package carries.

Every page is one document: whatever path below /console is no file is answered with it, and the front end finds its way
from there. Files whose names carry a hash are kept by browsers for a year. The document loads only what comes from this
gateway: its Content-Security-Policy names no other host and lets nothing inline run; the styles that components make as
they appear carry a nonce, new with every answer.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import mimetypes
import secrets
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ebbtide.api.gateway import Gateway
from ebbtide.api.routing import Described, Endpoint, Open
from ebbtide.errors import NotFound

FILES: Final = Path(__file__).parent / "console_files"
_INDEX: Final = "index.html"
_NONCE: Final = b"__NONCE__"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_COMPRESSIBLE: Final = ("text/", "application/json", "image/svg+xml")
_SAFE: Final = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True)
class Asset:
    """A file with its compressed form, where that is smaller."""

    content: bytes
    compressed: bytes | None
    media_type: str
    etag: str


@cache
def load_assets(folder: Path) -> dict[str, Asset]:
    """Every file below `folder` by its path. They are part of the installed package and do not change."""
    return {path.relative_to(folder).as_posix(): _asset(path) for path in folder.rglob("*") if path.is_file()}


def _asset(path: Path) -> Asset:
    content = path.read_bytes()
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    media_type = "text/javascript" if media_type.endswith("javascript") else media_type  # as the standard has it
    compressed = None
    if media_type.startswith(_COMPRESSIBLE) and path.name != _INDEX:
        compressed = gzip.compress(content, mtime=0)
    smaller = compressed is not None and len(compressed) < len(content)
    return Asset(content, compressed if smaller else None, media_type, hashlib.sha256(content).hexdigest()[:32])


async def show_console(gateway: Gateway, request: Request) -> Response:
    return await show_console_path(gateway, request)


async def show_console_path(gateway: Gateway, request: Request) -> Response:
    assets = await asyncio.to_thread(load_assets, FILES)
    path = request.path_params.get("path", "")
    asset = assets.get(path)
    if asset is not None and path != _INDEX:
        return _file(asset, request, lasting=path.startswith("assets/"))
    if path.startswith("assets/"):
        raise NotFound("The console has no such file: it may be one of another version, so load the page again")
    if _INDEX not in assets:
        raise NotFound("This installation carries no console: see console/README.md in its sources")
    return _document(assets[_INDEX])


async def enter_console(gateway: Gateway, request: Request) -> Response:
    return RedirectResponse("/console", 307)


def _file(asset: Asset, request: Request, *, lasting: bool) -> Response:
    zipped = asset.compressed is not None and "gzip" in request.headers.get("accept-encoding", "")
    tag = f'"{asset.etag}{"-gzip" if zipped else ""}"'
    headers = {
        **_SAFE,
        "etag": tag,
        "vary": "accept-encoding",
        "cache-control": "public, max-age=31536000, immutable" if lasting else "no-cache",
    }
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if zipped:
        headers["content-encoding"] = "gzip"
    content = asset.compressed if zipped and asset.compressed is not None else asset.content
    return Response(content, headers=headers, media_type=asset.media_type)


def _document(index: Asset) -> Response:
    nonce = secrets.token_urlsafe(16)
    headers = {**_SAFE, "cache-control": "no-store", "content-security-policy": _POLICY.format(nonce=nonce)}
    return Response(index.content.replace(_NONCE, nonce.encode()), headers=headers, media_type="text/html")


_PAGE = Described(answer="text/html", errors=(404,))

ROUTES: tuple[Endpoint, ...] = (
    Open("GET", "/", enter_console, "Lead a browser to the console", Described(more=((307, None),))),
    Open("GET", "/console", show_console, "The web console", _PAGE),
    Open("GET", "/console/{path:path}", show_console_path, "A page or a file of the console", _PAGE),
)
