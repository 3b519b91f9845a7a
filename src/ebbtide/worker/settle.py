"""Recording what became of items: collected for a few milliseconds, then written in one transaction.

An outcome becomes a verb here and nowhere else. Attempts with their bills, answers, item states, counters and spend
commit together; a row whose claim no longer stands changes nothing and counts nowhere.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Final

import structlog

from ebbtide.batches import settle_store, standing_store
from ebbtide.batches.closing import finish_batches
from ebbtide.batches.model import DUTY_CHANNEL
from ebbtide.batches.rests import ModelState, Sign, after_signs
from ebbtide.errors import Unavailable
from ebbtide.records import metrics
from ebbtide.records.spend import Charge, add_charges
from ebbtide.storage.notify import notify
from ebbtide.storage.pool import Connection
from ebbtide.worker.context import WorkerContext
from ebbtide.worker.lanes import Work
from ebbtide.worker.money import Holdings
from ebbtide.worker.pace import Pace
from ebbtide.worker.segments import Segment, pack_answers
from ebbtide.worker.verdicts import UNWELL, ZERO, FinishedItem, Verdict, judge, sign, unstorable, within_storage

log = structlog.get_logger(__name__)

FLUSH_ITEMS: Final = 512
FLUSH_SECONDS: Final = 0.004
FULL_ITEMS: Final = 2_048
NEVER: Final = datetime.max.replace(tzinfo=UTC)
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 5.0


class Settler:
    """Takes outcomes and writes them, in the order in which they came."""

    def __init__(self, context: WorkerContext, pace: Pace, holdings: Holdings, rng: random.Random) -> None:
        self._database = context.database
        self._clock = context.clock
        self._settings = context.settings
        self._pace = pace
        self._holdings = holdings
        self._rng = rng
        self._done: deque[FinishedItem] = deque()
        self._writing: list[FinishedItem] = []
        self._arrived = asyncio.Event()
        self._generation = 0  # goes up each time everything is forgotten
        self.worker_no = 0

    @property
    def waiting(self) -> int:
        """How many outcomes are not written yet."""
        return len(self._done) + len(self._writing)

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be written that nothing more should be claimed."""
        return len(self._done) >= FULL_ITEMS

    def put(self, done: FinishedItem) -> None:
        self._done.append(done)
        self._arrived.set()

    def hand_back(self, works: Iterable[Work]) -> None:
        """These were not begun, and go back to the queue."""
        for work in works:
            self.put(FinishedItem(work, None, None, ""))

    def forget(self) -> None:
        """Drop what is not written: the lease lapsed, and the items are somebody else's."""
        self._generation += 1
        self._done.clear()
        self._writing = []

    async def run(self, after_flush: Callable[[], None]) -> None:
        """Write outcomes as they come, until cancelled."""
        while True:
            await self._arrived.wait()
            if len(self._done) < FLUSH_ITEMS:
                await asyncio.sleep(FLUSH_SECONDS)
            await self.flush()
            after_flush()

    async def flush(self) -> None:
        """Write everything that is there now; waits while the database is away."""
        self._arrived.clear()
        while self._writing or self._done:
            while self._done and len(self._writing) < FLUSH_ITEMS:
                self._writing.append(self._done.popleft())
            await self._settle(self._writing)
            self._writing = []

    async def _settle(self, done: Sequence[FinishedItem]) -> None:
        pause, generation = _FIRST_PAUSE, self._generation
        while generation == self._generation:
            try:
                await self._write(done)
                return
            except Unavailable as error:
                log.warning("settle_waits", items=len(done), reason=error.message)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            except Exception as error:  # noqa: BLE001  one row that cannot be stored must not hold up the others
                await self._isolate(done, error)
                return

    async def _isolate(self, done: Sequence[FinishedItem], error: Exception) -> None:
        """Find the row that cannot be written by halves, and write that its outcome could not be stored."""
        if len(done) > 1:
            half = len(done) // 2
            await self._settle(done[:half])
            await self._settle(done[half:])
        elif done[0].is_last_resort:
            log.error("outcome_lost", item=done[0].work.item.id, batch=done[0].work.batch.id, exc_info=error)
        else:
            log.error("outcome_unstorable", item=done[0].work.item.id, batch=done[0].work.batch.id, exc_info=error)
            await self._settle([unstorable(done[0])])

    async def _write(self, done: Sequence[FinishedItem]) -> None:
        now, generation = self._clock.now(), self._generation
        verdicts = [judge(one, now, self._rng) for one in done]
        segments = await pack_answers(verdicts)
        accounts = sorted({v.done.work.batch.account_id for v in verdicts})
        with ExitStack() as until_committed:
            async with self._database.transaction() as conn:
                await standing_store.lock_user_states(conn, accounts, now)
                if generation == self._generation:
                    until_committed.enter_context(self._holdings.without([one.work for one in done]))
                stood = await self._write_verdicts(conn, verdicts, segments, now)
                await self._holdings.tell(conn, self.worker_no, accounts)
        for labels, count in Counter((verdict.done.work.model, verdict.verb) for verdict in stood).items():
            metrics.SETTLED.labels(*labels).inc(count)

    async def _write_verdicts(
        self, conn: Connection, verdicts: list[Verdict], segments: Sequence[Segment], now: datetime
    ) -> list[Verdict]:
        """Those that stood; the accounts' rows are locked."""
        batches = await settle_store.lock_batches(conn, sorted({v.done.work.batch.no for v in verdicts}))
        verdicts, full = within_storage(verdicts, batches, self._settings.current.batch_max_results_mb_per_batch << 20)
        moved = await _move_items(conn, verdicts, segments)
        stood = [v for v in verdicts if v.key in moved]
        await self._record(conn, stood, now)
        if full:
            await settle_store.mark_full(conn, sorted(full))
        await finish_batches(conn, sorted({v.done.work.batch.no for v in stood}), now)
        stopping = full | {no for no, batch in batches.items() if batch.stops}
        if any(v.done.work.batch.no in stopping for v in stood):
            await notify(conn, DUTY_CHANNEL)
        return stood

    async def _record(self, conn: Connection, stood: Sequence[Verdict], now: datetime) -> None:
        """Everything that counts: for the rows that were still ours, and in the transaction that moved them."""
        attempts = [v.attempt() for v in stood if v.verb != "hand_back"]
        await settle_store.add_attempts(conn, self.worker_no, attempts, now)
        await settle_store.count_settled(conn, _batch_deltas(stood))
        await settle_store.count_released(conn, _queue_deltas(stood))
        await standing_store.add_service(conn, _service(stood), now)
        await add_charges(conn, _charges(stood), now.date())
        await self._note_health(conn, stood, now)

    async def _note_health(self, conn: Connection, stood: Sequence[Verdict], now: datetime) -> None:
        """How the models fare now, where that may have changed."""
        signs: dict[str, list[tuple[Sign, float]]] = defaultdict(list)
        for verdict in stood:
            signs[verdict.done.work.model].append(sign(verdict.done))
        told = [m for m, of_model in signs.items() if m in self._pace.unwell or any(s in UNWELL for s, _ in of_model)]
        if not told:
            return
        states = await standing_store.lock_model_states(conn, sorted(told))
        for model in sorted(told):
            before = states.get(model, ModelState())
            state = after_signs(before, signs[model], now)
            if state != before:
                await standing_store.save_model_state(conn, model, state)
                self._pace.note_state(model, state)


