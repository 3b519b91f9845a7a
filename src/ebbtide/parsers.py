"""Values as they are written in flags and environment variables. Each raises ValueError: what is accepted, in words."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

_ON: Final = frozenset({"1", "true", "on", "yes"})
_OFF: Final = frozenset({"0", "false", "off", "no"})
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_DECIMAL: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")


def number(lowest: int, highest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 10 and lowest <= int(text) <= highest):
            raise ValueError(f"a whole number from {lowest} to {highest}")
        return int(text)

    return parse


def seconds(lowest: float, highest: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        if not (_DECIMAL.fullmatch(text) and lowest <= float(text) <= highest):
            raise ValueError(f"a number of seconds from {lowest:g} to {highest:g}")
        return float(text)

    return parse


def switch(text: str) -> bool:
    word = text.lower()
    if word not in _ON | _OFF:
        raise ValueError("on or off")
    return word in _ON


def choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(", ".join(choices[:-1]) + f" or {choices[-1]}")
        return text.lower()

    return parse


def path(text: str) -> Path:
    return Path(text).expanduser().absolute()


def postgres_url(text: str) -> str:
    if not text.startswith(("postgres://", "postgresql://")):
        raise ValueError("a URL of the form postgresql://user:password@host:5432/database")
    return text


def token(text: str) -> str:
    if len(text) < 16 or not (text.isascii() and text.isprintable()) or " " in text:
        raise ValueError("16 or more characters of ASCII without blanks")
    return text


def variable(text: str) -> str:
    if not _VARIABLE.fullmatch(text):
        raise ValueError("the name of an environment variable, such as UPSTREAM_API_KEY")
    return text


def http_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("http:// or https:// URLs such as http://127.0.0.1:8000/v1")
    return text.rstrip("/")


def http_urls(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(http_url(part.strip()) for part in text.split(",") if part.strip()))


def networks(text: str) -> tuple[str, ...]:
    parts = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    try:
        for part in parts:
            ip_network(part)
    except ValueError:
        raise ValueError("IP addresses or networks such as 10.0.0.0/8, separated by commas") from None
    return parts
