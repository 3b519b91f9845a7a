"""Whether the console's pages stay quick with 2,000 batches and 1,000,000 rows of the request log over a week.

Each page's call over HTTP, one at a time, warm; of its calls the 95th percentile counts. Slow pages are named.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from datetime import timedelta

import aiohttp
from tests.people import create_account, create_key

from bench.bodies import request_lines
from bench.figures import Figure, main
from bench.fill import copy_batches
from bench.stage import Gateway, Stage, stage
from ebbtide.accounts.roles import Role
from ebbtide.clock import SystemClock
from ebbtide.records.log_days import AHEAD_DAYS, add_days, fold_counts

_LOG = """
insert into api_logs (at, request_id, account_id, key_id, source, target, model, route, status_code, error_code,
                      input_tokens, cached_tokens, output_tokens, cost_usd, first_token_ms, total_ms, streamed)
select now() - random() * interval '7 days', 'req_' || n, case when n % 10 = 0 then $1 else 'acct_bench' || n % 50 end,
       case when n % 10 = 0 then $2 else 'key_' || n % 150 end, case when n % 3 = 0 then 'batch' else 'interactive' end,
       'chat', 'model-' || n % 7, 'route-' || n % 14, case when n % 50 = 0 then 503 else 200 end,
       case when n % 50 = 0 then 'upstream_unavailable' end, 100, 20, 40, 0.0001, 90, 800, n % 2 = 0
from generate_series(1, $3::int) n
"""
_SPEND = """
insert into spend_days (account_id, key_id, day, source, requests, cost_usd)
select $1, 'key_' || k, current_date - d, 'interactive', 5, 0.1 from generate_series(1, 50) k, generate_series(0, 59) d
"""
_STEP = 50_000
_OWN = (
    "/user/batches?limit=25",
    "/user/batches?group=completed",
    "/user/batches?search=nothing-like-it",
    "/user/requests",
    "/user/requests?error=any",
    "/user/usage?days=30",
    "/user/batch-capabilities",
)
_ADMIN = (
    "/admin/overview",
    "/admin/batch/jobs?limit=50",
    "/admin/batch/jobs?status=completed",
    "/admin/batch/summary",
    "/admin/batch/models",
    "/admin/recent-requests",
    "/admin/recent-requests?source=batch&error=any",
    "/admin/recent-requests?model=model-3&lookback_hours=168",
    "/admin/request-metrics",
    "/admin/request-metrics?window=24h",
    "/admin/accounts",
    "/admin/models",
    "/admin/workers",
    "/admin/audit",
    "/admin/config",
)


async def measure(options: argparse.Namespace) -> list[Figure]:
    async with stage(fsync=False) as on:
        models = on.models()
        intake = await on.intake(models)
        await copy_batches(on, await on.submit(intake, request_lines(10)), options.batches)
        admin = await _admin_key(on)
        await _fill_log(on, options.rows)
        async with on.gateway("api", models) as running:
            slow = await _slowest(running, on.key, _OWN, options.calls)
            slow |= await _slowest(running, admin, _ADMIN, options.calls)
    worst = max(slow, key=lambda path: slow[path])
    return [
        Figure("pages: the slowest call, 95 of 100", slow[worst] * 1e3, "ms", goal=300, reach="at most"),
        *(Figure(path, seconds * 1e3, "ms") for path, seconds in sorted(slow.items())),
    ]


async def _admin_key(on: Stage) -> str:
    now = SystemClock().now()
    account = await create_account(on.database, "looks-on", Role.ADMIN, now)
    return (await create_key(on.database, account.id, now=now))[1]


async def _fill_log(on: Stage, rows: int) -> None:
    now = SystemClock().now()
    await add_days(on.database, now - timedelta(days=AHEAD_DAYS))  # the days that a gateway would have made by now
    await add_days(on.database, now)
    async with on.database.connection() as conn:
        for begin in range(0, rows, _STEP):
            step = min(_STEP, rows - begin)
            await conn.execute(_LOG, on.principal.account_id, on.principal.key_id, step, timeout=600)
        await conn.execute(_SPEND, on.principal.account_id)
    while await fold_counts(on.database, now):  # what the week's upkeep would have done by now
        pass
    async with on.database.connection() as conn:
        await conn.execute("vacuum (analyze)", timeout=600)


async def _slowest(running: Gateway, key: str, paths: Sequence[str], calls: int) -> dict[str, float]:
    """Seconds of each page's call that 95 of 100 do not exceed."""
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as http:
        return {path: await _percentile(http, running.url + path, calls) for path in paths}


async def _percentile(http: aiohttp.ClientSession, url: str, calls: int) -> float:
    seconds = []
    for _ in range(calls):
        began = time.perf_counter()
        async with http.get(url) as response:
            assert response.status == 200, (url, response.status, await response.text())
            await response.read()
        seconds.append(time.perf_counter() - began)
    return sorted(seconds[1:])[int(0.95 * (len(seconds) - 1)) - 1]


if __name__ == "__main__":
    main(__doc__, measure, batches=2_000, rows=1_000_000, calls=21)
