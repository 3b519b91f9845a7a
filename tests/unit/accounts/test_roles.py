"""Roles are ordered."""

from __future__ import annotations

from ebbtide.accounts.roles import Role


def test_order() -> None:
    assert sorted(Role, reverse=True)[::-1] == [Role.FREE, Role.PRO, Role.INTERNAL, Role.ADMIN]
    assert Role.FREE < Role.PRO <= Role.PRO < Role.INTERNAL < Role.ADMIN
    assert Role("internal") is Role.INTERNAL
    assert max(Role) is Role.ADMIN
