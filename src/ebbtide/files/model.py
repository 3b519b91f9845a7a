"""What the file room hands out: a stored file's row, and which ones to list."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

UPLOADED = "batch"
DIRECT = "batch_direct"  # the request lines of a direct create; never shown


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file whose bytes are all there. `sha256` is over the bytes as they came in; `size` counts them. `source_id`
    is the upload that it is a copy of, with changed requests: it is not listed, and goes with that one or its batch.
    """

    id: str
    account_id: str
    batch_id: str | None
    purpose: str
    filename: str
    size: int
    sha256: bytes
    created_at: datetime
    expires_at: datetime | None
    source_id: str | None = None


@dataclass(frozen=True, slots=True)
class FileQuery:
    """Which files to list: after the file with this id, at most `limit`, of one purpose or of all."""

    after: str | None = None
    limit: int = 10_000
    newest_first: bool = True
    purpose: str | None = None
