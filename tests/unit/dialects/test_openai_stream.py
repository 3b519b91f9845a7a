"""Streams: the same events however the bytes are cut, usage found and hidden, the model under the caller's name."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk

from ebbtide.dialects import sse
from ebbtide.dialects.openai.chat_answers import ChatPieces
from ebbtide.dialects.openai.completions import DONE
from ebbtide.dialects.openai.errors import error_event
from ebbtide.dialects.openai.stream import ChatStream
from ebbtide.dialects.values import Usage
from ebbtide.errors import Unavailable

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def chunk(content: str, model: str = "up/stream", **members: object) -> str:
    delta = {"index": 0, "delta": {"content": content}, "finish_reason": None}
    return json.dumps(
        {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": [delta], **members},
        ensure_ascii=False,
        separators=(",", ":"),
    )


def frame(payload: str, ending: str = "\n") -> bytes:
    return f"data: {payload}{ending}{ending}".encode()


def whole(sent: bytes, *, show_usage: bool = False, model: str = "llama") -> tuple[list[bytes], ChatStream]:
    parser = ChatStream(model, show_usage=show_usage)
    return parser.feed(sent) + parser.close(), parser


def data(events: list[bytes]) -> list[dict[str, object]]:
    return [json.loads(event[6:]) for event in events if event.startswith(b"data: {")]


COMMON = b"".join(
    [
        b"\xef\xbb\xbf: hello\n\n",
        frame(chunk("wärme 🌊\u2028")),
        frame(chunk('says "model":"up/stream" and "usage"'), "\r\n"),
        frame(chunk("b"), "\r"),
        b": ping\r\n\r\n",
        b"event: message\r\nid: 7\r\ndata:" + chunk("c").encode() + b"\r\n\r\n\n",
        b'data: {"model":"up/stream",\ndata: "choices":[]}\n\n',
        frame(chunk("", choices=[], usage=USAGE)),
        b"retry: 5\ndata: [DONE]\n\n",
    ]
)


def test_a_stream_is_passed_on_under_the_callers_name() -> None:
    events, parser = whole(COMMON)
    assert all(event.endswith(b"\n\n") and b"\r" not in event for event in events)
    assert b"up/stream" not in b"".join(events).replace(b'\\"model\\":\\"up/stream\\"', b"")
    chunks = data(events)
    assert len(chunks) == 4
    assert {piece["model"] for piece in chunks} == {"llama"}
    assert events[0] == b": hello\n\n"
    assert events[4] == b": ping\n\n"
    assert events[5].startswith(b"event: message\nid: 7\ndata: {")
    assert events[-1] == b"retry: 5\ndata: [DONE]\n\n"
    assert (parser.done, parser.usage, parser.error) == (True, Usage(3, 0, 2, 0), None)
    assert ChatCompletionChunk.model_validate(chunks[0]).choices[0].delta.content == "wärme 🌊\u2028"


def test_the_usage_frame_is_shown_to_who_asked() -> None:
    hidden, seen = whole(COMMON)[0], whole(COMMON, show_usage=True)[0]
    assert len(seen) == len(hidden) + 1
    assert data(seen)[-1]["usage"] == USAGE


@given(st.lists(st.integers(0, len(COMMON)), max_size=40), st.booleans())
def test_events_are_the_same_however_the_bytes_are_cut(cuts: list[int], show_usage: bool) -> None:
    expected, _ = whole(COMMON, show_usage=show_usage)
    parser = ChatStream("llama", show_usage=show_usage)
    events: list[bytes] = []
    for start, end in pairwise([0, *sorted(cuts), len(COMMON)]):
        events += parser.feed(COMMON[start:end])
    events += parser.close()
    assert events == expected
    assert (parser.done, parser.usage) == (True, Usage(3, 0, 2, 0))


def test_byte_by_byte_is_the_same_too() -> None:
    parser = ChatStream("llama", show_usage=False)
    events = [event for position in range(len(COMMON)) for event in parser.feed(COMMON[position : position + 1])]
    assert events + parser.close() == whole(COMMON)[0]


@given(st.lists(st.text(), min_size=1, max_size=5), st.text(min_size=1), st.text(min_size=1), st.booleans())
def test_every_chunk_comes_out_as_a_reader_of_json_would_have_it(
    contents: list[str], upstream: str, model: str, spaced: bool
) -> None:
    sent = [json.loads(chunk(content, upstream)) for content in contents]
    separators = (", ", ": ") if spaced else (",", ":")
    raw = b"".join(frame(json.dumps(piece, ensure_ascii=False, separators=separators)) for piece in sent)
    events, _ = whole(raw, model=model)
    assert data(events) == [piece | {"model": model} for piece in sent]


def test_null_usage_passes_and_a_last_chunk_may_carry_it() -> None:
    raw = frame(chunk("a", usage=None)) + frame(chunk("b", usage=None)) + frame(chunk("c", usage=USAGE))
    events, parser = whole(raw)
    assert [piece["usage"] for piece in data(events)] == [None, None, USAGE]
    assert parser.usage == Usage(3, 0, 2, 0)
    assert not parser.done


def test_usage_that_makes_no_sense_is_hidden_and_unknown() -> None:
    events, parser = whole(frame(chunk("", choices=[], usage={"prompt_tokens": -1})))
    assert events == []
    assert parser.usage is None


def test_a_frame_without_choices_or_usage_passes() -> None:
    events, _ = whole(frame(chunk("", choices=[], prompt_filter_results=[])))
    assert len(data(events)) == 1


def test_a_chunk_without_a_model_gets_none() -> None:
    assert whole(frame('{"choices":[]}'))[0] == [b'data: {"choices":[]}\n\n']


def test_the_last_event_needs_no_blank_line() -> None:
    events, parser = whole(frame(chunk("a")) + b"data: [DONE]\r")
    assert events[-1] == DONE
    assert parser.done


def ended(index: int, reason: str | None = "stop", **delta: str) -> str:
    return chunk("", choices=[{"index": index, "delta": delta, "finish_reason": reason}])


@pytest.mark.parametrize(
    ("chunks", "whole_even_so"),
    [
        ([chunk("a"), ended(0)], True),
        ([chunk("a"), ended(0), chunk("", choices=[], usage=USAGE)], True),
        ([ended(0, None, role="assistant"), ended(1, None, role="assistant"), ended(1), ended(0)], True),
        ([ended(0, None, role="assistant"), ended(1, None, role="assistant"), ended(1)], False),
        ([chunk("a"), ended(0, "")], False),
        ([chunk("a")], False),
        ([chunk("", choices=[], usage=USAGE)], False),
        ([], False),
    ],
)
def test_a_stream_that_told_how_it_ends_needs_no_mark(chunks: list[str], whole_even_so: bool) -> None:
    raw = b"".join(map(frame, chunks)).removesuffix(b"\n\n")
    events, parser = whole(raw)
    assert parser.done is whole_even_so
    assert events.count(DONE) == int(whole_even_so)
    reader = ChatPieces("seed")
    reader.feed(raw)
    assert not reader.done
    reader.close()
    assert reader.done is whole_even_so
    assert reader.usage == parser.usage


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ('{"error": {"message": "out of memory", "code": 500}}', "out of memory"),
        ('{"error": "out of memory"}', "out of memory"),
        ("not json", "The upstream's stream is malformed"),
        ("[]", "The upstream's stream is malformed"),
        ('{"choices": NaN}', "The upstream's stream is malformed"),
        ('{"choices": ', "The upstream's stream is malformed"),
    ],
)
def test_an_error_is_kept_back_and_nothing_follows_it(payload: str, message: str) -> None:
    parser = ChatStream("llama", show_usage=False)
    events = parser.feed(frame(chunk("a")) + frame(payload) + frame(chunk("b")))
    assert [piece["choices"] for piece in data(events)] == [json.loads(chunk("a"))["choices"]]
    assert parser.error is not None
    assert parser.error.message == message
    assert parser.feed(frame(chunk("c"))) == []
    assert parser.close() == []


@pytest.mark.parametrize(
    ("code", "status"), [(400, 400), (429, 429), (500, 500), (200, 502), ("400", 502), (None, 502), (True, 502)]
)
def test_an_error_of_a_stream_has_the_status_that_it_names(code: object, status: int) -> None:
    event = frame(json.dumps({"error": {"message": "Too many tokens", "code": code}}))
    for reader in (ChatStream("llama", show_usage=False), ChatPieces("seed")):
        assert list(reader.feed(event)) == []
        assert reader.error is not None
        assert reader.status == status


def test_an_event_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 100)
    parser = ChatStream("llama", show_usage=False)
    assert parser.feed(frame(chunk("a") + " " * 200)) != []
    assert parser.feed(b"data: " + b"x" * 90) == []
    assert parser.error is None
    assert parser.feed(b"x" * 20) == []
    assert parser.error is not None


def test_an_error_event_is_openais() -> None:
    event = error_event(Unavailable("The model cannot be served at the moment"))
    assert json.loads(event.removeprefix(b"data: "))["error"]["type"] == "server_error"
    assert event.endswith(b"\n\n")
