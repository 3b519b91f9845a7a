"""Gemini's rows in the tables of targets and of wire forms: generateContent, countTokens, both embedding methods."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from ebbtide.dialects.base import Caller, Pieces, Server, Stream, Writer
from ebbtide.dialects.conversation import Named
from ebbtide.dialects.gemini.bodies import (
    check_batched,
    check_batched_embed,
    counted,
    parse_count,
    parse_embed,
    parse_embeds,
    parse_generate,
)
from ebbtide.dialects.gemini.completions import Generation, write_generated
from ebbtide.dialects.gemini.conversation import read_conversation, shows_thoughts
from ebbtide.dialects.gemini.counts import read_counted, write_count_request, write_counted
from ebbtide.dialects.gemini.embeddings import read_embed, read_embeds, write_embedding, write_embeddings
from ebbtide.dialects.gemini.errors import render_error
from ebbtide.dialects.gemini.passing import (
    GenerationStream,
    pass_body,
    pass_count,
    pass_count_body,
    pass_embeds,
    pass_generated,
    pass_vectors,
)
from ebbtide.dialects.gemini.requests import write_embed, write_request
from ebbtide.dialects.gemini.responses import read_error, read_generated, read_vectors, usage_of
from ebbtide.dialects.gemini.stream import GeneratedEvents
from ebbtide.dialects.values import Told, Usage


def _told(body: bytes, status: int) -> Told | None:
    told = read_error(body)
    if told is None:
        return None
    return Told(told.error, told.status if told.status == 401 else status, told.retry_after)


def _used(said: dict[str, object]) -> Usage | None:
    return usage_of(said.get("usageMetadata"))


def _no_stream(_: str) -> Pieces:
    raise ValueError("Not streamed")


def _written(named: Named, _: bool, request: bytes) -> Writer:
    return Generation(named, thoughts=shows_thoughts(request))


def _passed_stream(model: str, _: bool) -> Stream:
    return GenerationStream(model)


GENERATE: Final = Caller(
    parse_body=parse_generate,
    check_batch_body=check_batched,
    read_request=read_conversation,
    write_answer=lambda answer, named, request: write_generated(answer, named, thoughts=shows_thoughts(request)),
    write_stream=_written,
    pass_body=lambda raw, _: pass_body(raw),
    pass_answer=pass_generated,
    pass_stream=_passed_stream,
    render_error=render_error,
    paths=(
        (re.compile(r"^n$"), "generationConfig.candidateCount"),
        (re.compile(r"^top_p$"), "generationConfig.topP"),
        (re.compile(r"^top_k$"), "generationConfig.topK"),
        (re.compile(r"^temperature$"), "generationConfig.temperature"),
        (re.compile(r"^seed$"), "generationConfig.seed"),
        (re.compile(r"^presence_penalty$"), "generationConfig.presencePenalty"),
        (re.compile(r"^frequency_penalty$"), "generationConfig.frequencyPenalty"),
        (re.compile(r"^stop$"), "generationConfig.stopSequences"),
        (re.compile(r"^response_format\b.*"), "generationConfig.responseMimeType"),
        (re.compile(r"^reasoning_effort$"), "generationConfig.thinkingConfig.thinkingLevel"),
        (re.compile(r"^thinking$"), "generationConfig.thinkingConfig.thinkingBudget"),
        (re.compile(r"\.functionCall\.extra_content$"), ".thoughtSignature"),
        (re.compile(r"^(contents\[\d+\])\.content$"), r"\1.parts"),
    ),
)
COUNT: Final = replace(
    GENERATE,
    parse_body=parse_count,
    read_request=lambda raw: read_conversation(counted(raw)),
    write_answer=lambda answer, _, __: write_counted(answer),
    pass_body=lambda raw, sent: pass_count_body(raw, sent.model),
    pass_answer=pass_count,
)
EMBED: Final = replace(
    GENERATE,
    parse_body=parse_embed,
    check_batch_body=check_batched_embed,
    read_request=read_embed,
    write_answer=lambda answer, _, __: write_embedding(answer),
    pass_answer=pass_vectors,
)
EMBEDDINGS: Final = replace(
    EMBED,
    parse_body=parse_embeds,
    read_request=read_embeds,
    write_answer=lambda answer, _, __: write_embeddings(answer),
    pass_body=lambda raw, sent: pass_embeds(raw, sent.model),
)

GEMINI_SERVER: Final = Server(
    write_request=lambda asked, _: write_request(asked),
    read_answer=read_generated,
    read_stream=GeneratedEvents,
    read_error=_told,
    read_usage=_used,
)
EMBEDDINGS_SERVER: Final = Server(
    write_request=lambda asked, sent: write_embed(asked, sent.model),
    read_answer=read_vectors,
    read_stream=_no_stream,
    read_error=_told,
    read_usage=_used,
)
COUNT_SERVER: Final = replace(
    GEMINI_SERVER, write_request=write_count_request, read_answer=read_counted, read_stream=_no_stream
)
# A server is asked for one vector by the method for many, but by a caller of its own.
EMBED_SERVER: Final = EMBEDDINGS_SERVER
