"""Sessions: signing in with a password, and acting with the cookie that this gives.

A session's secret is 256 random bits, of which only the SHA-256 is stored. A session acts with its account's console
key, so that every rule on keys holds for it; revoking that key ends the account's sessions.
Refusals all read the same and take as long.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from ebbtide import ids
from ebbtide.accounts import sessions_store as store
from ebbtide.accounts.attempts import PER_ADDRESS, PER_NAME, by_address, by_name, count_attempt
from ebbtide.accounts.keys import KEY_PREFIX, digest
from ebbtide.accounts.passwords import Passwords, check_password, is_too_long
from ebbtide.accounts.sessions_store import ManagedKey, NewSession, Secret, Session
from ebbtide.accounts.store import Principal
from ebbtide.clock import Clock
from ebbtide.errors import Forbidden, NotFound, Unauthenticated
from ebbtide.records.audit import Deed, add_audit
from ebbtide.settings.snapshot import SettingsSource
from ebbtide.storage.pool import Connection, Database

_TOUCH_EVERY = timedelta(minutes=1)
_FORM = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class SignIn:
    """What somebody signs in with, and from where."""

    name: str
    password: str
    address: str


class Sessions:
    """Opens, finds and ends sessions."""

    def __init__(self, database: Database, clock: Clock, settings: SettingsSource, passwords: Passwords) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings
        self.passwords = passwords

    @property
    def lifetime(self) -> timedelta:
        """How long a session that is opened now may last."""
        return timedelta(hours=self._settings.current.session_lifetime_hours)

    async def sign_in(self, sign_in: SignIn) -> str:
        """A new session's secret. Raises Unauthenticated (one wording for every reason) or LimitReached."""
        now = self._clock.now()
        await count_attempt(self._database, by_address(sign_in.address), PER_ADDRESS, now)
        await count_attempt(self._database, by_name(sign_in.name), PER_NAME, now)
        found = await self._find(sign_in)
        right = await self.passwords.matches(None if found is None else found.hash, _bounded(sign_in.password))
        if found is not None and right:
            found = await self._renewed(found, sign_in.password)
            async with self._database.transaction() as conn:
                secret = await self.open(conn, found, now)
                if secret is not None:
                    await store.forget_attempts(conn, by_name(sign_in.name))
                    return secret
        await self._note_refusal(found, sign_in, now)
        raise Unauthenticated("The name or the password is not right")

    async def open(self, conn: Connection, found: Secret, now: datetime) -> str | None:
        """A new session, in the caller's transaction; None when the account or its password changed meanwhile."""
        secret = secrets.token_urlsafe(32)
        spare = KEY_PREFIX + secrets.token_urlsafe(32)  # hashed and forgotten: nobody can present it
        managed = ManagedKey(ids.key_id(), found.account_id, "console", digest(spare), now)
        key_id = await store.console_key(conn, managed)
        new = NewSession(digest(secret), found.account_id, key_id, found.hash, now, now + self.lifetime)
        if not await store.add_session(conn, new):
            return None
        await store.drop_sessions(conn, now)
        await store.drop_attempts(conn, now)
        actor = Principal(found.account_id, key_id, found.role).actor
        await add_audit(conn, Deed(actor, "session.create", found.account_id, found.account_id), now)
        return secret

    async def principal(self, secret: str) -> Principal:
        """Who acts in this session. Raises Unauthenticated."""
        found = None
        if _FORM.fullmatch(secret) is not None:
            now, idle = self._clock.now(), timedelta(minutes=self._settings.current.session_idle_minutes)
            async with self._database.connection() as conn:
                found = await store.find_session(conn, digest(secret), now, idle)
        if found is None:
            raise Unauthenticated("The session is over: sign in again")
        principal, used_at = found
        if now - used_at >= _TOUCH_EVERY:
            async with self._database.transaction() as conn:
                await store.touch_session(conn, digest(secret), now)
        return principal

    async def sign_out(self, principal: Principal, secret: str) -> None:
        """End this session."""
        async with self._database.transaction() as conn:
            if await store.end_session(conn, digest(secret)):
                deed = Deed(principal.actor, "session.end", principal.account_id, principal.account_id)
                await add_audit(conn, deed, self._clock.now())

    async def sign_out_everywhere(self, account_id: str, actor: str) -> int:
        """End the account's sessions; returns how many there were."""
        async with self._database.transaction() as conn:
            ended = await store.end_sessions(conn, account_id, None)
            deed = Deed(actor, "session.end_all", account_id, account_id, {"sessions": ended})
            await add_audit(conn, deed, self._clock.now())
        return ended

    async def list_sessions(self, account_id: str) -> list[Session]:
        """The account's sessions that are not over, the last used first."""
        async with self._database.connection() as conn:
            return await store.list_sessions(conn, account_id, self._clock.now())

    async def change_password(self, principal: Principal, current: str, new: str, secret: str | None) -> None:
        """One's own password, by whoever knows it; ends the account's sessions but the one of `secret`.

        Raises Forbidden when `current` is not it, InvalidRequest for an unusable new one, LimitReached.
        """
        subject = f"account:{principal.account_id}"
        await count_attempt(self._database, subject, PER_NAME, self._clock.now())
        async with self._database.connection() as conn:
            own = await store.find_own_password(conn, principal.account_id)
        if not await self.passwords.matches(None if own is None else own[1], _bounded(current)):
            raise Forbidden("The current password is not right")
        await self.set_password(principal.account_id, new, principal.actor, keep=secret)

    async def set_password(self, account_id: str, password: str, actor: str, *, keep: str | None = None) -> None:
        """Give an account a password and end its sessions, all but the one of the secret `keep`.

        Raises NotFound for an account that may not act, InvalidRequest for an unusable password.
        """
        async with self._database.connection() as conn:
            own = await store.find_own_password(conn, account_id)
        if own is None:
            raise NotFound(f"There is no active account {account_id!r}")
        check_password(own[0], password)
        hashed = await self.passwords.hash(password)
        async with self._database.transaction() as conn:
            if not await store.set_password(conn, account_id, hashed):
                raise NotFound(f"There is no active account {account_id!r}")
            await store.end_sessions(conn, account_id, None if keep is None else digest(keep))
            await add_audit(conn, Deed(actor, "password.set", account_id, account_id), self._clock.now())

    async def _find(self, sign_in: SignIn) -> Secret | None:
        if not sign_in.name.isprintable() or is_too_long(sign_in.password):
            return None
        async with self._database.connection() as conn:
            return await store.find_password(conn, sign_in.name)

    async def _renewed(self, found: Secret, password: str) -> Secret:
        if found.hash is None or not self.passwords.is_dated(found.hash):
            return found
        renewed = await self.passwords.hash(password)
        async with self._database.transaction() as conn:
            await store.renew_hash(conn, found.account_id, found.hash, renewed)
        return Secret(found.account_id, found.role, renewed)

    async def _note_refusal(self, found: Secret | None, sign_in: SignIn, now: datetime) -> None:
        account_id = None if found is None else found.account_id
        # Not the name that was typed: people type passwords into the wrong field.
        deed = Deed("anonymous", "session.refused", "session", account_id, {"address": sign_in.address})
        async with self._database.transaction() as conn:
            await add_audit(conn, deed, now)


def csrf_token(secret: str) -> str:
    """What a page of ours sends along to show that it can read this session's answers."""
    return hmac.new(secret.encode(), b"csrf", hashlib.sha256).hexdigest()


def is_csrf_token(secret: str, token: str) -> bool:
    return hmac.compare_digest(csrf_token(secret).encode(), token.encode("utf-8", "surrogatepass"))


def _bounded(password: str) -> str:
    return "" if is_too_long(password) else password
