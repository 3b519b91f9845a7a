"""How fast things go at this worker: mean time of a request by model, and of a claim. Moving averages, in seconds."""

from __future__ import annotations

from typing import Final

from ebbtide.batches.rests import ModelState

_WEIGHT: Final = 0.05
_FIRST_MEAN: Final = 1.0
_SETTLE_SECONDS: Final = 0.02  # from an answer to the moment its claim round can begin


class Pace:
    """Learns from what happened. `unwell` are the models that were not well when they were last looked at."""

    def __init__(self) -> None:
        self._means: dict[str, float] = {}
        self.unwell: set[str] = set()
        self._claim = 0.02

    def mean_seconds(self, model: str) -> float:
        return self._means.get(model, _FIRST_MEAN)

    @property
    def round_trip_seconds(self) -> float:
        return self._claim + _SETTLE_SECONDS

    def note_state(self, model: str, state: ModelState) -> None:
        if state.is_well:
            self.unwell.discard(model)
        else:
            self.unwell.add(model)

    def ran(self, model: str, seconds: float) -> None:
        """A request took that long."""
        mean = self._means.get(model, seconds)
        self._means[model] = mean + _WEIGHT * (seconds - mean)

    def claimed(self, seconds: float) -> None:
        """A claim round took that long."""
        self._claim += _WEIGHT * (seconds - self._claim)
