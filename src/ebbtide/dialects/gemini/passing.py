"""Answers and streams of a server that speaks the API itself, on their way to a caller who does: they keep their bytes,
bar the model's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from ebbtide.dialects.gemini.errors import error_event
from ebbtide.dialects.gemini.responses import error_of, usage_of
from ebbtide.dialects.gemini.stream import GeneratedEvents
from ebbtide.dialects.pieces import EventReader
from ebbtide.dialects.values import Answer, MalformedAnswer, Usage, members_replaced, one_line
from ebbtide.errors import EbbtideError

_FREE: Final = Usage(0, 0, 0, 0)
_decode = msgspec.json.Decoder(dict[str, object]).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def pass_body(raw: bytes) -> bytes:
    """A checked body without the model, which the path tells."""
    members = _decode_members(raw)
    del members["model"]
    return msgspec.json.encode(members)


def pass_count_body(raw: bytes, model: str) -> bytes:
    """A checked body of a request to count tokens; a whole request within names the model, with its `models/`."""
    members = _decode_members(pass_body(raw))
    for name in ("generateContentRequest", "generate_content_request"):
        if name in members and bytes(members[name]) != b"null":
            members[name] = msgspec.Raw(members_replaced(bytes(members[name]), {"model": model}))
    return msgspec.json.encode(members)


def pass_embeds(raw: bytes, model: str) -> bytes:
    """A batchEmbedContents body; each of its requests must name the model, with its `models/`."""
    requests = msgspec.json.decode(pass_body(raw), type=dict[str, list[dict[str, msgspec.Raw]]])["requests"]
    return msgspec.json.encode({"requests": [{**request, "model": model} for request in requests]})


def pass_generated(body: bytes, model: str) -> Answer:
    """An answer of generateContent, its model named as the caller did. Raises MalformedAnswer."""
    return _passed(body, model, lambda answer: "candidates" in answer or "promptFeedback" in answer)


def pass_vectors(body: bytes, model: str) -> Answer:
    """An answer of an embedding method. Raises MalformedAnswer."""
    answer = _passed(body, model, lambda answer: "embedding" in answer or "embeddings" in answer)
    if answer.usage is None:
        return answer
    return msgspec.structs.replace(answer, usage=Usage(answer.usage.input_tokens, answer.usage.cached_tokens, 0, 0))


def pass_count(body: bytes, model: str) -> Answer:
    """A count of tokens, which costs nothing. Raises MalformedAnswer."""
    answer = _passed(body, model, lambda answer: "totalTokens" in answer)
    return msgspec.structs.replace(answer, usage=_FREE)


def _passed(body: bytes, model: str, is_answer: Callable[[dict[str, object]], bool]) -> Answer:
    try:
        answer = _decode(body)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer(f"Not valid JSON: {error}") from None
    failed = error_of(answer)
    if failed is None and not is_answer(answer):
        raise MalformedAnswer("Not an answer")
    if "modelVersion" in answer and answer["modelVersion"] != model:
        body = members_replaced(body, {"modelVersion": model})
    return Answer(one_line(body), usage_of(answer.get("usageMetadata")), None if failed is None else failed.error)


class GenerationStream(EventReader[bytes]):
    """Events passed on, whole and one by one. What they tell is read as from any server's stream.

    An error event is not passed on, and no event follows: the caller ends the stream in its own words.
    """

    def __init__(self, model: str) -> None:
        super().__init__()
        self._model = model
        self._told = GeneratedEvents("")

    def read(self, data: bytes) -> Iterator[bytes]:
        """The event, with its blank line."""
        for _ in self._told.read(data):
            pass
        self.error, self.status = self._told.error, self._told.status
        if self.error is not None:
            return
        if "modelVersion" in _decode(data):
            data = members_replaced(data, {"modelVersion": self._model})
        yield b"data: %b\n\n" % one_line(data)

    def is_whole(self) -> bool:
        """Whether every candidate told why it ended."""
        return self._told.is_whole()

    def close(self) -> list[bytes]:
        """As ever; tells the usage of a stream that was whole."""
        passed = super().close()
        self._told.close()
        self.usage = self._told.usage
        return passed

    def fail(self, error: EbbtideError, request_id: str) -> bytes:
        """The end of a stream that broke."""
        return error_event(error, request_id)
