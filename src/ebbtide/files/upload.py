"""Taking a file in: spooled while it streams, stored in one transaction once it is whole and within the limits.

Nothing of an upload that is aborted, too large or over quota ever reaches the database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from ebbtide import ids
from ebbtide.accounts.roles import Role, refusal
from ebbtide.accounts.store import Principal
from ebbtide.errors import Forbidden, InvalidRequest, LimitReached, TooLarge, Unauthenticated
from ebbtide.files import store
from ebbtide.files.chunks import ChunkPacker
from ebbtide.files.model import UPLOADED, StoredFile
from ebbtide.settings.snapshot import Settings
from ebbtide.storage.pool import Connection, Database

MIB = 1 << 20
COUNTED_FOR: Final = timedelta(hours=1)


class Upload(ChunkPacker):
    """The spool of one upload. Raises TooLarge as soon as more than `limit_bytes` were written."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__()
        self._limit = limit_bytes

    def write(self, data: bytes | memoryview) -> None:
        if self.size + len(data) > self._limit:
            raise TooLarge(f"The file is larger than the limit of {self._limit // MIB} MiB", param="file")
        super().write(data)


@dataclass(frozen=True, slots=True)
class NewFile:
    """What the caller says of a file. `expires_at`: None takes the deployment's retention. A copy of the upload
    `source_id` expires with that one.
    """

    account_id: str
    filename: str
    now: datetime
    expires_at: datetime | None = None
    source_id: str | None = None


class FailedUploads:
    """The uploads of this process that failed within the last hour, or may yet, by account."""

    def __init__(self) -> None:
        self._failed: dict[str, list[datetime]] = {}
        self._under_way: Counter[str] = Counter()

    def count(self, account_id: str, now: datetime) -> int:
        """How many there are of an account."""
        return sum(at > now - COUNTED_FOR for at in self._failed.get(account_id, ()))

    @contextmanager
    def under_way(self, account_id: str, now: datetime) -> Iterator[int]:
        """What is done in here is an upload; yields how many of the account's failed or were already under way."""
        before = self.count(account_id, now) + self._under_way[account_id]
        self._under_way[account_id] += 1
        try:
            yield before
        finally:
            self._under_way[account_id] -= 1
            self._under_way += Counter()  # drops those at zero

    @contextmanager
    def noted(self, account_id: str, now: datetime) -> Iterator[None]:
        """Count what is done in here as a failed upload if it raises."""
        try:
            yield
        except BaseException:
            self.note(account_id, now)
            raise

    def note(self, account_id: str, now: datetime) -> None:
        """An upload has failed; forget those of more than an hour ago."""
        recent = {account: [at for at in times if at > now - COUNTED_FOR] for account, times in self._failed.items()}
        self._failed = {account: times for account, times in recent.items() if times}
        self._failed.setdefault(account_id, []).append(now)


async def check_may_upload(
    database: Database, principal: Principal, settings: Settings, now: datetime, failed: int = 0
) -> None:
    """Raise Forbidden below BATCH_MIN_ROLE, LimitReached over the hourly count. `failed` ones count as well."""
    needed = Role(settings.batch_min_role)
    if principal.role < needed:
        raise Forbidden(refusal(principal.role, "upload files for batches", needed))
    async with database.connection() as conn:
        await _check_count(conn, principal.account_id, settings, now, failed)


async def _check_count(conn: Connection, account_id: str, settings: Settings, now: datetime, failed: int) -> None:
    recent = await store.count_uploads(conn, account_id, now - COUNTED_FOR)
    if recent + failed >= settings.batch_file_uploads_per_hour:
        raise LimitReached(
            f"You may upload {settings.batch_file_uploads_per_hour} files an hour",
            code="file_upload_limit",
            retry_after=600,
        )


async def _check_weight(conn: Connection, account_id: str, size: int, settings: Settings) -> None:
    most = settings.batch_files_max_total_mb_per_user
    if await store.stored_bytes(conn, account_id) + size > most * MIB:
        raise TooLarge(f"Your files would weigh more than {most} MiB; delete some first", code="file_storage_limit")


async def save_upload(
    database: Database, new: NewFile, upload: Upload, settings: Settings, failed: int = 0
) -> StoredFile:
    """Store a finished upload; `failed` ones count beside it.

    Raises InvalidRequest for an empty file or a source that is none, LimitReached when uploads that began with it were
    faster, and TooLarge when the account's files would weigh more than allowed; Unauthenticated when the account was
    deleted meanwhile.
    """
    async with database.transaction() as conn:
        await lock_owner(conn, new.account_id)
        return await store_upload(conn, new, upload, settings, failed)


async def lock_owner(conn: Connection, account_id: str) -> None:
    """Serialise what counts against an account's limits. Raises Unauthenticated when it was deleted."""
    if not await store.lock_account(conn, account_id):
        raise Unauthenticated("The account is no longer active")


async def store_upload(
    conn: Connection, new: NewFile, upload: Upload, settings: Settings, failed: int = 0
) -> StoredFile:
    """The same within a transaction that has locked the file's owner."""
    if upload.size == 0:
        raise InvalidRequest("The file is empty", code="empty_file", param="file")
    await _check_count(conn, new.account_id, settings, new.now, failed)
    await _check_weight(conn, new.account_id, upload.size, settings)
    file = StoredFile(
        id=ids.file_id(),
        account_id=new.account_id,
        batch_id=None,
        purpose=UPLOADED,
        filename=new.filename,
        size=upload.size,
        sha256=upload.finish(),
        created_at=new.now,
        expires_at=new.expires_at or new.now + timedelta(days=settings.batch_file_retention_days),
        source_id=new.source_id,
    )
    if file.source_id is not None:
        file = replace(file, expires_at=await _source_expiry(conn, file.account_id, file.source_id, new.now))
    await store.insert_file(conn, file, upload.chunks())
    return file


async def _source_expiry(conn: Connection, account_id: str, source_id: str, now: datetime) -> datetime:
    expires_at = await store.hold_source(conn, account_id, source_id, now)
    if expires_at is None:
        raise InvalidRequest(f"source_file_id names no uploaded file of yours: {source_id}", param="source_file_id")
    return expires_at
