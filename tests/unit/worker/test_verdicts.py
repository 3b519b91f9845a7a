"""Outcome in, verb out: what becomes of an item, what it is billed, when it is tried again."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.accounts.roles import Role
from ebbtide.batches.claim_store import ClaimableBatch, ClaimedItem
from ebbtide.catalog.model import Model, Pricing
from ebbtide.dialects.values import Usage
from ebbtide.dispatch.outcome import Answered, Failed, FailureKind, Outcome, is_retryable
from ebbtide.files.chunks import unpack
from ebbtide.worker.lanes import Work
from ebbtide.worker.segments import SEGMENT_BYTES, pack_answers
from ebbtide.worker.verdicts import FinishedItem, judge, unstorable

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
MODEL = Model("m", "chat", (), pricing=Pricing(Decimal(10), Decimal(20), Decimal(5), Decimal(10)))
USAGE = Usage(100, 40, 50, 5)


def done(outcome: Outcome | None, *, attempts: int = 0, window: timedelta | None = None, **more: Any) -> FinishedItem:
    item = ClaimedItem(more.pop("batch_no", 1), 2, 3, attempts, "c", 0, 0, 2, None)
    expires = None if window is None else NOW + window
    batch = ClaimableBatch(item.batch_no, "batch_x", "a", "key", "chat", "file-x", expires)
    return FinishedItem(Work(item, batch, "m", Role.INTERNAL), outcome, more.pop("model", MODEL), "req_x", 2.0, **more)


def answer(body: bytes = b"{}", usage: Usage | None = USAGE) -> Answered:
    return Answered(body, usage, "r")


def failure(status: int = 503, kind: FailureKind = "status", **more: Any) -> Failed:
    return Failed(kind, status, "service_unavailable", "m", sent=more.pop("sent", True), route="r", **more)


def told(outcome: Outcome | None, **more: Any) -> Any:
    return judge(done(outcome, **more), NOW, random.Random(1))


def test_an_answer_completes_at_its_price() -> None:
    verdict = told(answer())
    assert (verdict.verb, verdict.usage) == ("complete", USAGE)
    # 60 uncached at 10, 40 cached at 5, 50 out at 20, per million.
    assert verdict.cost == Decimal("0.0018")
    half = replace(MODEL, batch_price_factor=Decimal("0.5"))
    assert told(answer(), model=half).cost == Decimal("0.0009")


@pytest.mark.parametrize("more", [{"usage": None}, {"model": None}])
def test_what_cannot_be_priced_is_unknown_never_free(more: dict[str, Any]) -> None:
    verdict = told(answer(usage=more.get("usage", USAGE)), model=more.get("model", MODEL))
    assert (verdict.verb, verdict.cost) == ("complete", None)
    assert verdict.attempt().cost_usd is None


def test_what_was_never_started_is_handed_back() -> None:
    assert told(None).verb == "hand_back"


@pytest.mark.parametrize(
    ("outcome", "cost"),
    [
        (failure(400), Decimal(0)),
        (failure(502, "reset"), None),
        (failure(504, "timeout"), None),
        (failure(502, "malformed"), None),
        (failure(502, "malformed", usage=USAGE), Decimal("0.0018")),
        (failure(503, "refused", sent=False), Decimal(0)),
        (failure(500, "internal", sent=False), Decimal(0)),
        (failure(500, "internal"), None),
    ],
)
def test_the_bill_of_a_failure(outcome: Failed, cost: Decimal | None) -> None:
    assert told(outcome).cost == cost


KINDS: list[FailureKind] = [
    *("refused", "connect_timeout", "reset", "timeout", "status"),
    *("redirect", "malformed", "too_large", "internal"),
]
FAILURES = st.builds(
    failure,
    st.sampled_from([400, 404, 408, 425, 429, 500, 502, 503, 504, 529]),
    st.sampled_from(KINDS),
    sent=st.booleans(),
    retry_after=st.one_of(st.none(), st.floats(0, 604_800)),
)


@given(FAILURES, st.integers(0, 2_100), st.one_of(st.none(), st.floats(1, 200_000)), st.integers(0, 99))
def test_any_failure_is_tried_again_in_time_or_is_final(
    outcome: Failed, attempts: int, window: float | None, seed: int
) -> None:
    left = None if window is None else timedelta(seconds=window)
    verdict = judge(done(outcome, attempts=attempts, window=left), NOW, random.Random(seed))
    row = verdict.attempt()
    assert row.attempt == attempts + 1
    if not is_retryable(outcome):
        assert verdict.verb == "fail"
    if verdict.verb == "retry":
        assert verdict.ready_at is not None
        wait = (verdict.ready_at - NOW).total_seconds()
        base = min(5 * 2 ** min(attempts, 16), 900)
        assert wait == pytest.approx(max(outcome.retry_after or 0, wait), abs=1e-3)
        assert base / 2 - 1e-3 <= wait <= max(base, outcome.retry_after or 0) + 1e-3
        assert left is None or wait < left.total_seconds()
        assert attempts + 1 < 2_000
        assert (row.outcome, verdict.retried_row().counted) == ("retried", 1)
    else:
        assert row.outcome == "failed"
        assert verdict.failed_row().error_code == "service_unavailable"


@pytest.mark.parametrize(("retry_after", "wait"), [(45.0, 45), (600_000.0, 600_000)])
def test_a_queued_model_uses_no_attempt(retry_after: float, wait: int) -> None:
    verdict = told(failure(503, "model_queued", retry_after=retry_after), attempts=1_999)
    assert (verdict.verb, verdict.counted, verdict.cost) == ("retry", 0, Decimal(0))
    assert verdict.ready_at == NOW + timedelta(seconds=wait)
    assert verdict.attempt().outcome == "queued"


def test_a_queued_model_past_the_window_waits_for_its_end() -> None:
    verdict = told(failure(503, "model_queued", retry_after=7_200), window=timedelta(hours=1))
    assert (verdict.verb, verdict.ready_at) == ("retry", NOW + timedelta(hours=1))


@pytest.mark.parametrize(("retry_after", "waits"), [(None, (2.5, 5)), (1.0, (2.5, 5)), (60.0, (60, 60))])
def test_a_request_for_which_no_server_was_free_waits_and_uses_no_attempt(
    retry_after: float | None, waits: tuple[float, float]
) -> None:
    outcome = failure(503, "no_route", sent=False, retry_after=retry_after)
    verdict = told(outcome, attempts=1_999)
    assert (verdict.verb, verdict.counted, verdict.cost) == ("retry", 0, Decimal(0))
    assert waits[0] <= (verdict.ready_at - NOW).total_seconds() <= waits[1]
    assert told(outcome, window=timedelta(seconds=1)).ready_at == NOW + timedelta(seconds=1)
    assert told(failure(400, "no_route", sent=False)).verb == "fail"


def test_an_outcome_that_cannot_be_stored_becomes_one_that_can() -> None:
    for outcome, cost in (
        (answer(usage=None), None),
        (failure(503), None),
        (failure(503, "refused", sent=False), Decimal(0)),
    ):
        replaced = unstorable(done(outcome))
        verdict = judge(replaced, NOW, random.Random(1))
        assert (verdict.verb, verdict.cost, replaced.is_last_resort) == ("fail", cost, True)


def test_what_an_unstorable_answer_cost_stays_known_while_it_can_be_stored_itself() -> None:
    replaced = unstorable(done(answer()))
    verdict = judge(replaced, NOW, random.Random(1))
    assert (verdict.verb, verdict.cost, replaced.is_last_resort) == ("fail", Decimal("0.0018"), False)
    assert (verdict.attempt().input_tokens, verdict.attempt().route) == (USAGE.input_tokens, "r")
    last = unstorable(replaced)
    verdict = judge(last, NOW, random.Random(1))
    assert (verdict.verb, verdict.cost, last.is_last_resort) == ("fail", None, True)


# Segments


async def test_answers_are_packed_by_batch_and_come_back_by_their_places() -> None:
    bodies = [msgspec.json.encode({"n": n, "text": "x" * (n * 37 % 500)}) for n in range(60)]
    verdicts = [told(answer(body), batch_no=n % 3) for n, body in enumerate(bodies)]
    verdicts += [told(failure(400)), told(None), told(failure(503))]
    segments = await pack_answers(verdicts)
    assert sorted(segment.batch_no for segment in segments) == [0, 1, 2]
    found = []
    for segment in segments:
        raw = unpack(segment.data)
        assert len(raw) == segment.size
        for verdict, offset, length in segment.answers:
            assert verdict.key[0] == segment.batch_no
            assert raw[offset : offset + length] == verdict.answer
            found.append(verdict.answer)
    assert sorted(found) == sorted(bodies)


async def test_a_segment_ends_before_it_grows_too_big() -> None:
    big = b"[" + b"1" * (SEGMENT_BYTES // 2) + b"]"
    segments = await pack_answers([told(answer(big)) for _ in range(5)])
    assert [len(segment.answers) for segment in segments] == [1] * 5
    alone = await pack_answers([told(answer(big * 3))])
    assert [segment.size for segment in alone] == [len(big) * 3]
    assert await pack_answers([]) == []
