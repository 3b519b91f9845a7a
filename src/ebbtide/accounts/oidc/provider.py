"""The identity provider over HTTP: its metadata and keys, cached, and the exchange of a code for an ID token.

Answers are bounded in size and time, and redirects are not followed: what is sent there holds a secret.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from ebbtide.accounts.oidc.config import OidcConfig, is_secure_url
from ebbtide.accounts.oidc.tokens import BadToken, Expected, verify_id_token
from ebbtide.errors import Unauthenticated, Unavailable

_TIMEOUT = aiohttp.ClientTimeout(total=10)
_LARGEST = 1024 * 1024
_METADATA_HOLDS = timedelta(hours=1)
_KEYS_HOLD = timedelta(hours=1)
_KEYS_ASKED_AT_MOST_EVERY = timedelta(minutes=1)


class Metadata(msgspec.Struct, frozen=True):
    """What is used of OpenID Connect Discovery 1.0."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class _Tokens(msgspec.Struct):
    id_token: str


class Provider:
    """One provider, as its client sees it."""

    def __init__(self, config: OidcConfig) -> None:
        self._config = config
        self._metadata: tuple[Metadata, datetime] | None = None
        self._keys: tuple[KeySet, datetime] | None = None

    async def metadata(self, now: datetime) -> Metadata:
        """Where its endpoints are. Raises Unavailable."""
        if self._metadata is None or not timedelta(0) <= now - self._metadata[1] < _METADATA_HOLDS:
            url = self._config.issuer.rstrip("/") + "/.well-known/openid-configuration"
            found = _decoded(await self._ask("GET", url), Metadata)
            endpoints = (found.authorization_endpoint, found.token_endpoint, found.jwks_uri)
            if found.issuer != self._config.issuer or not all(map(is_secure_url, endpoints)):
                raise Unavailable("The identity provider's metadata do not fit EBBTIDE_OIDC_ISSUER")
            self._metadata = (found, now)
        return self._metadata[0]

    async def claims(self, code: str, verifier: str, redirect_uri: str, nonce: str, now: datetime) -> dict[str, Any]:
        """Who the code stands for. Raises Unauthenticated, Unavailable."""
        metadata = await self.metadata(now)
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        form |= {"code_verifier": verifier, "client_id": self._config.client_id}
        headers: dict[str, str] = {}
        secret = self._config.client_secret
        if secret is not None and "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            pair = f"{quote(self._config.client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        elif secret is not None:
            form["client_secret"] = secret
        answer = _decoded(await self._ask("POST", metadata.token_endpoint, form, headers), _Tokens)
        expected = Expected(self._config.issuer, self._config.client_id, nonce)
        return await self._verified(answer.id_token, expected, metadata, now)

    async def _verified(self, token: str, expected: Expected, metadata: Metadata, now: datetime) -> dict[str, Any]:
        keys, asked_at = await self._key_set(metadata, now, _KEYS_HOLD)
        try:
            try:
                return verify_id_token(token, keys, expected, now)
            except BadToken:
                # The provider may sign with a key that it made since; asked seldom, so that bad tokens cost it nothing.
                keys, again_at = await self._key_set(metadata, now, _KEYS_ASKED_AT_MOST_EVERY)
                if again_at == asked_at:
                    raise
                return verify_id_token(token, keys, expected, now)
        except BadToken as problem:
            raise Unauthenticated(f"The identity provider's ID token was not accepted: {problem}") from problem

    async def _key_set(self, metadata: Metadata, now: datetime, holds: timedelta) -> tuple[KeySet, datetime]:
        if self._keys is None or not timedelta(0) <= now - self._keys[1] < holds:
            found = _decoded(await self._ask("GET", metadata.jwks_uri), dict[str, Any])
            try:
                self._keys = (KeySet.import_key_set(found), now)
            except (JoseError, ValueError, TypeError, KeyError) as problem:
                raise Unavailable("The identity provider's keys cannot be read") from problem
        return self._keys

    async def _ask(
        self, method: str, url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        try:
            async with (
                aiohttp.ClientSession(timeout=_TIMEOUT) as http,
                http.request(method, url, data=form, headers=headers, allow_redirects=False) as answer,
            ):
                body = await answer.content.read(_LARGEST)
                while not answer.content.at_eof() and len(body) < _LARGEST:
                    body += await answer.content.read(_LARGEST - len(body))
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            raise Unavailable("The identity provider cannot be reached", retry_after=5) from problem
        if method == "POST" and 400 <= answer.status < 500:
            raise Unauthenticated("The identity provider did not accept the sign-in: start again")
        if answer.status != 200:
            raise Unavailable(f"The identity provider answered {answer.status}", retry_after=5)
        return body


def _decoded(body: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise Unavailable("The identity provider's answer cannot be read") from problem
