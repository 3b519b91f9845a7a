"""An old google-genai against the gateway at BASE_URL: content, a stream, a function, vectors, both kinds of batches.
Writes JSON.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from typing import Any

from google import genai
from google.genai import types, version

MODEL, EMBED_MODEL = os.environ["MODEL"], os.environ["EMBED_MODEL"]
BOTH: Any = {"inlined_requests": {"contents": ["a", "b"]}}
options = types.HttpOptions(base_url=os.environ["BASE_URL"])
client = genai.Client(api_key=os.environ["API_KEY"], http_options=options)


def ended(name: str) -> Any:
    job = client.batches.get(name=name)
    while job.state in (types.JobState.JOB_STATE_PENDING, types.JobState.JOB_STATE_RUNNING):
        time.sleep(0.05)
        job = client.batches.get(name=name)
    return job


def called_function() -> dict[str, Any]:
    declared: Any = [{"name": "weather", "description": "Tells it"}]
    tools: Any = [types.Tool(function_declarations=declared)]
    chat = client.chats.create(model=os.environ["TOOL_MODEL"], config=types.GenerateContentConfig(tools=tools))
    [call] = chat.send_message("And Oslo?").function_calls or []
    response = types.FunctionResponse(id=call.id, name=call.name, response={"output": "mild"})
    answer = chat.send_message(types.Part(function_response=response))
    return {"name": call.name, "args": call.args, "text": answer.text}


def online() -> dict[str, Any]:
    whole = client.models.generate_content(model=MODEL, contents="Hello")
    chunks = client.models.generate_content_stream(model=MODEL, contents="Hello")
    vectors = client.models.embed_content(model=EMBED_MODEL, contents=["a", "b"]).embeddings
    return {
        "whole": whole.text,
        "streamed": "".join(chunk.text or "" for chunk in chunks),
        "vectors": len(vectors or []),
        "called": called_function(),
        "models": [model.name for model in client.models.list(config={"page_size": 1})],
    }


def batches() -> dict[str, Any]:
    made = client.batches.create(
        model=MODEL, src=[types.InlinedRequest(contents="one")], config={"display_name": "old"}
    )
    job = ended(made.name or "")
    line = json.dumps({"key": "x", "request": {"contents": [{"parts": [{"text": "two"}]}]}}).encode()
    file = client.files.upload(file=io.BytesIO(line), config={"mime_type": "jsonl", "display_name": "in"})
    filed = ended(client.batches.create(model=MODEL, src=file.name or "").name or "")
    content = client.files.download(file=filed.dest.file_name)
    vectors = ended(client.batches.create_embeddings(model=EMBED_MODEL, src=BOTH).name or "").dest
    waiting = client.batches.create(model=os.environ["PAUSED_MODEL"], src=[types.InlinedRequest(contents="one")])
    client.batches.cancel(name=waiting.name or "")
    names = [one.name for one in client.batches.list(config={"page_size": 1})]
    client.batches.delete(name=made.name or "")
    return {
        "embedded": len([one.response.embedding.values for one in vectors.inlined_embed_content_responses]),
        "cancelled": ended(waiting.name or "").state.value,
        "inline": job.dest.inlined_responses[0].response.text,
        "state": job.state.value,
        "key": json.loads(content)["key"],
        "listed": len(names),
        "left": len({one.name for one in client.batches.list()} - {made.name}),
    }


sys.stdout.write(json.dumps({"version": version.__version__, **online(), **batches()}))
