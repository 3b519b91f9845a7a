"""An old anthropic SDK against the gateway at BASE_URL: a message whole and streamed, models, a batch. Writes JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import anthropic

MODEL = os.environ["MODEL"]
ASKED: Any = {"model": MODEL, "max_tokens": 50, "messages": [{"role": "user", "content": "Hello"}]}
client = anthropic.Anthropic(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"], max_retries=0)


def streamed() -> dict[str, Any]:
    with client.messages.stream(**ASKED) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    return {"text": text, "stop": final.stop_reason, "usage": final.usage}


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
        "models": [model.id for model in client.models.list()],
        "batch": batch(),
    }
    sys.stdout.write(json.dumps(seen, default=lambda value: value.model_dump()))


if __name__ == "__main__":
    main()
