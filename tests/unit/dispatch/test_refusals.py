"""What a server cannot be told is refused by the path at which it stands in the request as its caller wrote it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pytest

from ebbtide.catalog.model import Model, Route
from ebbtide.dialects.targets import CALLERS
from ebbtide.dialects.values import Limits, Target, Terms
from ebbtide.dispatch.outcome import Call
from ebbtide.dispatch.translation import body_for, check_carried
from ebbtide.errors import InvalidRequest

OLD, NEW = "2023-06-01", "2026-10-21"


def route(kind: Any, **more: Any) -> Route:
    return Route(kind, kind, "upstream", "http://127.0.0.1:1", deployment_type="self_hosted", **more)


SERVERS: Final[Mapping[str, Route]] = {
    "chat": route("openai"),
    "engine": route("ollama"),
    "messages": route("anthropic"),
    "newer messages": route("anthropic", api_version=NEW),
    "gemini": route("gemini"),
    "responses": route("openai", speaks=("responses",)),
}
SAID: Final = {"role": "user", "content": "Hello"}
TOLD: Final = {"role": "user", "parts": [{"text": "Hello"}]}
PLAIN: Final[Mapping[Target, Mapping[str, Any]]] = {
    "chat": {"messages": [SAID]},
    "responses": {"input": "Hello"},
    "messages": {"max_tokens": 64, "messages": [SAID]},
    "gemini": {"contents": [TOLD]},
    "embeddings": {"input": "Hello"},
    "gemini_embed": {"content": TOLD},
}
PNG: Final = "data:image/png;base64,AAAA"
FUNCTION: Final = {"type": "function", "function": {"name": "look", "strict": True}}
CALLED: Final = {"type": "tool_use", "id": "t", "name": "look", "input": {}}
RESULT: Final = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
CALL: Final = {"functionCall": {"name": "look", "args": {}}}


def claude(*turns: Any) -> dict[str, Any]:
    roles = ("user", "assistant") * len(turns)
    return {"messages": [{"role": role, "content": turn} for role, turn in zip(roles, turns, strict=False)]}


def gemini(*turns: Any) -> dict[str, Any]:
    roles = ("user", "model") * len(turns)
    return {"contents": [{"role": role, "parts": turn} for role, turn in zip(roles, turns, strict=False)]}


def config(**members: Any) -> dict[str, Any]:
    return {"generationConfig": members}


# Of each target: members, a server that has no words for them, and the path by which it is refused.
CASES: Final[list[tuple[Target, dict[str, Any], str, str]]] = [
    ("chat", {"seed": 1}, "messages", "seed"),
    ("chat", {"n": 2}, "messages", "n"),
    ("chat", {"temperature": 0.5}, "newer messages", "temperature"),
    ("chat", {"response_format": {"type": "json_object"}}, "messages", "response_format.type"),
    ("chat", {"stop": ["x"]}, "responses", "stop"),
    ("chat", {"user": "u"}, "gemini", "user"),
    ("chat", {"tools": [FUNCTION]}, "gemini", "tools[0].function.strict"),
    ("chat", {"tools": [FUNCTION], "parallel_tool_calls": False}, "gemini", "parallel_tool_calls"),
    ("chat", {"reasoning_effort": "max"}, "gemini", "reasoning_effort"),
    ("chat", {"logit_bias": {"1": 1}}, "gemini", "logit_bias"),
    (
        "chat",
        {
            "messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}]}
            ]
        },
        "messages",
        "messages[0].content[0].image_url.detail",
    ),
    ("messages", {"stop_sequences": ["x"]}, "responses", "stop_sequences"),
    ("messages", {"top_k": 5}, "chat", "top_k"),
    ("messages", {"top_k": 5}, "engine", "top_k"),
    ("messages", {"thinking": {"type": "enabled", "budget_tokens": 1024}}, "engine", "thinking"),
    ("messages", {"output_config": {"effort": "max"}}, "gemini", "output_config.effort"),
    ("messages", {"metadata": {"user_id": "u"}}, "gemini", "metadata.user_id"),
    (
        "messages",
        {
            "tools": [{"name": "look", "input_schema": {}}],
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        },
        "gemini",
        "tool_choice.disable_parallel_tool_use",
    ),
    ("messages", {"tools": [{"name": "look", "input_schema": {}, "strict": True}]}, "gemini", "tools[0].strict"),
    ("messages", claude("a", [CALLED], [RESULT | {"is_error": True}]), "chat", "messages[2].content[0].is_error"),
    ("messages", claude("a", [CALLED, {"type": "text", "text": "b"}], [RESULT]), "chat", "messages[1].content"),
    ("messages", claude("a", "b"), "gemini", "messages[1]"),
    ("responses", {"reasoning": {"effort": "minimal"}}, "messages", "reasoning.effort"),
    ("responses", {"text": {"format": {"type": "json_object"}}}, "messages", "text.format.type"),
    ("responses", {"top_p": 0.5}, "newer messages", "top_p"),
    ("responses", {"user": "u"}, "gemini", "user"),
    ("responses", {"safety_identifier": "u"}, "gemini", "safety_identifier"),
    ("responses", {"parallel_tool_calls": False}, "gemini", "parallel_tool_calls"),
    ("responses", {"tools": [{"type": "function", "name": "look", "strict": True}]}, "gemini", "tools[0].strict"),
    (
        "responses",
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": PNG, "detail": "low"}]}]},
        "messages",
        "input[0].content[0].detail",
    ),
    ("responses", {"top_logprobs": 3}, "chat", "top_logprobs"),
    ("gemini", config(topK=5), "chat", "generationConfig.topK"),
    ("gemini", config(topP=0.5), "newer messages", "generationConfig.topP"),
    ("gemini", config(temperature=0.5), "newer messages", "generationConfig.temperature"),
    ("gemini", config(seed=1), "messages", "generationConfig.seed"),
    ("gemini", config(presencePenalty=0.5), "responses", "generationConfig.presencePenalty"),
    ("gemini", config(frequencyPenalty=0.5), "messages", "generationConfig.frequencyPenalty"),
    ("gemini", config(candidateCount=2), "messages", "generationConfig.candidateCount"),
    ("gemini", config(stopSequences=["x"]), "responses", "generationConfig.stopSequences"),
    ("gemini", config(responseMimeType="application/json"), "messages", "generationConfig.responseMimeType"),
    (
        "gemini",
        config(thinkingConfig={"thinkingLevel": "MINIMAL"}),
        "messages",
        "generationConfig.thinkingConfig.thinkingLevel",
    ),
    (
        "gemini",
        config(thinkingConfig={"thinkingBudget": 64}),
        "chat",
        "generationConfig.thinkingConfig.thinkingBudget",
    ),
    (
        "gemini",
        gemini([{"text": "a"}], [CALL | {"thoughtSignature": "s"}], [{"text": "b"}]),
        "messages",
        "contents[1].parts[0].thoughtSignature",
    ),
    ("gemini", gemini([{"text": "a"}], [CALL, {"text": "b"}], [{"text": "c"}]), "chat", "contents[1].parts"),
    ("gemini", gemini([{"text": "a"}], [{"text": "b"}]), "chat", "contents[1]"),
    ("embeddings", {"user": "u"}, "gemini", "user"),
    ("gemini_embed", {"taskType": "CLUSTERING"}, "chat", "taskType"),
]


def complaint_of(call: Call, route: Route) -> str | None:
    """The path that a server's form has no words for; None where it takes the request."""
    try:
        body_for(call, route, stream=False)
    except InvalidRequest as error:
        return error.param or "no path"
    return None


