"""What the row of a request that was broken off tells: where it had been sent, and what is known of its cost."""

from datetime import UTC, datetime
from decimal import Decimal

from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Principal
from ebbtide.catalog.model import Model
from ebbtide.dispatch.outcome import Failed
from ebbtide.proxy.exchange import CLIENT_CLOSED, Exchange

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def begun() -> Exchange:
    exchange = Exchange(Principal("ada", "key-1", Role.PRO), "req_1", "chat", 0.0)
    exchange.sent()
    return exchange


def told(exchange: Exchange) -> tuple[str | None, int | None, Decimal | None]:
    exchange.cut_off(CLIENT_CLOSED, "client_closed")
    row = exchange.entry(NOW, 1.0)
    assert (row.status_code, row.error_code) == (499, "client_closed")
    return row.route, row.attempts, row.cost_usd


def test_what_waited_for_a_route_costs_nothing() -> None:
    assert told(begun()) == (None, 0, Decimal(0))


def test_what_was_sent_tells_where_and_has_no_known_cost() -> None:
    exchange = begun()
    exchange.departure.begin("first")
    exchange.departure.begin("second")
    assert told(exchange) == ("second", 2, None)


def test_what_had_come_to_an_end_keeps_it() -> None:
    exchange = begun()
    exchange.departure.begin("first")
    failed = Failed("status", 400, "invalid_request", "no", sent=True, route="first")
    exchange.answered(failed, Model(id="m", type="chat", routes=()))
    assert told(exchange) == ("first", 1, Decimal(0))
