"""Big tables in little time: one batch made by the product itself, then copied inside the database."""

from __future__ import annotations

import random

import zstandard

from bench.bodies import MODEL, WORDS
from bench.stage import Stage
from ebbtide.batches.model import Job
from ebbtide.storage.pool import Connection

_TIMEOUT = 1_200.0

_COPY_ACCOUNTS = """
insert into accounts (id, name, role, created_at)
select 'acct_bench' || n, 'bench ' || n, 'internal', now() from generate_series(1, $1::int) n on conflict do nothing
"""
_COPY_USERS = """
insert into batch_user_state (account_id, service_at)
select 'acct_bench' || n, now() from generate_series(1, $1::int) n on conflict do nothing
"""
_COPY_JOBS = """
insert into batch_jobs (id, account_id, key_id, api_surface, target, input_id, completion_window, retention_days,
                        phase, created_at, expires_at, total)
select 'batch_' || md5($1::bigint || '.' || n), case when $3 = 0 then account_id else 'acct_bench' || (n % $3 + 1) end,
       key_id, api_surface, target, input_id, completion_window, retention_days, phase, created_at, expires_at, total
from batch_jobs, generate_series(1, $2::int) n where no = $1::bigint order by n returning no
"""
_COPY_ITEMS = """
insert into batch_items (batch_no, model, ready_at, custom_id, chunk, line_offset, line_length)
select $2, model, ready_at, custom_id, chunk, line_offset, line_length from batch_items where batch_no = $1 order by id
"""
_COPY_QUEUES = """
insert into batch_queues (batch_no, model, queued, next_ready_at)
select n, model, queued, next_ready_at from batch_queues, unnest($2::bigint[]) n where batch_no = $1
"""


async def copy_batches(on: Stage, job: Job, count: int, *, accounts: int = 0) -> list[int]:
    """`count` batches in all with the requests of `job`, spread over `accounts` of their own (0: all are its owner's).

    Returns the numbers of the copies. The copies share the input of `job`; plans and visibility are made good.
    """
    async with on.database.connection() as conn:
        await conn.execute(_COPY_ACCOUNTS, accounts)
        await conn.execute(_COPY_USERS, accounts)
        numbers = [row["no"] for row in await conn.fetch(_COPY_JOBS, job.no, count - 1, accounts)]
        for number in numbers:
            await conn.execute(_COPY_ITEMS, job.no, number, timeout=_TIMEOUT)
        await conn.execute(_COPY_QUEUES, job.no, numbers)
        await conn.execute("vacuum (analyze)", timeout=_TIMEOUT)
        await conn.execute("checkpoint", timeout=_TIMEOUT)
    return numbers


def make_segment(answers: int, answer_bytes: int) -> bytes:
    """One compressed segment of `answers` chat completions, each exactly `answer_bytes` long."""
    rng = random.Random(5)
    compressor = zstandard.ZstdCompressor(level=3)
    return compressor.compress(b"".join(_answer(rng, answer_bytes) for _ in range(answers)))


def _answer(rng: random.Random, size: int) -> bytes:
    head = (
        f'{{"id":"chatcmpl-{rng.getrandbits(128):032x}","object":"chat.completion","created":1760000000,'
        f'"model":"{MODEL}","usage":{{"prompt_tokens":120,"completion_tokens":400,"total_tokens":520}},'
        '"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"'
    )
    tail = '"}}]}'
    text = " ".join(rng.choices(WORDS, k=size // 5 + 1))
    return (head + text[: size - len(head) - len(tail)] + tail).encode()


_ITEMS = """
insert into batch_items (batch_no, model, state, ready_at, custom_id, chunk, line_offset, line_length,
                         segment, answer_offset, answer_length, request_id, attempts)
select $1, $2, 'completed', now(), 'request-' || lpad((s.n * $3 + a)::text, 7, '0'), 0, 0, 100,
       s.id, a * $4, $4, 'req_' || lpad((s.n * $3 + a)::text, 32, '0'), 1
from (select id, row_number() over (order by id) - 1 as n from batch_result_segments where batch_no = $1) s,
     generate_series(0, $3::int - 1) a
order by s.n, a
"""


async def add_results(conn: Connection, batch_no: int, segments: int, answers: int, answer_bytes: int) -> None:
    """Completed items of a batch: `segments` times `answers` of them, with their answers."""
    packed = make_segment(answers, answer_bytes)
    await conn.execute(
        "insert into batch_result_segments (batch_no, data) select $1, $2 from generate_series(1, $3::int)",
        batch_no,
        packed,
        segments,
        timeout=_TIMEOUT,
    )
    await conn.execute(_ITEMS, batch_no, MODEL, answers, answer_bytes, timeout=_TIMEOUT)
    await conn.execute("analyze", timeout=_TIMEOUT)