def stands_in(path: str, body: Any) -> bool:
    """Whether a path leads to something in a body."""
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        try:
            body = body[int(index)] if index else body[name]
        except (KeyError, IndexError, TypeError):
            return False
    return True


@pytest.mark.parametrize(("target", "members", "server", "path"), CASES)
def test_by_the_callers_own_path(target: Target, members: dict[str, Any], server: str, path: str) -> None:
    model = Model("m", "embedding" if "embed" in target else "chat", (SERVERS[server],))
    body = {"model": "m", **PLAIN[target], **members}
    terms = Terms(Limits(), OLD)
    CALLERS[target].check_batch_body(dict(body), terms)
    call = Call(target, model, msgspec.json.encode(body), "m", "interactive")
    with pytest.raises(InvalidRequest) as refused:
        body_for(call, SERVERS[server], stream=False)
    assert refused.value.param == path
    assert refused.value.message.startswith(f"{path}: ")
    assert refused.value.code == "unsupported_parameter"
    assert stands_in(path, body)
    with pytest.raises(InvalidRequest) as batched:
        check_carried(model, target, body, terms)
    assert batched.value.param == path


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(("target", "members"), [(target, members) for target, members, _, _ in CASES])
def test_no_server_complains_of_a_path_that_is_not_there(target: Target, members: dict[str, Any], server: str) -> None:
    """Whichever of the servers it is: what it names stands in the request, or it takes the request."""
    model = Model("m", "chat", (SERVERS[server],))
    body = {"model": "m", **PLAIN[target], **members}
    call = Call(target, model, msgspec.json.encode(body), "m", "interactive")
    assert stands_in(complaint_of(call, SERVERS[server]) or "model", body)
