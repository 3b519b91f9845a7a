"""The wire objects of completion webhooks: the endpoint as its owner sets and sees it, and what was sent to it."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from ebbtide.dialects.fields import field_error
from ebbtide.dialects.values import BOM
from ebbtide.errors import InvalidRequest


class SetWebhook(msgspec.Struct, frozen=True):
    """A PUT: `url` may be left out once a webhook is set; what is left out or null stays as it is."""

    url: str | None = None
    rotate_secret: bool | None = None
    enabled: bool | None = None


class WebhookObject(msgspec.Struct, frozen=True, kw_only=True):
    """`secret` is shown only when it is new. `paused_until`: nothing is sent to an endpoint that kept timing out."""

    object: Literal["batch_webhook"] = "batch_webhook"
    url: str
    enabled: bool
    created_at: int
    updated_at: int
    paused_until: int | None
    secret: str | UnsetType = UNSET


class WebhookDeleted(msgspec.Struct, frozen=True):
    object: Literal["batch_webhook"] = "batch_webhook"
    deleted: Literal[True] = True


class WebhookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event and how its delivery went: the status of the last answer, and in words why it did not count."""

    id: str
    object: Literal["batch_webhook.event"] = "batch_webhook.event"
    type: str
    created_at: int
    batch_id: str
    state: Literal["pending", "delivered", "failed"]
    attempts: int
    next_attempt_at: int | None
    delivered_at: int | None
    last_status: int | None
    last_error: str | None


_decode = msgspec.json.Decoder(SetWebhook).decode


def parse_set_webhook(raw: bytes) -> SetWebhook:
    """Read a PUT's body. Raises InvalidRequest naming the field."""
    try:
        return _decode(raw.removeprefix(BOM))
    except msgspec.ValidationError as error:
        raise field_error(error) from None
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("The body is not parseable as valid JSON") from error
