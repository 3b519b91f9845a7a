"""What an event's delivery says and how it is signed, as the Standard Webhooks specification (1.0) has it. Pure.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from datetime import datetime
from typing import Final

import msgspec

SECRET_PREFIX: Final = "whsec_"
_SECRET_BYTES = 32


class _Subject(msgspec.Struct, frozen=True):
    id: str


class _EventBody(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: str = "event"
    type: str
    created_at: int
    data: _Subject


def new_secret() -> str:
    """`whsec_` and 32 random bytes in base64."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def event_body(event_id: str, kind: str, created_at: datetime, batch_id: str) -> bytes:
    """The JSON that is posted: it names the batch and tells nothing else of it."""
    body = _EventBody(id=event_id, type=kind, created_at=int(created_at.timestamp()), data=_Subject(batch_id))
    return msgspec.json.encode(body)


def signed_headers(secret: str, event_id: str, body: bytes, now: datetime) -> dict[str, str]:
    """The headers of one try; `now` is its own time, so that a receiver can refuse an old one."""
    timestamp = str(int(now.timestamp()))
    return {
        "webhook-id": event_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": sign(secret, event_id, timestamp, body),
    }


def sign(secret: str, event_id: str, timestamp: str, body: bytes) -> str:
    """`v1,` and the base64 HMAC-SHA256 of `{id}.{timestamp}.{body}`."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signed = b".".join((event_id.encode(), timestamp.encode(), body))
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
