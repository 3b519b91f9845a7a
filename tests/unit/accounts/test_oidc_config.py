"""The set-up of OpenID Connect: read whole, or refused naming the variable."""

from __future__ import annotations

import pytest

from ebbtide.accounts.oidc.config import load_oidc
from ebbtide.accounts.roles import Role
from ebbtide.errors import SetupError

LEAST = {"EBBTIDE_OIDC_ISSUER": "https://id.example", "EBBTIDE_OIDC_CLIENT_ID": "ebbtide"}


def test_without_an_issuer_there_is_none() -> None:
    assert load_oidc({"EBBTIDE_OIDC_CLIENT_ID": "ebbtide"}) is None


def test_what_is_not_told_is_strict() -> None:
    config = load_oidc(LEAST)
    assert config is not None
    assert (config.create_accounts, config.default_role, config.client_secret) == (False, Role.FREE, None)
    assert config.scopes == "openid profile email"


def test_roles_are_mapped_by_value() -> None:
    config = load_oidc(LEAST | {"EBBTIDE_OIDC_ROLE_MAP": "cn=ops=admin, staff=internal"})
    assert config is not None
    assert config.role_map == {"cn=ops": Role.ADMIN, "staff": Role.INTERNAL}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ISSUER", "http://id.example"),
        ("ISSUER", "id.example"),
        ("CLIENT_ID", ""),
        ("PUBLIC_URL", "http://gateway.example"),
        ("CREATE_ACCOUNTS", "maybe"),
        ("DEFAULT_ROLE", "king"),
        ("ROLE_MAP", "staff"),
        ("ROLE_MAP", "staff=king"),
    ],
)
def test_what_cannot_be_meant_is_refused(name: str, value: str) -> None:
    with pytest.raises(SetupError, match=f"EBBTIDE_OIDC_{name}"):
        load_oidc(LEAST | {f"EBBTIDE_OIDC_{name}": value})