async def _move_items(
    conn: Connection, verdicts: Sequence[Verdict], segments: Sequence[Segment]
) -> set[settle_store.ItemKey]:
    kept = {v.key for v in verdicts if v.verb == "complete"}
    segment_ids = await settle_store.add_segments(conn, [(s.batch_no, s.data) for s in segments]) if segments else []
    completed = [
        settle_store.CompletedRow(*v.key, v.epoch, segment_id, offset, length, v.done.request_id)
        for segment_id, segment in zip(segment_ids, segments, strict=True)
        for v, offset, length in segment.answers
        if v.key in kept
    ]
    moved = await settle_store.complete(conn, completed)
    await settle_store.drop_segments(conn, _unused(segments, segment_ids, moved))
    moved |= await settle_store.fail(conn, [v.failed_row() for v in verdicts if v.verb == "fail"])
    moved |= await settle_store.retry(conn, [v.retried_row() for v in verdicts if v.verb == "retry"])
    handed_back = [settle_store.HandedBackRow(*v.key, v.epoch) for v in verdicts if v.verb == "hand_back"]
    return moved | await settle_store.hand_back(conn, handed_back)


def _unused(
    segments: Sequence[Segment], segment_ids: Sequence[int], moved: set[settle_store.ItemKey]
) -> list[tuple[int, int]]:
    """(batch, id) of the segments none of whose answers was taken: their claims are void, or their batch is full."""
    return [
        (segment.batch_no, segment_id)
        for segment_id, segment in zip(segment_ids, segments, strict=True)
        if not any(verdict.key in moved for verdict, _, _ in segment.answers)
    ]


