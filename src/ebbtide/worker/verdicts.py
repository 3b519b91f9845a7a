"""From an outcome to a verb of the state machine, its rows and its bill. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final, Literal

import msgspec

from ebbtide.batches.rests import Sign
from ebbtide.batches.retry import backoff, next_try
from ebbtide.batches.settle_store import AttemptRow, FailedRow, ItemKey, LockedBatch, RetriedRow
from ebbtide.catalog.model import Model
from ebbtide.catalog.prices import cost
from ebbtide.dialects.values import Usage
from ebbtide.dispatch.outcome import (
    NO_OTHERS,
    Answered,
    Failed,
    Outcome,
    charge_unknown,
    is_retryable,
    speaks_ill,
    used,
)
from ebbtide.worker.lanes import Work

Verb = Literal["complete", "fail", "retry", "hand_back"]

ZERO: Final = Decimal(0)
UNWELL: Final = frozenset({Sign.ILL, Sign.QUEUED})
_WAITS: Final = frozenset({"model_queued", "no_route"})  # it did not run: no try is used up
_UNSTORABLE: Final = "The answer could not be stored"
_NO_STORAGE: Final = "The batch's answers have reached their storage limit"


class FinishedItem(msgspec.Struct, frozen=True):
    """A work that came to an end here: its outcome, or None when it was never started.

    `model` gives the prices; None when the model was unknown. `was_cut_off`: this worker stopped before the answer.
    `is_replaced`: the outcome stands for one that could not be stored.
    """

    work: Work
    outcome: Outcome | None
    model: Model | None
    request_id: str
    seconds: float = 0.0
    was_cut_off: bool = False
    is_replaced: bool = False

    @property
    def is_last_resort(self) -> bool:
        """Whether nothing simpler could be stored in its place."""
        return self.is_replaced and self.usage is None

    @property
    def usage(self) -> Usage | None:
        """What all its upstream calls used, as far as they told."""
        return None if self.outcome is None else used(self.outcome)


class Verdict(msgspec.Struct, frozen=True):
    """What a settle does with a done work. `cost` is None when it is unknown; `ready_at` is set for a retry."""

    done: FinishedItem
    verb: Verb
    usage: Usage | None = None
    cost: Decimal | None = ZERO
    ready_at: datetime | None = None
    counted: int = 1

    @property
    def key(self) -> ItemKey:
        item = self.done.work.item
        return item.batch_no, item.id

    @property
    def epoch(self) -> int:
        return self.done.work.item.claim_epoch

    @property
    def answer(self) -> bytes:
        return self.done.outcome.body if isinstance(self.done.outcome, Answered) else b""

    @property
    def answer_length(self) -> int:
        return len(self.answer)

    @property
    def failure(self) -> Failed:
        assert isinstance(self.done.outcome, Failed)
        return self.done.outcome

    def failed_row(self) -> FailedRow:
        failed = self.failure
        return FailedRow(*self.key, self.epoch, failed.code, failed.message, failed.status, self.done.request_id)

    def retried_row(self) -> RetriedRow:
        failed = self.failure
        assert self.ready_at is not None
        return RetriedRow(
            *self.key, self.epoch, failed.code, failed.message, failed.status, self.counted, self.ready_at
        )

    def attempt(self) -> AttemptRow:
        """The record of this try."""
        outcome = self.done.outcome
        assert outcome is not None
        failed = outcome if isinstance(outcome, Failed) else None
        usage = self.usage
        return AttemptRow(
            batch_no=self.key[0],
            item_id=self.key[1],
            claim_epoch=self.epoch,
            attempt=self.done.work.item.attempts + 1,
            model=self.done.work.model,
            route=outcome.route,
            outcome=_ATTEMPT[self.verb] if self.counted else "queued",
            seconds=self.done.seconds,
            status_code=outcome.status,
            error_code=failed.code if failed else None,
            request_id=self.done.request_id,
            input_tokens=usage.input_tokens if usage else None,
            cached_tokens=usage.cached_tokens if usage else None,
            output_tokens=usage.output_tokens if usage else None,
            reasoning_tokens=usage.reasoning_tokens if usage else None,
            cost_usd=self.cost,
        )


_ATTEMPT: Final = {"complete": "completed", "fail": "failed", "retry": "retried"}


def judge(done: FinishedItem, now: datetime, rng: random.Random) -> Verdict:
    """The one place where an outcome becomes a verb."""
    match done.outcome:
        case None:
            return Verdict(done, "hand_back")
        case Answered():
            return Verdict(done, "complete", done.usage, _bill(done))
        case Failed() as failed:
            return _judge_failure(done, failed, now, rng)


def _judge_failure(done: FinishedItem, failed: Failed, now: datetime, rng: random.Random) -> Verdict:
    usage, bill = done.usage, _bill(done)
    if not is_retryable(failed):
        return Verdict(done, "fail", usage, bill)
    window_end = done.work.batch.expires_at
    if failed.kind in _WAITS:
        wait = _queued_seconds(failed) if failed.kind == "model_queued" else backoff(1, failed.retry_after, rng)
        # Past the window it stays queued, and ends there as it would have without this turn.
        return Verdict(done, "retry", usage, bill, next_try(now, wait, 0, window_end) or window_end, counted=0)
    attempts = done.work.item.attempts + 1
    ready_at = next_try(now, backoff(attempts, failed.retry_after, rng), attempts, window_end)
    if ready_at is None:
        return Verdict(done, "fail", usage, bill)
    return Verdict(done, "retry", usage, bill, ready_at)


def sign(done: FinishedItem) -> tuple[Sign, float]:
    """What the outcome says about its model's health, and the seconds a queued deployment asked for."""
    match done.outcome:
        case Answered():
            return Sign.WELL, 0.0
        case Failed(kind="model_queued") as failed:
            return Sign.QUEUED, _queued_seconds(failed)
        case Failed() as failed if speaks_ill(failed) and not done.was_cut_off:
            return Sign.ILL, 0.0
        case _:
            return Sign.NOTHING, 0.0


