"""The four roles, in order: each may do what the ones before it may."""

from __future__ import annotations

from enum import Enum
from functools import total_ordering


@total_ordering
class Role(Enum):
    """How much an account may do: free < pro < internal < admin."""

    FREE = "free"
    PRO = "pro"
    INTERNAL = "internal"
    ADMIN = "admin"

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Role):
            return NotImplemented
        return _RANK[self] < _RANK[other]


_RANK = {role: rank for rank, role in enumerate(Role)}
