"""What the handlers reach: one frozen bundle, built by app.py and handed to every handler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.accounts.authenticator import Authenticator
from ebbtide.accounts.oidc.flow import Oidc
from ebbtide.accounts.sessions import Sessions
from ebbtide.batches.backlog import BacklogSource
from ebbtide.batches.progress import Moment
from ebbtide.batches.watch import Watch
from ebbtide.catalog.policies import PolicySource
from ebbtide.clock import Clock
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.files.upload import FailedUploads
from ebbtide.proxy.interactive import Interactive
from ebbtide.pulse import Pulse
from ebbtide.settings.snapshot import SettingsSource
from ebbtide.storage.pool import Database


@dataclass(frozen=True)
class Gateway:
    """The rooms below, connected.

    `pulse` knows how this process and its siblings stand. `metrics_token` opens /metrics to whoever presents it.
    `moment` tells what decides, now, why a batch waits. `openapi` is the API's description as JSON bytes.
    """

    database: Database
    authenticator: Authenticator
    sessions: Sessions
    secure_cookies: bool
    oidc: Oidc | None  # None: not set up
    catalog: PolicySource
    settings: SettingsSource
    dispatcher: Dispatcher
    interactive: Interactive
    clock: Clock
    moment: Callable[[], Moment]
    watch: Watch
    failed_uploads: FailedUploads
    openapi: bytes
    pulse: Pulse
    backlog: BacklogSource
    metrics_token: str | None
