"""Interactive requests that are answered in one piece: chat completions and embeddings.

The caller has authenticated, parsed the body and chosen the model; nothing here knows who asks.
"""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.catalog.model import Model
from ebbtide.dialects.values import Body, Target
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.outcome import Answered, Call, Failed, Timeouts, as_error

REQUEST_TIMEOUTS = Timeouts(connect=10.0, total=120.0)


@dataclass(frozen=True, slots=True)
class Ask:
    """One interactive request: its checked body and the model that its name means; `timeouts` replaces the usual."""

    target: Target
    model: Model
    body: Body
    timeouts: Timeouts | None = None

    def call(self, usual: Timeouts) -> Call:
        """The call that the dispatcher runs."""
        return Call(
            target=self.target,
            model=self.model,
            body=self.body.raw,
            requested=self.body.model,
            source="interactive",
            timeouts=self.timeouts or usual,
            asks_usage=self.body.asks_usage,
        )


async def forward(dispatcher: Dispatcher, ask: Ask) -> Answered:
    """The upstream's answer, naming the model as the caller did. Raises UpstreamFailed. Cancelling cancels upstream."""
    outcome = await dispatcher.call(ask.call(REQUEST_TIMEOUTS))
    if isinstance(outcome, Failed):
        raise as_error(outcome)
    return outcome
