"""The parameters of every list in Gemini's API, in either spelling; sizes as https://google.aip.dev/158 has them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from starlette.requests import Request

from ebbtide.api.parameters import IntegerParameter, TextParameter

_LARGEST: Final = 1_000
_USUAL: Final = 50
PAGE_SIZE: Final = IntegerParameter("pageSize", 0, 0, 2**31 - 1, f"Entries in a page, at most {_LARGEST}; 0: {_USUAL}")
PAGE_TOKEN: Final = TextParameter("pageToken", "The nextPageToken of the page before")
_SNAKE_SIZE: Final = replace(PAGE_SIZE, name="page_size")
_SNAKE_TOKEN: Final = replace(PAGE_TOKEN, name="page_token")


def page_asked(request: Request) -> tuple[str | None, int]:
    """The token and the size of the page that is asked for. Raises InvalidRequest."""
    size = PAGE_SIZE.read(request) or _SNAKE_SIZE.read(request) or _USUAL
    return PAGE_TOKEN.read(request) or _SNAKE_TOKEN.read(request), min(size, _LARGEST)
