"""An account's files: get, list, delete. Somebody else's file reads as one that does not exist, to
administrators too."""

from __future__ import annotations

from datetime import datetime

from ebbtide.accounts.store import Principal
from ebbtide.errors import InvalidRequest, NotFound
from ebbtide.files import store
from ebbtide.files.model import FileQuery, StoredFile
from ebbtide.page import Page
from ebbtide.storage.pool import Database


async def get_file(database: Database, principal: Principal, file_id: str, now: datetime) -> StoredFile:
    """Raises NotFound for a file that is unknown, deleted, expired or another account's."""
    async with database.connection() as conn:
        file = await store.get_file(conn, file_id, now)
    if file is None or file.account_id != principal.account_id:
        raise NotFound(f"No such file: {file_id}")
    return file


async def list_files(database: Database, principal: Principal, query: FileQuery, now: datetime) -> Page[StoredFile]:
    """Raises InvalidRequest when `query.after` is not a file of the account."""
    async with database.connection() as conn:
        if query.after is not None and not await store.knows_file(conn, principal.account_id, query.after):
            raise InvalidRequest("after is not the id of one of your files", param="after")
        files = await store.list_files(conn, principal.account_id, query, now)
    return Page(files[: query.limit], len(files) > query.limit)


async def delete_file(database: Database, principal: Principal, file_id: str, now: datetime) -> None:
    """Hide the file at once; a running download and a batch created from it keep their bytes."""
    file = await get_file(database, principal, file_id, now)
    async with database.transaction() as conn:
        await store.delete_file(conn, file.id, now)
