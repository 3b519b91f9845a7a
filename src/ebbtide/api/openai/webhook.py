"""/v1/batch_webhook: the account's endpoint for what its batches come to, and what was sent there."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json
from ebbtide.api.bodies import read_body
from ebbtide.api.gateway import Gateway
from ebbtide.api.openai.render import webhook_event_list, webhook_object
from ebbtide.api.parameters import IntegerParameter, TextParameter
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.delivery import webhooks
from ebbtide.delivery.webhooks import Registrar, check_may_set
from ebbtide.dialects.openai.batch import ListPage
from ebbtide.dialects.openai.webhook import (
    SetWebhook,
    WebhookDeleted,
    WebhookEvent,
    WebhookObject,
    parse_set_webhook,
)

AFTER = TextParameter("after", "The id of the last event of the page before")
LIMIT = IntegerParameter("limit", 20, 1, 100, "Events in a page")
_BODY_LIMIT = 64 * 1024


async def set_webhook(gateway: Gateway, request: Request, principal: Principal) -> Response:
    registrar = Registrar(gateway.database, gateway.settings.current)
    await check_may_set(registrar, principal)  # before anything that was sent is looked at
    wanted = parse_set_webhook(await read_body(request, _BODY_LIMIT))
    shown = await webhooks.set_webhook(registrar, principal, wanted, gateway.clock.now())
    return answer_json(webhook_object(shown.webhook, shown.secret))


async def get_webhook(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return answer_json(webhook_object(await webhooks.get_webhook(gateway.database, principal)))


async def delete_webhook(gateway: Gateway, request: Request, principal: Principal) -> Response:
    await webhooks.delete_webhook(gateway.database, principal)
    return answer_json(WebhookDeleted())


async def list_webhook_events(gateway: Gateway, request: Request, principal: Principal) -> Response:
    page = await webhooks.list_events(gateway.database, principal, AFTER.read(request), LIMIT.read(request))
    return answer_json(webhook_event_list(page))


_PATH = "/v1/batch_webhook"

ROUTES: tuple[Endpoint, ...] = (
    Closed(
        "PUT",
        _PATH,
        set_webhook,
        "Set up or change your webhook; its secret is in the answer when it is new",
        Described(request=SetWebhook, answer=WebhookObject, errors=(400, 403, 413)),
        batch=True,
    ),
    Closed("GET", _PATH, get_webhook, "Get your webhook", Described(answer=WebhookObject, errors=(404,)), batch=True),
    Closed(
        "DELETE",
        _PATH,
        delete_webhook,
        "Remove your webhook, and what is still to be sent to it",
        Described(answer=WebhookDeleted, errors=(404,)),
        batch=True,
    ),
    Closed(
        "GET",
        f"{_PATH}/events",
        list_webhook_events,
        "List recent deliveries, newest first",
        Described(answer=ListPage[WebhookEvent], parameters=(AFTER, LIMIT), errors=(400, 404)),
        batch=True,
    ),
)
