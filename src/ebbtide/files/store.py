"""The file room's statements, one typed function each. This room alone writes batch_files and batch_file_chunks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ebbtide.files.chunks import Chunk
from ebbtide.files.model import FileQuery, StoredFile
from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.files", "store.sql")
_COPY_SECONDS = 1_200  # for 2 GiB, the most that BATCH_MAX_BODY_MB allows, at under 2 MiB a second


async def lock_account(conn: Connection, account_id: str) -> bool:
    """False when the account was deleted."""
    return await conn.fetchval(_Q["lock_account"], account_id) is not None


async def count_uploads(conn: Connection, account_id: str, since: datetime) -> int:
    return int(await conn.fetchval(_Q["count_uploads"], account_id, since))


async def stored_bytes(conn: Connection, account_id: str) -> int:
    return int(await conn.fetchval(_Q["stored_bytes"], account_id))


async def insert_file(conn: Connection, file: StoredFile, chunks: Iterable[Chunk]) -> None:
    """Store a whole file: its row and its chunks."""
    await conn.execute(
        _Q["insert_file"],
        file.id,
        file.account_id,
        file.batch_id,
        file.purpose,
        file.filename,
        file.size,
        file.sha256,
        file.created_at,
        file.expires_at,
        file.source_id,
    )
    await add_chunks(conn, file.id, chunks)


async def add_chunks(conn: Connection, file_id: str, chunks: Iterable[Chunk]) -> None:
    """In one COPY, with the time that the largest file takes."""
    await conn.copy_records_to_table(
        "batch_file_chunks",
        records=((file_id, c.number, c.raw_offset, c.raw_length, c.data) for c in chunks),
        columns=["file_id", "chunk", "raw_offset", "raw_length", "data"],
        timeout=_COPY_SECONDS,
    )


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A result file about to be written for a batch."""

    id: str
    account_id: str
    batch_id: str
    filename: str


async def begin_file(conn: Connection, file: ResultFile, now: datetime) -> None:
    await conn.execute(_Q["begin_file"], file.id, file.account_id, file.batch_id, file.filename, now)


async def hold_unfinished(conn: Connection, file_id: str) -> bool:
    """False when somebody dropped the half-written file."""
    return await conn.fetchval(_Q["hold_unfinished"], file_id) is not None


async def finish_file(
    conn: Connection, file_id: str, size: int, sha256: bytes, times: tuple[datetime, datetime | None]
) -> bool:
    """`times`: when the file came to be, and when it goes. False when somebody dropped the half-written file."""
    return _count(await conn.execute(_Q["finish_file"], file_id, size, sha256, *times)) > 0


async def drop_unfinished(conn: Connection, batch_id: str) -> None:
    await conn.execute(_Q["drop_unfinished"], batch_id)


async def drop_files(conn: Connection, file_ids: list[str]) -> None:
    await conn.execute(_Q["drop_files"], file_ids)


async def get_file(conn: Connection, file_id: str, now: datetime) -> StoredFile | None:
    row = await conn.fetchrow(_Q["get_file"], file_id, now)
    return None if row is None else StoredFile(**row)


async def list_files(conn: Connection, account_id: str, query: FileQuery, now: datetime) -> list[StoredFile]:
    """One more file than asked for, where there is one, so that the caller sees whether more follow."""
    sql = _Q["list_newest"] if query.newest_first else _Q["list_oldest"]
    rows = await conn.fetch(sql, account_id, now, query.purpose, query.after, query.limit + 1)
    return [StoredFile(**row) for row in rows]


async def hold_source(conn: Connection, account_id: str, file_id: str, now: datetime) -> datetime | None:
    """When an upload that can be copied goes; it stays until the transaction ends. None when there is no such one."""
    found: datetime | None = await conn.fetchval(_Q["hold_source"], file_id, account_id, now)
    return found


async def knows_file(conn: Connection, account_id: str, file_id: str) -> bool:
    return bool(await conn.fetchval(_Q["knows_file"], account_id, file_id))


async def delete_file(conn: Connection, file_id: str, now: datetime) -> None:
    await conn.execute(_Q["delete_file"], file_id, now)


async def delete_batch_files(conn: Connection, batch_id: str, input_id: str, now: datetime) -> None:
    await conn.execute(_Q["delete_batch_files"], batch_id, now, input_id)


async def expire_files(conn: Connection, now: datetime, limit: int) -> int:
    return _count(await conn.execute(_Q["expire_files"], now, limit))


async def removable_files(conn: Connection, hidden_before: datetime, counted_after: datetime, limit: int) -> list[str]:
    return [row["id"] for row in await conn.fetch(_Q["removable_files"], hidden_before, counted_after, limit)]


async def purge_chunks(conn: Connection, file_id: str, limit: int) -> int:
    return _count(await conn.execute(_Q["purge_chunks"], file_id, limit))


async def purge_file(conn: Connection, file_id: str, counted_after: datetime) -> None:
    await conn.execute(_Q["purge_file"], file_id, counted_after)


async def read_chunks(conn: Connection, file_id: str, raw_offset: int, limit: int) -> list[Any]:
    """Rows (chunk, raw_offset, raw_length, data) from the chunk that holds `raw_offset` on."""
    return list(await conn.fetch(_Q["read_chunks"], file_id, raw_offset, limit))


async def read_chunk(conn: Connection, file_id: str, chunk: int) -> bytes | None:
    data: bytes | None = await conn.fetchval(_Q["read_chunk"], file_id, chunk)
    return data


async def hide_account_files(conn: Connection, account_id: str, now: datetime, limit: int) -> int:
    return _count(await conn.execute(_Q["hide_account_files"], account_id, now, limit))


async def removable_account_files(conn: Connection, account_id: str, hidden_before: datetime, limit: int) -> list[str]:
    rows = await conn.fetch(_Q["removable_account_files"], account_id, hidden_before, limit)
    return [row["id"] for row in rows]


async def standing_of_account(conn: Connection, account_id: str) -> tuple[int, bool]:
    """How many files the account has, and whether any that is hidden is being read."""
    row = await conn.fetchrow(_Q["standing_of_account"], account_id)
    assert row is not None
    return row["left"], row["readers"]


def _count(tag: str) -> int:
    return int(tag.rpartition(" ")[2])
