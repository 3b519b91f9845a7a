"""The catalog of the moment, and the duty that keeps it fresh; servers that list their own models are in upstreams.

A change builds and checks a whole new catalog, then swaps it in; whatever cannot be read leaves the old one in place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import structlog

from ebbtide.catalog.catalog import EMPTY, Catalog
from ebbtide.catalog.models_file import parse_models
from ebbtide.errors import SetupError

log = structlog.get_logger(__name__)

_WATCH_SECONDS = 1.0
_MAX_FILE_BYTES = 4 * 1024 * 1024


class CatalogSource(Protocol):
    """Where the models come from. `current` is replaced as a whole; `notices` are sentences to say at start."""

    @property
    def current(self) -> Catalog: ...

    @property
    def notices(self) -> tuple[str, ...]: ...

    async def start(self) -> None:
        """Read the models for the first time. Raises SetupError when they are set up wrongly."""
        ...

    async def watch(self) -> None:
        """Keep `current` fresh until cancelled."""
        ...


class FixedSource:
    """A catalog that never changes."""

    notices: tuple[str, ...] = ()

    def __init__(self, catalog: Catalog = EMPTY) -> None:
        self.current = catalog

    async def start(self) -> None:
        return None

    async def watch(self) -> None:
        await asyncio.Event().wait()


class FileSource:
    """The models file. A change is taken up within about a second; an invalid one is refused and said once."""

    notices: tuple[str, ...] = ()

    def __init__(self, path: Path, environ: Mapping[str, str], *, interval: float = _WATCH_SECONDS) -> None:
        self._path = path
        self._environ = environ
        self._interval = interval
        self._seen: tuple[int, ...] | None = None
        self.current = EMPTY

    async def start(self) -> None:
        self._seen = self._look()
        self.current = self._load()

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await asyncio.to_thread(self.refresh)

    def refresh(self) -> bool:
        """Take up a change of the file, if there is one. True when `current` was replaced."""
        seen = self._look()
        if seen == self._seen:
            return False
        self._seen = seen
        try:
            self.current = self._load()
        except SetupError as error:
            log.warning("models_file_refused", reason=error.message, kept_models=len(self.current.models))
            return False
        except Exception:  # a mistake of ours must not end the watch: the next change may mend what led to it
            log.exception("models_file_not_read", path=str(self._path), kept_models=len(self.current.models))
            return False
        log.info("models_file_read", models=len(self.current.models))
        return True

    def _look(self) -> tuple[int, ...] | None:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_ino, stat.st_size

    def _load(self) -> Catalog:
        try:
            if self._path.stat().st_size > _MAX_FILE_BYTES:
                raise SetupError(f"{self._path}: the models file is too large")
            text = self._path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise SetupError(f"{self._path}: the models file is not UTF-8 text") from error
        except OSError as error:
            raise SetupError(f"{self._path}: the models file cannot be read ({error.strerror})") from error
        return parse_models(text, self._environ, name=str(self._path))
