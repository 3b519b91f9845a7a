"""Taking a file in one request, whichever API's: counted from its first byte, spooled, stored once it is whole."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from starlette.requests import Request

from ebbtide.accounts.store import Principal
from ebbtide.api.bodies import MIB, check_length, refuse_encoded
from ebbtide.api.form import ENVELOPE_BYTES
from ebbtide.api.gateway import Gateway
from ebbtide.files.model import StoredFile
from ebbtide.files.upload import NewFile, Upload, check_may_upload, save_upload

Read = Callable[[Upload, datetime], Awaitable[NewFile]]


async def take_file(gateway: Gateway, request: Request, principal: Principal, read: Read) -> StoredFile:
    """The stored file; `read` writes the request's bytes of it to the spool and tells what is said of it.

    Raises what check_may_upload, save_upload and `read` raise; the upload then counts as one that failed.
    """
    settings, now, failures = gateway.settings.current, gateway.clock.now(), gateway.failed_uploads
    limit = settings.batch_max_body_mb * MIB
    with failures.under_way(principal.account_id, now) as others:
        await check_may_upload(gateway.database, principal, settings, now, others)
        with failures.noted(principal.account_id, now), Upload(limit) as upload:
            refuse_encoded(request)
            check_length(request, limit + ENVELOPE_BYTES)
            new = await read(upload, now)
            failed = failures.count(principal.account_id, now)
            return await save_upload(gateway.database, new, upload, settings, failed)
