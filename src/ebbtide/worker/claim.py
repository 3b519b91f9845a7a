"""One claim round for one model: see what is free, divide it fairly, take that many items, all under the model's lock.

The sum of all workers' slots never exceeds the cap; what a worker holds beyond its slots waits in its lanes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ebbtide.accounts.roles import Role
from ebbtide.batches import claim_store as store
from ebbtide.batches.claim_store import Candidate, HeldSlots
from ebbtide.batches.end_store import fail_batch
from ebbtide.batches.model import DUTY_CHANNEL, WORK_CHANNEL
from ebbtide.settings.snapshot import Settings
from ebbtide.storage.notify import notify
from ebbtide.storage.pool import Connection, Database
from ebbtide.worker.fairness import Share, allot, choose_batches, grant
from ebbtide.worker.lanes import Lanes, Work
from ebbtide.worker.pace import Pace
from ebbtide.worker.room import prefetch, room_here

CANDIDATES_LIVE: Final = 0.25  # seconds
OWNER_UNAUTHORIZED: Final = "owner_unauthorized"
_UNAUTHORIZED_MESSAGE: Final = "The API key that created the batch, or its account, is no longer valid"
_UNLIMITED: Final = 1 << 30


class LeaseLost(Exception):
    """This worker's lease has lapsed; what it held belongs to others now."""


@dataclass(slots=True)
class _Waiting:
    """The batches that wait for a model, as read a moment ago; counts go down as items are taken."""

    read_at: float = float("-inf")
    candidates: list[Candidate] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Round:
    """What one round works with: snapshots, so that it decides from one moment."""

    model: str
    worker_no: int
    settings: Settings
    now: datetime


