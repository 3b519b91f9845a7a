"""Duties: repeated whatever goes wrong, watched while they run, told when they end, stopped together."""

from __future__ import annotations

import asyncio
import random
from datetime import datetime

from structlog.testing import capture_logs
from tests.logs import told

from ebbtide.clock import SystemClock
from ebbtide.duties import Duties, Duty, repeat
from ebbtide.errors import Unavailable


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_running_duty_is_well_or_says_what_is_wrong() -> None:
    async def stuck() -> str | None:
        return "stuck: seal"

    duties = Duties(SystemClock(), random.Random())
    duties.start("fine", forever())
    duties.start("troubled", forever(), stuck)
    assert [await check() for check in duties.checks.values()] == [None, "stuck: seal"]
    await duties.stop()


async def test_a_duty_that_ends_by_itself_is_logged_and_told() -> None:
    async def fails() -> None:
        raise RuntimeError("broken")

    duties = Duties(SystemClock(), random.Random())
    with capture_logs() as logs:
        task = duties.start("frail", fails())
        await asyncio.wait([task])
        await asyncio.sleep(0)
    assert await duties.checks["frail"]() == "has ended"
    assert duties.ended.is_set()
    assert [entry["duty"] for entry in told(logs, "duty_failed")] == ["frail"]
    await duties.stop()


async def test_stopping_waits_for_the_last_act() -> None:
    acted = asyncio.Event()
    begun = asyncio.Event()

    async def careful() -> None:
        try:
            begun.set()
            await forever()
        finally:
            await asyncio.sleep(0)
            acted.set()

    duties = Duties(SystemClock(), random.Random())
    duties.start("careful", careful())
    await begun.wait()
    await duties.stop()
    assert acted.is_set()


class Script:
    """Rounds as written: a count, or what is raised; `done` once all of them were gone through."""

    def __init__(self, *rounds: int | Exception) -> None:
        self.rounds = list(rounds)
        self.done = asyncio.Event()
        self.ends = 0

    async def run_once(self, now: datetime) -> int:
        if not self.rounds:
            self.done.set()
            return 0
        told = self.rounds.pop(0)
        if isinstance(told, Exception):
            raise told
        return told

    async def at_end(self, now: datetime) -> None:
        self.ends += 1
        raise Unavailable("away")


async def test_a_duty_goes_on_after_any_error_and_acts_once_more_at_the_end() -> None:
    script = Script(1, Unavailable("away"), Unavailable("away"), RuntimeError("a bug"), 0)
    duty = Duty("steady", script.run_once, 0.001, steady=True, at_end=script.at_end)
    duties = Duties(SystemClock(), random.Random())
    with capture_logs() as logs:
        task = duties.repeat(duty)
        async with asyncio.timeout(10):
            await script.done.wait()
        assert not duties.ended.is_set()
        assert await duties.checks["steady"]() is None
        await duties.stop()
    assert task.cancelled()
    assert script.ends == 1
    events = ["duty_waits", "duty_failed", "duty_left_untidy"]
    assert [entry["event"] for entry in told(logs, *events)] == events


async def test_a_round_that_hangs_is_cut_off_and_told() -> None:
    hangs = asyncio.Event()

    async def hang(now: datetime) -> int:
        hangs.set()
        await forever()
        return 0

    duty = Duty("hung", hang, 0.001, limit=0.01)
    duties = Duties(SystemClock(), random.Random())
    duties.repeat(duty)
    async with asyncio.timeout(10):
        while duty.waits_since is None:
            hangs.clear()
            await hangs.wait()
    problem = await duties.checks["hung"]()
    assert problem is not None
    assert problem.startswith("could not be done for")
    await duties.stop()


async def test_a_duty_that_hangs_counts_as_stuck() -> None:
    async def hang(now: datetime) -> int:
        await asyncio.Event().wait()
        return 0

    duty = Duty("hang", hang, interval=0.001, patience=0.0)
    task = asyncio.create_task(repeat(duty, SystemClock(), random.Random(1)))
    async with asyncio.timeout(5):
        while not duty.is_stuck:  # noqa: ASYNC110  a clock, not an event
            await asyncio.sleep(0.005)
    task.cancel()
