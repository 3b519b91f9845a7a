"""Signing in by OpenID Connect, as it is set up: read from the environment once. Without an issuer there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from ebbtide.accounts.roles import Role
from ebbtide.errors import SetupError

PREFIX: Final = "EBBTIDE_OIDC_"
_NAMES = (
    "ISSUER CLIENT_ID CLIENT_SECRET SCOPES PUBLIC_URL CREATE_ACCOUNTS DEFAULT_ROLE ROLE_CLAIM ROLE_MAP ALLOWED_DOMAINS"
)
VARIABLES: Final = frozenset(PREFIX + name for name in _NAMES.split())
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class OidcConfig:
    """Which provider, as which client, and what becomes of those who sign in for the first time."""

    issuer: str
    client_id: str
    client_secret: str | None
    scopes: str
    public_url: str | None  # None: as the request names the gateway
    create_accounts: bool
    default_role: Role
    role_claim: str | None
    role_map: Mapping[str, Role]
    allowed_domains: frozenset[str]


def load_oidc(environ: Mapping[str, str]) -> OidcConfig | None:
    """The set-up in `EBBTIDE_OIDC_…`, None without an issuer. Raises SetupError naming the variable."""

    def read(name: str) -> str:
        return environ.get(PREFIX + name, "").strip()

    if not read("ISSUER"):
        return None
    if not read("CLIENT_ID"):
        raise SetupError(f"{PREFIX}ISSUER needs {PREFIX}CLIENT_ID beside it")
    return OidcConfig(
        issuer=_https("ISSUER", read("ISSUER")),
        client_id=read("CLIENT_ID"),
        client_secret=read("CLIENT_SECRET") or None,
        scopes=" ".join(dict.fromkeys(["openid", *(read("SCOPES") or "profile email").split()])),
        public_url=_https("PUBLIC_URL", read("PUBLIC_URL")).rstrip("/") if read("PUBLIC_URL") else None,
        create_accounts=_switch("CREATE_ACCOUNTS", read("CREATE_ACCOUNTS")),
        default_role=_role("DEFAULT_ROLE", read("DEFAULT_ROLE") or "free"),
        role_claim=read("ROLE_CLAIM") or None,
        role_map=_role_map(read("ROLE_MAP")),
        allowed_domains=frozenset(domain.lower() for domain in _parts(read("ALLOWED_DOMAINS"))),
    )


def is_secure_url(url: str) -> bool:
    """Whether what is sent there can be read by nobody between: https, or this machine itself."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    )


def _https(name: str, url: str) -> str:
    if not is_secure_url(url):
        raise SetupError(f"{PREFIX}{name} takes an https:// URL (http:// on this machine only)")
    return url


def _switch(name: str, text: str) -> bool:
    word = text.lower() or "off"
    if word not in {"1", "true", "on", "yes", "0", "false", "off", "no"}:
        raise SetupError(f"{PREFIX}{name} takes on or off")
    return word in {"1", "true", "on", "yes"}


def _role(name: str, text: str) -> Role:
    try:
        return Role(text.lower())
    except ValueError:
        known = ", ".join(role.value for role in Role)
        raise SetupError(f"{PREFIX}{name}: {text!r} is no role ({known})") from None


def _role_map(text: str) -> dict[str, Role]:
    pairs = [part.rpartition("=") for part in _parts(text)]
    if not all(value for value, _, _ in pairs):
        raise SetupError(f"{PREFIX}ROLE_MAP takes value=role pairs separated by commas, such as staff=internal")
    return {value.strip(): _role("ROLE_MAP", role.strip()) for value, _, role in pairs}


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
