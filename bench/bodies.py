"""What the benches send: chat bodies of a given size with different words in each, alone or as requests of a batch."""

from __future__ import annotations

import random

import msgspec

MODEL = "bench-chat"
_TEXT = """
ebb tide harbour slack water current moon spring neap shoal channel buoy anchor draught berth lock pilot chart
sounding fathom league knot wake bow stern keel mast sail rudder helm deck hull quay jetty mole breakwater surf
swell crest trough breeze gale squall calm fog haze horizon dawn dusk noon watch bell
"""
WORDS = _TEXT.split()


def chat_body(rng: random.Random, size: int) -> dict[str, object]:
    """A chat completion's body of about `size` bytes."""
    text = " ".join(rng.choices(WORDS, k=max(1, (size - 150) // 6)))
    return {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "Answer in one sentence."},
            {"role": "user", "content": text[: max(1, size - 150)]},
        ],
        "max_tokens": 200,
        "temperature": 0.2,
    }


def chat_bodies(count: int, size: int = 600) -> list[bytes]:
    """`count` encoded bodies."""
    rng = random.Random(11)
    return [msgspec.json.encode(chat_body(rng, size)) for _ in range(count)]


def request_lines(count: int, size: int = 600) -> list[bytes]:
    """`count` requests of a batch, as they stand in `requests` or on the lines of a file."""
    rng = random.Random(11)
    return [
        msgspec.json.encode(
            {
                "custom_id": f"request-{number:06d}",
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": chat_body(rng, size),
            }
        )
        for number in range(count)
    ]


def create_body(lines: list[bytes]) -> bytes:
    """The body of a create call with those requests."""
    return b'{"requests":[' + b",".join(lines) + b"]}"
