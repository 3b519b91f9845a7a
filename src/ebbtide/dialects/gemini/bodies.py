"""What the bodies of generateContent, countTokens and the embedding methods must be; anything else passes through.

A body names its model in `model`, as the API's own types do: the gateway puts there what the path says. The same rules
hold for interactive and batched requests. Errors name the field by its path and never quote what a prompt holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from ebbtide.dialects.fields import check_name, check_size, invalid
from ebbtide.dialects.gemini.members import Members, camel
from ebbtide.dialects.gemini.models import PREFIX
from ebbtide.dialects.values import (
    BOM,
    MAX_MODEL,
    BatchBody,
    Body,
    Limits,
    Terms,
    check_json,
    members_replaced,
)

_STORED: Final = "what lies in an account at the provider cannot be used here"
STANDARD_TIERS: Final = frozenset({None, "SERVICE_TIER_UNSPECIFIED", "unspecified", "STANDARD", "standard"})
_EMBED: Final = frozenset({"model", "content", "taskType", "title", "outputDimensionality", "config"})


def named(raw: bytes, model: str) -> bytes:
    """A body with the model of its path. Raises InvalidRequest for one that is none, or names another."""
    raw = raw.removeprefix(BOM) or b"{}"
    body = Members("", check_json(raw))
    given = body.text("model")
    if given is not None and given.removeprefix(PREFIX) != model:
        raise invalid("model", "is another than the path's")
    return members_replaced(raw, {"model": model})


def parse_generate(raw: bytes, terms: Terms) -> Body:
    """Check a generateContent body. Raises InvalidRequest naming the field."""
    body = Members("", check_json(raw))
    most = _check_generate(body, terms.limits)
    return Body(model=_model(body), raw=raw, max_tokens=most, asks_usage=True)


def check_batched(body: dict[str, object], terms: Terms) -> BatchBody:
    """Check the decoded body of a batched generateContent request. Raises InvalidRequest."""
    members = Members("", body)
    for name in ("stream", "priority"):
        if name in members:
            raise invalid(members.at(name), "not allowed in a batch")
    if members.text("serviceTier") not in STANDARD_TIERS:
        raise invalid(members.at("serviceTier"), "must be standard in a batch")
    most = _check_generate(members, terms.limits)
    return BatchBody(_model(members), most)


def parse_count(raw: bytes, terms: Terms) -> Body:
    """Check the body of a request to count tokens: contents, or a whole generateContentRequest."""
    body = Members("", check_json(raw))
    request = body.inner("generateContentRequest")
    if request is not None and "contents" in body:
        raise invalid(body.at("contents"), "stands beside generateContentRequest: send one")
    _check_generate(request or body, terms.limits)
    return Body(model=_model(body), raw=raw)


def counted(raw: bytes) -> bytes:
    """The generateContent body whose tokens a checked request to count them asks for."""
    body = check_json(raw)
    assert isinstance(body, dict)
    inner = next((value for name, value in body.items() if camel(name) == "generateContentRequest" and value), None)
    if not isinstance(inner, dict):
        return raw
    return members_replaced(_encoded(inner), {"model": body["model"]})


def parse_embed(raw: bytes, terms: Terms) -> Body:
    """Check an embedContent body."""
    body = Members("", check_json(raw))
    _check_embed(body, terms.limits)
    return Body(model=_model(body), raw=raw)


def check_batched_embed(body: dict[str, object], terms: Terms) -> BatchBody:
    """Check the decoded body of a batched embedContent request. Raises InvalidRequest."""
    members = Members("", body)
    if "stream" in members:
        raise invalid("stream", "not allowed in a batch")
    _check_embed(members, terms.limits)
    return BatchBody(_model(members))


def parse_embeds(raw: bytes, terms: Terms) -> Body:
    """Check a batchEmbedContents body: one embedContent request or more, for the same model."""
    body = Members("", check_json(raw))
    model, count = _model(body), 0
    for request in body.objects("requests"):
        given = request.text("model")
        if given is not None and given.removeprefix(PREFIX) != model:
            raise invalid(request.at("model"), "is another than the path's")
        _check_embed(request, terms.limits)
        count += 1
    if not count:
        raise invalid("requests", "must hold at least one request")
    return Body(model=model, raw=raw)


def _model(body: Members) -> str:
    name = body.required("model").removeprefix(PREFIX)
    if not 0 < len(name) <= MAX_MODEL:
        raise invalid("model", f"must be 1 to {MAX_MODEL} characters long")
    check_name(name)
    return name


def _check_generate(body: Members, limits: Limits) -> int | None:
    """What the endpoint asks of every request; the most output it allows."""
    _check_contents(body, limits)
    if "cachedContent" in body:
        raise invalid(body.at("cachedContent"), _STORED)
    functions = 0
    for tool in body.objects("tools"):
        functions += sum(1 for _ in tool.each("functionDeclarations"))
    check_size(body.at("tools"), functions, limits.tools)
    config = body.inner("generationConfig")
    if config is None:
        return None
    check_size(config.at("stopSequences"), len(config.texts("stopSequences")), limits.stop_sequences)
    return config.whole("maxOutputTokens", 1)


def _check_contents(body: Members, limits: Limits) -> None:
    contents = list(body.objects("contents"))
    if not contents:
        raise invalid("contents", "must hold at least one content")
    check_size("contents", len(contents), limits.messages)
    parts = 0
    for content in contents:
        content.text("role")
        for part in content.objects("parts"):
            parts += 1
            _refuse_stored(part)
    check_size("contents[].parts", parts, limits.content_parts)
    system = body.inner("systemInstruction")
    if system is not None:
        check_size(system.path, sum(1 for _ in system.objects("parts")), limits.content_parts)


def _refuse_stored(part: Members) -> None:
    """A file of the provider's Files API is the operator's, not the caller's; ours hold batches and nothing else."""
    data = part.inner("fileData")
    uri = "" if data is None else data.text("fileUri") or ""
    if data is not None and ("/files/" in uri or uri.startswith("files/")) and "generativelanguage" in uri[:64]:
        raise invalid(data.at("fileUri"), _STORED)


def _check_embed(request: Members, limits: Limits) -> None:
    request.only(_EMBED, "no member of such a request")
    content = request.inner("content")
    if content is None:
        raise invalid(request.at("content"), "required: an object")
    check_size(content.at("parts"), sum(1 for _ in content.objects("parts")), limits.content_parts)
    request.whole("outputDimensionality", 1)


def _encoded(value: Mapping[str, object]) -> bytes:
    return msgspec.json.encode(value)
