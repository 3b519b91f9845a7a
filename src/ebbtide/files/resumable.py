"""Uploads that come in parts, each one authorised by the secret in the upload's URL, to whichever process.

A part is stored as it comes, in pieces that stay small; what came before is known by its place, so that a part which is
sent again changes nothing. The last one makes the file, under the same limits as any upload.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ebbtide.accounts.store import Principal
from ebbtide.errors import Conflict, InvalidRequest, LimitReached, NotFound, TooLarge
from ebbtide.files import store
from ebbtide.files.model import StoredFile
from ebbtide.files.upload import MIB, NewFile, Upload, lock_owner, store_upload
from ebbtide.settings.snapshot import Settings
from ebbtide.storage.pool import Connection, Database
from ebbtide.storage.queries import load_queries

LIFE: Final = timedelta(days=1)
PIECE_BYTES: Final = 4 * MIB
_MOST_OPEN: Final = 20
_STEP: Final = 10
_Q = load_queries("ebbtide.files", "resumable.sql")


@dataclass(frozen=True, slots=True)
class Standing:
    """How an upload stands: whose it is, its name, the announced size, what has come, and the file it came to."""

    account_id: str
    filename: str
    size: int | None
    received: int
    file_id: str | None


@dataclass(frozen=True, slots=True)
class Announced:
    """What a caller says of a file that is to come."""

    filename: str
    size: int | None


async def begin_upload(
    database: Database, owner: Principal, announced: Announced, settings: Settings, now: datetime
) -> str:
    """The secret of a new upload. Raises TooLarge, and LimitReached while too many are under way."""
    _check_size(announced.size or 0, settings)
    secret = secrets.token_hex(24)
    async with database.transaction() as conn:
        if not await store.lock_account(conn, owner.account_id):
            raise NotFound("The account is no longer active")
        row = await conn.fetchrow(_Q["count_open_uploads"], owner.account_id, now)
        assert row is not None
        if row["uploads"] >= _MOST_OPEN:
            raise LimitReached(f"{_MOST_OPEN} uploads are under way: finish some first", retry_after=600)
        if row["bytes"] > settings.batch_files_max_total_mb_per_user * MIB:
            raise TooLarge("The uploads under way weigh more than your files may", code="file_storage_limit")
        values = (announced.filename, announced.size, now, now + LIFE)
        await conn.execute(_Q["begin_upload"], _token(secret), owner.account_id, *values)
    return secret


async def find_upload(database: Database, secret: str, now: datetime) -> Standing:
    """Raises NotFound for an upload that is unknown or too old."""
    async with database.connection() as conn:
        return await _find(conn, "find_upload", secret, now)


async def add_bytes(
    database: Database, place: tuple[str, int], pieces: AsyncIterator[bytes], settings: Settings, now: datetime
) -> Standing:
    """Store what comes from a place on; `place`: the upload's secret, and where its bytes begin.

    Raises Conflict for a gap before them, and TooLarge. What is there already is passed over.
    """
    secret, at = place
    standing = await find_upload(database, secret, now)
    if at > standing.received:
        raise Conflict(f"The upload has {standing.received} bytes: go on from there")
    pending = bytearray()
    async for piece in pieces:
        pending += piece
        while len(pending) >= PIECE_BYTES:
            await _add(database, (secret, at), bytes(pending[:PIECE_BYTES]), settings, now)
            at += PIECE_BYTES
            del pending[:PIECE_BYTES]
    await _add(database, (secret, at), bytes(pending), settings, now)
    return await find_upload(database, secret, now)


async def _add(database: Database, place: tuple[str, int], data: bytes, settings: Settings, now: datetime) -> None:
    """Store what of `data` is new."""
    secret, at = place
    async with database.transaction() as conn:
        standing = await _find(conn, "lock_upload", secret, now)
        fresh = data[max(0, standing.received - at) :]
        if standing.file_id is not None or not fresh:
            return
        received = standing.received + len(fresh)
        _check_size(received, settings)
        if standing.size is not None and received > standing.size:
            raise InvalidRequest(f"The upload was announced with {standing.size} bytes, and more came")
        await conn.execute(_Q["add_part"], _token(secret), standing.received, fresh)
        await conn.execute(_Q["receive"], _token(secret), received)


def check_whole(standing: Standing) -> None:
    """Raises InvalidRequest where less has come than was announced."""
    if standing.size is not None and standing.received < standing.size:
        raise InvalidRequest(f"The upload has {standing.received} of {standing.size} bytes: send the rest first")


async def finish_upload(database: Database, secret: str, settings: Settings, now: datetime) -> StoredFile:
    """The file that a whole upload came to; made of what has come, unless it was before.

    Raises what save_upload does.
    """
    standing = await find_upload(database, secret, now)
    file_id = standing.file_id
    if file_id is None:
        with Upload(settings.batch_max_body_mb * MIB) as upload:
            await _gather(database, secret, standing.received, upload)
            new = NewFile(standing.account_id, standing.filename, now)
            file_id = await _conclude(database, secret, new, upload, settings)
    async with database.connection() as conn:
        made = await store.get_file(conn, file_id, now)
    if made is None:
        raise NotFound("The file of this upload is gone")
    return made


async def _gather(database: Database, secret: str, received: int, upload: Upload) -> None:
    """Copy what has come, unless somebody else finished or gave up the upload meanwhile."""
    while upload.size < received:
        async with database.connection() as conn:
            data: bytes | None = await conn.fetchval(_Q["read_part"], _token(secret), upload.size)
        if data is None:
            return
        await asyncio.to_thread(upload.write, data)


async def _conclude(database: Database, secret: str, new: NewFile, upload: Upload, settings: Settings) -> str:
    """The id of the file that it came to: somebody else's who was faster, or a new one of what was gathered.

    One transaction stores the file and closes the upload: a crash leaves both or neither.
    """
    async with database.transaction() as conn:
        await lock_owner(conn, new.account_id)
        standing = await _find(conn, "lock_upload", secret, new.now)
        if standing.file_id is not None:
            return standing.file_id
        if standing.received != upload.size:
            raise Conflict(f"The upload has {standing.received} bytes by now: finish it once no more come")
        file = await store_upload(conn, new, upload, settings)
        await conn.execute(_Q["finish_upload"], _token(secret), file.id)
        await conn.execute(_Q["drop_parts"], _token(secret))
        return file.id


async def give_up_upload(database: Database, secret: str) -> None:
    """Forget an upload; a file that it came to stays."""
    async with database.transaction() as conn:
        await conn.execute(_Q["drop_upload"], _token(secret))


async def expire_uploads(database: Database, now: datetime) -> int:
    """Forget uploads whose time is over."""
    async with database.transaction() as conn:
        return int((await conn.execute(_Q["expire_uploads"], now, _STEP)).rpartition(" ")[2])


async def drop_account_uploads(conn: Connection, account_id: str) -> None:
    """Forget those of an account that is removed."""
    await conn.execute(_Q["drop_account_uploads"], account_id)


async def _find(conn: Connection, query: str, secret: str, now: datetime) -> Standing:
    row = await conn.fetchrow(_Q[query], _token(secret), now)
    if row is None:
        raise NotFound("No such upload, or it is over: begin it again")
    return Standing(**row)


def _token(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _check_size(size: int, settings: Settings) -> None:
    if size > settings.batch_max_body_mb * MIB:
        raise TooLarge(f"The file is larger than the limit of {settings.batch_max_body_mb} MiB", param="file")
