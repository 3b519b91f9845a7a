"""Passwords: argon2id, in two threads of its own, so that sign-ins can use up neither processors nor memory."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from ebbtide.errors import InvalidRequest

SHORTEST, LONGEST_BYTES = 10, 1_024
_AT_ONCE = 2


class Passwords:
    """Hashes and checks passwords."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        # Not a semaphore: a caller who gives up would free its place while its thread still computes.
        self._threads = ThreadPoolExecutor(_AT_ONCE, "passwords")
        self._dummy: str | None = None

    async def hash(self, password: str) -> str:
        """The hash to store, its salt and parameters included."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._hasher.hash, password)

    async def matches(self, hashed: str | None, password: str) -> bool:
        """Whether this is the password; None, an unknown account, takes as long and is never right."""
        if self._dummy is None:
            self._dummy = await self.hash("nobody's password")
        loop = asyncio.get_running_loop()
        right = await loop.run_in_executor(self._threads, self._verify, hashed or self._dummy, password)
        return right and hashed is not None

    def is_dated(self, hashed: str) -> bool:
        """Whether the hash was made with other parameters than new ones are."""
        return self._hasher.check_needs_rehash(hashed)

    def _verify(self, hashed: str, password: str) -> bool:
        try:
            return self._hasher.verify(hashed, password)
        except (VerificationError, InvalidHashError):
            return False


def check_password(name: str, password: str) -> None:
    """Raises InvalidRequest for a password that must not be set."""
    if len(password) < SHORTEST:
        raise InvalidRequest(f"A password has at least {SHORTEST} characters", param="password")
    if is_too_long(password):
        raise InvalidRequest(f"A password has at most {LONGEST_BYTES:,} bytes", param="password")
    if password.casefold() == name.casefold():
        raise InvalidRequest("The password must differ from the account's name", param="password")


def is_too_long(password: str) -> bool:
    return len(password.encode("utf-8", "surrogatepass")) > LONGEST_BYTES
