"""The wire objects of models in the Messages API, fields in the order it documents them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

UNKNOWN_TIME: Final = "1970-01-01T00:00:00Z"  # what the API itself says where a date is not known


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    id: str
    type: Literal["model"] = "model"
    display_name: str
    created_at: str = UNKNOWN_TIME
    lifecycle: Literal["active"] = "active"
    max_input_tokens: int | None = None
    max_tokens: int | None = None


class ModelPage(msgspec.Struct, frozen=True, kw_only=True):
    data: list[ModelInfo]
    has_more: bool
    first_id: str | None
    last_id: str | None


def page_of(infos: Sequence[ModelInfo], *, has_more: bool) -> ModelPage:
    """A page of models; its ids are the cursors of the pages beside it."""
    first, last = (infos[0].id, infos[-1].id) if infos else (None, None)
    return ModelPage(data=list(infos), has_more=has_more, first_id=first, last_id=last)
