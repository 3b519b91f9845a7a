"""A checked generateContent body read into the neutral form, for servers that speak another dialect.

Every member is either taken over or refused by its path. Safety settings are let go where they ask for nothing to be
blocked: a setting that asks for more cannot be kept.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from ebbtide.dialects.conversation import (
    Conversation,
    Effort,
    Format,
    Sampling,
    Tool,
    ToolChoice,
    cannot,
)
from ebbtide.dialects.fields import invalid
from ebbtide.dialects.gemini.bodies import STANDARD_TIERS
from ebbtide.dialects.gemini.contents import ContentReader
from ebbtide.dialects.gemini.members import Members
from ebbtide.dialects.gemini.schemas import json_schema
from ebbtide.dialects.values import MAX_TOKENS, check_json

Mode = Literal["auto", "none", "required"]
_encode = msgspec.json.Encoder().encode

MEMBERS: Final = frozenset(
    {
        "model",
        "contents",
        "systemInstruction",
        "tools",
        "toolConfig",
        "generationConfig",
        "safetySettings",
        "serviceTier",
    }
)
_CONFIG: Final = frozenset(
    {
        "temperature",
        "topP",
        "topK",
        "seed",
        "presencePenalty",
        "frequencyPenalty",
        "candidateCount",
        "maxOutputTokens",
        "stopSequences",
        "responseMimeType",
        "responseSchema",
        "responseJsonSchema",
        "responseModalities",
        "thinkingConfig",
    }
)
_HARMLESS: Final = frozenset({"BLOCK_NONE", "OFF", "HARM_BLOCK_THRESHOLD_UNSPECIFIED"})
_DECLARATION: Final = frozenset(
    {"name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema", "behavior"}
)
_SETTING: Final = frozenset({"category", "threshold"})
_MODES: Final[dict[str, Mode]] = {"MODE_UNSPECIFIED": "auto", "AUTO": "auto", "NONE": "none", "ANY": "required"}
_EFFORTS: Final[dict[str, Effort | None]] = {
    "THINKING_LEVEL_UNSPECIFIED": None,
    "MINIMAL": "minimal",
    "LOW": "low",
    "MEDIUM": "medium",
    "HIGH": "high",
}


def read_conversation(raw: bytes) -> Conversation:
    """A generateContent body. Raises InvalidRequest naming the field that is malformed or has no place."""
    body = Members("", check_json(raw))
    body.only(MEMBERS)
    if body.text("serviceTier") not in STANDARD_TIERS:
        raise cannot(body.at("serviceTier"), "the model's server has one tier of service: must be standard")
    for setting in body.objects("safetySettings"):
        setting.only(_SETTING)
        setting.text("category")
        if setting.text("threshold") not in _HARMLESS:
            raise cannot(
                setting.at("threshold"), "the model's server blocks nothing by itself: must be BLOCK_NONE or OFF"
            )
    reader = ContentReader()
    messages = (*reader.system(body.inner("systemInstruction")), *reader.messages(body.objects("contents")))
    tools = tuple(tool for given in body.objects("tools") for tool in _tools(given))
    config = body.inner("generationConfig") or Members("generationConfig", {})
    config.only(_CONFIG)
    effort, budget = _thinking(config.inner("thinkingConfig"))
    last = messages[-1] if messages else None
    return Conversation(
        messages=messages,
        tools=tools,
        tool_choice=_tool_choice(body.inner("toolConfig"), tools),
        sampling=_sampling(config),
        format=_format(config),
        stop=config.texts("stopSequences"),
        max_tokens=config.whole("maxOutputTokens", 1),
        count=config.whole("candidateCount", 1),
        effort=effort,
        thinking_tokens=budget,
        continues=last.path if last is not None and last.role == "assistant" else None,
    )


def shows_thoughts(raw: bytes) -> bool:
    """Whether a checked body asks to see the model's reasoning."""
    config = Members("", check_json(raw)).inner("generationConfig")
    thinking = None if config is None else config.inner("thinkingConfig")
    return thinking is not None and thinking.flag("includeThoughts")


