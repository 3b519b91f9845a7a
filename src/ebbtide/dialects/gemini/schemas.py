"""The API's own Schema (types in capitals, `nullable`) as JSON Schema.

https://ai.google.dev/api/caching#Schema: a subset of OpenAPI 3.0's.
"""

from __future__ import annotations

from typing import Final

from ebbtide.dialects.conversation import cannot
from ebbtide.dialects.fields import invalid
from ebbtide.dialects.gemini.members import Members

_TYPES: Final = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
# As they are: words that both know.
_SAME: Final = frozenset(
    {"title", "description", "format", "pattern", "default", "minimum", "maximum", "additionalProperties"}
)
_LISTS: Final = frozenset({"enum", "required"})
_COUNTS: Final = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})
_OWN: Final = frozenset({"type", "nullable", "items", "properties", "anyOf", "propertyOrdering", "example"})


def json_schema(path: str, given: object) -> dict[str, object]:
    """The same schema. `propertyOrdering` is told by the order of the properties. Raises InvalidRequest."""
    schema = Members(path, given)
    schema.only(_SAME | _LISTS | _COUNTS | _OWN, "not in the schemas that can be translated: use a JSON Schema")
    written: dict[str, object] = {}
    if (kind := _type(schema)) is not None:
        written["type"] = kind
    written |= {name: schema.get(name) for name in schema if name in _SAME}
    written |= {name: list(schema.texts(name)) for name in schema if name in _LISTS}
    written |= {name: schema.whole(name, 0) for name in schema if name in _COUNTS}
    if "format" in written and "enum" in written and written["format"] == "enum":
        del written["format"]
    if "items" in schema:
        written["items"] = json_schema(schema.at("items"), schema.get("items"))
    if "anyOf" in schema:
        written["anyOf"] = [json_schema(at, choice) for at, choice in schema.each("anyOf")]
    if "properties" in schema:
        written["properties"] = _properties(schema)
    if "example" in schema:
        written["examples"] = [schema.get("example")]
    return written


def _type(schema: Members) -> object:
    told = schema.text("type")
    if told is None or told == "TYPE_UNSPECIFIED":
        return None
    if told.upper() not in _TYPES:
        raise cannot(schema.at("type"), f"must be one of {', '.join(sorted(_TYPES))}")
    kind = told.lower()
    return [kind, "null"] if schema.flag("nullable") else kind


def _properties(schema: Members) -> dict[str, object]:
    given, path = schema.get("properties"), schema.at("properties")
    if not isinstance(given, dict):
        raise invalid(path, "expected object")
    order = [name for name in schema.texts("propertyOrdering") if name in given]
    names = dict.fromkeys([*order, *given])
    return {name: json_schema(f"{path}.{name[:100]}", given[name]) for name in names}
