"""Files over HTTP: whole uploads are kept byte for byte, anything else leaves nothing; downloads in parts."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.gateway import Answer, TestGateway, start_gateway, until

from ebbtide.accounts.roles import Role

LINES = b'{"custom_id":"a"}\r\n{"custom_id":"b\xc3\xa9"}'
NAME = 'r\u00e9sum\u00e9 \U0001f600 "x".jsonl'


def form(*parts: tuple[str, bytes, str | None], boundary: str = "b0und") -> tuple[bytes, dict[str, str]]:
    """A multipart body of (name, content, file name) and its headers."""
    body = b""
    for name, content, filename in parts:
        named = "" if filename is None else f'; filename="{filename}"'
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'.encode()
        body += content + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"}


async def post(gateway: TestGateway, *parts: tuple[str, bytes, str | None]) -> Answer:
    body, headers = form(*parts)
    return await gateway.call("POST", "/v1/files", data=io.BytesIO(body), headers=headers)


async def stored(gateway: TestGateway) -> int:
    async with gateway.database.connection() as conn:
        files = await conn.fetchval("select count(*) from batch_files")
        chunks = await conn.fetchval("select count(*) from batch_file_chunks")
    return int(files + chunks)


async def test_a_file_is_the_object_that_clients_expect(gateway: TestGateway) -> None:
    answer = await gateway.upload(LINES)
    assert answer.status == 200
    file = answer.json
    assert file | {"id": "", "created_at": 0, "expires_at": 0} == {
        "id": "",
        "object": "file",
        "bytes": len(LINES),
        "created_at": 0,
        "expires_at": 0,
        "filename": "in.jsonl",
        "purpose": "batch",
        "status": "processed",
        "status_details": None,
    }
    assert file["expires_at"] - file["created_at"] == 30 * 86_400
    assert (await gateway.call("GET", f"/v1/files/{file['id']}")).json == file


@pytest.mark.parametrize("content", [LINES, os.urandom(3_000_000), b"\n", b"x" * 2_500_000 + b"\ny"])
async def test_a_file_comes_back_byte_for_byte(gateway: TestGateway, content: bytes) -> None:
    file = (await post(gateway, ("file", content, "in.jsonl"), ("purpose", b"batch", None))).json
    answer = await gateway.call("GET", f"/v1/files/{file['id']}/content")
    assert answer.body == content
    assert answer.headers["content-length"] == str(len(content))
    assert answer.headers["content-type"] == "application/jsonl"
    assert answer.headers["etag"] == f'"{hashlib.sha256(content).hexdigest()}"'


async def test_parts_of_a_file(gateway: TestGateway) -> None:
    content = os.urandom(2_000_000)
    path = f"/v1/files/{(await gateway.upload(content)).json['id']}/content"
    etag = (await gateway.call("HEAD", path)).headers["etag"]
    part = await gateway.call("GET", path, headers={"Range": "bytes=1000000-1500000"})
    assert (part.status, part.body) == (206, content[1_000_000:1_500_001])
    assert part.headers["content-range"] == "bytes 1000000-1500000/2000000"
    tail = await gateway.call("GET", path, headers={"Range": "bytes=-5", "If-Range": etag})
    assert (tail.status, tail.body) == (206, content[-5:])
    changed = await gateway.call("GET", path, headers={"Range": "bytes=-5", "If-Range": '"other"'})
    assert (changed.status, changed.body) == (200, content)
    outside = await gateway.call("GET", path, headers={"Range": "bytes=2000000-"})
    assert (outside.status, outside.headers["content-range"]) == (416, "bytes */2000000")
    same = await gateway.call("GET", path, headers={"If-None-Match": etag})
    assert (same.status, same.body, same.headers["etag"]) == (304, b"", etag)
    head = await gateway.call("HEAD", path)
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "2000000")
    assert head.headers["accept-ranges"] == "bytes"


async def test_names_are_kept_and_need_not_be_unique(gateway: TestGateway) -> None:
    for name in (NAME, NAME, ""):
        body, headers = form(("purpose", b"batch", None), ("file", LINES, name.replace('"', '\\"')))
        file = (await gateway.call("POST", "/v1/files", data=body, headers=headers)).json
        assert file["filename"] == (name or "upload.jsonl")
        answer = await gateway.call("HEAD", f"/v1/files/{file['id']}/content")
        assert answer.headers["content-disposition"].isascii()
    assert len((await gateway.call("GET", "/v1/files")).json["data"]) == 3


async def test_expiry_is_honoured_within_bounds(gateway: TestGateway) -> None:
    fields = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    file = (await gateway.upload(LINES, **fields)).json
    assert file["expires_at"] - file["created_at"] == 3600
    for bad in (
        {"expires_after[seconds]": "3600"},
        {"expires_after[anchor]": "created_at"},
        fields | {"expires_after[seconds]": "3599"},
        fields | {"expires_after[seconds]": "2592001"},
        fields | {"expires_after[seconds]": "x"},
        fields | {"expires_after[anchor]": "now"},
    ):
        assert (await gateway.upload(LINES, **bad)).status == 400


async def test_a_list_is_of_one_purpose_that_there_is(gateway: TestGateway) -> None:
    file = (await gateway.upload(LINES)).json
    for purpose, found in (("batch", [file]), ("batch_output", []), ("fine-tune", [])):
        assert (await gateway.call("GET", f"/v1/files?purpose={purpose}")).json["data"] == found
    answer = await gateway.call("GET", "/v1/files?purpose=batches")
    assert (answer.status, answer.error["param"]) == (400, "purpose")


async def test_what_is_not_one_batch_file_leaves_nothing(gateway: TestGateway) -> None:
    file, purpose = ("file", LINES, "in.jsonl"), ("purpose", b"batch", None)
    for parts in (
        [("purpose", b"fine-tune", None), file],
        [file, ("purpose", b"fine-tune", None)],
        [file],
        [purpose],
        [purpose, file, file],
        [purpose, ("document", LINES, "in.jsonl")],
        [purpose, ("file", b"", "in.jsonl")],
        [purpose, ("file", LINES, "a\0b")],
    ):
        answer = await post(gateway, *parts)
        assert answer.status == 400, parts
        assert answer.error["type"] == "invalid_request_error"
    body, headers = form(purpose, file)
    assert (await gateway.call("POST", "/v1/files", data=body[:-9], headers=headers)).status == 400
    assert (await gateway.call("POST", "/v1/files", data=b"rubbish", headers=headers)).status == 400
    assert (await gateway.call("POST", "/v1/files", json={"file": "x"})).status == 400
    assert await stored(gateway) == 0


@pytest.fixture
async def small(database_url: str, models: Path) -> AsyncIterator[TestGateway]:
    async with start_gateway(database_url, models, role="api", environ={"BATCH_MAX_BODY_MB": "1"}) as gateway:
        yield gateway


async def test_a_file_over_the_limit_is_refused_early_and_by_count(small: TestGateway) -> None:
    limit = 1 << 20
    assert (await small.upload(b"x" * limit)).status == 200
    before = await stored(small)
    assert (await small.upload(b"x" * (limit + 1))).status == 413
    body, headers = form(("purpose", b"batch", None), ("file", b"x" * (limit + 1), "in.jsonl"))

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 65_536):
            yield body[at : at + 65_536]

    by_count = await small.call("POST", "/v1/files", data=pieces(), headers=headers)
    assert by_count.status == 413
    assert await stored(small) == before


async def test_a_huge_upload_is_refused_before_it_is_sent(small: TestGateway) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(small.url.rpartition(":")[2]))
    writer.write(
        f"POST /v1/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {small.admin_key}\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 900000000000\r\n\r\n--b\r\n".encode()
    )
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    assert head.startswith(b"HTTP/1.1 413 ")
    writer.close()


async def test_an_aborted_upload_leaves_nothing(gateway: TestGateway) -> None:
    body, headers = form(("purpose", b"batch", None), ("file", b"x" * 3_000_000, "in.jsonl"))
    _, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
    writer.write(
        f"POST /v1/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.admin_key}\r\n"
        f"Content-Type: {headers['Content-Type']}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    )
    writer.write(body[:-1])
    await writer.drain()
    writer.transport.abort()
    assert (await gateway.call("GET", "/v1/files")).json["data"] == []
    assert await stored(gateway) == 0


async def test_uploading_needs_the_role_and_reading_does_not(gateway: TestGateway) -> None:
    key = await gateway.new_key("pro", Role.PRO)
    answer = await gateway.upload(LINES, key=key)
    assert answer.status == 403
    assert answer.error["type"] == "permission_error"
    assert (await gateway.call("GET", "/v1/files", key=key)).status == 200


async def test_another_accounts_file_does_not_exist(gateway: TestGateway) -> None:
    file = (await gateway.upload(LINES)).json["id"]
    key = await gateway.new_key("other", Role.INTERNAL)
    for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
        theirs = await gateway.call(method, f"/v1/files/{file}{path}", key=key)
        nobodys = await gateway.call(method, f"/v1/files/file-{'0' * 32}{path}", key=key)
        assert theirs.status == nobodys.status == 404
        assert theirs.error["message"].replace(file, "") == nobodys.error["message"].replace("file-" + "0" * 32, "")
    assert (await gateway.call("GET", "/v1/files", key=key)).json["data"] == []


async def test_a_deleted_file_is_gone(gateway: TestGateway) -> None:
    file = (await gateway.upload(LINES)).json["id"]
    headers = {"Content-Type": "application/json"}
    answer = await gateway.call("DELETE", f"/v1/files/{file}", headers=headers)
    assert answer.json == {"id": file, "object": "file", "deleted": True}
    for path in ("", "/content"):
        assert (await gateway.call("GET", f"/v1/files/{file}{path}")).status == 404
    assert (await gateway.call("DELETE", f"/v1/files/{file}")).status == 404


async def test_pages_of_files(gateway: TestGateway) -> None:
    made = [(await gateway.upload(LINES, f"{number}.jsonl")).json["id"] for number in range(4)]
    newest = (await gateway.call("GET", "/v1/files", params={"limit": "2", "unknown": "x"})).json
    assert [file["id"] for file in newest["data"]] == [made[3], made[2]]
    assert (newest["first_id"], newest["last_id"], newest["has_more"]) == (made[3], made[2], True)
    rest = (await gateway.call("GET", "/v1/files", params={"limit": "2", "after": made[2]})).json
    assert [file["id"] for file in rest["data"]] == [made[1], made[0]]
    assert rest["has_more"] is False
    oldest = (await gateway.call("GET", "/v1/files", params={"order": "asc", "purpose": "batch"})).json
    assert [file["id"] for file in oldest["data"]] == made
    none = (await gateway.call("GET", "/v1/files", params={"purpose": "vision"})).json
    assert (none["data"], none["first_id"], none["last_id"]) == ([], None, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [("limit", "0"), ("limit", "10001"), ("limit", "x"), ("order", "up"), ("after", "file-nowhere"), ("after", "\0")],
)
async def test_a_bad_filter_is_named(gateway: TestGateway, name: str, value: str) -> None:
    answer = await gateway.call("GET", "/v1/files", params={name: value})
    assert answer.status == 400
    assert answer.error["param"] == name


async def test_many_uploads_an_hour_are_too_many(database_url: str, models: Path) -> None:
    async with start_gateway(database_url, models, role="api", environ={"BATCH_FILE_UPLOADS_PER_HOUR": "1"}) as gateway:
        assert (await gateway.upload(LINES)).status == 200
        answer = await gateway.upload(LINES)
        assert answer.status == 429
        assert int(answer.headers["retry-after"]) > 0


async def test_failed_uploads_count_as_well_in_their_process(database_url: str, models: Path) -> None:
    environ = {"BATCH_FILE_UPLOADS_PER_HOUR": "3"}
    async with start_gateway(database_url, models, role="api", environ=environ) as gateway:
        assert (await gateway.upload(b"")).error["code"] == "empty_file"
        assert (await gateway.upload(LINES, purpose="fine-tune")).status == 400
        assert (await gateway.upload(LINES)).status == 200
        refused = [await gateway.upload(LINES) for _ in range(2)]
        assert [answer.error["code"] for answer in refused] == ["file_upload_limit"] * 2


async def test_uploads_at_once_share_the_hourly_count(database_url: str, models: Path) -> None:
    environ = {"BATCH_FILE_UPLOADS_PER_HOUR": "2"}
    async with start_gateway(database_url, models, role="api", environ=environ) as gateway:
        answers = await asyncio.gather(*(gateway.upload(LINES) for _ in range(8)))
    assert sorted(answer.status for answer in answers) == [200] * 2 + [429] * 6


async def test_uploads_under_way_count_as_well_since_they_may_fail(database_url: str, models: Path) -> None:
    async with start_gateway(database_url, models, role="api", environ={"BATCH_FILE_UPLOADS_PER_HOUR": "2"}) as gateway:
        connections = [await begun_upload(gateway) for _ in range(3)]
        heads = [asyncio.create_task(reader.readuntil(b"\r\n\r\n")) for reader, _ in connections]
        answered, waiting = await asyncio.wait(heads, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        assert [head.result()[:12] for head in answered] == [b"HTTP/1.1 429"]
        for head in waiting:
            head.cancel()
        for _, writer in connections:
            writer.transport.abort()


async def begun_upload(gateway: TestGateway) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which an upload has begun that does not end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
    writer.write(
        f"POST /v1/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.admin_key}\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000\r\n\r\n--b\r\n".encode()
    )
    await writer.drain()
    return reader, writer


async def test_a_download_ends_when_its_time_is_over_though_its_reader_dawdles(database_url: str, models: Path) -> None:
    content = os.urandom(6 << 20).replace(b"\n", b"")  # more than sockets hold, and stored as one chunk
    async with start_gateway(
        database_url, models, role="api", environ={"STREAM_REQUEST_TIMEOUT_SECONDS": "1"}
    ) as gateway:
        file_id = (await gateway.upload(content)).json["id"]
        reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
        writer.write(
            f"GET /v1/files/{file_id}/content HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {gateway.admin_key}\r\n\r\n".encode()
        )
        async with asyncio.timeout(20):
            assert await reader.read(1)
            await until(lambda: nobody_reads(gateway))
            with suppress(ConnectionError):  # cut off by the server
                assert len(await reader.read()) < len(content)
        writer.close()


async def nobody_reads(gateway: TestGateway) -> bool:
    async with gateway.database.connection() as conn:
        return bool(await conn.fetchval("select count(*) from batch_read_leases") == 0)
