"""Taking a file in: spooled while it streams, stored in one transaction once it is whole and within the limits.

Nothing of an upload that is aborted, too large or over quota ever reaches the database.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from ebbtide import ids
from ebbtide.accounts.roles import Role, refusal
from ebbtide.accounts.store import Principal
from ebbtide.errors import Forbidden, InvalidRequest, LimitReached, TooLarge
from ebbtide.files import store
from ebbtide.files.chunks import ChunkPacker
from ebbtide.files.model import UPLOADED, StoredFile
from ebbtide.settings.snapshot import Settings
from ebbtide.storage.pool import Database

MIB = 1 << 20


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
    """What the caller says of a file. `expires_at`: None takes the deployment's retention."""

    owner: Principal
    filename: str
    now: datetime
    expires_at: datetime | None = None


async def check_may_upload(database: Database, principal: Principal, settings: Settings, now: datetime) -> None:
    """Raise Forbidden below BATCH_MIN_ROLE, LimitReached over the hourly count."""
    needed = Role(settings.batch_min_role)
    if principal.role < needed:
        raise Forbidden(refusal(principal.role, "upload files for batches", needed))
    async with database.connection() as conn:
        recent = await store.count_uploads(conn, principal.account_id, now - timedelta(hours=1))
    if recent >= settings.batch_file_uploads_per_hour:
        raise LimitReached(
            f"You may upload {settings.batch_file_uploads_per_hour} files an hour",
            code="file_upload_limit",
            retry_after=600,
        )


async def save_upload(database: Database, new: NewFile, upload: Upload, settings: Settings) -> StoredFile:
    """Store a finished upload.

    Raises InvalidRequest for an empty file and TooLarge when the account's files would weigh more than allowed.
    """
    if upload.size == 0:
        raise InvalidRequest("The file is empty", code="empty_file", param="file")
    file = StoredFile(
        id=ids.file_id(),
        account_id=new.owner.account_id,
        batch_id=None,
        purpose=UPLOADED,
        filename=new.filename,
        size=upload.size,
        sha256=upload.finish(),
        created_at=new.now,
        expires_at=new.expires_at or new.now + timedelta(days=settings.batch_file_retention_days),
    )
    async with database.transaction() as conn:
        await store.lock_account(conn, file.account_id)
        kept = await store.stored_bytes(conn, file.account_id)
        if kept + file.size > settings.batch_files_max_total_mb_per_user * MIB:
            raise TooLarge(
                f"Your files would weigh more than {settings.batch_files_max_total_mb_per_user} MiB; delete some first",
                code="file_storage_limit",
            )
        await store.insert_file(conn, file, upload.chunks())
    return file
