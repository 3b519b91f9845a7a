"""How much of a model batch work may use, and how much of that is this worker's. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from ebbtide.batches.claim_store import HeldSlots

_MOST_PER_SLOT: Final = 4


def room_here(cap: int, held: Sequence[HeldSlots], worker_no: int) -> int:
    """The most slots this worker may hold of a model whose deployment-wide cap is `cap`.

    What other workers hold is theirs. When one of them wants more than it has, nobody keeps more than an equal part.
    """
    others = [slots for slots in held if slots.worker_no != worker_no]
    room = cap - sum(slots.slots for slots in others)
    if any(slots.wants for slots in others):
        takers = {slots.worker_no for slots in others} | {worker_no}
        room = min(room, math.ceil(cap / len(takers)))
    return max(room, 0)


def prefetch(limit: int, mean_seconds: float, round_trip_seconds: float) -> int:
    """How many items beyond its slots a worker holds ready, so that a freed slot is busy again at once.

    Twice as many as finish while a claim is under way, since the next claim begins when half of them are gone; one at
    least, and never more than a few times the slots themselves.
    """
    if limit == 0:
        return 0
    return max(1, min(_MOST_PER_SLOT * limit, math.ceil(2 * limit * round_trip_seconds / max(mean_seconds, 1e-3))))
