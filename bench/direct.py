"""The yardstick of the proxy: the gateway's server framework, reading a body and answering a chat completion itself."""

from __future__ import annotations

import gc
import socket
import sys

import uvicorn
import uvloop
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from bench.upstream import make_answers

_ANSWER = make_answers(1)[0].partition(b"\r\n\r\n")[2]


class _Answer:
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive, send).body()
        await Response(_ANSWER, media_type="application/json")(scope, receive, send)


async def serve() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    app = Router([Route("/v1/chat/completions", _Answer())])
    # As ebbtide.api.server configures it.
    config = uvicorn.Config(
        app, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False, server_header=False
    )
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    gc.freeze()
    gc.set_threshold(100_000, 10, 10)
    await uvicorn.Server(config).serve([listener])


if __name__ == "__main__":
    uvloop.run(serve())
