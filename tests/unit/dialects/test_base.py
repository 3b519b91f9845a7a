"""The OpenAI dialect fulfils the contract; the type checker proves it on these assignments."""

from __future__ import annotations

from ebbtide.dialects import base
from ebbtide.dialects.openai import errors, requests, responses
from ebbtide.dialects.openai.stream import ChatStream
from ebbtide.dialects.values import ENDPOINT_AT
from ebbtide.errors import NotFound


def test_the_openai_dialect_fulfils_the_contract() -> None:
    asked: base.Requests = requests
    answered: base.Responses = responses
    failed: base.Errors = errors
    streamed: base.Stream = ChatStream("llama", show_usage=False)
    body = asked.parse_body(ENDPOINT_AT["/v1/embeddings"].target, b'{"model":"llama","input":"x"}')
    assert asked.for_upstream(body, "up") == b'{"model":"up","input":"x"}'
    assert answered.read_answer("embeddings", b'{"data":[]}', body.model).error is None
    assert failed.render_error(NotFound("m"))[0] == 404
    assert streamed.close() == []