def _queued_seconds(failed: Failed) -> float:
    """How long a queued deployment is to be left alone: the dispatcher always tells."""
    assert failed.retry_after is not None
    return failed.retry_after


def within_storage(
    verdicts: Sequence[Verdict], batches: Mapping[int, LockedBatch], limit: int
) -> tuple[list[Verdict], set[int]]:
    """The verdicts, those turned into failures whose answers do not fit their batch, and the batches that are full.

    `limit` is in bytes of answers per batch; 0 means none.
    """
    if not limit:
        return list(verdicts), set()
    stored = {no: batch.result_bytes for no, batch in batches.items()}
    kept, full = [], set()
    for verdict in verdicts:
        batch_no = verdict.done.work.item.batch_no
        if verdict.verb == "complete" and batch_no in stored:
            size = stored[batch_no] + verdict.answer_length
            if size > limit:
                verdict = too_much(verdict)
                full.add(batch_no)
            else:
                stored[batch_no] = size
        kept.append(verdict)
    return kept, full | {no for no, size in stored.items() if size >= limit}


def too_much(verdict: Verdict) -> Verdict:
    """The verdict on an answer that its batch has no more storage for. What it cost stays known."""
    done = verdict.done
    outcome = done.outcome
    assert isinstance(outcome, Answered)
    failed = Failed(
        "too_large",
        502,
        "result_too_large",
        _NO_STORAGE,
        sent=True,
        route=outcome.route,
        usage=outcome.usage,
        others=outcome.others,
    )
    return msgspec.structs.replace(verdict, done=msgspec.structs.replace(done, outcome=failed), verb="fail")


def _bill(done: FinishedItem) -> Decimal | None:
    """What the attempt cost over all its upstream calls; None when that of any is unknown."""
    assert done.outcome is not None
    if charge_unknown(done.outcome):
        return None
    usage = done.usage
    if usage is None:
        return ZERO
    return cost(done.model.pricing, usage, done.model.batch_price_factor) if done.model is not None else None


def unstorable(done: FinishedItem) -> FinishedItem:
    """The same work with an outcome that can be stored in place of one that cannot.

    A bill that is known stays, unless it is what cannot be stored: then the cost is unknown.
    """
    outcome = done.outcome
    sent = isinstance(outcome, Answered) or (isinstance(outcome, Failed) and outcome.sent)
    route = None if outcome is None else outcome.route
    usage = None if done.is_replaced or outcome is None else outcome.usage
    others = NO_OTHERS if done.is_replaced or outcome is None else outcome.others
    failed = Failed("internal", 500, "upstream_error", _UNSTORABLE, sent=sent, route=route, usage=usage, others=others)
    return msgspec.structs.replace(done, outcome=failed, is_replaced=True)
