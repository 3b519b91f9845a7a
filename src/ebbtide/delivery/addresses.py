"""Where an event may be sent: https, to a public address, however that is spelled. An address is checked, then used.

The rules of the special address ranges follow the IANA special-purpose registries (RFC 6890 and its updates).
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Literal, TypeAlias

from yarl import URL

from ebbtide.errors import InvalidRequest

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name and port, as text. Raises OSError when there are none."""

Reach = Literal["public", "private", "refused"]

MAX_URL: Final = 2_048
_MAX_HOST = 253
_LOOKUPS_AT_ONCE = 64
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")

_PUBLIC_V6 = IPv6Network("2000::/3")
_PRIVATE = [
    ip_network(text) for text in ("10.0.0.0/8", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7")
]
_METADATA = [
    ip_network(text)  # beside the link-local ones: Azure, Alibaba, Oracle, AWS
    for text in ("168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32", "fd00:ec2::/32")
]
_SPECIAL = [
    ip_network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "100.64.0.0/10",  # carrier-grade NAT
        "169.254.0.0/16",  # link-local, with the metadata services of most clouds
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
        "2001::/23",  # protocol assignments, with Teredo
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
]


class BadTarget(InvalidRequest):
    """Nothing may be sent there; `problem` says why, in words."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"url: {problem}", param="url")
        self.problem = problem


@dataclass(frozen=True, slots=True)
class CheckedTarget:
    """A URL that may be posted to, and the addresses that were checked: connect to these and no others."""

    url: URL
    addresses: tuple[str, ...]


# A pool of its own: a name server that hangs must not hold up other work that needs threads.
_lookups = ThreadPoolExecutor(_LOOKUPS_AT_ONCE, thread_name_prefix="webhook-lookup")


async def resolve_host(host: str, port: int) -> list[str]:
    """What the machine's resolver says. Raises OSError."""
    lookup = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_lookups, lookup)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def check_target(url: str, resolve: Resolve, *, allow_private: bool) -> CheckedTarget:
    """Check a URL and every address behind its name. Raises BadTarget saying what is wrong."""
    parsed = parse_url(url, allow_private=allow_private)
    host = parsed.raw_host or ""
    literal = _literal(host)
    addresses = [literal] if literal is not None else await _look_up(host, parsed.port or 0, resolve)
    if not all(_may_reach(address, allow_private) for address in addresses):
        raise BadTarget("it leads to an address that is not public")
    return CheckedTarget(parsed, tuple(str(address) for address in addresses))


def parse_url(url: str, *, allow_private: bool) -> URL:
    """Check a URL without looking anything up. Raises BadTarget saying what is wrong."""
    if not 0 < len(url) <= MAX_URL:
        raise BadTarget(f"a URL has 1 to {MAX_URL} characters")
    if not url.isprintable() or " " in url or "\\" in url:
        raise BadTarget("it holds characters that a URL may not hold")
    try:
        parsed = URL(url).with_fragment(None)
    except ValueError:
        raise BadTarget("it is not a URL") from None
    if parsed.scheme != "https" and not (allow_private and parsed.scheme == "http"):
        raise BadTarget("it must begin with https://")
    if parsed.user is not None or parsed.password is not None:
        raise BadTarget("it must not hold a user name or password")
    if not parsed.port:
        raise BadTarget("port 0 cannot be reached")
    _check_host(parsed.raw_host or "")
    return parsed


def reach(address: IPv4Address | IPv6Address) -> Reach:
    """Who can be reached at an address. `refused` is what nobody may be sent to, private ones allowed or not."""
    if _within(address, _METADATA):
        return "refused"
    if _within(address, _PRIVATE):
        return "private"
    if _within(address, _SPECIAL) or not address.is_global or address.is_multicast:
        return "refused"
    # Only this block is given out to networks; what lies outside it carries IPv4 in disguise, or is local.
    if isinstance(address, IPv6Address) and address not in _PUBLIC_V6:
        return "refused"
    return "public"


def _check_host(host: str) -> None:
    if _literal(host) is not None:
        return
    name = host.removesuffix(".")
    if len(name) > _MAX_HOST or _NAME.fullmatch(name) is None:
        raise BadTarget("its host is not a name or an address")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        raise BadTarget("its host is an address written in an unusual way")


def _literal(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a host is, when it is written in the usual way."""
    if "%" in host:
        return None
    try:
        return ip_address(host)
    except ValueError:
        return None


async def _look_up(host: str, port: int, resolve: Resolve) -> list[IPv4Address | IPv6Address]:
    try:
        found = await resolve(host, port)
    except (OSError, UnicodeError):
        found = []
    if not found:
        raise BadTarget(f"the name {host} leads to no address")
    try:
        return [ip_address(address) for address in found]
    except ValueError:
        raise BadTarget("it leads to an address that is not public") from None


def _may_reach(address: IPv4Address | IPv6Address, allow_private: bool) -> bool:
    where = reach(address)
    return where == "public" or (allow_private and where == "private")


def _within(address: IPv4Address | IPv6Address, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    return any(address in network for network in networks)
