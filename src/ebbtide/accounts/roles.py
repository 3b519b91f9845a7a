"""The four roles, in order: each may do what the ones before it may."""

from __future__ import annotations

from enum import Enum


class Role(Enum):
    """How much an account may do: free < pro < internal < admin."""

    FREE = "free"
    PRO = "pro"
    INTERNAL = "internal"
    ADMIN = "admin"

    rank: int

    def __init__(self, _: str) -> None:
        self.rank = len(type(self).__members__)

    # Written out: every request of every batch is compared once.

    def __lt__(self, other: Role) -> bool:
        return self.rank < other.rank

    def __le__(self, other: Role) -> bool:
        return self.rank <= other.rank

    def __gt__(self, other: Role) -> bool:
        return self.rank > other.rank

    def __ge__(self, other: Role) -> bool:
        return self.rank >= other.rank


def refusal(role: Role, deed: str, needed: Role) -> str:
    """What is told to whoever has `role`, tries to `deed` and would need another role."""
    higher = "" if needed is Role.ADMIN else " or higher"
    return f"Your role ({role.value}) may not {deed}; it takes the role {needed.value}{higher}"
