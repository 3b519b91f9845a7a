"""Passwords: hashes that age, and unknown accounts that are checked like known ones."""

from __future__ import annotations

from typing import Literal

from argon2 import PasswordHasher

from ebbtide.accounts.passwords import Passwords


async def test_a_hash_of_other_parameters_still_holds_and_is_dated() -> None:
    old = Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    hashed = await old.hash("a password")
    new = Passwords(PasswordHasher(time_cost=2, memory_cost=8, parallelism=1))
    assert await new.matches(hashed, "a password")
    assert not await new.matches(hashed, "another")
    assert new.is_dated(hashed)
    assert not old.is_dated(hashed)


async def test_an_unknown_account_costs_a_verification_and_never_matches() -> None:
    verified = []

    class Counting(PasswordHasher):
        def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:
            verified.append(hash)
            return super().verify(hash, password)

    passwords = Passwords(Counting(time_cost=1, memory_cost=8, parallelism=1))
    assert not await passwords.matches(None, "nobody's password")
    assert len(verified) == 1
    assert not await passwords.matches("no hash at all", "x")
