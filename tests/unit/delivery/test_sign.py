"""What is posted, verified by the two libraries that receivers use."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import msgspec
import openai
import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from ebbtide.delivery.sign import event_body, new_secret, sign, signed_headers

BATCH = "batch_" + "5a" * 16
EVENT = "evt_" + "7b" * 16
CREATED = datetime(2026, 3, 4, 5, 6, 7, 890, tzinfo=UTC)
KINDS = ["batch.completed", "batch.failed", "batch.expired", "batch.cancelled"]


def test_a_secret_is_32_random_bytes() -> None:
    secret = new_secret()
    assert secret.startswith("whsec_")
    assert len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) == 32
    assert new_secret() != secret


def test_the_body_names_the_batch_only() -> None:
    assert msgspec.json.decode(event_body(EVENT, "batch.completed", CREATED, BATCH)) == {
        "id": EVENT,
        "object": "event",
        "type": "batch.completed",
        "created_at": int(CREATED.timestamp()),
        "data": {"id": BATCH},
    }


def test_the_signature_of_the_specification() -> None:
    # The example of the Standard Webhooks libraries' own tests.
    signature = sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}'
    )
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("kind", KINDS)
def test_both_libraries_accept_it(kind: str) -> None:
    secret = new_secret()
    body = event_body(EVENT, kind, CREATED, BATCH)
    headers = signed_headers(secret, EVENT, body, datetime.now(UTC))
    assert Webhook(secret).verify(body, headers)["type"] == kind
    client = openai.OpenAI(api_key="unused", webhook_secret=secret)
    event = client.webhooks.unwrap(body, headers)
    assert (event.type, event.id) == (kind, EVENT)
    assert isinstance(event, openai.types.webhooks.BatchCompletedWebhookEvent) == (kind == "batch.completed")
    assert event.created_at == int(CREATED.timestamp())


def test_neither_another_secret_nor_another_body_nor_an_old_try_passes() -> None:
    secret = new_secret()
    body = event_body(EVENT, KINDS[0], CREATED, BATCH)
    headers = signed_headers(secret, EVENT, body, datetime.now(UTC))
    for wrong_secret, wrong_body in ((new_secret(), body), (secret, body.replace(b"completed", b"failed"))):
        with pytest.raises(WebhookVerificationError):
            Webhook(wrong_secret).verify(wrong_body, headers)
    old = signed_headers(secret, EVENT, body, datetime.now(UTC) - timedelta(minutes=6))
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(body, old)
