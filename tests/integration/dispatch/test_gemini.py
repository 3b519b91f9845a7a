"""Chat completions and embeddings served by Gemini's API: what is sent, what comes back, what is refused. The
vendor's SDK types check the fake's answers, OpenAI's the gateway's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from google.genai.types import GenerateContentResponse
from openai.types import CreateEmbeddingResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from tests.vendors import Given, Vendor, sse

from ebbtide.catalog.model import Model, Route
from ebbtide.dialects.values import Target, Usage
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.outcome import Answered, Call, Failed
from ebbtide.dispatch.send import Sender
from ebbtide.dispatch.streaming import Streaming

USAGE = {
    "promptTokenCount": 10,
    "cachedContentTokenCount": 4,
    "candidatesTokenCount": 7,
    "thoughtsTokenCount": 3,
    "totalTokenCount": 20,
}
CALL = {"functionCall": {"name": "weather", "args": {"city": "Jena"}}, "thoughtSignature": "c2ln"}


def generated(*parts: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    answer = {"candidates": [candidate], "responseId": "r1", "usageMetadata": USAGE, **more}
    GenerateContentResponse.model_validate(answer)
    return answer


@pytest.fixture
async def vendor() -> AsyncIterator[Vendor]:
    async with Vendor() as server:
        yield server


@pytest.fixture
async def dispatcher() -> AsyncIterator[Dispatcher]:
    async with Sender() as sender:
        yield Dispatcher(sender)


def call(vendor: Vendor, target: Target = "chat", **members: Any) -> Call:
    route = Route(id="g", kind="gemini", model="gemini-inside", base_url=vendor.url, api_keys=("AIza",))
    model = Model(id="m", type="chat" if target == "chat" else "embedding", routes=(route,))
    body = {"model": "alias", **members}
    if target == "chat":
        body.setdefault("messages", [{"role": "user", "content": "Weather in Jena?"}])
    return Call(target, model, msgspec.json.encode(body), "alias", "interactive", asks_usage=True)


async def test_an_answer_comes_back_as_a_chat_completion(vendor: Vendor, dispatcher: Dispatcher) -> None:
    vendor.script.append(Given(generated({"text": "Let me look."}, CALL, finish="STOP")))
    outcome = await dispatcher.call(call(vendor))
    assert isinstance(outcome, Answered)
    completion = ChatCompletion.model_validate_json(outcome.body)
    choice = completion.choices[0]
    assert (completion.model, choice.finish_reason, choice.message.content) == ("alias", "tool_calls", "Let me look.")
    made = msgspec.json.decode(outcome.body)["choices"][0]["message"]["tool_calls"][0]
    assert msgspec.json.decode(made["function"]["arguments"]) == {"city": "Jena"}
    assert made["extra_content"] == {"google": {"thought_signature": "c2ln"}}
    assert outcome.usage == Usage(10, 4, 10, 3)
    asked = vendor.asked[0]
    assert asked.path == "/v1beta/models/gemini-inside:generateContent"
    assert asked.headers["x-goog-api-key"] == "AIza"

    vendor.script.append(Given(generated({"text": "Rain."}, finish="STOP")))
    await dispatcher.call(
        call(
            vendor,
            messages=[
                {"role": "user", "content": "Weather?"},
                msgspec.json.decode(outcome.body)["choices"][0]["message"],
                {"role": "tool", "tool_call_id": made["id"], "content": "rain"},
            ],
        )
    )
    returned = vendor.asked[1].body["contents"]
    assert returned[1]["parts"][1]["thoughtSignature"] == "c2ln"
    assert returned[2] == {
        "role": "user",
        "parts": [{"functionResponse": {"id": made["id"], "name": "weather", "response": {"output": "rain"}}}],
    }


async def test_a_stream_comes_back_as_chunks(vendor: Vendor, dispatcher: Dispatcher) -> None:
    events = [
        generated({"text": "Let me "}),
        generated({"text": "look."}),
        generated(CALL, finish="STOP"),
    ]
    raw = b"".join(sse(*events)).replace(b"\n", b"\r\n")
    vendor.script.append(Given(stream=[raw[at : at + 41] for at in range(0, len(raw), 41)]))
    async with dispatcher.stream(call(vendor, stream=True)) as opened:
        assert isinstance(opened, Streaming)
        got = b"".join([event async for event in opened.events()])
    *frames, last = got.removesuffix(b"\n\n").split(b"\n\n")
    assert last == b"data: [DONE]"
    chunks = [ChatCompletionChunk.model_validate_json(frame.removeprefix(b"data: ")) for frame in frames]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "Let me look."
    calls = [made for delta in deltas for made in delta.tool_calls or ()]
    assert "".join(made.function.arguments or "" for made in calls if made.function) == '{"city":"Jena"}'
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "tool_calls"
    assert chunks[-1].usage is not None
    assert opened.usage == Usage(10, 4, 10, 3)
    asked = vendor.asked[0]
    assert (asked.path, asked.query) == ("/v1beta/models/gemini-inside:streamGenerateContent", {"alt": "sse"})


async def test_what_the_caller_says_is_said(vendor: Vendor, dispatcher: Dispatcher) -> None:
    vendor.script.append(Given(generated({"text": "{}"}, finish="MAX_TOKENS")))
    schema = {"type": "object"}
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    outcome = await dispatcher.call(
        call(
            vendor,
            messages=[
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "Look"}, picture]},
            ],
            tools=[{"type": "function", "function": {"name": "weather", "parameters": schema}}],
            tool_choice={"type": "function", "function": {"name": "weather"}},
            max_tokens=5,
            n=2,
            seed=7,
            top_p=0.5,
            stop=["A", "B"],
            presence_penalty=0.25,
            reasoning_effort="low",
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}},
        )
    )
    assert isinstance(outcome, Answered)
    assert ChatCompletion.model_validate_json(outcome.body).choices[0].finish_reason == "length"
    assert vendor.asked[0].body == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "Look"},
                    {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.png"}},
                ],
            }
        ],
        "tools": [{"functionDeclarations": [{"name": "weather", "parametersJsonSchema": schema}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather"]}},
        "generationConfig": {
            "topP": 0.5,
            "seed": 7,
            "presencePenalty": 0.25,
            "candidateCount": 2,
            "maxOutputTokens": 5,
            "stopSequences": ["A", "B"],
            "responseMimeType": "application/json",
            "responseJsonSchema": schema,
            "thinkingConfig": {"thinkingLevel": "LOW"},
        },
    }


@pytest.mark.parametrize(
    ("member", "value", "param"),
    [
        ("logit_bias", {"1": 2}, "logit_bias"),
        ("user", "u", "user"),
        ("parallel_tool_calls", False, "parallel_tool_calls"),
        ("reasoning_effort", "max", "reasoning_effort"),
        ("messages", [{"role": "tool", "tool_call_id": "x", "content": "y"}], "messages[0].tool_call_id"),
    ],
)
async def test_what_has_no_words_is_refused_by_its_path(
    member: str, value: Any, param: str, vendor: Vendor, dispatcher: Dispatcher
) -> None:
    failed = await dispatcher.call(call(vendor, **{member: value}))
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.status, failed.param) == ("unsupported", 400, param)
    assert vendor.asked == []


@pytest.mark.parametrize("packed", [False, True])
async def test_embeddings(packed: bool, vendor: Vendor, dispatcher: Dispatcher) -> None:
    vendor.script.append(
        Given(
            {"embeddings": [{"values": [0.5, 1.0]}, {"values": [2.0, 4.0]}], "usageMetadata": {"promptTokenCount": 6}}
        )
    )
    asked = call(vendor, "embeddings", input=["a", "b"], dimensions=2, encoding_format="base64" if packed else "float")
    outcome = await dispatcher.call(asked)
    assert isinstance(outcome, Answered)
    assert outcome.usage == Usage(6, 0, 0, 0)
    if packed:
        assert msgspec.json.decode(outcome.body)["data"][0]["embedding"] == "AAAAPwAAgD8="
    else:
        answer = CreateEmbeddingResponse.model_validate_json(outcome.body)
        assert [entry.embedding for entry in answer.data] == [[0.5, 1.0], [2.0, 4.0]]
    assert vendor.asked[0].path == "/v1beta/models/gemini-inside:batchEmbedContents"
    assert vendor.asked[0].body["requests"][1] == {
        "model": "models/gemini-inside",
        "content": {"parts": [{"text": "b"}]},
        "outputDimensionality": 2,
    }


async def test_a_blocked_prompt_is_a_content_filters(vendor: Vendor, dispatcher: Dispatcher) -> None:
    vendor.script.append(Given({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 6}}))
    outcome = await dispatcher.call(call(vendor))
    assert isinstance(outcome, Answered)
    assert ChatCompletion.model_validate_json(outcome.body).choices[0].finish_reason == "content_filter"


async def test_exhausted_resources_tell_when_to_come_back(vendor: Vendor, dispatcher: Dispatcher) -> None:
    detail = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    error = {"code": 429, "message": "Quota", "status": "RESOURCE_EXHAUSTED", "details": [detail]}
    vendor.script.append(Given({"error": error}, 429))
    failed = await dispatcher.call(call(vendor))
    assert isinstance(failed, Failed)
    assert (failed.status, failed.code, failed.retry_after) == (429, "rate_limited", 34.5)


async def test_a_refused_key_is_not_the_callers_mistake(vendor: Vendor, dispatcher: Dispatcher) -> None:
    error = {"code": 400, "message": "API key not valid.", "details": [{"reason": "API_KEY_INVALID"}]}
    vendor.script.append(Given({"error": error}, 400))
    failed = await dispatcher.call(call(vendor))
    assert isinstance(failed, Failed)
    assert (failed.status, failed.code) == (401, "upstream_error")
