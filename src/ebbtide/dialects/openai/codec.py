"""Chat completions' and embeddings' rows in the table of targets."""

from __future__ import annotations

from functools import partial
from typing import Final

from ebbtide.dialects.base import Caller, Server
from ebbtide.dialects.conversation import Embedded, Named, Sent
from ebbtide.dialects.openai.bodies import check_batch_body, parse_body, streamed
from ebbtide.dialects.openai.chat_answers import ChatPieces, read_completion
from ebbtide.dialects.openai.chat_requests import write_chat
from ebbtide.dialects.openai.completions import Chunks, write_completion, write_embeddings
from ebbtide.dialects.openai.conversation import read_conversation, read_embed
from ebbtide.dialects.openai.embeddings import read_embedded, write_embed
from ebbtide.dialects.openai.errors import render_error
from ebbtide.dialects.openai.responses import read_answer, read_error, usage_of
from ebbtide.dialects.openai.stream import ChatStream
from ebbtide.dialects.values import Told, with_model
from ebbtide.errors import EbbtideError


def _pass_chat(raw: bytes, sent: Sent) -> bytes:
    return streamed(raw, sent.model) if sent.stream else with_model(raw, sent.model)


def _pass_embeddings(raw: bytes, sent: Sent) -> bytes:
    return with_model(raw, sent.model)


def _write_embeddings(answer: Embedded, named: Named, request: bytes) -> bytes:
    return write_embeddings(answer, named, packed=read_embed(request).packed)


def render(error: EbbtideError, _: str) -> tuple[int, dict[str, str], bytes]:
    """An error in OpenAI's shape, which does not hold the request's id."""
    return render_error(error)


CHAT: Final = Caller(
    parse_body=partial(parse_body, "chat"),
    check_batch_body=partial(check_batch_body, "chat"),
    read_request=read_conversation,
    write_answer=lambda answer, named, _: write_completion(answer, named),
    write_stream=lambda named, asks_usage, _: Chunks(named, show_usage=asks_usage),
    pass_body=_pass_chat,
    pass_answer=partial(read_answer, "chat"),
    pass_stream=lambda model, asks_usage: ChatStream(model, show_usage=asks_usage),
    render_error=render,
)
EMBEDDINGS: Final = Caller(
    parse_body=partial(parse_body, "embeddings"),
    check_batch_body=partial(check_batch_body, "embeddings"),
    read_request=read_embed,
    write_answer=_write_embeddings,
    write_stream=CHAT.write_stream,  # never asked for
    pass_body=_pass_embeddings,
    pass_answer=partial(read_answer, "embeddings"),
    pass_stream=CHAT.pass_stream,
    render_error=render,
)
CHAT_SERVER: Final = Server(
    write_request=write_chat,
    read_answer=read_completion,
    read_stream=ChatPieces,
    read_error=lambda body, status: Told(read_error(body, status), status),
    read_usage=lambda said: usage_of("chat", said.get("usage")),
)
EMBEDDINGS_SERVER: Final = Server(
    write_request=write_embed,
    read_answer=read_embedded,
    read_stream=ChatPieces,
    read_error=CHAT_SERVER.read_error,
    read_usage=lambda said: usage_of("embeddings", said.get("usage")),
)
