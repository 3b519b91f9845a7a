"""The parameters of every list in Gemini's API."""

from __future__ import annotations

from typing import Final

from ebbtide.api.parameters import IntegerParameter, TextParameter

PAGE_SIZE: Final = IntegerParameter("pageSize", 50, 1, 1_000, "Entries in a page")
PAGE_TOKEN: Final = TextParameter("pageToken", "The nextPageToken of the page before")
