"""An old anthropic SDK against the gateway at BASE_URL: a message whole and streamed, a tool, a count of tokens, the
models, a batch. Writes JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import anthropic

MODEL = os.environ["MODEL"]
ASKED: Any = {"model": MODEL, "max_tokens": 50, "messages": [{"role": "user", "content": "Hello"}]}
TOOLS: Any = [{"name": "weather", "description": "Tells it", "input_schema": {"type": "object", "properties": {}}}]
client = anthropic.Anthropic(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"], max_retries=0)


def streamed() -> dict[str, Any]:
    with client.messages.stream(**ASKED) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    return {"text": text, "stop": final.stop_reason, "usage": final.usage}


def called_tool() -> dict[str, Any]:
    asking: Any = {**ASKED, "model": os.environ["TOOL_MODEL"], "tools": TOOLS}
    asking["messages"] = [{"role": "user", "content": "And Oslo?"}]
    first = client.messages.create(**asking)
    [call] = [block for block in first.content if block.type == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "mild"}
    turns = [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    last = client.messages.create(**{**asking, "messages": asking["messages"] + turns})
    with client.messages.stream(**asking) as stream:
        streamed = stream.get_final_message()
    [again] = [block for block in streamed.content if block.type == "tool_use"]
    return {
        "stop": [first.stop_reason, streamed.stop_reason],
        "calls": [[one.name, one.input] for one in (call, again)],
        "text": "".join(block.text for block in last.content if block.type == "text"),
    }


def counted() -> int:
    return client.messages.count_tokens(model=MODEL, messages=ASKED["messages"]).input_tokens


def batch() -> dict[str, Any]:
    try:
        made = client.messages.batches.create(requests=[{"custom_id": name, "params": ASKED} for name in "ab"])
    except anthropic.APIStatusError as error:
        return {"refused": error.status_code}
    while made.processing_status != "ended":
        time.sleep(0.05)
        made = client.messages.batches.retrieve(made.id)
    results = {one.custom_id: one.result.type for one in client.messages.batches.results(made.id)}
    listed = [one.id for one in client.messages.batches.list(limit=1)]
    deleted = client.messages.batches.delete(made.id)
    return {"results": results, "listed": made.id in listed, "deleted": deleted.type}


def main() -> None:
    whole = client.messages.create(**ASKED)
    seen = {
        "version": anthropic.__version__,
        "whole": whole.content[0].text,
        "streamed": streamed(),
        "called": called_tool() if "TOOL_MODEL" in os.environ else None,
        "counted": counted(),
        "models": [model.id for model in client.models.list()],
        "batch": batch(),
    }
    sys.stdout.write(json.dumps(seen, default=lambda value: value.model_dump()))


if __name__ == "__main__":
    main()
