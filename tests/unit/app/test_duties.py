"""Duties: watched while they run, told when they end, stopped together."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from ebbtide.duties import Duties


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_running_duty_is_well_or_says_what_is_wrong() -> None:
    async def stuck() -> str | None:
        return "stuck: seal"

    duties = Duties()
    duties.start("fine", forever())
    duties.start("troubled", forever(), stuck)
    assert [await check() for check in duties.checks.values()] == [None, "stuck: seal"]
    await duties.stop()


async def test_a_duty_that_ends_by_itself_is_logged_and_told() -> None:
    async def fails() -> None:
        raise RuntimeError("broken")

    duties = Duties()
    with capture_logs() as logs:
        task = duties.start("frail", fails())
        await asyncio.wait([task])
        await asyncio.sleep(0)
    assert await duties.checks["frail"]() == "has ended"
    assert logs[0]["duty"] == "frail"
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

    duties = Duties()
    duties.start("careful", careful())
    await begun.wait()
    await duties.stop()
    assert acted.is_set()
