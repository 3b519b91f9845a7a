"""A gateway over HTTP, as the client commands use one. Whatever answers at the URL may be another version, or a proxy.

No answer, and a 502, 503 or 504, are `Unreachable`: they may pass. Any other error status is `Refused`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, BinaryIO, Final
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec
from cyclopts import Parameter

from ebbtide import __version__
from ebbtide.cli.wire import Batch, Failure, Outcome, Outcomes, Refusal
from ebbtide.errors import EbbtideError, SetupError

_PASSING: Final = frozenset({502, 503, 504})
_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=180)
_STREAM_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60)  # heartbeats come sooner
_CHUNK: Final = 256 * 1024
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Unreachable(EbbtideError):
    """No gateway answers, or it cannot serve at the moment."""


class Refused(EbbtideError):
    """The gateway answered with an error."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class GatewayOptions:
    """Which gateway, and as whom."""

    url: Annotated[str, Parameter(env_var="EBBTIDE_URL", help="The gateway's address.")] = "http://127.0.0.1:8080"
    key: Annotated[str | None, Parameter(env_var="EBBTIDE_API_KEY", help="The API key to use.")] = None


HERE: Final = GatewayOptions()


@asynccontextmanager
async def open_gateway(options: GatewayOptions) -> AsyncIterator[Gateway]:
    """A client for the gateway of `options`. Raises SetupError when URL or key cannot be used."""
    base = base_url(options.url)
    key = (options.key or "").strip()
    if not key.isprintable() or not key.isascii():
        raise SetupError("The API key holds characters that a key cannot have")
    headers = {"User-Agent": f"ebbtide/{__version__}", **({"Authorization": f"Bearer {key}"} if key else {})}
    remote = urlsplit(base).hostname not in _LOOPBACK  # a proxy of the environment's is for those alone
    async with aiohttp.ClientSession(headers=headers, timeout=_TIMEOUT, trust_env=remote) as session:
        yield Gateway(session, base)


def base_url(url: str) -> str:
    """The address without a trailing slash or `/v1`. Raises SetupError."""
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.query
    except ValueError:
        usable = False
    if not usable:
        raise SetupError(f"--url takes an address such as http://127.0.0.1:8080; {url!r} is not one")
    return url.strip().rstrip("/").removesuffix("/v1")


