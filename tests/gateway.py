"""A whole gateway for tests, in this process and event loop, answering real HTTP on a free port.

`async with start_gateway(database_url, models_path) as gateway:` then `gateway.url`, `gateway.admin_key`.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from tests.people import create_account, create_key

from ebbtide.accounts.roles import Role
from ebbtide.app import start
from ebbtide.clock import SystemClock
from ebbtide.config import Config, ProcessRole
from ebbtide.ending import Stop
from ebbtide.greeting import Running
from ebbtide.storage.pool import Database

Headers = dict[str, str]


@dataclass(frozen=True)
class Answer:
    """One HTTP answer, read whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def error(self) -> Any:
        return self.json["error"]


@dataclass(frozen=True)
class TestGateway:
    """A running gateway. `http` sends no key of its own; `call` sends the administrator's unless told otherwise."""

    __test__ = False

    url: str
    admin_key: str
    running: Running
    stop: Stop
    database: Database
    http: aiohttp.ClientSession

    async def call(
        self, method: str, path: str, *, key: str | None = "", headers: Headers | None = None, **body: Any
    ) -> Answer:
        """One request; `key` None sends none. `body` is aiohttp's `json`, `data` or `params`."""
        sent = dict(headers or {})
        if key is not None:
            sent["Authorization"] = f"Bearer {key or self.admin_key}"
        async with self.http.request(method, self.url + path, headers=sent, allow_redirects=False, **body) as response:
            return Answer(response.status, response.headers, await response.read())

    async def upload(self, content: bytes, filename: str = "in.jsonl", *, key: str = "", **fields: str) -> Answer:
        """POST /v1/files with `purpose=batch`, unless `fields` say otherwise."""
        form = aiohttp.FormData()
        for name, value in ({"purpose": "batch"} | fields).items():
            form.add_field(name, value)
        form.add_field("file", io.BytesIO(content), filename=filename)
        return await self.call("POST", "/v1/files", key=key, data=form)

    async def new_key(self, name: str, role: Role) -> str:
        """The API key of a new account."""
        now = SystemClock().now()
        account = await create_account(self.database, name, role, now)
        _, secret = await create_key(self.database, account.id, now=now)
        return secret


@asynccontextmanager
async def start_gateway(
    database_url: str,
    models: Path,
    *,
    role: ProcessRole = "all",
    listen_url: str | None = None,
    environ: Mapping[str, str] | None = None,
    webhook_ca_file: Path | None = None,
    **boot: Any,
) -> AsyncIterator[TestGateway]:
    """A gateway on the migrated database at `database_url`; the first one on it makes the administrator."""
    config = Config(
        data_dir=Path("/nonexistent"),
        database_url=database_url,
        database_listen_url=listen_url,
        port=0,
        role=role,
        models=models,
        webhook_ca_file=webhook_ca_file,
        **boot,
    )
    stop = Stop()
    async with start(config, environ or {}, stop) as running, await Database.connect(database_url) as database:
        assert running.url is not None
        key = running.admin_key or await _another_admin(database)
        async with aiohttp.ClientSession(auto_decompress=False) as http:
            yield TestGateway(running.url, key, running, stop, database, http)
            stop.ask()


async def _another_admin(database: Database) -> str:
    now = SystemClock().now()
    account = await create_account(database, f"admin-{now.timestamp()}", Role.ADMIN, now)
    _, secret = await create_key(database, account.id, now=now)
    return secret


def models_file(folder: Path, *models: Mapping[str, Any], **more: Any) -> Path:
    """A models file (JSON is YAML) in `folder`."""
    path = folder / "models.yaml"
    path.write_bytes(msgspec.json.encode({"models": list(models)} | more))
    return path


def chat_model(url: str | None = None, name: str = "chat-1", **more: Any) -> dict[str, Any]:
    """A chat model at `url`, or answered by the stand-in."""
    return _model(url, name, "chat", more)


def embedding_model(url: str | None = None, name: str = "embed-1", **more: Any) -> dict[str, Any]:
    return _model(url, name, "embedding", more)


def _model(url: str | None, name: str, kind: str, more: dict[str, Any]) -> dict[str, Any]:
    route = {"id": f"{name}-route", "kind": "standin", "model": name}
    if url is not None:
        route |= {"kind": "openai", "base_url": url}
    return {"id": name, "type": kind, "routes": [route]} | more


async def until(holds: Any, *, within: float = 20.0, every: float = 0.02) -> Any:
    """Ask `holds()` again and again until it answers something true, and return that. Raises TimeoutError."""
    async with asyncio.timeout(within):
        while not (answer := await holds()):  # noqa: ASYNC110  polls as a client does
            await asyncio.sleep(every)
        return answer


def request_line(custom_id: str, model: str = "chat-1", text: str = "Hello", **body: Any) -> dict[str, Any]:
    """One chat request of a batch."""
    messages: Sequence[Mapping[str, str]] = [{"role": "user", "content": text}]
    return {
        "custom_id": custom_id,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": model, "messages": messages} | body,
    }