def _sampling(config: Members) -> Sampling:
    return Sampling(
        temperature=config.number("temperature"),
        top_p=config.number("topP"),
        top_k=config.whole("topK", 1),
        seed=config.whole("seed", -(2**31)),
        presence_penalty=config.number("presencePenalty"),
        frequency_penalty=config.number("frequencyPenalty"),
    )


def _format(config: Members) -> Format | None:
    for path, modality in config.each("responseModalities"):
        if modality not in ("TEXT", "MODALITY_UNSPECIFIED"):
            raise cannot(path, "the model's server answers in text alone")
    kind = config.text("responseMimeType") or "text/plain"
    schema: object = config.get("responseJsonSchema")
    if schema is not None and not isinstance(schema, dict):
        raise invalid(config.at("responseJsonSchema"), "expected object")
    if "responseSchema" in config:
        if schema is not None:
            raise invalid(config.at("responseSchema"), "stands beside responseJsonSchema: send one")
        schema = json_schema(config.at("responseSchema"), config.get("responseSchema"))
    if kind == "application/json":
        # Not strict: engines that enforce it ask for more than a schema here needs to say.
        return Format(schema, name=None if schema is None else "response")
    if kind != "text/plain":
        raise cannot(config.at("responseMimeType"), "must be text/plain or application/json")
    if schema is not None:
        raise invalid(config.at("responseMimeType"), "must be application/json beside a schema")
    return None


def _thinking(config: Members | None) -> tuple[Effort | None, int | None]:
    """How much to reason: a level, and the most tokens. A budget of -1 leaves it to the model."""
    if config is None:
        return None, None
    config.only(frozenset({"includeThoughts", "thinkingBudget", "thinkingLevel"}))
    effort, budget = config.word("thinkingLevel", _EFFORTS), config.whole("thinkingBudget", -1, MAX_TOKENS)
    config.flag("includeThoughts")
    if budget == 0:
        if effort is not None:
            raise invalid(config.at("thinkingBudget"), "stands beside thinkingLevel: send one")
        return "none", None
    return effort, None if budget == -1 else budget


def _tools(given: Members) -> list[Tool]:
    given.only(frozenset({"functionDeclarations"}), "the model's server has no tools of its own: declare functions")
    return [_tool(declared) for declared in given.objects("functionDeclarations")]


def _tool(declared: Members) -> Tool:
    """The SDKs tell what a function gives back, too; other servers read that in its description."""
    declared.only(_DECLARATION)
    declared.word("behavior", {"UNSPECIFIED": None, "BLOCKING": None})
    description, returned = declared.text("description"), _schema(declared, "response")
    if returned is not None:
        told = f"Returns JSON of this schema: {_encode(returned).decode()}"
        description = f"{description}\n\n{told}" if description else told
    return Tool(declared.required("name"), description, _schema(declared, "parameters"))


def _schema(declared: Members, name: str) -> dict[str, object] | None:
    """One of a function's schemas, in the API's own words or, by its other name, in JSON Schema's."""
    schema = declared.get(f"{name}JsonSchema")
    if name in declared:
        if schema is not None:
            raise invalid(declared.at(name), f"stands beside {name}JsonSchema: send one")
        return json_schema(declared.at(name), declared.get(name))
    if schema is not None and not isinstance(schema, dict):
        raise invalid(declared.at(f"{name}JsonSchema"), "expected object")
    return schema


def _tool_choice(given: Members | None, tools: tuple[Tool, ...]) -> ToolChoice | None:
    if given is None:
        return None
    given.only(frozenset({"functionCallingConfig"}))
    config = given.inner("functionCallingConfig")
    if config is None:
        return None
    config.only(frozenset({"mode", "allowedFunctionNames"}))
    mode, names = config.word("mode", _MODES) or "auto", config.texts("allowedFunctionNames")
    if not names or (set(names) == {tool.name for tool in tools} and len(names) > 1):
        return ToolChoice(mode)
    if mode != "required" or len(names) > 1:
        raise cannot(config.at("allowedFunctionNames"), "must name one function under the mode ANY, or all of them")
    return ToolChoice("tool", names[0])