def _batch_deltas(verdicts: Sequence[Verdict]) -> list[settle_store.BatchDelta]:
    by_batch: dict[int, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.verb != "hand_back":
            by_batch[verdict.done.work.batch.no].append(verdict)
    return [_batch_delta(no, of_batch) for no, of_batch in sorted(by_batch.items())]


def _batch_delta(batch_no: int, verdicts: Sequence[Verdict]) -> settle_store.BatchDelta:
    usages = [v.usage for v in verdicts if v.usage is not None]
    return settle_store.BatchDelta(
        batch_no=batch_no,
        completed=sum(v.verb == "complete" for v in verdicts),
        failed=sum(v.verb == "fail" for v in verdicts),
        input_tokens=sum(u.input_tokens for u in usages),
        cached_tokens=sum(u.cached_tokens for u in usages),
        output_tokens=sum(u.output_tokens for u in usages),
        reasoning_tokens=sum(u.reasoning_tokens for u in usages),
        cost_usd=sum((v.cost for v in verdicts if v.cost is not None), start=ZERO),
        unknown=sum(v.cost is None for v in verdicts),
        result_bytes=sum(v.answer_length for v in verdicts),
    )


def _queue_deltas(verdicts: Sequence[Verdict]) -> list[settle_store.QueueDelta]:
    by_queue: dict[tuple[int, str], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        by_queue[verdict.done.work.batch.no, verdict.done.work.model].append(verdict)
    return [
        settle_store.QueueDelta(
            batch_no,
            model,
            released=len(of_queue),
            queued=sum(v.verb in ("retry", "hand_back") for v in of_queue),
            next_ready_at=min((_ready_at(v) for v in of_queue if v.verb in ("retry", "hand_back")), default=NEVER),
        )
        for (batch_no, model), of_queue in sorted(by_queue.items())
    ]


def _ready_at(verdict: Verdict) -> datetime:
    """From when on the item may be claimed again; one that was handed back was ready when it was claimed."""
    return verdict.ready_at or _LONG_AGO


def _service(verdicts: Sequence[Verdict]) -> dict[str, float]:
    seconds: dict[str, float] = defaultdict(float)
    for verdict in verdicts:
        seconds[verdict.done.work.batch.account_id] += verdict.done.seconds
    return dict(sorted(seconds.items()))


def _charges(verdicts: Sequence[Verdict]) -> list[Charge]:
    return [
        Charge(v.done.work.batch.account_id, v.done.work.batch.key_id, "batch", v.usage, v.cost)
        for v in verdicts
        if v.cost is not None and v.usage is not None
    ]
