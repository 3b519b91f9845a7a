"""The wire objects of models in Gemini's API, fields as it documents them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

PREFIX: Final = "models/"


class GeminiModel(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    name: str
    version: str = ""
    display_name: str
    description: str = ""
    input_token_limit: int | UnsetType = UNSET
    output_token_limit: int | UnsetType = UNSET
    supported_generation_methods: list[str] = []


class GeminiModels(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    models: list[GeminiModel] = []
    next_page_token: str | UnsetType = UNSET


def gemini_model(
    name: str, methods: Sequence[str], limits: tuple[int | None, int | None] = (None, None)
) -> GeminiModel:
    """A model that can be asked for these methods; `limits` are those of its input and its output, in tokens."""
    given, made = limits
    return GeminiModel(
        name=PREFIX + name,
        display_name=name,
        input_token_limit=UNSET if given is None else given,
        output_token_limit=UNSET if made is None else made,
        supported_generation_methods=list(methods),
    )
