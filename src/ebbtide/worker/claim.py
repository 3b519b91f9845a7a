"""One claim round for one model: see what is free, divide it fairly, take that many items, all under the model's lock.

The sum of all workers' slots never exceeds the room; what a worker holds beyond its slots waits in its lanes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from ebbtide.accounts.quotas import limited_roles
from ebbtide.accounts.roles import Role
from ebbtide.batches import claim_store as store
from ebbtide.batches import standing_store, workers_store
from ebbtide.batches.claim_store import Candidate
from ebbtide.batches.end_store import fail_batch
from ebbtide.batches.model import DUTY_CHANNEL, WORK_CHANNEL
from ebbtide.batches.standing_store import UserState
from ebbtide.records import metrics
from ebbtide.storage.notify import notify
from ebbtide.storage.pool import Connection
from ebbtide.worker.context import WorkerContext
from ebbtide.worker.fairness import Share, allot, candidates_for_probe, choose_batches, grant
from ebbtide.worker.lanes import Lanes, Work
from ebbtide.worker.money import Holdings, Moment, look_for_money
from ebbtide.worker.pace import Pace
from ebbtide.worker.room import Room, Usage, gives_up, model_room, prefetch, room_here
from ebbtide.worker.take import Offer, Round, take_items

CANDIDATES_LIVE: Final = 0.25  # seconds
OWNER_UNAUTHORIZED: Final = "owner_unauthorized"
_UNAUTHORIZED_MESSAGE: Final = "The API key that created the batch, or its account, is no longer valid"
_UNLIMITED: Final = 1 << 30


class LeaseLost(Exception):
    """The lease of the worker numbered `worker_no` has lapsed; what it held belongs to others now."""

    def __init__(self, worker_no: int) -> None:
        super().__init__(worker_no)
        self.worker_no = worker_no


@dataclass(slots=True)
class _Waiting:
    """The batches that wait for a model, as read a moment ago; counts go down as items are taken."""

    read_at: float = float("-inf")
    candidates: list[Candidate] = field(default_factory=list)


@dataclass(slots=True)
class _Haul:
    """What a round claims, for the lanes as they were when it began."""

    generation: int
    works: list[Work] = field(default_factory=list)


class Claimer:
    """Runs claim rounds for one worker and hands what it claimed to the lanes."""

    def __init__(self, context: WorkerContext, lanes: Lanes, pace: Pace, holdings: Holdings) -> None:
        self._context = context
        self._lanes = lanes
        self._pace = pace
        self._holdings = holdings
        self._waiting: dict[str, _Waiting] = {}
        self._probes: Counter[str] = Counter()  # how many were claimed, by model

    def look_again(self) -> None:
        """Something changed in the queues: read the candidates afresh."""
        self._waiting.clear()

    async def claim(self, work_round: Round) -> int:
        """Claim for one model; returns how many items. Raises LeaseLost, Unavailable."""
        began = time.monotonic()
        candidates = await self._candidates(work_round)
        if not candidates and not self._lanes.of_model(work_round.model):
            return 0
        haul = _Haul(self._lanes.generation)
        try:
            async with self._context.database.transaction() as conn:
                limits = await self._claim(conn, work_round, candidates, haul)
        except BaseException:
            if self._lanes.generation == haul.generation:
                self._holdings.remove(haul.works)
            raise
        if self._lanes.generation != haul.generation:
            return 0  # the lease was lost on the way: what was claimed is taken over with the rest
        metrics.CLAIMED.labels(work_round.model).inc(len(haul.works))
        self._lanes.add(haul.works)
        self._lanes.limits_set(work_round.model)
        for account_id, limit in limits.items():
            self._lanes.lane(work_round.model, account_id).limit = limit
            self._lanes.start_waiting(work_round.model, account_id)
        self._lanes.forget_empty(work_round.model)
        self._pace.claimed(time.monotonic() - began)
        return len(haul.works)

    # Who waits ------------------------------------------------------------------------------------------------------

    async def _candidates(self, work_round: Round) -> list[Candidate]:
        """Batches that may be claimed from; those whose creator may no longer act are failed on the way."""
        waiting = self._waiting.setdefault(work_round.model, _Waiting())
        if time.monotonic() - waiting.read_at > CANDIDATES_LIVE:
            async with self._context.database.connection() as conn:
                found = await store.list_candidates(
                    conn, work_round.model, work_round.now, limited_roles(work_round.settings)
                )
            await self._fail_unauthorized([c.batch_no for c in found if not c.creator_valid], work_round.now)
            min_role = Role(work_round.settings.batch_min_role)
            waiting.candidates = [c for c in found if c.creator_valid and c.role >= min_role]
            waiting.read_at = time.monotonic()
        return waiting.candidates if work_round.settings.batch_enabled else []

    async def _fail_unauthorized(self, batch_nos: Sequence[int], now: datetime) -> None:
        for batch_no in batch_nos:
            async with self._context.database.transaction() as conn:
                if await fail_batch(conn, batch_no, OWNER_UNAUTHORIZED, _UNAUTHORIZED_MESSAGE, now):
                    await notify(conn, DUTY_CHANNEL)

    # The round ------------------------------------------------------------------------------------------------------

    async def _claim(
        self, conn: Connection, work_round: Round, candidates: list[Candidate], haul: _Haul
    ) -> dict[str, int]:
        """The limits by account; fills `haul`, whose works are held from then on.

        They are held before the accounts' locks are released, so that the next claim, of any model, counts them.
        """
        model, worker_no = work_round.model, work_round.worker_no
        offer, usage = await self._look(conn, work_round, candidates)
        room = await self._room(conn, work_round)
        if room.is_probe:
            offer = replace(offer, candidates=candidates_for_probe(offer.candidates, self._probes[model]))
        # From here to the next await nothing moves: the lanes are read, and what shrinks shrinks at once.
        shares = self._shares(work_round, offer.candidates, usage)
        routes = self._room_of_routes(model)
        here = min(room_here(room.slots, usage.held, worker_no), routes)
        limits = grant(shares, allot(shares, here, self._pace.mean_seconds(model)), here)
        takes = self._plan(model, shares, limits, offer.candidates)
        self._shrink(model, limits)
        if takes:
            await self._take(conn, work_round, takes, offer, haul)
            self._probes[model] += room.is_probe
        wanting = shares if sum(limits.values()) < routes else [replace(share, cap=0) for share in shares]
        if gives_up(usage.held, worker_no, await self._record_slots(conn, work_round, wanting, limits, haul.works)):
            await notify(conn, WORK_CHANNEL)
        await self._holdings.tell(conn, worker_no, usage.states, offer.money.limited)
        await standing_store.set_at_cap(conn, _news_of_caps(shares, limits, usage.states))
        return limits

    async def _look(self, conn: Connection, work_round: Round, candidates: list[Candidate]) -> tuple[Offer, Usage]:
        """What may be claimed from and who holds what, under the model's and the accounts' locks from here on.

        Raises LeaseLost.
        """
        model, moment = work_round.model, Moment(work_round.now, work_round.settings)
        if not await workers_store.assert_alive(conn, work_round.worker_no):
            raise LeaseLost(work_round.worker_no)
        await store.lock_model(conn, model)
        accounts = sorted({c.account_id for c in candidates} | set(self._lanes.of_model(model)))
        states = await standing_store.lock_user_states(conn, accounts, work_round.now)
        offer = Offer(*await look_for_money(conn, candidates, self._holdings, work_round.worker_no, moment))
        held = await workers_store.list_slots(conn, model)
        return offer, Usage(held, await workers_store.account_slots(conn, accounts, model), states)

    def _shrink(self, model: str, limits: dict[str, int]) -> None:
        for account_id, limit in limits.items():
            lane = self._lanes.lane(model, account_id)
            lane.limit = min(lane.limit, limit)

    async def _take(
        self, conn: Connection, work_round: Round, takes: list[tuple[int, int]], offer: Offer, haul: _Haul
    ) -> None:
        taken = await take_items(conn, work_round, self._context.catalog.current, takes, offer)
        if self._lanes.generation == haul.generation:
            haul.works.extend(taken)
            self._holdings.add(haul.works)
        self._note_taken(work_round.model, dict(takes), Counter(work.batch.no for work in haul.works))

    async def _room(self, conn: Connection, work_round: Round) -> Room:
        """The model's room now; why there is none is written down when that changes."""
        model = work_round.model
        standing = await standing_store.read_room(conn, model, self._context.process)
        self._pace.note_state(model, standing.state)
        if not self._may_run(model):
            room = Room(0, "no_route_up")
        else:
            own = self._context.dispatcher.in_flight.get((model, "interactive"), 0)
            room = model_room(standing, work_round.settings, own, work_round.now)
        if room.reason != standing.room_reason:
            await standing_store.set_room_reason(conn, model, room.reason)
        return room

    def _may_run(self, model: str) -> bool:
        """Whether items of the model may start here; what cannot be served any more starts too, to fail in words."""
        catalog = self._context.catalog.current
        known = catalog.resolve(model)
        if known is None:
            return catalog.is_settled
        return not known.has_batch_route or self._context.dispatcher.is_up(known, "batch")

    def _room_of_routes(self, model: str) -> int:
        """How many requests of the model its routes take here at once: more would be started to wait for room."""
        known = self._context.catalog.current.resolve(model)
        room = None if known is None or not known.has_batch_route else self._context.dispatcher.room(known, "batch")
        return _UNLIMITED if room is None else room

    def _shares(self, work_round: Round, candidates: Sequence[Candidate], usage: Usage) -> list[Share]:
        queued: Counter[str] = Counter()
        for candidate in candidates:
            queued[candidate.account_id] += candidate.queued
        lanes = self._lanes.of_model(work_round.model)
        shares = []
        for account_id, state in usage.states.items():
            lane = lanes.get(account_id)
            role_cap = work_round.settings.batch_role_concurrency(state.role.value)
            cap = (role_cap if state.own_cap is None else state.own_cap) or _UNLIMITED
            used = usage.elsewhere.get(account_id, 0) + usage.by_others(account_id, work_round.worker_no)
            shares.append(
                Share(
                    account_id=account_id,
                    in_flight=lane.in_flight if lane else 0,
                    waiting=len(lane.waiting) if lane else 0,
                    queued=queued[account_id],
                    service=state.service,
                    cap=cap,
                    most=max(cap - used, 0),
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

    def _note_taken(self, model: str, asked: dict[int, int], claimed: Counter[int]) -> None:
        """Keep the candidates true until they are read again: a batch that gave less than asked has no more."""
        waiting = self._waiting.setdefault(model, _Waiting())
        waiting.candidates = [
            replace(c, queued=c.queued - claimed[c.batch_no])
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
            rows.append((share.account_id, held, max(share.appetite - held, 0)))
        await workers_store.set_slots(conn, work_round.model, work_round.worker_no, rows)
        return sum(kept for _, kept, _ in rows)


def _news_of_caps(shares: Sequence[Share], limits: dict[str, int], states: dict[str, UserState]) -> dict[str, bool]:
    """Accounts that their cap holds back since now, or no longer: who has all it may and could use more."""
    held_back = {
        s.account_id: limits[s.account_id] >= s.most and s.in_flight + s.waiting + s.queued > s.most for s in shares
    }
    return {account: at_cap for account, at_cap in held_back.items() if at_cap != states[account].at_cap}
