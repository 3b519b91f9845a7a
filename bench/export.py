"""How fast results leave, and in how much memory: `output.jsonl`, sealing a file batch, and the sealed file's content.

About 1 GiB of answers of 2 KiB by default; `--gib 8` for the whole question. The memory is the gateway's, above idle.
"""

from __future__ import annotations

import argparse
import time

from bench.figures import Figure, main
from bench.fill import add_results
from bench.processes import MIB, Process, call
from bench.stage import Gateway, Stage, stage
from ebbtide import ids
from ebbtide.batches.model import DUTY_CHANNEL
from ebbtide.storage.notify import notify

_ANSWERS = 128  # in one segment
_ANSWER_BYTES = 2_048

_ADD_BATCH = """
insert into batch_jobs (id, account_id, key_id, api_surface, target, input_id, completion_window, retention_days, phase,
                        created_at, in_progress_at, finalizing_at, sealed_at, results_expires_at, total, completed)
select $1, $2, $3, $4, 'chat', 'file-none', '24h', 7, $5, now(), now(), now(), x.ended, x.ended + interval '7 days',
       $6, $6
from (select case when $5 = 'sealed' then now() end as ended) x returning no
"""


async def measure(options: argparse.Namespace) -> list[Figure]:
    segments = max(1, int(options.gib * 1024 * MIB / _ANSWERS / _ANSWER_BYTES))
    async with stage(fsync=False) as on:
        direct_id = await add_batch(on, ("openai_inline", "sealed"), segments)
        async with on.gateway("all", on.models()) as running:
            direct = await _download(on, running, f"/v1/batches/{direct_id}/output.jsonl")
            watched = _Watched(running.process)
            filed_id = await add_batch(on, ("openai_file", "sealing"), segments)
            began = time.perf_counter()
            await on.reached(filed_id, "sealed")
            sealed = watched.end(time.perf_counter() - began, direct.size)
            async with on.database.connection() as conn:
                file_id = await conn.fetchval("select output_id from batch_jobs where id = $1", filed_id)
            content = await _download(on, running, f"/v1/files/{file_id}/content")
    return [
        *_figures("output.jsonl", direct),
        *_figures("sealed file's content", content),
        Figure("sealing: JSONL written", sealed.speed, "MB/s"),
        Figure("sealing: memory above idle", sealed.grown / MIB, "MiB", goal=64, reach="at most"),
        Figure("export: size of the download", direct.size / MIB, "MiB"),
    ]


class Ended:
    """What one transfer came to."""

    def __init__(self, size: int, seconds: float, cpu: float, grown: int) -> None:
        self.size, self.seconds, self.cpu, self.grown = size, seconds, cpu, grown

    @property
    def speed(self) -> float:
        """MB/s."""
        return self.size / self.seconds / 1e6


class _Watched:
    """A process from now to `end`: its CPU, and its memory above what it was."""

    def __init__(self, process: Process) -> None:
        self._process = process
        process.forget_peak()
        self._idle, self._cpu = process.memory(), process.cpu()

    def end(self, seconds: float, size: int) -> Ended:
        return Ended(size, seconds, self._process.cpu() - self._cpu, self._process.peak() - self._idle)


def _figures(name: str, ended: Ended) -> list[Figure]:
    return [
        Figure(f"export: {name}", ended.speed, "MB/s", goal=100),
        Figure(f"export: {name}, by CPU of the gateway alone", ended.size / ended.cpu / 1e6, "MB/s"),
        Figure(f"export: {name}, memory above idle", ended.grown / MIB, "MiB", goal=64, reach="at most"),
    ]


async def add_batch(on: Stage, kind: tuple[str, str], segments: int) -> str:
    """A batch (surface, phase) whose requests have all been answered: its id.

    In one transaction, so that no worker sees half of it; a worker that may have something to do is told.
    """
    batch_id = ids.batch_id()
    async with on.database.transaction() as conn:
        owner = on.principal
        number = await conn.fetchval(_ADD_BATCH, batch_id, owner.account_id, owner.key_id, *kind, segments * _ANSWERS)
        await add_results(conn, number, segments, _ANSWERS, _ANSWER_BYTES)
        await notify(conn, DUTY_CHANNEL)
    return batch_id


async def _download(on: Stage, running: Gateway, path: str) -> Ended:
    watched = _Watched(running.process)
    reply = await call("GET", running.url + path, on.key)
    return watched.end(reply.seconds, reply.size)


if __name__ == "__main__":
    main(__doc__, measure, gib=1.0)
