"""`ebbtide accounts quota` and `ebbtide keys budget`: set, kept where not given, taken away, shown and audited."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ebbtide.cli import exits
from ebbtide.cli.app import run
from ebbtide.records.audit import list_audit
from ebbtide.storage.pool import Database

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _environment(database_url: str, listen_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBBTIDE_DATABASE_URL", database_url)
    monkeypatch.setenv("EBBTIDE_DATABASE_LISTEN_URL", listen_url)


async def ebbtide(capsys: Capture, *arguments: str) -> list[dict[str, Any]]:
    """The rows that a command prints as JSON."""
    capsys.readouterr()
    assert await asyncio.to_thread(run, [*arguments, "--json"]) == exits.OK
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


async def fails(capsys: Capture, status: int, *arguments: str) -> str:
    """What a command says on standard error."""
    capsys.readouterr()
    assert await asyncio.to_thread(run, arguments) == status
    return capsys.readouterr().err


async def test_an_accounts_quotas(database: Database, capsys: Capture) -> None:
    await ebbtide(capsys, "accounts", "create", "ada")

    async def quotas(*options: str) -> tuple[str | None, str | None]:
        [row] = await ebbtide(capsys, "accounts", "quota", "ada", *options)
        return row["daily_quota_usd"], row["monthly_quota_usd"]

    assert await quotas() == (None, None)
    assert await quotas("--daily", "25") == ("25", None)
    assert await quotas("--monthly", "300.50") == ("25", "300.5")
    assert await quotas("--daily", "0") == ("0", "300.5")
    [listed] = await ebbtide(capsys, "accounts", "list")
    assert (listed["daily_quota_usd"], listed["monthly_quota_usd"]) == ("0", "300.5")
    assert await quotas("--daily", "none", "--monthly", "NONE") == (None, None)

    *entries, made = (await list_audit(database)).entries
    assert made.action == "account.create"
    assert {entry.action for entry in entries} == {"account.quotas"}
    assert {entry.account_id for entry in entries} == {listed["id"]}
    assert all(entry.actor.startswith("cli:") for entry in entries)
    assert [entry.detail["new"] for entry in reversed(entries)] == [
        {"daily": "25", "monthly": None},
        {"daily": "25", "monthly": "300.5"},
        {"daily": "0", "monthly": "300.5"},
        {"daily": None, "monthly": None},
    ]


async def test_an_accounts_concurrency(database: Database, capsys: Capture) -> None:
    await ebbtide(capsys, "accounts", "create", "ada")
    for text, cap in (("20", 20), ("0", 0), ("role", None)):
        [row] = await ebbtide(capsys, "accounts", "concurrency", "ada", text)
        assert row["max_concurrency"] == cap
    [row] = await ebbtide(capsys, "accounts", "concurrency", "ada", "7", "--batch")
    assert (row["max_concurrency"], row["batch_max_concurrency"]) == (None, 7)
    assert "whole number" in await fails(capsys, exits.USAGE, "accounts", "concurrency", "ada", "many")
    *entries, _ = [entry.detail for entry in (await list_audit(database)).entries]
    assert [(told["cap"], told["new"]) for told in reversed(entries)] == [
        *(("max_concurrency", cap) for cap in (20, 0, None)),
        ("batch_max_concurrency", 7),
    ]


async def test_a_keys_budgets(database: Database, capsys: Capture) -> None:
    await ebbtide(capsys, "accounts", "create", "ada")
    [key] = await ebbtide(capsys, "keys", "create", "ada")
    [row] = await ebbtide(capsys, "keys", "budget", key["id"], "--daily", "0.000001", "--monthly", "7")
    assert (row["daily_budget_usd"], row["monthly_budget_usd"], row["account"]) == ("0.000001", "7", "ada")
    [row] = await ebbtide(capsys, "keys", "budget", key["id"], "--monthly", "none")
    assert (row["daily_budget_usd"], row["monthly_budget_usd"]) == ("0.000001", None)
    [listed] = await ebbtide(capsys, "keys", "list", "ada")
    assert (listed["daily_budget_usd"], listed["monthly_budget_usd"]) == ("0.000001", None)
    done = [entry.action for entry in (await list_audit(database)).entries]
    assert done == ["key.budgets", "key.budgets", "key.create", "account.create"]


@pytest.mark.parametrize("amount", ["-1", "1e3", "NaN", "$5", "5 USD", "1000000000000", "1.0000000000001", ""])
async def test_what_is_no_amount_is_refused(amount: str, capsys: Capture) -> None:
    await ebbtide(capsys, "accounts", "create", "ada")
    said = await fails(capsys, exits.USAGE, "accounts", "quota", "ada", f"--daily={amount}")
    assert "--daily" in said
    [row] = await ebbtide(capsys, "accounts", "quota", "ada")
    assert row["daily_quota_usd"] is None


async def test_what_is_not_there_is_refused(capsys: Capture) -> None:
    assert "no account 'nobody'" in await fails(capsys, exits.REFUSED, "accounts", "quota", "nobody", "--daily", "1")
    assert "no key 'key_1'" in await fails(capsys, exits.REFUSED, "keys", "budget", "key_1", "--daily", "1")
