"""What the client side reads of a gateway's answers: only what it uses, lenient about all the rest."""

from __future__ import annotations

from typing import Final

import msgspec

FINAL: Final = frozenset({"completed", "failed", "expired", "cancelled"})
UNFINISHED: Final = frozenset({"queued", "running"})


class Counts(msgspec.Struct, frozen=True):
    """Requests by outcome; `failed` includes those that never ran before the batch failed or expired."""

    total: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def done(self) -> int:
        return self.completed + self.failed + self.cancelled


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong with an input file."""

    message: str = ""
    code: str | int | None = None
    line: int | None = None
    param: str | None = None

    def __str__(self) -> str:
        where = "" if self.line is None else f"line {self.line}: "
        code = "" if self.code is None else f" ({self.code})"
        return f"{where}{self.message}{code}"


class Problems(msgspec.Struct, frozen=True):
    data: list[Problem] = []


class Failure(msgspec.Struct, frozen=True):
    """Why a whole batch or a call failed."""

    message: str = ""
    code: str | int | None = None


class Batch(msgspec.Struct, frozen=True):
    id: str
    status: str
    endpoint: str = ""
    created_at: int | None = None
    expires_at: int | None = None
    request_counts: Counts | None = None
    errors: Problems | None = None
    error: Failure | str | None = None
    cost_usd: float | None = None
    blocked_reason: str | None = None
    finishes_in_time: bool | None = None

    @property
    def counts(self) -> Counts:
        return self.request_counts or Counts()

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    @property
    def all_succeeded(self) -> bool:
        return self.status == "completed" and self.counts.completed == self.counts.total


class Outcome(msgspec.Struct, frozen=True):
    """One request of a batch, on a page of its results; `error` is the last one while it waits for another try."""

    id: str
    status: str
    error: Failure | None = None


class Outcomes(msgspec.Struct, frozen=True):
    """A page of them."""

    data: list[Outcome]
    has_more: bool = False


class Refusal(msgspec.Struct, frozen=True):
    """The body of an error answer."""

    error: Failure | str
