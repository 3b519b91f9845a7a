"""How much of a model batch work may use: cap, interactive load, reserve, guaranteed share, rests and probes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ebbtide.batches.rests import ModelState
from ebbtide.batches.standing_store import ModelStanding
from ebbtide.settings.snapshot import Settings
from ebbtide.worker.room import Room, model_room

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
WELL = ModelState()


def room(
    own: int = 0, shared: int = 0, *, cap: int | None = None, state: ModelState = WELL, **settings: Any
) -> tuple[int, str | None]:
    """The room beside `own` interactive requests here and `shared` ones elsewhere, under a common cap of 8."""
    standing = ModelStanding(cap, state, None, shared)
    found: Room = model_room(standing, replace(Settings(batch_model_concurrency=8), **settings), own, NOW)
    return found.slots, found.reason


@pytest.mark.parametrize(
    ("own", "shared", "slots"), [(0, 0, 8), (1, 0, 7), (0, 1, 7), (3, 4, 1), (8, 0, 0), (0, 8, 0), (5, 9, 0)]
)
def test_interactive_requests_take_slots_wherever_they_run(own: int, shared: int, slots: int) -> None:
    assert room(own, shared) == (slots, "yielding" if slots == 0 else None)


def test_a_models_own_cap_comes_before_the_common_one() -> None:
    assert room(cap=3) == (3, None)
    assert room(cap=20, own=5) == (15, None)
    assert room(cap=0) == (0, "model_cap")
    assert room(batch_model_concurrency=0) == (0, "model_cap")
    assert room(cap=2, batch_model_concurrency=0) == (2, None)


def test_yielding_off_fills_the_cap_whatever_else_is_set() -> None:
    off: dict[str, Any] = {"batch_yield_to_interactive": False}
    assert room(50, 50, **off) == (8, None)
    assert room(50, 50, batch_interactive_reserve=8, batch_min_share=1, **off) == (8, None)
    assert room(50, 50, cap=0, **off) == (0, "model_cap")


def test_without_shared_load_only_the_own_process_counts() -> None:
    assert room(2, 50, batch_shared_interactive_load=False) == (6, None)
    assert room(8, 0, batch_shared_interactive_load=False) == (0, "yielding")


def test_the_reserve_is_kept_free_on_top_of_those_in_flight() -> None:
    assert room(batch_interactive_reserve=3) == (5, None)
    assert room(2, 1, batch_interactive_reserve=3) == (2, None)
    assert room(2, 3, batch_interactive_reserve=3) == (0, "yielding")
    assert room(batch_interactive_reserve=8) == (0, "yielding")


@pytest.mark.parametrize(("share", "busy", "slots"), [(2, 0, 8), (2, 5, 3), (2, 7, 2), (2, 100, 2), (99, 100, 8)])
def test_a_guaranteed_share_is_kept_and_never_more_than_the_cap(share: int, busy: int, slots: int) -> None:
    assert room(busy, batch_min_share=share) == (slots, None)


def test_a_guaranteed_share_opens_neither_a_paused_model_nor_a_switched_off_gateway() -> None:
    assert room(cap=0, batch_min_share=4) == (0, "model_cap")
    assert room(batch_enabled=False, batch_min_share=4) == (0, None)


def test_a_model_that_rests_has_none_and_after_that_one_probe() -> None:
    resting = ModelState(rest_level=1, rest_until=NOW + timedelta(seconds=1), rest_reason="model_paused")
    assert room(state=resting) == (0, None)
    assert room(state=resting, batch_min_share=4) == (0, None)
    assert room(state=replace(resting, rest_until=NOW)) == (1, None)
    assert room(8, state=replace(resting, rest_until=NOW)) == (0, "yielding")
    assert room(state=ModelState(failures=4)) == (8, None)
