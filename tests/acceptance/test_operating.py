"""What operators see of several processes behind one port: metrics, readiness, a dead one, a stop that drains."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.fake_upstream import Behaviour, FakeUpstream
from tests.gateway import chat_model, models_file, until
from tests.processes import GatewayProcess, Processes, holds, send

from ebbtide.siblings import SILENT_SECONDS, Folder

pytestmark = pytest.mark.processes
TOKEN = "a-token-for-the-scraper"
PROMPT = "a prompt that nobody may log"


@pytest.fixture
async def upstream() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as upstream:
        yield upstream


@pytest.fixture
async def processes(
    database_url: str, listen_url: str, tmp_path: Path, upstream: FakeUpstream
) -> AsyncIterator[Processes]:
    models = models_file(tmp_path, chat_model(upstream.url))
    environ = {
        "EBBTIDE_DATABASE_URL": database_url,
        "EBBTIDE_DATABASE_LISTEN_URL": listen_url,
        "EBBTIDE_METRICS_TOKEN": TOKEN,
        "EBBTIDE_LOG_FORMAT": "json",
        "TMPDIR": str(tmp_path),
    }
    async with Processes(tmp_path, models, **environ) as processes:
        yield processes


@pytest.fixture
def family(tmp_path: Path) -> Callable[[], Folder]:
    """Where the processes of the gateway that runs tell each other how they stand."""

    def find() -> Folder:
        [word] = tmp_path.glob("ebbtide-*/process-0.json")
        return Folder(word.parent)

    return find


async def scrape(gateway: GatewayProcess) -> dict[str, list[tuple[dict[str, str], float]]]:
    answer = await gateway.call("GET", "/metrics", key=TOKEN)
    assert answer.status == 200
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(answer.body.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


async def chat(gateway: GatewayProcess, **more: Any) -> int:
    body = {"model": "chat-1", "messages": [{"role": "user", "content": PROMPT}], **more}
    return (await gateway.call("POST", "/v1/chat/completions", json=body)).status


def ended(metrics: dict[str, list[tuple[dict[str, str], float]]]) -> float:
    return sum(
        value for labels, value in metrics.get("ebbtide_requests_total", []) if labels["source"] == "interactive"
    )


async def test_metrics_and_readiness_speak_for_both_keep_what_a_dead_one_counted_and_a_stop_drains(
    processes: Processes, upstream: FakeUpstream, family: Callable[[], Folder]
) -> None:
    gateway = await processes.start("--processes", "2")
    ready = await gateway.call("GET", "/health/ready", key=None)
    assert ready.json["processes"] == {"0": "ok", "1": "ok"}
    for _ in range(20):
        async with aiohttp.ClientSession() as fresh:  # a new connection each, so that both have their share
            headers = {"Authorization": f"Bearer {gateway.key}", "Connection": "close"}
            body = {"model": "chat-1", "messages": [{"role": "user", "content": PROMPT}]}
            async with fresh.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers) as answer:
                assert answer.status == 200
        await upstream.arrived.get()
    before = await scrape(gateway)
    assert ended(before) == 20
    assert {labels["process"]: value for labels, value in before["ebbtide_process_up"]} == {"0": 1, "1": 1}
    for name in ("ebbtide_tasks", "ebbtide_threads", "ebbtide_open_files", "ebbtide_resident_memory_bytes"):
        assert {labels["process"]: value > 0 for labels, value in before[name]} == {"0": True, "1": True}
    assert {"claim", "seal", "heartbeat", "lease"} <= {
        labels["loop"] for labels, _ in before["ebbtide_heartbeat_age_seconds"]
    }
    assert before["ebbtide_deployment_workers"] == [({}, 2)]
    assert (await gateway.call("GET", "/metrics", key=TOKEN + "x")).status == 401

    dead, other = gateway.children()
    places = {beat.pid: str(place) for place, beat in family().read().items()}
    os.kill(dead, signal.SIGKILL)

    async def is_told() -> Any:
        answer = await gateway.call("GET", "/health/ready", key=None)
        return answer.json if answer.status == 503 else None

    told = (await until(is_told, every=0.01))["processes"]
    assert set(told) == {"0", "1"}
    assert told[places[other]] == "ok"
    assert told[places[dead]] == "is starting" or told[places[dead]].startswith("ended with status -9")
    await gateway.ready()  # the parent has started another
    assert other in gateway.children()
    assert dead not in gateway.children()
    assert ended(await scrape(gateway)) == 20

    upstream.script += [Behaviour(latency=1.0), Behaviour(latency=1.0)]
    plain = asyncio.create_task(chat(gateway))
    streamed = asyncio.create_task(chat(gateway, stream=True))
    await upstream.arrived.get()
    await upstream.arrived.get()
    gateway.terminate()
    assert (await plain, await streamed) == (200, 200)
    assert await gateway.wait() == 0


async def test_a_process_that_hangs_is_told_by_the_other_and_a_second_signal_ends_all_at_once(
    processes: Processes, upstream: FakeUpstream, family: Callable[[], Folder]
) -> None:
    gateway = await processes.start("--processes", "2")
    hanging, _ = gateway.children()
    send(hanging, signal.SIGSTOP)
    await holds(lambda: _is_stopped(hanging))
    [(place, beat)] = [(place, beat) for place, beat in family().read().items() if beat.pid == hanging]
    family().write(place, msgspec.structs.replace(beat, at=beat.at - SILENT_SECONDS))  # as time would have it

    async def is_told() -> Any:
        try:
            answer = await gateway.call("GET", "/health/ready", key=None, timeout=aiohttp.ClientTimeout(total=2))
        except TimeoutError:
            return None  # the kernel gave the connection to the one that hangs
        return answer.json["processes"] if answer.status == 503 else None

    told = await until(is_told, within=60)
    assert told[str(place)].startswith("has been silent for")
    assert told[str(1 - place)] == "ok"
    send(hanging, signal.SIGCONT)
    await gateway.ready()

    upstream.script.append(Behaviour("stall"))
    asking = asyncio.create_task(chat(gateway))
    await upstream.arrived.get()
    gateway.terminate()
    await holds(lambda: all(beat.state == "stopping" for beat in family().read().values()))
    gateway.terminate()
    assert await asking == 503
    assert await gateway.wait() == 0


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


async def test_each_request_leaves_one_line_and_no_secret(processes: Processes, upstream: FakeUpstream) -> None:
    gateway = await processes.start()
    headers = {"Authorization": f"Bearer {gateway.key}", "X-Request-ID": "told-by-the-caller"}
    body = {"model": "chat-1", "messages": [{"role": "user", "content": PROMPT}]}
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{gateway.url}/v1/chat/completions?secret=query", json=body, headers=headers) as answer,
    ):
        assert answer.headers["x-request-id"] == "told-by-the-caller"
        said = await answer.text()
    batch = await gateway.create([{"custom_id": "one", "body": body}])
    await gateway.ended(batch)
    assert (await gateway.call("GET", "/v1/unknown/secret-path")).status == 404
    assert await gateway.stop() == 0

    lines = [json.loads(line) for line in gateway.log.splitlines() if line.startswith("{")]
    [line] = [line for line in lines if line.get("request_id") == "told-by-the-caller"]
    assert (line["event"], line["method"], line["route"]) == ("request", "POST", "/v1/chat/completions")
    assert (line["status"], line["model"], line["whole"]) == (200, "chat-1", True)
    assert line["account"].startswith("acct_")
    assert line["bytes"] == len(said)
    logged = "\n".join(json.dumps(line) for line in lines)
    for secret in (PROMPT, gateway.key, TOKEN, "secret=query", "secret-path", "custom_id"):
        assert secret not in logged
    told = [request.headers.get("x-request-id", "") for request in upstream.requests]
    assert told[0] == "told-by-the-caller"
    assert told[1].startswith("req_")
