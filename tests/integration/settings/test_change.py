"""Stored settings: over the environment and the defaults, all or nothing, audited, taken up by every process."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import pytest
from structlog.testing import capture_logs
from tests.fake_upstream import closed_port
from tests.gateway import until
from tests.logs import told
from tests.wire import Wire

from ebbtide.clock import SystemClock
from ebbtide.duties import repeat
from ebbtide.errors import InvalidRequest, NotFound, Unavailable
from ebbtide.records.audit import AuditEntry, list_audit
from ebbtide.settings import snapshot
from ebbtide.settings.change import MASK, change_settings, reset_setting, set_setting
from ebbtide.settings.overview import list_settings
from ebbtide.settings.snapshot import Settings, SettingsSource
from ebbtide.storage.notify import Listener
from ebbtide.storage.pool import Database

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ADA = "acct_ada/key_ada"
WINDOW, CAP, URL = "BATCH_COMPLETION_WINDOW_HOURS", "BATCH_MODEL_CONCURRENCY", "ALERT_WEBHOOK_URL"


async def entries(database: Database) -> list[AuditEntry]:
    """The audit log, oldest first."""
    return (await list_audit(database)).entries[::-1]


async def store_raw(database: Database, name: str, value: str) -> None:
    """A row as another build may have written it."""
    async with database.transaction() as conn:
        await conn.execute("insert into settings values ($1, $2, $3, 'cli:other')", name, value, NOW)


async def test_stored_counts_before_environment_before_default(database: Database) -> None:
    source = SettingsSource.from_environ({WINDOW: "48", "BATCH_MIN_ROLE": "pro"})
    await source.refresh(database)
    assert source.current == Settings(batch_completion_window_hours=48, batch_min_role="pro")
    await set_setting(database, WINDOW, " 12 ", ADA, NOW)
    assert source.current.batch_completion_window_hours == 48
    before = source.current
    await source.refresh(database)
    assert source.current == Settings(batch_completion_window_hours=12, batch_min_role="pro")
    assert before.batch_completion_window_hours == 48, "a snapshot that was taken stays as it is"

    overview = await list_settings(database, source)
    told = {name: (view.value, view.source) for name in (WINDOW, "BATCH_MIN_ROLE", CAP) if (view := overview.one(name))}
    assert told == {WINDOW: (12, "stored"), "BATCH_MIN_ROLE": ("pro", "environment"), CAP: (64, "default")}
    assert (overview.one(WINDOW).updated_at, overview.one(WINDOW).updated_by) == (NOW, ADA)

    assert await reset_setting(database, WINDOW, ADA, NOW)
    assert not await reset_setting(database, WINDOW, ADA, NOW)
    await source.refresh(database)
    assert source.current.batch_completion_window_hours == 48


async def test_each_change_is_audited_and_what_changes_nothing_is_not(database: Database) -> None:
    await change_settings(database, {CAP: "8", "BATCH_ENABLED": "off"}, ADA, NOW)
    await change_settings(database, {CAP: "9", "BATCH_ENABLED": "off"}, "cli:root", NOW)
    await change_settings(database, {CAP: None, "BATCH_MIN_ROLE": None}, ADA, NOW)
    await reset_setting(database, "BATCH_MIN_ROLE", ADA, NOW)
    found = [(entry.actor, entry.action, entry.object, entry.detail) for entry in await entries(database)]
    assert found == [
        (ADA, "setting.set", "BATCH_ENABLED", {"old": None, "new": "off"}),
        (ADA, "setting.set", CAP, {"old": None, "new": "8"}),
        ("cli:root", "setting.set", CAP, {"old": "8", "new": "9"}),
        (ADA, "setting.reset", CAP, {"old": "9", "new": None}),
    ]
    assert {entry.at for entry in await entries(database)} == {NOW}


async def test_all_of_a_change_or_nothing(database: Database) -> None:
    changes = {CAP: "8", WINDOW: "169", "BATCH_SPEED": "11", "BATCH_ENABLED": "perhaps", "BATCH_GONE": None}
    with pytest.raises(InvalidRequest) as refused:
        await change_settings(database, changes, ADA, NOW)
    for words in (f"{WINDOW}='169'", "from 0 to 168", "'BATCH_SPEED'", "BATCH_ENABLED='perhaps'", "'BATCH_GONE'"):
        assert words in refused.value.message
    assert refused.value.param == WINDOW
    assert await entries(database) == []
    source = SettingsSource(Settings())
    await source.refresh(database)
    assert source.current == Settings()


async def test_a_refusal_of_many_names_stays_short(database: Database) -> None:
    changes = {f"{'X' * 5_000}{number}": "1" for number in range(1_000)}
    with pytest.raises(InvalidRequest, match=r"and 990 more$") as refused:
        await change_settings(database, changes, ADA, NOW)
    assert len(refused.value.message) < 2_000


async def test_an_unknown_name_can_be_removed_when_it_is_stored(database: Database) -> None:
    await store_raw(database, "BATCH_LATER", "s3cret")
    await store_raw(database, "BATCH_OLDER", "1")
    assert (await list_settings(database, SettingsSource(Settings()))).unknown == ["BATCH_LATER", "BATCH_OLDER"]
    assert await reset_setting(database, "BATCH_LATER", ADA, NOW)
    await change_settings(database, {"BATCH_OLDER": None}, ADA, NOW)
    with pytest.raises(NotFound, match="BATCH_LATER"):
        await reset_setting(database, "BATCH_LATER", ADA, NOW)
    # Another build may know it as a secret.
    assert [entry.detail["old"] for entry in await entries(database)] == [MASK, MASK]


async def test_changes_at_the_same_time_come_one_after_the_other(database: Database) -> None:
    values = [str(number) for number in range(1, 21)]
    await asyncio.gather(*(change_settings(database, {CAP: text, WINDOW: text}, ADA, NOW) for text in values))
    for name in (CAP, WINDOW):
        chain = [entry.detail for entry in await entries(database) if entry.object == name]
        assert sorted(link["new"] for link in chain) == sorted(values)
        assert [link["old"] for link in chain] == [None, *(link["new"] for link in chain[:-1])]
    source = SettingsSource(Settings())
    await source.refresh(database)
    assert source.current.batch_model_concurrency == source.current.batch_completion_window_hours


async def test_what_cannot_be_used_is_kept_ignored_and_told_once(database: Database) -> None:
    await store_raw(database, WINDOW, "1000")
    await store_raw(database, "BATCH_LATER", "s3cret")
    await store_raw(database, URL, "s3cret")
    await store_raw(database, CAP, "5")
    source = SettingsSource.from_environ({WINDOW: "48"})
    with capture_logs() as logs:
        await source.refresh(database)
        await source.refresh(database)
    assert source.current == Settings(batch_completion_window_hours=48, batch_model_concurrency=5)
    ignored = told(logs, "stored_setting_ignored")
    assert sorted(log["setting"] for log in ignored) == [URL, WINDOW, "BATCH_LATER"]
    assert {log["log_level"] for log in ignored} == {"warning"}
    assert "s3cret" not in repr(logs)
    view = (await list_settings(database, source)).one(WINDOW)
    assert (view.value, view.source, view.updated_by) == (48, "environment", "cli:other")
    assert view.ignored is not None
    assert "from 0 to 168" in view.ignored
    async with database.transaction() as conn:
        await conn.execute("update settings set value = '2000' where name = $1", WINDOW)
    with capture_logs() as logs:
        await source.refresh(database)
    assert [log["setting"] for log in told(logs, "stored_setting_ignored")] == [WINDOW], "another value is told anew"
    await set_setting(database, WINDOW, "3", ADA, NOW)
    await source.refresh(database)
    assert source.current.batch_completion_window_hours == 3


async def test_a_secret_is_shown_to_nobody(database: Database) -> None:
    source = SettingsSource.from_environ({})
    assert not (await list_settings(database, source)).one(URL).is_set
    with capture_logs() as logs:
        await set_setting(database, URL, "https://hooks.example.org/s3cret", ADA, NOW)
        await set_setting(database, URL, "", ADA, NOW)
        await set_setting(database, URL, "http://hooks.example.org/s3cret", ADA, NOW)
        with pytest.raises(InvalidRequest) as refused:
            await set_setting(database, URL, "hooks.example.org/s3cret", ADA, NOW)
        await source.refresh(database)
    assert source.current.alert_webhook_url == "http://hooks.example.org/s3cret"
    view = (await list_settings(database, source)).one(URL)
    assert (view.value, view.default, view.is_set, view.source) == (None, None, True, "stored")
    noted = await entries(database)
    assert [(entry.detail["old"], entry.detail["new"]) for entry in noted] == [(None, MASK), (MASK, ""), ("", MASK)]
    for text in (logs, noted, view, source.current, refused.value.message):
        assert "s3cret" not in repr(text)


async def test_an_older_answer_never_replaces_a_newer_one(database: Database) -> None:
    source = SettingsSource(Settings())
    for number in range(1, 30):
        reading = [asyncio.create_task(source.refresh(database)) for _ in range(3)]
        await set_setting(database, CAP, str(number), ADA, NOW)
        await source.refresh(database)
        assert source.current.batch_model_concurrency == number
        await asyncio.gather(*reading)
        assert source.current.batch_model_concurrency == number


class Process:
    """What a gateway process has of settings: its own connections, its snapshot and the watch."""

    def __init__(self, database: Database, listener: Listener) -> None:
        self.database = database
        self.listener = listener
        self.source = SettingsSource(Settings())
        self.following = self.source.following(database, listener)
        self.watch = asyncio.create_task(repeat(self.following, SystemClock(), random.Random()))

    async def sees_cap(self, cap: int, *, within: float) -> float:
        """Seconds until `cap` is in force here. Raises TimeoutError."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.timeout(within):
            while self.source.current.batch_model_concurrency != cap:  # noqa: ASYNC110  polls as a request would
                await asyncio.sleep(0.01)
        return loop.time() - began


