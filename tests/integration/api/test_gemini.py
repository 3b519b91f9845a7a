"""Gemini's API, by Google's own SDK unmodified: untouched to a server that speaks it, translated to others; streams in
both forms, functions, schemas, embeddings, counts, models, keys, and errors in Google's shape.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google import genai
from google.genai import errors, types
from tests.fake_upstream import FakeUpstream
from tests.gateway import TestGateway, chat_model, embedding_model, models_file
from tests.vendors import Given, Vendor, sse

# How the SDK extends its HTTP client is its own affair.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

HELLO = [{"role": "user", "parts": [{"text": "Hello there"}]}]
USED = {"promptTokenCount": 12, "candidatesTokenCount": 5, "totalTokenCount": 17, "cachedContentTokenCount": 4}
ANSWER: dict[str, Any] = {
    "candidates": [{"content": {"parts": [{"text": "Hi."}], "role": "model"}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": USED,
    "modelVersion": "gemini-inside",
    "responseId": "r-1",
    "unheard": {"of": [1, 2]},
}
COMPLETION: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "inside",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": 10,
        "completion_tokens": 7,
        "total_tokens": 17,
        "prompt_tokens_details": {"cached_tokens": 6},
        "completion_tokens_details": {"reasoning_tokens": 3},
    },
}
WEATHER = {
    "name": "weather",
    "description": "Tells it",
    "parameters": {
        "type": "OBJECT",
        "properties": {"city": {"type": "STRING", "nullable": True}},
        "required": ["city"],
    },
}
PIXEL = b"\x89PNG\xff\xfe\xfb"


@pytest.fixture
async def vendor() -> AsyncIterator[Vendor]:
    async with Vendor() as vendor:
        yield vendor


@pytest.fixture
def models(upstream: FakeUpstream, vendor: Vendor, tmp_path: Path) -> Path:
    def at(kind: str, **more: Any) -> list[dict[str, Any]]:
        return [{"id": "r", "kind": kind, "base_url": vendor.url, "model": "inside", **more}]

    return models_file(
        tmp_path,
        chat_model(upstream.url, context_length=9_000, max_output_tokens=500),
        embedding_model(upstream.url),
        {"id": "org/gemini", "routes": at("gemini", api_key="secret", model="gemini-inside")},
        {"id": "gemini-embed", "type": "embedding", "routes": at("gemini", api_key="secret")},
        {"id": "plain", "routes": at("openai")},
        {"id": "engine", "routes": at("vllm", speaks=["chat", "count_tokens"])},
        auto={"auto": ["chat-1"]},
    )


def client_of(gateway: TestGateway, prefix: str = "", key: str | None = None) -> genai.Client:
    options = types.HttpOptions(base_url=gateway.url + prefix)
    return genai.Client(api_key=key or gateway.admin_key, http_options=options)


@pytest.fixture
async def client(gateway: TestGateway) -> AsyncIterator[genai.client.AsyncClient]:
    async with client_of(gateway).aio as client:
        yield client


async def post(gateway: TestGateway, path: str, body: Any, **more: Any) -> Any:
    headers = {"x-goog-api-key": gateway.admin_key}
    return await gateway.call("POST", path, key=None, headers=headers, json=body, **more)


async def test_a_server_that_speaks_it_gets_the_request_untouched(gateway: TestGateway, vendor: Vendor) -> None:
    vendor.script.append(Given(ANSWER))
    body = {"contents": HELLO, "tools": [{"google_search": {}}], "generation_config": {"new_thing": 1}}
    answer = await post(gateway, "/v1beta/models/org/gemini:generateContent", body)
    assert answer.status == 200
    assert answer.json == {**ANSWER, "modelVersion": "org/gemini"}
    [asked] = vendor.asked
    assert asked.path == "/v1beta/models/gemini-inside:generateContent"
    assert asked.body == body
    assert asked.headers["x-goog-api-key"] == "secret"


async def test_its_streams_pass_with_the_callers_name(client: genai.client.AsyncClient, vendor: Vendor) -> None:
    begun = {**ANSWER, "candidates": [{"content": {"parts": [{"text": "Hi "}]}, "index": 0}]}
    vendor.script.append(Given(stream=sse(begun, ANSWER)))
    chunks = [c async for c in await client.models.generate_content_stream(model="org/gemini", contents="Hello")]
    assert [(chunk.text, chunk.model_version) for chunk in chunks] == [("Hi ", "org/gemini"), ("Hi.", "org/gemini")]
    assert vendor.asked[0].query == {"alt": "sse"}


async def test_a_chat_by_the_sdk(client: genai.client.AsyncClient, vendor: Vendor) -> None:
    vendor.script.append(Given(COMPLETION))
    config = types.GenerateContentConfig(
        system_instruction="Be brief",
        temperature=0.5,
        top_p=0.9,
        seed=7,
        max_output_tokens=40,
        stop_sequences=["END"],
        candidate_count=1,
        safety_settings=[
            types.SafetySetting(
                category=types.HarmCategory.HARM_CATEGORY_HARASSMENT, threshold=types.HarmBlockThreshold.BLOCK_NONE
            )
        ],
    )
    image = types.Part.from_bytes(data=PIXEL, mime_type="image/png")
    answer = await client.models.generate_content(model="plain", contents=["Look", image], config=config)
    assert (answer.text, answer.model_version) == ("Hi.", "plain")
    assert answer.candidates
    assert answer.candidates[0].finish_reason == types.FinishReason.STOP
    usage = answer.usage_metadata
    assert usage is not None
    assert (usage.prompt_token_count, usage.cached_content_token_count) == (10, 6)
    assert (usage.candidates_token_count, usage.thoughts_token_count, usage.total_token_count) == (4, 3, 17)
    asked = vendor.asked[0].body
    assert asked["messages"][0] == {"role": "system", "content": "Be brief"}
    text, picture = asked["messages"][1]["content"]
    assert (text["text"], picture["image_url"]["url"]) == ("Look", "data:image/png;base64,iVBOR//++w==")
    said = {name: asked[name] for name in ("temperature", "top_p", "seed", "stop", "n")}
    assert said == {"temperature": 0.5, "top_p": 0.9, "seed": 7, "stop": ["END"], "n": 1}
    assert 40 in (asked.get("max_tokens"), asked.get("max_completion_tokens"))


async def test_functions_are_called_and_answer(client: genai.client.AsyncClient, vendor: Vendor) -> None:
    call = {"id": "call_9", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    vendor.script += [Given({**COMPLETION, "choices": [choice]}), Given(COMPLETION)]
    config = types.GenerateContentConfig(
        tools=[types.Tool.model_validate({"function_declarations": [WEATHER]})],
        tool_config=types.ToolConfig(
            function_calling_config=types.FunctionCallingConfig(
                mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=["weather"]
            )
        ),
    )
    chat = client.chats.create(model="plain", config=config)
    first = await chat.send_message("And Oslo?")
    [called] = first.function_calls or []
    assert (called.id, called.name, called.args) == ("call_9", "weather", {"city": "Oslo"})
    given = types.Part(
        function_response=types.FunctionResponse(id=called.id, name="weather", response={"result": "mild"})
    )
    assert (await chat.send_message(given)).text == "Hi."
    first_asked, second_asked = (asked.body for asked in vendor.asked)
    [tool] = first_asked["tools"]
    assert tool["function"]["parameters"]["properties"] == {"city": {"type": ["string", "null"]}}
    assert first_asked["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert second_asked["messages"][-1] == {"role": "tool", "tool_call_id": "call_9", "content": "mild"}


async def test_the_sdk_calls_functions_by_itself(client: genai.client.AsyncClient, vendor: Vendor) -> None:
    """Two at once, of which one raises: the SDK tells that in `error`, which the server gets as text."""
    names = ("Oslo", "Atlantis")
    calls = [
        {
            "id": f"call_{name}",
            "type": "function",
            "function": {"name": "weather", "arguments": f'{{"city":"{name}"}}'},
        }
        for name in names
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    vendor.script += [Given({**COMPLETION, "choices": [choice]}), Given(COMPLETION)]

    def weather(city: str) -> str:
        """Tells it."""
        if city == "Atlantis":
            raise ValueError("it sank")
        return "mild"

    config = types.GenerateContentConfig(tools=[weather])
    answer = await client.models.generate_content(model="plain", contents="Both?", config=config)
    assert answer.text == "Hi."
    declared = vendor.asked[0].body["tools"][0]["function"]
    assert declared["parameters"]["properties"]["city"]["type"] == "string"
    assert declared["description"] == 'Tells it.\n\nReturns JSON of this schema: {"type":"string"}'
    assert vendor.asked[1].body["messages"][1]["tool_calls"] == calls
    good, bad = vendor.asked[1].body["messages"][2:]
    assert good == {"role": "tool", "tool_call_id": "call_Oslo", "content": "mild"}
    assert bad["tool_call_id"] == "call_Atlantis"
    assert json.loads(bad["content"])["error"].endswith("it sank")


async def test_a_schema_binds_the_answer(client: genai.client.AsyncClient, vendor: Vendor) -> None:
    message = {"role": "assistant", "content": '{"name": "Ada"}'}
    vendor.script.append(
        Given({**COMPLETION, "choices": [{"index": 0, "message": message, "finish_reason": "length"}]})
    )
    schema = {"type": "OBJECT", "properties": {"name": {"type": "STRING"}}, "required": ["name"]}
    config = types.GenerateContentConfig(response_mime_type="application/json", response_schema=schema)
    answer = await client.models.generate_content(model="plain", contents="Who?", config=config)
    assert answer.parsed == {"name": "Ada"}
    assert answer.candidates
    assert answer.candidates[0].finish_reason == types.FinishReason.MAX_TOKENS
    asked = vendor.asked[0].body["response_format"]["json_schema"]["schema"]
    assert asked == {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


async def test_a_stream_in_both_forms(gateway: TestGateway, client: genai.client.AsyncClient) -> None:
    chunks = [c async for c in await client.models.generate_content_stream(model="chat-1", contents="Hello")]
    whole = (await client.models.generate_content(model="chat-1", contents="Hello")).text
    assert len(chunks) > 1
    assert "".join(chunk.text or "" for chunk in chunks) == whole
    assert chunks[-1].candidates
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP
    assert chunks[-1].usage_metadata is not None
    answer = await post(gateway, "/v1beta/models/chat-1:streamGenerateContent", {"contents": HELLO})
    assert answer.headers["content-type"] == "application/json"
    texts = [part["text"] for chunk in answer.json for part in chunk["candidates"][0]["content"]["parts"]]
    assert "Hello there" in "".join(texts)


async def test_calls_come_whole_in_a_stream(client: genai.client.AsyncClient, vendor: Vendor) -> None:
    def delta(delta: Any, finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "inside", "choices": [choice]}

    def piece(text: str, **more: Any) -> dict[str, Any]:
        return delta({"tool_calls": [{"index": 0, "function": {"arguments": text}, **more}]})

    head = {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "weather", "arguments": ""}}]}
    events = [delta({"role": "assistant"}), delta(head), piece('{"ci'), piece('ty": 1}'), delta({}, "tool_calls")]
    vendor.script.append(Given(stream=[*sse(*events), b"data: [DONE]\n\n"]))
    chunks = [c async for c in await client.models.generate_content_stream(model="plain", contents="Oslo")]
    calls = [call for chunk in chunks for call in chunk.function_calls or []]
    assert [(call.name, call.args) for call in calls] == [("weather", {"city": 1})]


async def test_a_stream_that_breaks_raises(client: genai.client.AsyncClient, vendor: Vendor) -> None:
    broken = [b'data: {"choices": [{"index": 0, "delta": {"content": "Hi"}}], "id": "c"}\n\n']
    vendor.script.append(Given(stream=broken))
    with pytest.raises(errors.APIError):
        [c async for c in await client.models.generate_content_stream(model="plain", contents="Hello")]


async def test_thoughts_are_shown_to_who_asks(gateway: TestGateway, vendor: Vendor) -> None:
    message = {"role": "assistant", "content": "Hi.", "reasoning_content": "Hm."}
    given = Given({**COMPLETION, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    vendor.script += [given, given]
    path = "/v1beta/models/plain:generateContent"
    plain = await post(gateway, path, {"contents": HELLO})
    thinking = {"thinkingConfig": {"includeThoughts": True, "thinkingLevel": "LOW"}}
    shown = await post(gateway, path, {"contents": HELLO, "generationConfig": thinking})
    assert plain.json["candidates"][0]["content"]["parts"] == [{"text": "Hi."}]
    assert shown.json["candidates"][0]["content"]["parts"] == [{"text": "Hm.", "thought": True}, {"text": "Hi."}]
    assert vendor.asked[1].body["reasoning_effort"] == "low"


async def test_embeddings(client: genai.client.AsyncClient, gateway: TestGateway, vendor: Vendor) -> None:
    config = types.EmbedContentConfig(output_dimensionality=8)
    answer = await client.models.embed_content(model="embed-1", contents=["a", "b"], config=config)
    assert [len(one.values or []) for one in answer.embeddings or []] == [8, 8]
    one = await post(gateway, "/v1beta/models/embed-1:embedContent", {"content": {"parts": [{"text": "a"}]}})
    assert one.json["embedding"]["values"]
    vendor.script.append(Given({"embedding": {"values": [1.0]}}))
    body = {"content": {"parts": [{"text": "a"}]}, "taskType": "CLUSTERING"}
    native = await post(gateway, "/v1beta/models/gemini-embed:embedContent", body)
    assert native.json == {"embedding": {"values": [1.0]}}
    assert (vendor.asked[0].path, vendor.asked[0].body) == ("/v1beta/models/inside:embedContent", body)
    refused = await post(gateway, "/v1beta/models/embed-1:embedContent", body)
    assert (refused.status, refused.error["status"]) == (400, "INVALID_ARGUMENT")
    assert "taskType" in refused.error["message"]


async def test_counts(client: genai.client.AsyncClient, vendor: Vendor) -> None:
    vendor.script += [Given({"totalTokens": 3}), Given({"input_tokens": 4})]
    assert (await client.models.count_tokens(model="org/gemini", contents="Hello")).total_tokens == 3
    assert (await client.models.count_tokens(model="engine", contents="Hello")).total_tokens == 4
    native, engine = vendor.asked
    assert native.path == "/v1beta/models/gemini-inside:countTokens"
    assert (engine.path, sorted(engine.body)) == ("/v1/messages/count_tokens", ["messages", "model"])


@pytest.mark.parametrize("version", ["v1", "v1beta"])
@pytest.mark.parametrize("prefix", ["", "/gemini"])
async def test_every_version_and_prefix(gateway: TestGateway, version: str, prefix: str) -> None:
    options = types.HttpOptions(base_url=gateway.url + prefix, api_version=version)
    async with genai.Client(api_key=gateway.admin_key, http_options=options).aio as client:
        assert (await client.models.generate_content(model="chat-1", contents="Hello")).text
        names = [model.name async for model in await client.models.list(config={"page_size": 2})]
        assert names[0] == "models/chat-1"
        assert "models/auto" in names
        model = await client.models.get(model="chat-1")
    assert (model.input_token_limit, model.output_token_limit) == (9_000, 500)


async def test_models_tell_what_they_can_be_asked_for(client: genai.client.AsyncClient) -> None:
    told = {model.name: model.supported_actions async for model in await client.models.list()}
    assert told["models/chat-1"] == ["generateContent", "batchGenerateContent"]
    assert told["models/org/gemini"] == ["generateContent", "countTokens", "batchGenerateContent"]
    assert told["models/embed-1"] == ["embedContent", "batchEmbedContents", "asyncBatchEmbedContent"]
    assert told["models/auto"] == ["generateContent"]  # no batch may name it
    with pytest.raises(errors.ClientError, match="cannot be asked for countTokens"):
        await client.models.count_tokens(model="chat-1", contents="Hello")


async def test_keys_and_whose_dialect_it_is(gateway: TestGateway) -> None:
    by_query = await gateway.call("GET", f"/v1/models?key={gateway.admin_key}", key=None)
    assert "models" in by_query.json
    assert "data" in (await gateway.call("GET", "/v1/models")).json
    assert "data" in (await gateway.call("GET", "/openai/v1/models", headers={"anthropic-version": "2023-06-01"})).json
    refused = await gateway.call("GET", "/v1/models?key=ebb-wrong", key=None)
    assert (refused.status, refused.error["status"]) == (401, "UNAUTHENTICATED")
    unknown = await gateway.call("POST", "/v1/models/none:generateContent", json={"contents": HELLO})
    assert (unknown.status, unknown.error["code"], unknown.error["status"]) == (404, 404, "NOT_FOUND")
    plain = await gateway.call("GET", "/v1/models/none")
    assert plain.error["code"] == "model_not_found"
    path = await gateway.call("GET", "/v1beta/nowhere")
    assert (path.status, path.error["status"]) == (404, "NOT_FOUND")


REFUSED: dict[str, tuple[Any, str]] = {
    "a tool of the provider's": ({"tools": [{"googleSearch": {}}]}, "tools[0].googleSearch"),
    "a filter": ({"safety_settings": [{"category": "C", "threshold": "BLOCK_LOW_AND_ABOVE"}]}, "safety_settings[0]"),
    "audio": (
        {"contents": [{"parts": [{"inline_data": {"mime_type": "audio/mp3", "data": "AA=="}}]}]},
        "contents[0].parts[0].inline_data.mime_type",
    ),
    "an unknown member": ({"generationConfig": {"speechConfig": {}}}, "generationConfig.speechConfig"),
    "top_k": ({"generationConfig": {"topK": 5}}, "generationConfig.topK"),
    "a budget": ({"generationConfig": {"thinkingConfig": {"thinkingBudget": 9}}}, "thinkingConfig.thinkingBudget"),
    "an orphan": (
        {"contents": [{"parts": [{"functionResponse": {"name": "f", "response": {}}}]}]},
        "contents[0].parts[0].functionResponse",
    ),
    "a cache": ({"cachedContent": "cachedContents/1"}, "cachedContent"),
    "a bad schema": (
        {"generationConfig": {"responseMimeType": "application/json", "responseSchema": {"type": "BLOB"}}},
        "generationConfig.responseSchema.type",
    ),
    "no content": ({"contents": []}, "contents"),
    "another model": ({"model": "models/other"}, "model"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_a_route_cannot_carry_is_refused_by_its_path(gateway: TestGateway, case: str) -> None:
    more, path = REFUSED[case]
    answer = await post(gateway, "/v1beta/models/plain:generateContent", {"contents": HELLO, **more})
    assert (answer.status, answer.error["status"]) == (400, "INVALID_ARGUMENT"), answer.body
    assert path in answer.error["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"contents": NaN}', b"[" * 70_000, b'{"contents": [1]}'])
@pytest.mark.parametrize("verb", ["generateContent", "countTokens", "embedContent", "batchEmbedContents"])
async def test_a_body_that_is_no_request_is_a_400(gateway: TestGateway, verb: str, body: bytes) -> None:
    answer = await gateway.call("POST", f"/v1beta/models/chat-1:{verb}", data=body)
    assert (answer.status, answer.error["status"]) == (400, "INVALID_ARGUMENT")
