"""The committed settings page is the one that the tables make."""

from __future__ import annotations

from pathlib import Path

from ebbtide.config import OPTIONS
from ebbtide.settings.docs import settings_page
from ebbtide.settings.registry import SETTINGS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "settings.md"


def test_page_is_fresh() -> None:
    remedy = "run: python -m ebbtide.settings.docs > docs/reference/settings.md"
    assert PAGE.read_text(encoding="utf-8") == settings_page(), remedy


def test_page_has_a_row_for_everything() -> None:
    page = settings_page()
    for setting in SETTINGS:
        assert f"\n| `{setting.name}` |" in page
    for option in OPTIONS:
        assert (f"`{option.variable}`" in page) is not option.internal