class Gateway:
    """The calls of the batch API that the commands need. Every one raises Unreachable or Refused."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self._session = session
        self.base = base

    async def models(self) -> list[dict[str, Any]]:
        return _rows(await self._call("GET", "/v1/models"))

    async def upload(self, file: BinaryIO, name: str) -> str:
        """Upload a batch input file and return its id."""
        form = aiohttp.FormData()
        form.add_field("purpose", "batch")
        form.add_field("file", file, filename=name, content_type="application/octet-stream")
        answer = _object(await self._call("POST", "/v1/files", data=form))
        return str(answer.get("id"))

    async def find_uploads(self, size: int, sha256: str) -> list[str]:
        """The ids of the account's input files with just this content, oldest first."""
        found: list[str] = []
        after: dict[str, str] = {}
        while True:
            params = {"purpose": "batch", "order": "asc", "limit": "10000", **after}
            answer = await self._call("GET", "/v1/files", params=params)
            rows = _rows(answer)
            same_size = [str(row["id"]) for row in rows if row.get("bytes") == size]
            found += [file_id for file_id in same_size if await self._etag(file_id) == f'"{sha256}"']
            if not (rows and _object(answer).get("has_more")):
                return found
            after = {"after": str(rows[-1]["id"])}

    async def _etag(self, file_id: str) -> str | None:
        """The tag of a file's content, which is its SHA-256 in quotes; None for one that has just gone."""
        try:
            url = self.base + _path("files", file_id, "content")
            async with self._session.head(url, allow_redirects=False) as answer:
                return answer.headers.get("ETag") if answer.status == 200 else None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._away(error) from error

    async def delete_file(self, file_id: str) -> None:
        await self._call("DELETE", _path("files", file_id))

    async def create(self, body: Mapping[str, object], idempotency_key: str) -> Batch:
        """Create a batch; sent again with the same key, the call makes no second one."""
        headers = {"Idempotency-Key": idempotency_key}
        return read_batch(_object(await self._call("POST", "/v1/batches", json=body, headers=headers)))

    async def retry(self, batch_id: str, idempotency_key: str) -> Batch:
        """Create a batch of what did not succeed in an ended one, as safely repeated as `create`."""
        headers = {"Idempotency-Key": idempotency_key}
        return read_batch(_object(await self._call("POST", _path("batches", batch_id, "retry"), headers=headers)))

    async def batch(self, batch_id: str) -> Batch:
        return read_batch(_object(await self._call("GET", _path("batches", batch_id))))

    async def batches(self, limit: int, after: str | None) -> tuple[list[dict[str, Any]], bool]:
        """A page of batches, newest first, and whether there are more."""
        params = {"limit": str(limit), **({} if after is None else {"after": after})}
        answer = await self._call("GET", "/v1/batches", params=params)
        return _rows(answer), bool(_object(answer).get("has_more"))

    async def cancel(self, batch_id: str) -> Batch:
        return read_batch(_object(await self._call("POST", _path("batches", batch_id, "cancel"))))

    async def delete(self, batch_id: str) -> None:
        await self._call("DELETE", _path("batches", batch_id))

    async def results(self, batch_id: str) -> AsyncIterator[bytes]:
        """The results as JSONL, in submission order, in pieces."""
        try:
            url = self.base + _path("batches", batch_id, "output.jsonl")
            async with self._session.get(url, allow_redirects=False) as answer:
                await self._check(answer)
                async for piece in answer.content.iter_chunked(_CHUNK):
                    yield piece
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._away(error) from error

    async def outcomes(self, batch_id: str, after: str | None, limit: int) -> tuple[list[Outcome], bool]:
        """A page of what became of a batch's requests so far, and whether there are more."""
        params = {"limit": str(limit), **({} if after is None else {"after": after})}
        answer = await self._call("GET", _path("batches", batch_id, "results"), params=params)
        try:
            page = msgspec.json.decode(answer, type=Outcomes, strict=False)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused("The answer is not a page of results.", status=200) from error
        return page.data, page.has_more and bool(page.data)

    async def progress(self, batch_id: str) -> AsyncIterator[Batch]:
        """The batch's states as the gateway tells them, until the last or until it hangs up."""
        url = self.base + _path("batches", batch_id, "events")
        try:
            async with self._session.get(url, allow_redirects=False, timeout=_STREAM_TIMEOUT) as answer:
                await self._check(answer)
                if answer.content_type != "text/event-stream":
                    raise Refused(f"{self.base} has no stream of progress", status=answer.status)
                event = ""
                async for line in answer.content:
                    field, _, value = line.decode("utf-8", "replace").rstrip("\r\n").partition(": ")
                    if field == "event":
                        event = value
                    elif field == "data" and event == "batch":
                        yield read_batch(_object(value.encode()))
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._away(error) from error

    async def _call(self, method: str, path: str, **how: Any) -> bytes:
        try:
            async with self._session.request(method, self.base + path, allow_redirects=False, **how) as answer:
                await self._check(answer)
                return await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._away(error) from error

    async def _check(self, answer: aiohttp.ClientResponse) -> None:
        if 200 <= answer.status < 300:
            return
        if answer.status < 400:
            raise Refused(f"{self.base} redirects to another address; use that one", status=answer.status)
        message = said(await answer.read()) or f"{self.base} answered {answer.status} {answer.reason}."
        if answer.status == 401 and "Authorization" not in self._session.headers:
            message = "The gateway wants an API key: name one with --key or EBBTIDE_API_KEY."
        if answer.status in _PASSING:
            raise Unreachable(message)
        raise Refused(message, status=answer.status)

    def _away(self, error: Exception) -> Unreachable:
        return Unreachable(f"No gateway at {self.base}: {_reason(error)}. --url or EBBTIDE_URL names another address.")


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it does not answer"
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno is not None:
        known = error.os_error.errno > 0  # a resolver's errors have negative numbers, and words of their own
        return os.strerror(error.os_error.errno) if known else str(error.os_error.strerror)
    return str(error) or type(error).__name__


def _path(collection: str, name: str, *rest: str) -> str:
    """The path of one thing; whatever its id holds, it names nothing else. Raises SetupError."""
    if name in ("", ".", "..") or "/" in name:  # which somebody on the way may take for steps, quoted or not
        raise SetupError(f"{name!r} is not an id.")
    return "/".join(("/v1", collection, quote(name.encode(errors="surrogateescape"), safe=""), *rest))


def said(body: bytes) -> str | None:
    """The message in an error answer, or None when it is not one of a gateway's."""
    try:
        error = msgspec.json.decode(body, type=Refusal).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return error.message if isinstance(error, Failure) else error


def read_batch(answer: Mapping[str, Any]) -> Batch:
    """A batch out of an answer. Raises Refused when it is not one."""
    try:
        return msgspec.convert(answer, Batch, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(f"The answer is not a batch: {error}", status=200) from error


def _object(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused("The answer is not that of a gateway; is the URL right?", status=200) from error


def _rows(body: bytes) -> list[dict[str, Any]]:
    rows = _object(body).get("data")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Refused("The answer is not a list; is the URL that of a gateway?", status=200)
    return rows
