"""Requests made up from the gateway's own description: no answer is a 5xx, each is one that the description tells.

FUZZ_EXAMPLES=500 makes it a long run of other requests each time, for one by hand; without it they are always the same.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests import people
from tests.gateway import TestGateway, chat_model, embedding_model, models_file, request_line, start_gateway

from ebbtide.accounts.roles import Role
from ebbtide.clock import SystemClock

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
ENDLESS = "/v1/batches/{id}/events"  # goes on until a batch has ended
LAST = "/admin/config"  # after this, batches may be switched off
SOME = settings(
    max_examples=EXAMPLES or 3,
    derandomize=not EXAMPLES,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


Case: TypeAlias = schemathesis.Case[Any]


@dataclass(frozen=True)
class Known:
    """What a request may name that is there: ids by how the path begins, and the key to send it with."""

    ids: Mapping[str, str]
    key: str

    def fill(self, case: Case) -> None:
        """Name what is there, where the request names something."""
        for begin, an_id in self.ids.items():
            if case.operation.path.startswith(begin):
                case.path_parameters.update(dict.fromkeys(case.path_parameters, an_id))
        if isinstance(case.body, dict) and "model" in case.body:
            case.body["model"] = "embed-1" if "embed" in case.operation.path else "chat-1"


async def things(gateway: TestGateway) -> Known:
    """One of everything, none of which the administrator's own work rests on."""
    now = SystemClock().now()
    account = await people.create_account(gateway.database, "somebody", Role.INTERNAL, now)
    key, _ = await people.create_key(gateway.database, account.id, now=now)
    batch = await gateway.call("POST", "/v1/batches", json={"requests": [request_line("one"), request_line("two")]})
    file = await gateway.upload(b"{}\n")
    ids = {
        "/v1/batches/": batch.json["id"],
        "/v1/files/": file.json["id"],
        "/v1/models/": "chat-1",
        "/v1beta/models/": "chat-1",
        "/v1beta/files/": file.json["id"].removeprefix("file-"),
        "/admin/batch/jobs/": batch.json["id"],
        "/admin/batch/models/": "chat-1",
        "/admin/models/": "chat-1",
        "/admin/routing/": "chat-1/chat-1-route",
        "/admin/config/": "BATCH_MAX_REQUESTS",
        "/admin/accounts/": account.id,
        "/admin/keys/": key.id,
        "/user/keys/": key.id,
    }
    return Known(ids, gateway.admin_key)


@schemathesis.serializer("application/jsonl")
def as_jsonl(context: Any, value: Any) -> bytes:
    """Bytes as they were made up, and anything else as one line."""
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def asking(operation: Any, known: Known) -> Callable[[], None]:
    """Sends made-up requests of one operation and checks the answers."""

    @SOME
    @given(case=operation.as_strategy(), named=st.booleans())
    def ask(case: Case, named: bool) -> None:
        if named:
            known.fill(case)
        with requests.Session() as session:
            answer = case.call(session=session, headers={"Authorization": f"Bearer {known.key}"}, timeout=60)
        case.validate_response(answer, checks=CHECKS)

    return ask


@pytest.mark.timeout(300)  # hundreds of requests, of all kinds
async def test_no_request_fails_the_gateway_or_is_answered_as_it_does_not_say(
    database_url: str, tmp_path: Path
) -> None:
    models = models_file(tmp_path, chat_model(), embedding_model())
    async with start_gateway(database_url, models) as gateway:
        known = await things(gateway)
        schema = await asyncio.to_thread(schemathesis.openapi.from_url, f"{gateway.url}/openapi.json")
        operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
        assert len(operations) > 50
        faults: list[BaseException | None] = []
        for operation in sorted(operations, key=lambda one: (one.path.startswith(LAST), one.path)):
            if operation.path == ENDLESS:
                continue
            faults += await asyncio.gather(asyncio.to_thread(asking(operation, known)), return_exceptions=True)
        if found := [fault for fault in faults if fault is not None]:
            raise BaseExceptionGroup("answers that are not as they should be", found)
