"""What a request may not say because the gateway keeps nothing: that something be kept, or the name of something kept.

An upstream files what it keeps under the gateway's own key, where one account could read another's or the operator's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ebbtide.errors import InvalidRequest

KEPT: Final = "this gateway keeps no responses"

# Members that name something kept, wherever they stand; a container is named by a string and made by an object.
_NAMES: Final = frozenset(
    {
        "comparison_response_id",
        "container_id",
        "continuation_id",
        "file_id",
        "file_ids",
        "skill_id",
        "vector_store_ids",
    }
)
# Under these stand the caller's own words, in which such a name means what the caller likes.
_OPAQUE: Final = frozenset({"annotations", "arguments", "metadata", "output_schema", "parameters", "schema"})


def unsupported(path: str, problem: str) -> InvalidRequest:
    """The refusal of something that is well formed and not served."""
    return InvalidRequest(f"{path}: {problem}", param=path, code="unsupported_parameter")


def refuse_kept(body: Mapping[str, object]) -> None:
    """Raises InvalidRequest naming the field by its path."""
    for field in ("previous_response_id", "conversation"):
        if body.get(field) is not None:
            raise unsupported(field, f"{KEPT}; send the whole input instead")
    if body.get("store"):
        raise unsupported("store", f"must be false: {KEPT}")
    if body.get("background"):
        raise unsupported("background", f"must be false: {KEPT} to be fetched later; use a batch instead")
    if body.get("prompt") is not None:
        raise unsupported("prompt", "stored prompts of an upstream cannot be named; send its text instead")
    _refuse_names("", body)


def _refuse_names(path: str, value: object) -> None:
    if isinstance(value, list):
        for index, inner in enumerate(value):
            if isinstance(inner, (dict, list)):
                _refuse_names(f"{path}[{index}]", inner)
        return
    if not isinstance(value, dict):
        return
    for name, inner in value.items():
        place = f"{path}.{name}" if path else name
        if name in _NAMES and inner not in (None, []):
            raise unsupported(place, "what an upstream keeps cannot be named; send the data itself")
        if name == "container" and isinstance(inner, str):
            raise unsupported(place, "containers of an upstream cannot be named")
        if name not in _OPAQUE and isinstance(inner, (dict, list)):
            _refuse_names(place, inner)
