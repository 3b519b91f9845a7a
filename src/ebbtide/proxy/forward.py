"""One interactive request: its checked body, and the model it names.

The caller has authenticated, parsed the body and chosen the model; nothing here knows who asks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.catalog.model import Model
from ebbtide.dialects.values import Body, Target
from ebbtide.dispatch.course import Departure
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.outcome import Answered, Call, Failed, Outcome, Timeouts, as_error


@dataclass(frozen=True, slots=True)
class Ask:
    """One interactive request: its checked body, the model that its name means, the time it may take, the account that
    asks; the request's id, and the headers in which its dialect tells its version and betas.
    """

    target: Target
    model: Model
    body: Body
    timeouts: Timeouts
    caller: str | None = None
    request_id: str = ""
    version: str | None = None
    beta: str | None = None

    def call(self) -> Call:
        """The call that the dispatcher runs."""
        return Call(
            target=self.target,
            model=self.model,
            body=self.body.raw,
            requested=self.body.model,
            source="interactive",
            timeouts=self.timeouts,
            asks_usage=self.body.asks_usage,
            caller=self.caller,
            version=self.version,
            beta=self.beta,
        )


async def forward(
    dispatcher: Dispatcher,
    ask: Ask,
    on_outcome: Callable[[Outcome, Model], None] | None = None,
    departure: Departure | None = None,
) -> Answered:
    """The upstream's answer, naming the model as the caller did. Raises UpstreamFailed; `on_outcome` is told first.

    Cancelling cancels upstream; `departure` then tells what had been sent.
    """
    outcome = await dispatcher.call(ask.call(), departure)
    if on_outcome is not None:
        on_outcome(outcome, ask.model)
    if isinstance(outcome, Failed):
        raise as_error(outcome)
    return outcome
