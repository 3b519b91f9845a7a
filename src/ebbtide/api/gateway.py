"""What the handlers reach: one frozen bundle, built by app.py and handed to every handler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.accounts.authenticator import Authenticator
from ebbtide.batches.progress import Moment
from ebbtide.batches.watch import Watch
from ebbtide.catalog.policies import PolicySource
from ebbtide.clock import Clock
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.duties import Check
from ebbtide.files.upload import FailedUploads
from ebbtide.proxy.interactive import Interactive
from ebbtide.settings.snapshot import SettingsSource
from ebbtide.storage.pool import Database


@dataclass(frozen=True)
class Gateway:
    """The rooms below, connected.

    `checks` are what /health/ready asks, by name: each answers None when well, else what is wrong in words.
    `moment` tells what decides, now, why a batch waits. `openapi` is the API's description as JSON bytes.
    """

    database: Database
    authenticator: Authenticator
    catalog: PolicySource
    settings: SettingsSource
    dispatcher: Dispatcher
    interactive: Interactive
    clock: Clock
    moment: Callable[[], Moment]
    watch: Watch
    failed_uploads: FailedUploads
    checks: dict[str, Check]
    openapi: bytes
