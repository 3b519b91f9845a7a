"""Names, roles and localities."""

from __future__ import annotations

import pytest

from ebbtide.accounts.roles import Role
from ebbtide.catalog.catalog import Catalog
from ebbtide.catalog.model import DeploymentType, Kind, Model, Route

ROUTE = Route(id="r", kind="standin", model="x")
CATALOG = Catalog.of(
    [
        Model(id="open", type="chat", routes=(ROUTE,), aliases=("o",)),
        Model(id="closed", type="chat", routes=(ROUTE,), min_role=Role.INTERNAL),
        Model(id="vectors", type="embedding", routes=(ROUTE,)),
    ]
)


def test_names_resolve() -> None:
    assert CATALOG.resolve("o") is CATALOG.resolve("open")
    assert CATALOG.resolve("closed") is not None
    assert CATALOG.resolve("nothing") is None


def test_a_role_sees_what_it_may_use() -> None:
    assert [model.id for model in CATALOG.visible(Role.PRO)] == ["open", "vectors"]
    assert [model.id for model in CATALOG.visible(Role.ADMIN)] == ["open", "closed", "vectors"]


def test_a_withheld_model_resolves_like_a_missing_one() -> None:
    assert CATALOG.usable("closed", Role.PRO) is None
    assert CATALOG.usable("nothing", Role.PRO) is None
    assert CATALOG.usable("closed", Role.INTERNAL) is CATALOG.resolve("closed")
    assert CATALOG.usable("o", Role.FREE) is CATALOG.resolve("open")


@pytest.mark.parametrize(
    ("kind", "url", "deployment", "local"),
    [
        ("vllm", "http://localhost:8000/v1", "auto", True),
        ("vllm", "http://LOCALHOST/v1", "auto", True),
        ("vllm", "http://127.0.0.1:8000", "auto", True),
        ("vllm", "http://[::1]:8000/v1", "auto", True),
        ("vllm", "http://0.0.0.0:1", "auto", True),
        ("vllm", "http://host.docker.internal:1", "auto", True),
        ("vllm", "http://10.0.0.7:8000/v1", "auto", False),
        ("vllm", "http://localhost.example/v1", "auto", False),
        ("openai", "https://api.example/v1", "auto", False),
        ("openai", "https://api.example/v1", "self_hosted", True),
        ("openai", "http://localhost:1", "provider_api", False),
        ("standin", "", "auto", True),
        ("standin", "", "provider_api", False),
    ],
)
def test_which_routes_are_local(kind: Kind, url: str, deployment: DeploymentType, local: bool) -> None:
    route = Route(id="r", kind=kind, model="m", base_url=url, deployment_type=deployment)
    assert route.is_local is local
    assert route.batch_allowed is local
