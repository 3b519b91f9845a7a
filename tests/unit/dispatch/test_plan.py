"""Which routes are tried, and how often each comes first."""

from __future__ import annotations

from collections import Counter
from random import Random

from ebbtide.catalog.model import Model, Route
from ebbtide.dispatch.outcome import is_retryable
from ebbtide.dispatch.plan import nothing_planned, plan_routes


def route(name: str, *, weight: float = 1.0, local: bool = True) -> Route:
    return Route(
        id=name,
        kind="vllm",
        model="m",
        base_url="http://x",
        weight=weight,
        deployment_type="self_hosted" if local else "provider_api",
    )


def model(*routes: Route) -> Model:
    return Model(id="m", type="chat", routes=routes)


def test_batches_stay_on_allowed_routes_whatever_the_weights() -> None:
    both = model(route("cloud", weight=1000, local=False), route("own", weight=0.001))
    assert [found.id for found in plan_routes(both, "batch", Random(1))] == ["own"]
    assert {found.id for found in plan_routes(both, "interactive", Random(1))} == {"cloud", "own"}


def test_weight_zero_is_unused() -> None:
    both = model(route("on"), route("off", weight=0))
    assert [found.id for found in plan_routes(both, "interactive", Random(1))] == ["on"]
    assert plan_routes(model(route("off", weight=0)), "interactive", Random(1)) == ()


def test_the_first_choice_follows_the_weights() -> None:
    three = model(route("a", weight=6), route("b", weight=3), route("c", weight=1))
    rng = Random(7)
    firsts = Counter(plan_routes(three, "batch", rng)[0].id for _ in range(20_000))
    assert abs(firsts["a"] / 20_000 - 0.6) < 0.02
    assert abs(firsts["b"] / 20_000 - 0.3) < 0.02
    assert abs(firsts["c"] / 20_000 - 0.1) < 0.02


def test_no_allowed_route_is_final_and_a_resting_one_is_not() -> None:
    never = nothing_planned(model(route("cloud", local=False)), "batch")
    assert (never.status, never.code, is_retryable(never)) == (400, "batch_route_unavailable", False)
    resting = nothing_planned(model(route("own", weight=0)), "batch")
    assert (resting.status, resting.code, is_retryable(resting)) == (503, "service_unavailable", True)
    assert not never.sent
    assert not resting.cost_unknown
