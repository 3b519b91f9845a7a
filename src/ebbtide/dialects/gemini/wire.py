"""The API's request bodies as its own documentation tells them, for the description of ours.

https://ai.google.dev/api/generate-content. What is checked of a body stands in `bodies`, and what of it servers of
other makes can be told in `conversation`.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

Json: TypeAlias = dict[str, object]


class Content(msgspec.Struct, kw_only=True):
    role: str = "user"
    parts: list[Json]


class GenerateContentRequest(msgspec.Struct, kw_only=True, rename="camel"):
    """generateContent's and streamGenerateContent's."""

    contents: Annotated[list[Content], msgspec.Meta(min_length=1)]
    system_instruction: Content | None = None
    tools: list[Json] | None = None
    tool_config: Json | None = None
    generation_config: Json | None = None
    safety_settings: list[Json] | None = None


class CountTokensRequest(msgspec.Struct, kw_only=True, rename="camel"):
    """countTokens': contents, or a whole request."""

    contents: list[Content] | None = None
    generate_content_request: GenerateContentRequest | None = None


class EmbedContentRequest(msgspec.Struct, kw_only=True, rename="camel"):
    content: Content
    task_type: str | None = None
    title: str | None = None
    output_dimensionality: Annotated[int, msgspec.Meta(ge=1)] | None = None


class BatchEmbedContentsRequest(msgspec.Struct, kw_only=True, rename="camel"):
    requests: Annotated[list[EmbedContentRequest], msgspec.Meta(min_length=1)]


class InlinedRequest(msgspec.Struct, kw_only=True):
    request: Json
    metadata: Json | None = None


class InlinedRequests(msgspec.Struct, kw_only=True):
    requests: Annotated[list[InlinedRequest], msgspec.Meta(min_length=1)]


class InputConfig(msgspec.Struct, kw_only=True, rename="camel"):
    """One of both."""

    requests: InlinedRequests | None = None
    file_name: str | None = None


class BatchWish(msgspec.Struct, kw_only=True, rename="camel"):
    display_name: str | None = None
    input_config: InputConfig
    priority: str | int | None = None


class CreateGeminiBatchRequest(msgspec.Struct, kw_only=True):
    """batchGenerateContent's and asyncBatchEmbedContent's."""

    batch: BatchWish


class Empty(msgspec.Struct, frozen=True):
    """`{}`."""
