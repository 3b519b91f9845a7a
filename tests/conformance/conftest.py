"""A small deployment without a front door."""

from tests.domain import own_world, shared_database, world

__all__ = ["own_world", "shared_database", "world"]
