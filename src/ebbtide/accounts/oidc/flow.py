"""Signing in by OpenID Connect: the authorization-code flow with PKCE, state and nonce (RFC 6749, 7636; OIDC Core 1.0).

State, nonce and code verifier are derived from one secret that only the browser's cookie holds: a callback counts in
the browser that started it. Somebody is who the provider says (issuer and subject), never who has an e-mail address.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from ebbtide import ids
from ebbtide.accounts import store
from ebbtide.accounts.accounts import checked_name, is_email
from ebbtide.accounts.attempts import PER_ADDRESS, by_address, count_attempt
from ebbtide.accounts.directory import Identity
from ebbtide.accounts.oidc import identities_store as identities
from ebbtide.accounts.oidc.config import OidcConfig
from ebbtide.accounts.oidc.provider import Provider
from ebbtide.accounts.roles import Role
from ebbtide.accounts.sessions import Sessions
from ebbtide.accounts.sessions_store import Secret
from ebbtide.accounts.store import Account
from ebbtide.errors import Conflict, Forbidden, InvalidRequest, Unauthenticated
from ebbtide.records.audit import Deed, add_audit
from ebbtide.storage.pool import Connection, Database

_AUDIT_ACTOR = "oidc"


@dataclass(frozen=True, slots=True)
class Callback:
    """What the provider sent the browser back with; `flow` is the secret in its cookie."""

    flow: str
    query: Mapping[str, str]
    redirect_uri: str
    address: str


class Oidc:
    """One provider's sign-in."""

    def __init__(self, config: OidcConfig, database: Database, sessions: Sessions) -> None:
        self.config = config
        self._database = database
        self._sessions = sessions
        self._provider = Provider(config)

    async def start(self, redirect_uri: str, now: datetime) -> tuple[str, str]:
        """Where to send the browser, and the secret that its cookie keeps meanwhile. Raises Unavailable."""
        flow = secrets.token_urlsafe(32)
        challenge = hashlib.sha256(derive(flow, "verifier").encode()).digest()
        metadata = await self._provider.metadata(now)
        query = {
            "response_type": "code",
            "client_id": self.config.client_id,
            "redirect_uri": redirect_uri,
            "scope": self.config.scopes,
            "state": derive(flow, "state"),
            "nonce": derive(flow, "nonce"),
            "code_challenge": _base64(challenge),
            "code_challenge_method": "S256",
        }
        joint = "&" if "?" in metadata.authorization_endpoint else "?"
        return f"{metadata.authorization_endpoint}{joint}{urlencode(query)}", flow

    async def finish(self, callback: Callback, now: datetime) -> str:
        """A new session's secret. Raises InvalidRequest, Unauthenticated, Forbidden, LimitReached, Unavailable."""
        await count_attempt(self._database, by_address(callback.address), PER_ADDRESS, now)
        claims = await self._claims(callback, now)
        self._check_domain(claims)
        async with self._database.transaction() as conn:
            account = await identities.find_account(conn, self.config.issuer, claims["sub"])
            if account is None:
                account = await self._first_time(conn, claims, now)
            email = _email(claims)
            if email is not None and email != account.email:
                await store.set_email(conn, account.id, email)
            secret = await self._sessions.open(conn, Secret(account.id, account.role, None), now)
        if secret is None:
            raise Unauthenticated("This account may not sign in")
        return secret

    async def _claims(self, callback: Callback, now: datetime) -> dict[str, Any]:
        query = callback.query
        state, expected = query.get("state", ""), derive(callback.flow, "state")
        if not hmac.compare_digest(state.encode("utf-8", "surrogatepass"), expected.encode()):
            raise InvalidRequest("This sign-in was not started in this browser, or took too long: start again")
        if query.get("iss", self.config.issuer) != self.config.issuer:  # RFC 9207
            raise InvalidRequest("This answer comes from another identity provider: start again")
        if "error" in query:
            told = "".join(letter for letter in query["error"][:64] if letter.isascii() and letter.isprintable())
            raise Forbidden(f"The identity provider refused the sign-in: {told}")
        if not query.get("code"):
            raise InvalidRequest("The identity provider sent no code: start again")
        verifier, nonce = derive(callback.flow, "verifier"), derive(callback.flow, "nonce")
        return await self._provider.claims(query["code"], verifier, callback.redirect_uri, nonce, now)

    def _check_domain(self, claims: Mapping[str, Any]) -> None:
        if not self.config.allowed_domains:
            return
        email = claims.get("email")
        domain = email.rpartition("@")[2].lower() if isinstance(email, str) else ""
        if domain not in self.config.allowed_domains or claims.get("email_verified") is not True:
            raise Forbidden("Only people with a verified e-mail address of an allowed domain may sign in here")

    async def _first_time(self, conn: Connection, claims: Mapping[str, Any], now: datetime) -> Account:
        subject = claims["sub"]
        if not self.config.create_accounts:
            raise Forbidden(f"No account is linked to you. An administrator can link your subject, {subject!r}")
        account = Account(ids.account_id(), _name(claims), self._role(claims), "active", now)
        if not await store.add_account(conn, account):
            raise Conflict(f"An account named {account.name!r} exists; an administrator can link your subject to it")
        await link(conn, Identity(self.config.issuer, subject, now), account.id, _AUDIT_ACTOR)
        return account

    def _role(self, claims: Mapping[str, Any]) -> Role:
        told = None if self.config.role_claim is None else claims.get(self.config.role_claim)
        values = told if isinstance(told, list) else [told]
        mapped = [
            self.config.role_map[value] for value in values if isinstance(value, str) and value in self.config.role_map
        ]
        return max(mapped, default=self.config.default_role)


async def link(conn: Connection, who: Identity, account_id: str, actor: str) -> None:
    """Let an identity sign in as an account. Raises Conflict when it signs in as one already."""
    if not await identities.add_identity(conn, who.issuer, who.subject, account_id, who.created_at):
        raise Conflict("This subject is linked to an account already")
    detail = {"issuer": who.issuer, "subject": who.subject}
    await add_audit(conn, Deed(actor, "oidc.link", account_id, account_id, detail), who.created_at)


def derive(flow: str, purpose: str) -> str:
    """One of the values that belong to a sign-in; none of them tells another."""
    return _base64(hmac.new(flow.encode("utf-8", "surrogatepass"), purpose.encode(), hashlib.sha256).digest())


def _name(claims: Mapping[str, Any]) -> str:
    names = (_email(claims), claims.get("preferred_username"), claims["sub"])
    return checked_name(next(name for name in names if isinstance(name, str) and name.strip()))


def _email(claims: Mapping[str, Any]) -> str | None:
    """The address that the provider vouches for, if it is one that may be kept."""
    email = claims.get("email")
    return email if claims.get("email_verified") is True and isinstance(email, str) and is_email(email) else None


def _base64(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()
