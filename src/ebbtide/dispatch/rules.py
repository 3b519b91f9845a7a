"""The rules of routing that settings and administrators make. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from ebbtide.dispatch.breaker import LONGEST, BreakerRules
from ebbtide.settings.snapshot import Settings


@dataclass(frozen=True, slots=True)
class Rules:
    """What settings and administrators say about routing. `affinity_seconds` 0: conversations stay nowhere.

    `off` are the routes out of use, by model and route id: calls that wait for room go there no more either.
    """

    breaker: BreakerRules = field(default_factory=BreakerRules)
    affinity_seconds: float = 300.0
    off: frozenset[tuple[str, str]] = frozenset()


def rules_in_force(settings: Settings, off: frozenset[tuple[str, str]]) -> Rules:
    """The rules of the moment. Cheap: every call asks for them several times."""
    breaker = (settings.routing_breaker_failures, settings.routing_breaker_seconds)
    return _rules(breaker, settings.routing_affinity_minutes, off)


@lru_cache(maxsize=1)
def _rules(breaker: tuple[int, int], affinity_minutes: int, off: frozenset[tuple[str, str]]) -> Rules:
    failures, seconds = breaker
    rules = BreakerRules(failures, float(seconds), max(float(seconds), LONGEST))
    return Rules(rules, affinity_minutes * 60.0, off)
