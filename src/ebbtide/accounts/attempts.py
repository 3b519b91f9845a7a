"""Attempts to sign in, counted in the database over all processes: by name, by client address, by account.

They are counted before anything is checked, so that attempts made at once cannot outrun the count.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
from datetime import datetime, timedelta
from typing import Final

from ebbtide.accounts import sessions_store as store
from ebbtide.errors import LimitReached
from ebbtide.storage.pool import Database

WITHIN: Final = timedelta(minutes=15)
PER_NAME: Final = 10
PER_ADDRESS: Final = 50


def by_name(name: str) -> str:
    """The subject of a name; hashed, for people type passwords into the wrong field."""
    return f"name:{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def by_address(address: str) -> str:
    """The subject of a client address; of IPv6 the /64, which is what one client has to choose from."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return f"address:{hashlib.sha256(address.encode('utf-8', 'surrogatepass')).hexdigest()}"
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
        parsed = ipaddress.ip_network((int(parsed), 64), strict=False).network_address
    return f"address:{parsed}"


async def count_attempt(database: Database, subject: str, allowed: int, now: datetime) -> None:
    """One more attempt of the subject. Raises LimitReached once there were more than `allowed` in its time."""
    async with database.transaction() as conn:
        tries, until = await store.count_attempt(conn, subject, now, now + WITHIN)
    if tries > allowed:
        seconds = max(1, math.ceil((until - now).total_seconds()))
        raise LimitReached("Too many attempts: try again later", retry_after=seconds)
