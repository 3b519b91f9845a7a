"""What a model's batch routes cannot carry is what they would refuse."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.catalog.model import Kind, Model, Route
from ebbtide.dispatch.carrying import Refused, refused_in_batches


def model(*routes: Route, **more: Any) -> Model:
    return Model("m", more.pop("type", "chat"), routes, **more)


def route(kind: Kind, name: str = "r", **more: Any) -> Route:
    return Route(name, kind, "upstream", f"http://{name}.example/v1", deployment_type="self_hosted", **more)


@pytest.mark.parametrize("kind", ["openai", "vllm", "sglang", "llamacpp", "ollama"])
def test_a_server_of_the_same_language_gets_everything(kind: Kind) -> None:
    assert refused_in_batches(model(route(kind)), "chat") == Refused()


def test_a_server_of_another_language_refuses_what_it_has_no_words_for() -> None:
    anthropic = refused_in_batches(model(route("anthropic")), "chat")
    assert anthropic.others
    assert {"seed", "presence_penalty", "frequency_penalty", "n", "logprobs", "logit_bias"} <= set(anthropic.fields)
    assert {"response_format.json_object"} <= set(anthropic.fields)
    assert not {"tools", "stop", "max_completion_tokens", "response_format.json_schema", "user"} & set(anthropic.fields)
    gemini = refused_in_batches(model(route("gemini")), "chat")
    assert {"user", "parallel_tool_calls"} <= set(gemini.fields)
    assert not {"seed", "n", "tools"} & set(gemini.fields)
    embedding = refused_in_batches(model(route("gemini"), type="embedding"), "embeddings")
    assert embedding == Refused(("user",), others=True)


def test_one_route_that_carries_it_is_enough_and_only_batch_routes_count() -> None:
    assert refused_in_batches(model(route("anthropic", "a"), route("vllm", "b")), "chat") == Refused()
    forbidden = route("vllm", "b", batch_choice=False)
    assert "seed" in refused_in_batches(model(route("anthropic", "a"), forbidden), "chat").fields
    assert "seed" not in refused_in_batches(model(route("anthropic", "a"), route("gemini", "b")), "chat").fields
    assert refused_in_batches(model(forbidden), "chat") == Refused()
