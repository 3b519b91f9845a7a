"""How much of a model batch work may use, and how much of that is this worker's. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from ebbtide.batches.standing_store import ModelStanding, UserState
from ebbtide.batches.workers_store import HeldSlots
from ebbtide.settings.snapshot import Settings

RoomReason = Literal["model_cap", "yielding", "no_route_up"]


@dataclass(frozen=True, slots=True)
class Room:
    """How many batch requests of a model may run at once across the deployment, and why none more, where it is 0.

    `is_probe`: a rest is over, and one request may show whether the model is well again.
    """

    slots: int
    reason: RoomReason | None = None
    is_probe: bool = False


def model_room(standing: ModelStanding, settings: Settings, own_interactive: int, now: datetime) -> Room:
    """The model's cap, less what interactive requests take of it; nothing while it rests, one as a probe after that.

    `own_interactive`: requests in flight in this process, which the shared load leaves out.
    """
    cap = settings.batch_model_concurrency if standing.cap is None else standing.cap
    if not settings.batch_enabled or standing.state.rests(now):
        return Room(0)
    slots = cap
    reason: RoomReason | None = "model_cap" if cap == 0 else None
    if settings.batch_yield_to_interactive:
        shared = standing.interactive if settings.batch_shared_interactive_load else 0
        taken = own_interactive + shared + settings.batch_interactive_reserve
        slots = max(cap - taken, min(settings.batch_min_share, cap))
        reason = "yielding" if slots == 0 and cap else reason
    if standing.state.probes(now):
        return Room(min(slots, 1), reason, is_probe=True)
    return Room(slots, reason)


_MOST_PER_SLOT: Final = 2


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


@dataclass(frozen=True, slots=True)
class Usage:
    """Slots of the model by holder, of the accounts on other models, and the accounts' states."""

    held: Sequence[HeldSlots]
    elsewhere: dict[str, int]
    states: dict[str, UserState]

    def by_others(self, account_id: str, worker_no: int) -> int:
        return sum(s.slots for s in self.held if s.account_id == account_id and s.worker_no != worker_no)


def gives_up(held: Sequence[HeldSlots], worker_no: int, kept: int) -> bool:
    """Whether slots become free that another worker waits for: it need not find that out by polling."""
    mine = sum(slots.slots for slots in held if slots.worker_no == worker_no)
    return kept < mine and any(slots.wants for slots in held if slots.worker_no != worker_no)
