"""ID tokens: signature and claims checked as OpenID Connect Core 1.0, section 3.1.3.7 has it. Pure."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

# Asymmetric ones only: with a symmetric one, or none, whoever knows the public keys could sign.
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_LEEWAY_SECONDS = 60
_LONGEST_SUBJECT = 255


class BadToken(Exception):
    """The ID token does not hold; the message says why, and nothing of what is in it."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the token has to say."""

    issuer: str
    client_id: str
    nonce: str


def verify_id_token(token: str, keys: KeySet, expected: Expected, now: datetime) -> dict[str, Any]:
    """The claims of a token that holds. Raises BadToken."""
    try:
        claims = jwt.decode(token, keys, algorithms=list(ALGORITHMS)).claims
    except (JoseError, ValueError, TypeError, KeyError) as problem:
        raise BadToken("its signature does not hold") from problem
    _check(claims, expected, now.timestamp())
    return claims


def _check(claims: Mapping[str, Any], expected: Expected, now: float) -> None:
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if claims.get("iss") != expected.issuer:
        raise BadToken("it comes from another issuer")
    if expected.client_id not in audiences or claims.get("azp", expected.client_id) != expected.client_id:
        raise BadToken("it was made for another client")
    if len(audiences) > 1 and "azp" not in claims:
        raise BadToken("it names several clients and not the one it was made for")
    if _number(claims, "exp") <= now - _LEEWAY_SECONDS:
        raise BadToken("it has expired")
    if _number(claims, "iat") > now + _LEEWAY_SECONDS:
        raise BadToken("it is from the future")
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), expected.nonce.encode()):
        raise BadToken("it answers another sign-in")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_SUBJECT or not subject.isprintable():
        raise BadToken("it does not say who signed in")


def _number(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadToken(f"it has no {name}")
    return value
