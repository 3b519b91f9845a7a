"""ID tokens: one wrong claim, key or algorithm, and the token does not hold."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

from ebbtide.accounts.oidc.tokens import BadToken, Expected, verify_id_token

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
SECONDS = int(NOW.timestamp())
EXPECTED = Expected("https://id.example", "ebbtide", "the-nonce")
GOOD: dict[str, Any] = {
    "iss": "https://id.example",
    "aud": "ebbtide",
    "sub": "1234",
    "exp": SECONDS + 300,
    "iat": SECONDS,
    "nonce": "the-nonce",
}
KEY = RSAKey.generate_key(2048, {"kid": "one"})
KEYS = KeySet.import_key_set({"keys": [KEY.as_dict(private=False)]})


def signed(claims: dict[str, Any], key: Any = KEY, alg: str = "RS256") -> str:
    return jwt.encode({"alg": alg, "kid": "one"}, claims, key, algorithms=[alg])


@pytest.mark.parametrize("more", [{}, {"aud": ["ebbtide", "other"], "azp": "ebbtide"}, {"exp": SECONDS - 30}])
def test_a_good_token_holds(more: dict[str, Any]) -> None:
    assert verify_id_token(signed(GOOD | more), KEYS, EXPECTED, NOW)["sub"] == "1234"


@pytest.mark.parametrize(
    "wrong",
    [
        {"iss": "https://evil.example"},
        {"aud": "other"},
        {"aud": ["ebbtide", "other"]},
        {"azp": "other"},
        {"exp": SECONDS - 61},
        {"exp": "never"},
        {"exp": True},
        {"iat": SECONDS + 61},
        {"nonce": "another"},
        {"nonce": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "a\nb"},
    ],
)
def test_a_wrong_claim_does_not_hold(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadToken):
        verify_id_token(signed(GOOD | wrong), KEYS, EXPECTED, NOW)


@pytest.mark.parametrize("missing", list(GOOD))
def test_a_missing_claim_does_not_hold(missing: str) -> None:
    with pytest.raises(BadToken):
        verify_id_token(signed({name: value for name, value in GOOD.items() if name != missing}), KEYS, EXPECTED, NOW)


def test_other_keys_and_algorithms_do_not_hold() -> None:
    public = OctKey.import_key(KEY.as_pem(private=False).decode().replace("-----", ""))
    unsigned = "eyJhbGciOiJub25lIn0." + signed(GOOD).split(".")[1] + "."
    other = RSAKey.generate_key(2048, {"kid": "one"})
    for token in (signed(GOOD, other), signed(GOOD, public, "HS256"), unsigned, signed(GOOD)[:-4], "", "a.b.c"):
        with pytest.raises(BadToken, match="signature"):
            verify_id_token(token, KEYS, EXPECTED, NOW)
