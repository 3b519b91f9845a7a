"""An upload in parts that two gateway processes share: either takes any part, and one that is killed loses nothing."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from tests.gateway import Answer, until
from tests.processes import GatewayProcess, Processes

from ebbtide.storage.pool import Database

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

CONTENT = bytes(range(256)) * 40


async def send(gateway: GatewayProcess, secret: str, command: str, offset: int = 0, data: bytes = b"") -> Answer:
    headers = {"x-goog-upload-command": command, "x-goog-upload-offset": str(offset)}
    return await gateway.call("POST", f"/upload/v1/files/{secret}", key=None, headers=headers, data=data)


async def begin(gateway: GatewayProcess) -> str:
    begun = await gateway.call("POST", "/upload/v1/files", json={"file": {"size_bytes": len(CONTENT)}})
    return begun.headers["x-goog-upload-url"].rpartition("/")[2]


async def test_two_processes_take_one_upload_and_a_kill_makes_no_second_file(
    processes: Processes, database: Database
) -> None:
    first = await processes.start("--role", "api")
    second = await processes.start("--role", "api")
    secret = await begin(first)
    assert (await send(second, secret, "upload", 0, CONTENT[:4_000])).headers["x-goog-upload-size-received"] == "4000"
    assert (await send(first, secret, "upload", 4_000, CONTENT[4_000:])).status == 200
    both = await asyncio.gather(*(send(gateway, secret, "finalize") for gateway in (first, second)))
    [name] = {answer.json["file"]["name"] for answer in both}
    assert (await second.call("GET", f"/v1beta/{name}:download")).body == CONTENT

    secret = await begin(first)
    await send(first, secret, "upload", 0, CONTENT)
    async with database.transaction() as conn:  # the upload cannot be closed yet
        await conn.execute("select from file_uploads where file_id is null for update")
        finishing = asyncio.create_task(send(first, secret, "finalize"))

        async def is_held_up() -> bool:
            waiting = "select count(*) from pg_stat_activity where datname = current_database()"
            return bool(await conn.fetchval(f"{waiting} and wait_event_type = 'Lock'"))

        await until(is_held_up)
        first.kill()
    with pytest.raises(aiohttp.ClientError):
        await finishing
    once, again = [(await send(second, secret, "upload, finalize", 0, CONTENT)).json["file"] for _ in range(2)]
    assert once == again
    listed = (await second.call("GET", "/v1beta/files")).json["files"]
    assert [file["name"] for file in listed] == [once["name"], name]
