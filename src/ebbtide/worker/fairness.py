"""Who gets the slots of a model, and from which batches. Pure.

Accounts: the one with the least recent service first. Within an account, the batches of the highest priority come
before all others; among those of one priority, slots alternate between the batch with the
nearest deadline (then the oldest) and the batch with the fewest requests left (then the oldest): nothing waits for
ever, and a small batch finishes in time proportional to its own size however big its neighbours are.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby

from ebbtide.batches.claim_store import Candidate

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Share:
    """One account's stand on a model, at one worker.

    `in_flight` requests run here now and `waiting` are claimed and not started; `queued` may be claimed;
    `service` is its recent batch time in seconds; `cap` is its role's, `most` what of that others leave it here.
    """

    account_id: str
    in_flight: int
    waiting: int
    queued: int
    service: float
    cap: int
    most: int

    @property
    def appetite(self) -> int:
        """How many slots it could use if nobody else held any."""
        return min(self.in_flight + self.waiting + self.queued, self.cap)

    @property
    def demand(self) -> int:
        return min(self.appetite, self.most)


def allot(shares: Sequence[Share], slots: int, expected_seconds: float) -> dict[str, int]:
    """How many slots each account should hold: one by one, to whom has been served least so far.

    A slot counts as `expected_seconds` of service to come. The sum never exceeds `slots`.
    """
    demand = {share.account_id: share.demand for share in shares}
    heap = [(share.service, share.account_id) for share in shares if share.demand > 0]
    heapq.heapify(heap)
    allotted = {share.account_id: 0 for share in shares}
    for _ in range(slots):
        if not heap:
            break
        service, account = heapq.heappop(heap)
        allotted[account] += 1
        if allotted[account] < demand[account]:
            heapq.heappush(heap, (service + expected_seconds, account))
    return allotted


def grant(shares: Sequence[Share], allotted: Mapping[str, int], slots: int) -> dict[str, int]:
    """The slots each account may use from now on: what it was allotted, as far as running requests leave room.

    Nothing that runs is stopped: an account above its allotment only shrinks as its requests finish, and what it
    still occupies is not given to anybody else. The sum of what may be in flight never exceeds `slots`, unless that
    much runs already.
    """
    free = slots - sum(share.in_flight for share in shares)
    limits = {}
    for share in sorted(shares, key=lambda s: (s.service, s.account_id)):
        wanted = allotted[share.account_id]
        if wanted <= share.in_flight:
            limits[share.account_id] = wanted
            continue
        given = max(0, min(wanted - share.in_flight, free))
        free -= given
        limits[share.account_id] = share.in_flight + given
    return limits


def candidates_for_probe(candidates: Sequence[Candidate], turn: int) -> list[Candidate]:
    """One request of the batch whose turn it is to show whether its model is well: one after the other, each probe.

    The same rules as ever would ask one batch each time, and one whose requests only fail, or say nothing of the
    model's health, would hold up all others.
    """
    in_order = sorted(candidates, key=lambda c: c.batch_no)
    return [replace(chosen, queued=1) for chosen in in_order[turn % len(in_order) :][:1]] if in_order else []


def choose_batches(candidates: Sequence[Candidate], count: int) -> list[tuple[int, int]]:
    """(batch, how many) for `count` items of one account, in the order in which they should start."""
    chosen: list[tuple[int, int]] = []
    for _, equals in groupby(sorted(candidates, key=_rank), key=_rank):
        taken = _choose_among(list(equals), count)
        chosen += taken
        count -= sum(items for _, items in taken)
        if count <= 0:
            break
    return chosen


def _rank(candidate: Candidate) -> int:
    return -candidate.priority


def _choose_among(candidates: Sequence[Candidate], count: int) -> list[tuple[int, int]]:
    """The same for batches of one priority."""
    if len(candidates) == 1:
        return [(candidates[0].batch_no, min(count, candidates[0].queued))]
    left = {c.batch_no: c.queued for c in candidates}
    urgent = iter(sorted(candidates, key=lambda c: (c.expires_at or _NEVER, c.batch_no)))
    small = iter(sorted(candidates, key=lambda c: (c.queued, c.batch_no)))
    heads = [next(urgent), next(small)]
    turns = [urgent, small]
    taken: dict[int, int] = {}
    for turn in range(min(count, sum(left.values()))):
        side = turn % 2
        while left[heads[side].batch_no] == 0:
            heads[side] = next(turns[side])
        batch_no = heads[side].batch_no
        left[batch_no] -= 1
        taken[batch_no] = taken.get(batch_no, 0) + 1
    return list(taken.items())
