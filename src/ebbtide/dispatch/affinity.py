"""Which route a caller's conversation with a model goes to: the one it went to before, for its prompt cache's sake.

Remembered in this process for some minutes after the last request; forgotten when the route fails. Pure.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

_CAPACITY: Final = 100_000


class Affinity:
    """Route ids by caller and model, the least recently used dropped first. Times in seconds."""

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        self._routes: OrderedDict[tuple[str, str], tuple[str, float]] = OrderedDict()

    def find(self, caller: str, model_id: str, now: float) -> str | None:
        found = self._routes.get((caller, model_id))
        if found is None:
            return None
        if found[1] <= now:
            del self._routes[caller, model_id]
            return None
        return found[0]

    def keep(self, caller: str, model_id: str, route_id: str, until: float) -> None:
        self._routes[caller, model_id] = (route_id, until)
        self._routes.move_to_end((caller, model_id))
        if len(self._routes) > self._capacity:
            self._routes.popitem(last=False)

    def drop(self, caller: str, model_id: str, route_id: str) -> None:
        """Forget the route, if it is the one that is remembered."""
        found = self._routes.get((caller, model_id))
        if found is not None and found[0] == route_id:
            del self._routes[caller, model_id]
