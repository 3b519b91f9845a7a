"""What has the form of a key, so that anything else is refused without asking the database."""

from __future__ import annotations

import secrets

import pytest

from ebbtide.accounts.keys import digest, has_key_form


def test_a_key_has_the_form() -> None:
    for _ in range(100):
        assert has_key_form("ebb-" + secrets.token_urlsafe(32))


@pytest.mark.parametrize(
    "secret",
    ["", "ebb-", "ebb-" + "a" * 42, "ebb-" + "a" * 44, "sk-" + "a" * 43, "ebb-" + "é" * 43, "ebb-" + "a" * 43 + "\n"],
)
def test_anything_else_has_not(secret: str) -> None:
    assert not has_key_form(secret)


def test_digest_is_sha_256() -> None:
    assert digest("abc").hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
