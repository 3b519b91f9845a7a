"""The claim's statements, one typed function each. What they do together is ebbtide.worker.claim's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from ebbtide.accounts.roles import Role
from ebbtide.batches.model import KNOWN
from ebbtide.dialects.values import Target
from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.batches", "claim.sql")
MAX_CANDIDATES: Final = 5_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A batch with `queued` items of one model to claim. `creator_valid`: its key and account may still act;
    `has_limits`: there is a quota or budget to look at; `is_parked`: it was parked, and it is time to look again.
    """

    batch_no: int
    account_id: str
    key_id: str
    expires_at: datetime | None
    queued: int
    role: Role
    creator_valid: bool
    has_limits: bool
    is_parked: bool
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ClaimableBatch:
    """A locked batch whose items may be started."""

    no: int
    id: str
    account_id: str
    key_id: str
    target: Target
    input_id: str
    expires_at: datetime | None
    has_begun: bool = False
    anthropic_version: str | None = None


class ClaimedItem(msgspec.Struct, frozen=True, gc=False):
    """An item this worker now owns under `claim_epoch`; `attempts` counted so far, before this one."""

    batch_no: int
    id: int
    claim_epoch: int
    attempts: int
    custom_id: str
    chunk: int
    line_offset: int
    line_length: int
    max_tokens: int | None


async def waiting_models(conn: Connection, now: datetime) -> list[str]:
    return [row["model"] for row in await conn.fetch(_Q["waiting_models"], now, *KNOWN)]


async def list_candidates(
    conn: Connection, model: str, now: datetime, limited_roles: Sequence[str] = ()
) -> list[Candidate]:
    """`limited_roles` are those that have quotas by default."""
    rows = await conn.fetch(_Q["list_candidates"], model, now, *KNOWN, MAX_CANDIDATES, limited_roles)
    return [Candidate(**{**row, "role": Role(row["role"])}) for row in rows]


async def lock_model(conn: Connection, model: str) -> None:
    await conn.execute(_Q["lock_model"], model)


async def lock_claimable(conn: Connection, batch_nos: Sequence[int], now: datetime) -> list[ClaimableBatch]:
    return [ClaimableBatch(**row) for row in await conn.fetch(_Q["lock_claimable"], batch_nos, now)]


async def claim_items(
    conn: Connection, model: str, takes: Sequence[tuple[int, int]], worker_no: int, now: datetime
) -> list[ClaimedItem]:
    """`takes`: (batch, how many) of batches locked by lock_claimable."""
    batch_nos, counts = zip(*takes, strict=True)
    rows = await conn.fetch(_Q["claim_items"], batch_nos, counts, model, worker_no, now)
    return [ClaimedItem(*row.values()) for row in rows]


async def count_claimed(conn: Connection, model: str, counts: Sequence[tuple[int, int, int]]) -> None:
    """`counts`: (batch, asked, claimed)."""
    batch_nos, asked, claimed = zip(*counts, strict=True)
    await conn.execute(_Q["count_claimed"], model, batch_nos, asked, claimed)


async def start_batches(conn: Connection, batch_nos: Sequence[int], now: datetime) -> None:
    await conn.execute(_Q["start_batches"], batch_nos, now)


async def unstartable_batches(conn: Connection, batch_nos: Sequence[int], min_role: Role, now: datetime) -> set[int]:
    roles = [role.value for role in Role if role >= min_role]
    return {row["no"] for row in await conn.fetch(_Q["unstartable_batches"], batch_nos, now, roles)}
