"""Changing a route while the gateway runs: switched off and on, and its weight; in force everywhere within seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ebbtide.catalog.policies import POLICIES_CHANNEL
from ebbtide.errors import InvalidRequest
from ebbtide.records.audit import Deed, add_audit
from ebbtide.storage.notify import notify
from ebbtide.storage.pool import Connection, Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.catalog", "policies.sql")
MOST_WEIGHT: Final = 1e9


@dataclass(frozen=True, slots=True)
class Override:
    """What differs from the configuration; None: nothing does. `enabled` False: no new call of anyone's goes there."""

    enabled: bool | None
    weight: float | None


@dataclass(frozen=True, slots=True)
class Change:
    """What is to change of a route; what is not in `given` (names of Override) stays. None in it is as configured."""

    model_id: str
    route_id: str
    given: dict[str, bool | float | None]


async def change_route(database: Database, change: Change, actor: str, now: datetime) -> None:
    """Store a change, with its row in the audit log. Raises InvalidRequest for a weight that is none."""
    name = (change.model_id, change.route_id)
    async with database.transaction() as conn:
        await conn.execute(_Q["lock_policies"])
        row = await conn.fetchrow(_Q["find_override"], *name)
        before = {"enabled": row["enabled"], "weight": row["weight"]} if row else {"enabled": None, "weight": None}
        after = before | change.given
        _check_weight(after["weight"])
        if after == before:
            return
        await _store(conn, name, Override(**after), (now, actor))
        changed = [field for field in after if after[field] != before[field]]
        detail = {"old": {f: before[f] for f in changed}, "new": {f: after[f] for f in changed}}
        await add_audit(conn, Deed(actor, "route.change", "/".join(name), detail=detail), now)
        await notify(conn, POLICIES_CHANNEL)


async def _store(conn: Connection, name: tuple[str, str], override: Override, when: tuple[datetime, str]) -> None:
    if override == Override(None, None):
        await conn.execute(_Q["remove_override"], *name)
    else:
        await conn.execute(_Q["put_override"], *name, override.enabled, override.weight, *when)


def _check_weight(weight: float | None) -> None:
    if weight is not None and not (math.isfinite(weight) and 0 <= weight <= MOST_WEIGHT):
        raise InvalidRequest(f"weight must be a number from 0 to {MOST_WEIGHT:,.0f}", param="weight")
