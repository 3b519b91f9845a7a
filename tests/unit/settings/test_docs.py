"""The settings page has all that the tables have."""

from __future__ import annotations

from ebbtide.config import OPTIONS
from ebbtide.settings.docs import settings_page
from ebbtide.settings.registry import SETTINGS


def test_page_has_a_row_for_everything() -> None:
    page = settings_page()
    for setting in SETTINGS:
        assert f"\n| `{setting.name}` |" in page
    for option in OPTIONS:
        assert (f"`{option.variable}`" in page) is not option.internal
