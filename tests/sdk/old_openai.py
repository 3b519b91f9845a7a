"""An old openai SDK against the gateway at BASE_URL: responses, embeddings, chat, a batch from a file. Writes JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import openai

MODEL = os.environ["MODEL"]
client = openai.OpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"])


def responses() -> dict[str, Any]:
    whole = client.responses.create(model=MODEL, input="Hello")
    with client.responses.stream(model=MODEL, input=[{"role": "user", "content": "Hello"}]) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    return {"whole": whole.output_text, "usage": whole.usage, "kinds": kinds, "streamed": final.output_text}


def batch() -> dict[str, Any]:
    lines = [
        json.dumps(
            {"custom_id": name, "method": "POST", "url": "/v1/responses", "body": {"model": MODEL, "input": name}}
        )
        for name in "ab"
    ]
    file = client.files.create(file="\n".join(lines).encode(), purpose="batch")
    made = client.batches.create(input_file_id=file.id, endpoint="/v1/responses", completion_window="24h")
    while made.status not in ("completed", "failed", "expired", "cancelled"):
        time.sleep(0.05)
        made = client.batches.retrieve(made.id)
    assert made.output_file_id is not None, made
    output = client.files.content(made.output_file_id).text
    return {"status": made.status, "lines": [json.loads(line) for line in output.splitlines()]}


def main() -> None:
    chat = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hello"}])
    seen = {
        "version": openai.__version__,
        "chat": chat.choices[0].message.content,
        "responses": responses(),
        "batch": batch(),
    }
    sys.stdout.write(json.dumps(seen, default=lambda value: value.model_dump()))


if __name__ == "__main__":
    main()
