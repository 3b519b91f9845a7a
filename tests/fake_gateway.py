"""A small HTTP server that speaks the batch API as a script says, for tests of the command line."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

from aiohttp import web

KEY = "ebb-" + "k" * 43
LINES = (
    '{"custom_id": "a", "url": "/v1/embeddings", "body": {}}\n{"custom_id": "b", "url": "/v1/embeddings", "body": {}}\n'
)
RESULTS = b'{"custom_id": "a", "response": {}}\n{"custom_id": "b", "response": {}}\n'


class FakeGateway:
    """One batch that goes through `course`, a look at a time; the last entry stays."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.course: list[dict[str, Any]] = [batch("completed", completed=2)]
        self.refusal: tuple[str, int, str] | None = None  # path, status, message
        self.results = RESULTS
        self.break_results = 0
        self.created: dict[str, Any] = {}
        self.uploaded: dict[str, str] = {}
        self.stored: dict[str, str] = {}  # uploads of before: content by file id
        self.conflicting: set[str] = set()  # files that a key's first create did not name
        self.headers: dict[str, str] = {}
        self.keys: list[str] = []  # of every create, answered or not
        self.uploads = 0
        self.paths: list[str] = []
        self.lost_creates = 0
        self.events: list[str] | None = None  # what the stream of progress says; None: there is none
        self.deleted: list[str] = []
        self.cursors: list[str] = []  # of the result pages asked for
        self.looked = asyncio.Event()
        self.refused = asyncio.Event()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def up(self) -> None:
        app = web.Application(middlewares=[self._guard])
        app.router.add_post("/v1/files", self._upload)
        app.router.add_get("/v1/files", self._files)
        app.router.add_get("/v1/files/{id}/content", self._content)
        app.router.add_delete("/v1/files/{id}", self._delete)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/batches", self._create)
        app.router.add_get("/v1/batches", self._list)
        app.router.add_get("/v1/batches/{id}", self._get)
        app.router.add_get("/v1/batches/{id}/events", self._progress)
        app.router.add_post("/v1/batches/{id}/retry", self._create)
        app.router.add_post("/v1/batches/{id}/cancel", self._get)
        app.router.add_delete("/v1/batches/{id}", self._delete)
        app.router.add_get("/v1/batches/{id}/results", self._outcomes)
        app.router.add_get("/v1/batches/{id}/output.jsonl", self._output)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()

    async def down(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @web.middleware
    async def _guard(self, request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        self.paths.append(request.raw_path)
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return error(401, "The API key is missing or not valid.")
        if self.refusal is not None and request.path == self.refusal[0] and request.method != "DELETE":
            self.refused.set()
            return error(*self.refusal[1:])
        answer: web.StreamResponse = await handler(request)
        return answer

    async def _upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        file = form["file"]
        assert isinstance(file, web.FileField)
        self.uploads += 1
        self.uploaded = {"purpose": str(form["purpose"]), "name": file.filename, "content": file.file.read().decode()}
        return web.json_response({"id": "file-1"})

    async def _create(self, request: web.Request) -> web.Response:
        self.keys.append(request.headers["Idempotency-Key"])
        if self.lost_creates:
            self.lost_creates -= 1
            assert request.transport is not None
            request.transport.abort()
        self.created = await request.json() if request.can_read_body else {}
        if self.created.get("input_file_id") in self.conflicting:
            return error(409, "The Idempotency-Key was already used with a different request")
        self.headers = dict(request.headers)
        return web.json_response(batch("validating"))

    async def _files(self, request: web.Request) -> web.Response:
        assert (request.query["purpose"], request.query["order"]) == ("batch", "asc")
        ids = list(self.stored)
        start = ids.index(request.query["after"]) + 1 if "after" in request.query else 0
        data = [{"id": name, "bytes": len(self.stored[name])} for name in ids[start : start + 2]]
        return web.json_response({"object": "list", "data": data, "has_more": start + 2 < len(ids)})

    async def _content(self, request: web.Request) -> web.Response:
        digest = hashlib.sha256(self.stored[request.match_info["id"]].encode()).hexdigest()
        return web.Response(headers={"ETag": f'"{digest}"'})

    async def _get(self, request: web.Request) -> web.Response:
        self.looked.set()
        return web.json_response(self.course[0] if len(self.course) == 1 else self.course.pop(0))

    async def _progress(self, request: web.Request) -> web.StreamResponse:
        if self.events is None:
            return error(404, "Unknown path")
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for text in self.events:
            await answer.write(text.encode())
        return answer

    async def _outcomes(self, request: web.Request) -> web.Response:
        """Two pages, the second of which holds what waits; then the batch gets done."""
        if "after" not in request.query:
            return web.json_response({"data": [{"id": "a", "status": "completed"}], "has_more": True})
        self.cursors.append(request.query["after"])
        if len(self.cursors) == 2:
            self.course = [batch("completed", completed=2)]
        waiting = {"id": "b", "status": "queued", "error": {"code": "rate_limited", "message": "Slow down"}}
        return web.json_response({"data": [waiting], "has_more": False})

    async def _list(self, request: web.Request) -> web.Response:
        ids = [f"batch_{number}" for number in range(250)]
        start = ids.index(request.query["after"]) + 1 if "after" in request.query else 0
        page = ids[start : start + int(request.query["limit"])]
        data = [{**batch("completed", completed=2), "id": name} for name in page]
        return web.json_response({"object": "list", "data": data, "has_more": page[-1] != ids[-1]})

    async def _delete(self, request: web.Request) -> web.Response:
        self.deleted.append(request.match_info["id"])
        return web.json_response({"deleted": True})

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "small", "object": "model", "created": 0, "owned_by": "ebbtide"}]})

    async def _output(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Length": str(len(self.results))})
        await answer.prepare(request)
        if self.break_results:
            self.break_results -= 1
            await answer.write(self.results[:10])
            assert request.transport is not None
            request.transport.abort()
            return answer
        await answer.write(self.results)
        return answer


def error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "code": status}}, status=status)


def batch(status: str, *, completed: int = 0, failed: int = 0, total: int = 2, **more: object) -> dict[str, Any]:
    counts = {"total": total, "completed": completed, "failed": failed}
    return {"id": "batch_1", "object": "batch", "status": status, "request_counts": counts, "errors": None, **more}
