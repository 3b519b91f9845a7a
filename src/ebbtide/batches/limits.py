"""How much an account may have unfinished. Checked under the account's row, so two creates cannot both slip through."""

from __future__ import annotations

from ebbtide.batches.intake_store import Unfinished
from ebbtide.errors import LimitReached
from ebbtide.settings.snapshot import Settings

ACTIVE_BATCH_LIMIT = "active_batch_limit"
QUEUED_REQUEST_LIMIT = "queued_request_limit"


def check_room_for(requests: int, unfinished: Unfinished, settings: Settings) -> None:
    """Raise LimitReached when one more batch, or `requests` more requests, is over the account's limit."""
    if unfinished.batches >= settings.batch_max_active_per_user:
        raise LimitReached(
            f"You have {unfinished.batches} unfinished batches; {settings.batch_max_active_per_user} are allowed",
            code=ACTIVE_BATCH_LIMIT,
        )
    check_queued(requests, unfinished.requests, settings)


def check_queued(requests: int, queued: int, settings: Settings) -> None:
    """Raise LimitReached when `requests` more would take the account's unfinished requests over their limit."""
    limit = settings.batch_max_queued_requests_per_user
    if queued + requests > limit:
        raise LimitReached(
            f"The batch's {requests} requests would take your unfinished requests to {queued + requests}; "
            f"{limit} are allowed",
            code=QUEUED_REQUEST_LIMIT,
        )
