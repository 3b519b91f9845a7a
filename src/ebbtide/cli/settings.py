"""`ebbtide settings …`."""

from __future__ import annotations

from cyclopts import App

from ebbtide.settings.docs import settings_page

app = App(name="settings", help="Settings of the gateway.")


@app.command
def reference() -> None:
    """Print every setting with its name, default, bounds and meaning (Markdown)."""
    print(settings_page(), end="")
