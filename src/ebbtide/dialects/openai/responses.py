"""What upstreams answer, in OpenAI's form: made one line, read for tokens and errors, named as the caller named it.

Nothing an upstream says in usage or errors can raise; only a 200 that is no JSON object does (MalformedAnswer).
"""

from __future__ import annotations

import msgspec

from ebbtide.dialects.told import clean, count_of, detail_of
from ebbtide.dialects.values import (
    Answer,
    MalformedAnswer,
    Target,
    UpstreamError,
    Usage,
    members_replaced,
    one_line,
)

_decode = msgspec.json.Decoder().decode


def read_answer(target: Target, body: bytes, model: str) -> Answer:
    """Check an upstream's 200, read what it used, and name the model as the caller did. Raises MalformedAnswer.

    An object that is an error in spite of its status comes back with `error` set.
    """
    answer = read_object(body)
    named = body
    if "model" in answer and answer["model"] != model:
        named = members_replaced(body, {"model": model})
    return Answer(one_line(named), usage_of(target, answer.get("usage")), error_of(answer))


def read_error(body: bytes, status: int) -> UpstreamError:
    """What an upstream's error answer says, in whichever of the usual shapes; pages and text become a sentence."""
    said: object
    try:
        said = _decode(body)
    except (ValueError, RecursionError):
        said = None
    if isinstance(said, list) and said:
        said = said[0]
    if isinstance(said, dict):
        found = said["error"] if said.get("error") else said
        error = _from_object(found) if isinstance(found, dict) else _from_text(found)
        if error is not None:
            return error
    return UpstreamError(f"The upstream answered with status {status} and no further explanation")


def error_of(answer: dict[str, object]) -> UpstreamError | None:
    """The error that a decoded 200 body (or a frame of a stream) is, or None when it is an answer."""
    if "choices" in answer or "data" in answer:
        return None
    told = answer.get("error")
    if not told and answer.get("object") != "error":
        return None
    found = told or answer
    error = _from_object(found) if isinstance(found, dict) else _from_text(found)
    return error or UpstreamError("The upstream answered with an error and no further explanation")


def usage_of(target: Target, usage: object) -> Usage | None:
    """The decoded `usage` member as tokens; None unless the counts that decide the price are whole and in range.

    Details that make no sense count as none, and are never more than the sum they are part of.
    """
    if not isinstance(usage, dict):
        return None
    given, made = count_of(usage.get("prompt_tokens")), count_of(usage.get("completion_tokens"))
    if target == "embeddings" and made is None:
        made = 0
    if given is None or made is None:
        return None
    cached = detail_of(usage.get("prompt_tokens_details"), "cached_tokens")
    reasoning = detail_of(usage.get("completion_tokens_details"), "reasoning_tokens")
    return Usage(given, min(cached, given), made, min(reasoning, made))


def read_object(body: bytes) -> dict[str, object]:
    """The object that a 200 must be. Raises MalformedAnswer."""
    try:
        answer = _decode(body)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer(f"Not valid JSON: {error}") from None
    if not isinstance(answer, dict):
        raise MalformedAnswer("Not a JSON object")
    return answer


def status_told(said: object) -> int:
    """The HTTP status that an error under status 200 names as its code, as engines do in a stream; else 502."""
    error = said.get("error") if isinstance(said, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if type(code) is int and 400 <= code <= 599 else 502


def _from_object(error: dict[str, object]) -> UpstreamError | None:
    """OpenAI's and vLLM's error object, FastAPI's `detail`, and what has only a `message` or a nested `error`."""
    message = error.get("message") or error.get("detail") or error.get("error")
    if isinstance(message, list):
        message = "; ".join(filter(None, map(_from_detail, message[:3])))
    if isinstance(message, dict):
        return _from_object(message)
    if not isinstance(message, str) or not message.strip():
        return None
    return UpstreamError(clean(message), _word(error.get("code")), _word(error.get("param")))


def _from_detail(detail: object) -> str | None:
    """One of FastAPI's validation problems, without its `input`, which quotes the request."""
    if not isinstance(detail, dict) or not isinstance(detail.get("msg"), str):
        return None
    place = detail.get("loc")
    path = ".".join(str(step) for step in place if step != "body") if isinstance(place, list) else ""
    return f"{path}: {detail['msg']}" if path else str(detail["msg"])


def _from_text(message: object) -> UpstreamError | None:
    return UpstreamError(clean(message)) if isinstance(message, str) and message.strip() else None


def _word(value: object) -> str | None:
    return clean(value)[:200] if isinstance(value, str) and value else None