async def start_process(stack: AsyncExitStack, url: str, listen_url: str | None) -> Process:
    database = await stack.enter_async_context(await Database.connect(url, listen_url=listen_url))
    listener = await stack.enter_async_context(Listener(database))
    process = Process(database, listener)

    async def end() -> None:
        process.watch.cancel()
        await asyncio.gather(process.watch, return_exceptions=True)

    stack.push_async_callback(end)
    return process


async def test_two_processes_with_and_without_listen(database_url: str, listen_url: str) -> None:
    nowhere = f"postgresql://nobody@127.0.0.1:{closed_port()}/nothing"
    async with AsyncExitStack() as stack:
        first = await start_process(stack, database_url, listen_url)
        told = await start_process(stack, database_url, listen_url)
        polling = await start_process(stack, database_url, nowhere)
        async with asyncio.timeout(10):
            await told.listener.listening.wait()
        assert not polling.listener.listening.is_set()
        await set_setting(first.database, CAP, "7", ADA, NOW)
        await first.source.refresh(first.database)
        assert first.source.current.batch_model_concurrency == 7, "at once where it was made"
        assert await told.sees_cap(7, within=10) < snapshot.POLL_SECONDS
        await polling.sees_cap(7, within=10)
        await reset_setting(polling.database, CAP, ADA, NOW)
        await asyncio.gather(first.sees_cap(64, within=10), told.sees_cap(64, within=10))


async def test_a_database_that_is_away_changes_nothing_and_is_waited_for(
    database: Database, database_url: str, listen_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "POLL_SECONDS", 0.02)
    wire = Wire(database_url)
    async with wire.url() as url, AsyncExitStack() as stack:
        process = await start_process(stack, url, listen_url)
        await set_setting(database, CAP, "7", ADA, NOW)
        await process.sees_cap(7, within=10)
        assert await process.following.check() is None
        with capture_logs() as logs:
            wire.sever()
            problem = await until(lambda: process.following.check())
        assert "could not be done" in problem
        assert process.source.current.batch_model_concurrency == 7
        with pytest.raises(Unavailable):
            await process.source.refresh(process.database)
        await set_setting(database, CAP, "8", ADA, NOW)
        wire.cut = False
        await process.sees_cap(8, within=20)
        assert await process.following.check() is None
        assert len(told(logs, "duty_waits")) == 1
