"""The wire objects of Gemini's files, and the names of its resources.

A file's name has letters and digits alone behind `files/`: the SDKs find names in URIs by that pattern.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

MEDIA_TYPE: Final = "application/jsonl"
_NAME: Final = re.compile(r"(?:files/)?(?:file-)?([a-z0-9]{1,64})")
_BATCH: Final = re.compile(r"(?:batch_)?([a-z0-9]{1,64})")


class GeminiFile(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """A stored file; `sha256Hash` is base64 of the digest."""

    name: str
    display_name: str
    mime_type: str = MEDIA_TYPE
    size_bytes: str
    create_time: str
    update_time: str
    expiration_time: str | UnsetType = UNSET
    sha256_hash: str
    uri: str
    download_uri: str
    state: Literal["ACTIVE"] = "ACTIVE"
    source: Literal["UPLOADED", "GENERATED"]


class GeminiFiles(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    files: list[GeminiFile]
    next_page_token: str | UnsetType = UNSET


class UploadedFile(msgspec.Struct, frozen=True):
    """The answer of an upload that is whole."""

    file: GeminiFile


class FileWish(msgspec.Struct, rename="camel"):
    """What a caller says of a file that is to come."""

    display_name: str | None = None
    mime_type: str | None = None
    size_bytes: object = None


class StartUpload(msgspec.Struct):
    file: FileWish | None = None


def file_name(file_id: str) -> str:
    """The name of the file of this id."""
    return f"files/{file_id.removeprefix('file-')}"


def file_id(name: str) -> str | None:
    """The id of the file of this name; None for no name of one."""
    found = _NAME.fullmatch(name)
    return None if found is None else f"file-{found[1]}"


def batch_name(batch_id: str) -> str:
    """The name of the batch of this id."""
    return f"batches/{batch_id.removeprefix('batch_')}"


def batch_id(name: str) -> str | None:
    """The id of the batch of this name, which comes without its `batches/`; None for no name of one."""
    found = _BATCH.fullmatch(name)
    return None if found is None else f"batch_{found[1]}"
