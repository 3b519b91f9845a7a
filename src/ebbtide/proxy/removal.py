"""What an account that is being removed for good holds for interactive requests: waited for, then removed."""

from __future__ import annotations

from ebbtide.accounts.purges import Step
from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.proxy", "removal.sql")


async def remove_holds(conn: Connection, account_id: str) -> Step:
    """Done when it found nothing left. Requests of an account without a cap hold no slots: they are not waited for."""
    if await conn.fetchval(_Q["runs_requests"], account_id):
        return Step(waits_for=("interactive_requests",))
    tags = [await conn.execute(_Q[name], account_id) for name in ("drop_account_slots", "drop_account_reservations")]
    return Step(sum(int(tag.rpartition(" ")[2]) for tag in tags))
