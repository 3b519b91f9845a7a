"""Gemini's interactive methods: generateContent, streamGenerateContent, countTokens, and both for embeddings."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.gateway import Gateway
from ebbtide.api.interactive import Framing, Spoken, answer_interactive
from ebbtide.api.openai.inference import INTERACTIVE_ERRORS
from ebbtide.api.parameters import OneOfParameter
from ebbtide.api.routing import Closed, Described, Endpoint, KeyHandler
from ebbtide.dialects.gemini.array import Array
from ebbtide.dialects.gemini.bodies import named
from ebbtide.dialects.gemini.wire import (
    BatchEmbedContentsRequest,
    CountTokensRequest,
    EmbedContentRequest,
    GenerateContentRequest,
)
from ebbtide.dialects.values import Target

MODEL: Final = "/v1beta/models/{model:path}"
ALT: Final = OneOfParameter("alt", ("sse", "json"), "sse: server-sent events; else the stream is one JSON array")


async def generate_content(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return await answer_interactive(gateway, request, principal, _spoken(request, "gemini"))


async def stream_generate_content(gateway: Gateway, request: Request, principal: Principal) -> Response:
    framed = None if ALT.read(request) == "sse" else Framing("application/json", _array)
    spoken = replace(_spoken(request, "gemini"), stream=True, framed=framed)
    return await answer_interactive(gateway, request, principal, spoken)


async def count_content_tokens(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return await answer_interactive(gateway, request, principal, _spoken(request, "gemini_count"))


async def embed_content(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return await answer_interactive(gateway, request, principal, _spoken(request, "gemini_embed"))


async def batch_embed_contents(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return await answer_interactive(gateway, request, principal, _spoken(request, "gemini_embeddings"))


def _spoken(request: Request, target: Target) -> Spoken:
    return Spoken(target, fitted=partial(named, model=request.path_params["model"]))


async def _array(events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    array = Array()
    async with aclosing(events) as pieces:
        async for piece in pieces:
            yield array.feed(piece)
        yield array.close()


def _method(verb: str, handler: KeyHandler, summary: str, request: object, *, streams: bool = False) -> Endpoint:
    told = Described(
        request=request,
        answer="application/json",
        streams=streams,
        parameters=(ALT,) if streams else (),
        errors=INTERACTIVE_ERRORS,
    )
    return Closed("POST", f"{MODEL}:{verb}", handler, summary, told)


ROUTES: tuple[Endpoint, ...] = (
    _method("generateContent", generate_content, "Generate content", GenerateContentRequest),
    _method(
        "streamGenerateContent",
        stream_generate_content,
        "Generate content as a stream",
        GenerateContentRequest,
        streams=True,
    ),
    _method(
        "countTokens",
        count_content_tokens,
        "Count the tokens of a request, on models whose server does",
        CountTokensRequest,
    ),
    _method("embedContent", embed_content, "Embed a text", EmbedContentRequest),
    _method("batchEmbedContents", batch_embed_contents, "Embed several texts", BatchEmbedContentsRequest),
)
