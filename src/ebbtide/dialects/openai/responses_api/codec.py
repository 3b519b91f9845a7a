"""The Responses API's rows in the table of targets."""

from __future__ import annotations

import re
from typing import Final

from ebbtide.dialects.base import Caller, Server
from ebbtide.dialects.conversation import Sent
from ebbtide.dialects.openai.codec import CHAT, CHAT_SERVER
from ebbtide.dialects.openai.responses_api.answers import asked, write_response
from ebbtide.dialects.openai.responses_api.checks import check_batch_body, parse_body
from ebbtide.dialects.openai.responses_api.passing import PassedEvents, pass_answer, usage_of, without_store
from ebbtide.dialects.openai.responses_api.requests import read_request
from ebbtide.dialects.openai.responses_api.server_answers import ResponsePieces, read_response
from ebbtide.dialects.openai.responses_api.server_requests import write_request
from ebbtide.dialects.openai.responses_api.stream import Events
from ebbtide.dialects.values import with_model


def _pass_body(raw: bytes, sent: Sent) -> bytes:
    return with_model(without_store(raw), sent.model)


RESPONSES: Final = Caller(
    parse_body=parse_body,
    check_batch_body=check_batch_body,
    read_request=read_request,
    write_answer=lambda answer, named, request: write_response(answer, asked(request, named)),
    write_stream=lambda named, _, request: Events(asked(request, named)),
    pass_body=_pass_body,
    pass_answer=pass_answer,
    pass_stream=lambda model, _: PassedEvents(model),
    render_error=CHAT.render_error,
    paths=(
        (re.compile(r"^reasoning_effort$"), "reasoning.effort"),
        (re.compile(r"^response_format\b"), "text.format"),
        (re.compile(r"^(tools\[\d+\])\.function\b"), r"\1"),
    ),
)
RESPONSES_SERVER: Final = Server(
    write_request=write_request,
    read_answer=read_response,
    read_stream=lambda _: ResponsePieces(),
    read_error=CHAT_SERVER.read_error,
    read_usage=lambda said: usage_of(said.get("usage")),
)
