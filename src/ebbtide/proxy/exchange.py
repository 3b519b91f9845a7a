"""One interactive request, from its caller to its row in the request log: how it stands, and what it cost. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Final

from ebbtide.accounts.store import Principal
from ebbtide.catalog.model import Model
from ebbtide.catalog.prices import cost
from ebbtide.dialects.openai.errors import type_of
from ebbtide.dialects.statuses import status_of
from ebbtide.dialects.values import Target, Usage
from ebbtide.dispatch.course import Departure
from ebbtide.dispatch.outcome import Answered, Failed, Outcome, charge_unknown, used
from ebbtide.dispatch.streaming import Streaming
from ebbtide.errors import EbbtideError
from ebbtide.proxy.admission import Admitted
from ebbtide.records.capture import Capture
from ebbtide.records.request_log import LogEntry

ZERO: Final = Decimal(0)
CLIENT_CLOSED: Final = 499


@dataclass(slots=True)
class Exchange:
    """`began` is on a clock that only goes forward. `headers` go out with the answer, whatever it is. `departure` tells
    what upstreams have been sent. `capture` holds what is said, where that is kept.
    """

    principal: Principal
    request_id: str
    target: Target
    began: float
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    model: str = ""
    admitted: Admitted | None = None
    departure: Departure = field(default_factory=Departure)
    capture: Capture | None = None
    streamed: bool = False
    status: int = 200
    error_code: str | None = None
    route: str | None = None
    usage: Usage | None = None
    cost: Decimal | None = ZERO
    attempts: int | None = 0
    first_token_ms: int | None = None

    def refused(self, error: EbbtideError) -> None:
        """It ends with an error of the gateway's own, before any upstream was asked."""
        self.status = status_of(error)
        self.error_code = error.code or type_of(self.status)

    def sent(self) -> None:
        """An upstream may see it from now on: unless more is learned, what it costs is not known."""
        self.cost = self.attempts = None

    def answered(self, outcome: Outcome, model: Model) -> None:
        """It came to this."""
        self.route, self.usage = outcome.route, used(outcome)
        if isinstance(outcome, Failed):
            self.status, self.error_code = outcome.status, outcome.code
        self.attempts = int(isinstance(outcome, Answered) or outcome.sent) + outcome.others.calls
        self.cost = None if charge_unknown(outcome) else _cost(model, self.usage)

    def told(self, piece: bytes) -> None:
        """Some of the answer, or all of it, goes to the caller."""
        if self.capture is not None:
            self.capture.add(piece)

    def streamed_out(self, streaming: Streaming, model: Model) -> None:
        """The stream has ended in some way; without its usage the cost is not known."""
        failed = streaming.failed
        if failed is not None:
            self.answered(replace(failed, others=streaming.others), model)
        else:
            self.answered(Answered(b"", streaming.usage, streaming.route, others=streaming.others), model)

    def cut_off(self, status: int, code: str) -> None:
        """It was broken off from outside: the client left, time was up, the gateway stops. What it cost is known where
        that had been told, or where nothing had been sent.
        """
        self.status, self.error_code = status, code
        if self.attempts is None:
            self.route, self.attempts = self.departure.route, self.departure.calls
            self.cost = None if self.departure.has_begun else ZERO

    def entry(self, at: datetime, now: float) -> LogEntry:
        """Its row. `now` is on the clock of `began`."""
        usage = self.usage
        return LogEntry(
            at=at,
            request_id=self.request_id,
            account_id=self.principal.account_id,
            key_id=self.principal.key_id,
            source="interactive",
            target=self.target,
            model=self.model,
            route=self.route,
            status_code=self.status,
            error_code=self.error_code,
            input_tokens=usage.input_tokens if usage else None,
            cached_tokens=usage.cached_tokens if usage else None,
            output_tokens=usage.output_tokens if usage else None,
            reasoning_tokens=usage.reasoning_tokens if usage else None,
            cost_usd=self.cost,
            first_token_ms=self.first_token_ms,
            total_ms=round((now - self.began) * 1000),
            attempts=self.attempts,
            streamed=self.streamed,
        )


def _cost(model: Model, usage: Usage | None) -> Decimal:
    return ZERO if usage is None else cost(model.pricing, usage)
