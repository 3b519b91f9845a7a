"""An old openai SDK against the gateway at BASE_URL: chat whole and streamed, embeddings, responses, and a batch from a
file for each endpoint. Writes JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import openai

MODEL, EMBED_MODEL = os.environ["MODEL"], os.environ["EMBED_MODEL"]
CHAT: Any = {"model": MODEL, "max_tokens": 50, "messages": [{"role": "user", "content": "Hello"}]}
ENDPOINTS: Any = {
    "/v1/chat/completions": CHAT,
    "/v1/embeddings": {"model": EMBED_MODEL, "input": "Hello"},
    "/v1/responses": {"model": MODEL, "input": "Hello", "max_output_tokens": 50},
    "/v1/messages": CHAT,
}
client = openai.OpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"], max_retries=0)


def whole() -> dict[str, Any]:
    answer = client.chat.completions.create(**CHAT)
    choice = answer.choices[0]
    return {"text": choice.message.content, "finish": choice.finish_reason, "tokens": answer.usage.completion_tokens}


def streamed() -> dict[str, Any]:
    seen: dict[str, Any] = {"text": "", "finish": None, "tokens": 0}
    for chunk in client.chat.completions.create(**CHAT, stream=True, stream_options={"include_usage": True}):
        for choice in chunk.choices:
            seen["text"] += choice.delta.content or ""
            seen["finish"] = choice.finish_reason or seen["finish"]
        if chunk.usage is not None:
            seen["tokens"] = chunk.usage.completion_tokens
    return seen


def responses() -> dict[str, Any]:
    asked = ENDPOINTS["/v1/responses"]
    with client.responses.stream(**asked) as stream:
        events: Any = list(stream)
    kinds, final = [event.type for event in events], events[-1].response
    return {"whole": client.responses.create(**asked).output_text, "kinds": kinds, "streamed": final.output_text}


def batch(endpoint: str, body: Any) -> dict[str, Any]:
    lines = [json.dumps({"custom_id": name, "method": "POST", "url": endpoint, "body": body}) for name in "ab"]
    file = client.files.create(file="\n".join(lines).encode(), purpose="batch")
    headers = {"anthropic-version": "2023-06-01"} if endpoint == "/v1/messages" else {}
    kind: Any = endpoint  # the SDK's types do not know them all
    made = client.batches.create(input_file_id=file.id, endpoint=kind, completion_window="24h", extra_headers=headers)
    while made.status not in ("completed", "failed", "expired", "cancelled"):
        time.sleep(0.05)
        made = client.batches.retrieve(made.id)
    assert made.output_file_id is not None, made
    answers = [json.loads(line) for line in client.files.content(made.output_file_id).text.splitlines()]
    bodies = [answer["response"]["body"] for answer in answers]
    return {
        "status": made.status,
        "version": (made.model_extra or {}).get("anthropic_version"),
        "answers": [
            [answer["custom_id"], answer["response"]["status_code"], body.get("object") or body["type"]]
            for answer, body in zip(answers, bodies, strict=True)
        ],
        "listed": made.id in [one.id for one in client.batches.list(limit=1)],
        "deleted": client.files.delete(file.id).deleted,
    }


def main() -> None:
    told = responses()
    seen = {
        "version": openai.__version__,
        "whole": whole(),
        "streamed": streamed(),
        "vectors": [len(one.embedding) for one in client.embeddings.create(model=EMBED_MODEL, input=["a", "b"]).data],
        "response": told["whole"],
        "response_stream": told,
        "batches": {endpoint: batch(endpoint, body) for endpoint, body in ENDPOINTS.items()},
    }
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main()
