"""The doctor's second look at a port that is taken: one that a gateway of ours answers on is as it should be."""

from __future__ import annotations

from typing import Final, Literal

import aiohttp
import msgspec

from ebbtide.cli.findings import Finding, ok
from ebbtide.config import Config

_TIMEOUT: Final = aiohttp.ClientTimeout(total=2)
_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # addresses to listen on, not to call


class _Health(msgspec.Struct):
    """What a gateway answers at /health."""

    status: Literal["ok"]
    version: str


async def explain_port(finding: Finding, config: Config) -> Finding:
    """`finding`, unless it is bad because a gateway runs there already."""
    if finding.level != "bad" or (version := await _running_version(config)) is None:
        return finding
    return ok("http", f"a gateway of version {version} runs on {config.host} port {config.port}")


async def _running_version(config: Config) -> str | None:
    host = _ANY.get(config.host, config.host)
    place = f"[{host}]" if ":" in host else host
    try:
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT) as session,
            session.get(f"http://{place}:{config.port}/health", allow_redirects=False) as answer,
        ):
            return msgspec.json.decode(await answer.read(), type=_Health).version
    except (aiohttp.ClientError, TimeoutError, ValueError, msgspec.DecodeError):
        return None
