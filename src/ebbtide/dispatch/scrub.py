"""Takes the upstream out of what it said: its address, its key and its own name of the model never reach a caller."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import urlsplit

from ebbtide.catalog.model import Route

MAX_MESSAGE = 2000
_LOOKED_AT = 16_000

_URL = re.compile(r"\b(?:https?|wss?|grpc|tcp|unix)://[^\s\"'<>)\]}]+", re.IGNORECASE)
_ADDRESS = re.compile(
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?(?![\w.]*\d)"  # IPv4
    r"|\[?(?<![\w:])(?:(?:[0-9a-f]{1,4}:){1,7}(?::[0-9a-f]{1,4}){1,7}|::[0-9a-f]{1,4}|(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4})"
    r"(?![\w:])\]?(?::\d{1,5})?"  # IPv6
    r"|(?<![\w.-])[a-z0-9-]+(?:\.[a-z0-9-]+)+:\d{2,5}(?!\w)",  # host.name:port
    re.IGNORECASE,
)
_SECRET = re.compile(r"\b(?:sk|pk|hf|gsk|xai|nvapi|r8)[-_][\w\-*.…]{6,}|\bBearer\s+\S+", re.IGNORECASE)
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


def scrub(message: str, route: Route, requested: str) -> str:
    """`message` fit to show: at most 2,000 characters, no NUL, no address, host, key; the model as it was asked for."""
    text = message[:_LOOKED_AT].replace("\0", "").encode("utf-8", "replace").decode()
    for key in route.api_keys:
        text = text.replace(key, "[key]")
    text = _own_name(route.model, requested, text)
    text = _SECRET.sub("[key]", _URL.sub("[address]", text))
    for host in _hosts(route.base_url):
        text = host.sub("[address]", text)
    text = _ADDRESS.sub("[address]", text).strip()
    return text if len(text) <= MAX_MESSAGE else f"{text[: MAX_MESSAGE - 1]}…"


def safe_code(code: str | None) -> str | None:
    """An upstream's own error code when it is a plain word, else None."""
    return code if code is not None and _CODE.fullmatch(code) else None


def _own_name(model: str, requested: str, text: str) -> str:
    if model == requested:
        return text
    return re.sub(rf"(?<![\w-]){re.escape(model)}(?![\w-])", lambda _: requested, text)


@lru_cache(maxsize=512)
def _hosts(base_url: str) -> tuple[re.Pattern[str], ...]:
    """Patterns of host:port and host, as words of their own."""
    host = urlsplit(base_url).hostname
    if not host:
        return ()
    return (re.compile(rf"(?<![\w-])\[?{re.escape(host)}\]?(?::\d{{1,5}})?(?![\w-])", re.IGNORECASE),)
