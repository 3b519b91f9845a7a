"""The Messages API's rows in the table of targets."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from ebbtide.dialects.anthropic.bodies import check_batch_body, parse_body, parse_count
from ebbtide.dialects.anthropic.completions import MessageEvents as EventWriter
from ebbtide.dialects.anthropic.completions import write_message
from ebbtide.dialects.anthropic.conversation import read_conversation
from ebbtide.dialects.anthropic.counts import read_counted, write_count_request, write_counted
from ebbtide.dialects.anthropic.errors import render_error
from ebbtide.dialects.anthropic.passing import MessageStream, pass_answer, pass_count
from ebbtide.dialects.anthropic.requests import write_request
from ebbtide.dialects.anthropic.responses import STATUSES, read_error, read_message, usage_of
from ebbtide.dialects.anthropic.stream import MessageEvents
from ebbtide.dialects.base import Caller, Server
from ebbtide.dialects.conversation import Sent
from ebbtide.dialects.values import Told, with_model


def _pass_body(raw: bytes, sent: Sent) -> bytes:
    return with_model(raw, sent.model)


def _told(body: bytes, status: int) -> Told | None:
    error, _ = read_error(body)
    return None if error is None else Told(error, STATUSES.get(status, status))


MESSAGES: Final = Caller(
    parse_body=parse_body,
    check_batch_body=check_batch_body,
    read_request=read_conversation,
    write_answer=lambda answer, named, _: write_message(answer, named),
    write_stream=lambda named, _, __: EventWriter(named),
    pass_body=_pass_body,
    pass_answer=pass_answer,
    pass_stream=lambda model, _: MessageStream(model),
    render_error=render_error,
    paths=(
        (re.compile(r"^stop$"), "stop_sequences"),
        (re.compile(r"^reasoning_effort$"), "output_config.effort"),
        (re.compile(r"^parallel_tool_calls$"), "tool_choice.disable_parallel_tool_use"),
        (re.compile(r"^(tools\[\d+\])\.function\b"), r"\1"),
    ),
)
COUNT_TOKENS: Final = replace(
    MESSAGES, parse_body=parse_count, pass_answer=pass_count, write_answer=lambda answer, _, __: write_counted(answer)
)
MESSAGES_SERVER: Final = Server(
    write_request=write_request,
    read_answer=read_message,
    read_stream=lambda _: MessageEvents(),
    read_error=_told,
    read_usage=lambda said: usage_of(said.get("usage")),
)
COUNT_TOKENS_SERVER: Final = replace(MESSAGES_SERVER, write_request=write_count_request, read_answer=read_counted)
