"""What a check of the set-up found: one line each, with what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["ok", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`bad` keeps the gateway from working, `warn` probably not as meant; `advice` says what to do."""

    level: Level
    subject: str
    message: str
    advice: str = ""

    def __str__(self) -> str:
        advice = f"\n        → {self.advice}" if self.advice else ""
        return f"{self.level:5}{self.subject}: {self.message}{advice}"


def ok(subject: str, message: str) -> Finding:
    return Finding("ok", subject, message)


def warn(subject: str, message: str, advice: str) -> Finding:
    return Finding("warn", subject, message, advice)


def bad(subject: str, message: str, advice: str) -> Finding:
    return Finding("bad", subject, message, advice)
