"""What a worker is built from."""

from __future__ import annotations

from dataclasses import dataclass, field

from ebbtide.catalog.source import CatalogSource
from ebbtide.clock import Clock
from ebbtide.delivery.post import Poster
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.settings.snapshot import SettingsSource
from ebbtide.storage.pool import Database


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The rooms below, connected. `process` names this one in what processes tell each other of their load."""

    database: Database
    catalog: CatalogSource
    settings: SettingsSource
    dispatcher: Dispatcher
    clock: Clock
    process: str = ""
    poster: Poster = field(default_factory=Poster)