class Claimer:
    """Runs claim rounds for one worker and hands what it claimed to the lanes."""

    def __init__(self, database: Database, lanes: Lanes, pace: Pace) -> None:
        self._database = database
        self._lanes = lanes
        self._pace = pace
        self._waiting: dict[str, _Waiting] = {}

    def look_again(self) -> None:
        """Something changed in the queues: read the candidates afresh."""
        self._waiting.clear()

    async def claim(self, work_round: Round) -> int:
        """Claim for one model; returns how many items. Raises LeaseLost, Unavailable."""
        began = time.monotonic()
        candidates = await self._candidates(work_round)
        if not candidates and not self._lanes.of_model(work_round.model):
            return 0
        era = self._lanes.era
        async with self._database.transaction() as conn:
            limits, works = await self._claim(conn, work_round, candidates)
        if self._lanes.era != era:
            return 0  # the lease was lost on the way: what was claimed is taken over with the rest
        self._lanes.add(works)
        for account_id, limit in limits.items():
            self._lanes.lane(work_round.model, account_id).limit = limit
            self._lanes.pump(work_round.model, account_id)
        self._lanes.forget_empty(work_round.model)
        self._pace.claimed(time.monotonic() - began)
        return len(works)

    async def _candidates(self, work_round: Round) -> list[Candidate]:
        """Batches that may be claimed from; those whose creator may no longer act are failed on the way."""
        waiting = self._waiting.setdefault(work_round.model, _Waiting())
        if time.monotonic() - waiting.read_at > CANDIDATES_LIVE:
            async with self._database.connection() as conn:
                found = await store.list_candidates(conn, work_round.model, work_round.now)
            await self._fail_unauthorized([c.batch_no for c in found if not c.creator_valid], work_round.now)
            min_role = Role(work_round.settings.batch_min_role)
            waiting.candidates = [c for c in found if c.creator_valid and c.role >= min_role]
            waiting.read_at = time.monotonic()
        return waiting.candidates if work_round.settings.batch_enabled else []

    async def _fail_unauthorized(self, batch_nos: Sequence[int], now: datetime) -> None:
        for batch_no in batch_nos:
            async with self._database.transaction() as conn:
                if await fail_batch(conn, batch_no, OWNER_UNAUTHORIZED, _UNAUTHORIZED_MESSAGE, now):
                    await notify(conn, DUTY_CHANNEL)

    async def _claim(
        self, conn: Connection, work_round: Round, candidates: list[Candidate]
    ) -> tuple[dict[str, int], list[Work]]:
        model = work_round.model
        if not await store.assert_alive(conn, work_round.worker_no):
            raise LeaseLost
        await store.lock_model(conn, model)
        accounts = sorted({c.account_id for c in candidates} | set(self._lanes.of_model(model)))
        service = await store.lock_user_states(conn, accounts, work_round.now)
        held = await store.list_slots(conn, model)
        elsewhere = await store.slots_elsewhere(conn, work_round.worker_no, model)
        # From here to the next await nothing moves: the lanes are read, and what shrinks shrinks at once.
        shares = self._shares(work_round, candidates, _Usage(elsewhere, service))
        room = room_here(_cap(work_round), held, work_round.worker_no)
        limits = grant(shares, allot(shares, room, self._pace.mean_seconds(model)), room)
        takes = self._plan(model, shares, limits, candidates)
        for account_id, limit in limits.items():
            lane = self._lanes.lane(model, account_id)
            lane.limit = min(lane.limit, limit)
        works = await self._take(conn, work_round, takes, candidates) if takes else []
        kept = await self._record_slots(conn, work_round, shares, limits, works)
        if _gives_up(held, work_round.worker_no, kept):
            await notify(conn, WORK_CHANNEL, model)
        return limits, works

    def _shares(self, work_round: Round, candidates: Sequence[Candidate], usage: _Usage) -> list[Share]:
        queued: Counter[str] = Counter()
        roles: dict[str, Role] = {}
        for candidate in candidates:
            queued[candidate.account_id] += candidate.queued
            roles[candidate.account_id] = candidate.role
        lanes = self._lanes.of_model(work_round.model)
        shares = []
        for account_id in usage.service:
            lane = lanes.get(account_id)
            role = roles.get(account_id) or (lane.waiting[0].role if lane and lane.waiting else None)
            cap = work_round.settings.batch_role_concurrency(role.value) if role else 0
            shares.append(
                Share(
                    account_id=account_id,
                    in_flight=lane.in_flight if lane else 0,
                    waiting=len(lane.waiting) if lane else 0,
                    queued=queued[account_id],
                    service=usage.service[account_id],
                    most=max(cap - usage.elsewhere.get(account_id, 0), 0) if cap else _UNLIMITED,
                )
            )
        return shares

    def _plan(
        self, model: str, shares: Sequence[Share], limits: dict[str, int], candidates: Sequence[Candidate]
    ) -> list[tuple[int, int]]:
        """(batch, how many) to take, so that each lane fills its slots and keeps a few items ready."""
        takes = []
        for share in shares:
            limit = limits[share.account_id]
            ready = prefetch(limit, self._pace.mean_seconds(model), self._pace.round_trip_seconds)
            need = limit + ready - share.in_flight - share.waiting
            if need > 0 and share.queued:
                takes += choose_batches([c for c in candidates if c.account_id == share.account_id], need)
        return takes

    async def _take(
        self, conn: Connection, work_round: Round, takes: list[tuple[int, int]], candidates: list[Candidate]
    ) -> list[Work]:
        locked = await store.lock_claimable(conn, sorted(no for no, _ in takes), work_round.now)
        batches = {batch.no: batch for batch in locked}
        asked = [(no, count) for no, count in takes if no in batches]
        items = (
            await store.claim_items(conn, work_round.model, asked, work_round.worker_no, work_round.now)
            if asked
            else []
        )
        claimed = Counter(item.batch_no for item in items)
        if asked:
            await store.count_claimed(conn, work_round.model, [(no, count, claimed[no]) for no, count in asked])
            new = [no for no in claimed if not batches[no].has_begun]
            if new:
                await store.start_batches(conn, new, work_round.now)
        self._note_taken(work_round.model, dict(takes), claimed)
        order = {no: place for place, (no, _) in enumerate(asked)}
        items.sort(key=lambda item: (order[item.batch_no], item.id))
        roles = {c.batch_no: c.role for c in candidates}
        return [Work(item, batches[item.batch_no], work_round.model, roles[item.batch_no]) for item in items]

    def _note_taken(self, model: str, asked: dict[int, int], claimed: Counter[int]) -> None:
        """Keep the candidates true until they are read again: a batch that gave less than asked has no more."""
        waiting = self._waiting.setdefault(model, _Waiting())
        waiting.candidates = [
            Candidate(c.batch_no, c.account_id, c.expires_at, c.queued - claimed[c.batch_no], c.role, c.creator_valid)
            for c in waiting.candidates
            if c.queued > claimed[c.batch_no] and claimed[c.batch_no] >= asked.get(c.batch_no, 0)
        ]

    async def _record_slots(
        self,
        conn: Connection,
        work_round: Round,
        shares: Sequence[Share],
        limits: dict[str, int],
        works: Sequence[Work],
    ) -> int:
        """Tell the others what this worker holds, and where it wanted more; slots without items are not kept.

        Returns how many slots it keeps.
        """
        claimed = Counter(work.batch.account_id for work in works)
        rows = []
        for share in shares:
            lane = self._lanes.lane(work_round.model, share.account_id)
            useful = lane.in_flight + len(lane.waiting) + claimed[share.account_id]
            limits[share.account_id] = min(limits[share.account_id], useful)
            held = max(limits[share.account_id], lane.in_flight)
            rows.append((share.account_id, held, max(share.demand - held, 0)))
        await store.set_slots(conn, work_round.model, work_round.worker_no, rows)
        return sum(kept for _, kept, _ in rows)


@dataclass(frozen=True, slots=True)
class _Usage:
    """The slots that this worker holds for accounts on other models, and the accounts' recent service."""

    elsewhere: dict[str, int]
    service: dict[str, float]


def _gives_up(held: Sequence[HeldSlots], worker_no: int, kept: int) -> bool:
    """Whether slots become free that another worker waits for: it need not find that out by polling."""
    mine = sum(slots.slots for slots in held if slots.worker_no == worker_no)
    return kept < mine and any(slots.wants for slots in held if slots.worker_no != worker_no)


def _cap(work_round: Round) -> int:
    return work_round.settings.batch_model_concurrency if work_round.settings.batch_enabled else 0
