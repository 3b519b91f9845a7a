"""What follows one request through the process and on to upstreams: its id, and its trace where tracing is on.

Tracing is OpenTelemetry's, an extra: without it, or without an endpoint to send to, a span here is nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Final, Literal, Protocol, TypeAlias

from ebbtide.errors import SetupError

SpanKind: TypeAlias = Literal["server", "client", "internal"]
Value: TypeAlias = str | int | float | bool
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class Span(Protocol):
    """Something that takes its time: named, with attributes, well or failed."""

    def name(self, name: str) -> None: ...

    def set(self, key: str, value: Value) -> None: ...

    def fail(self, reason: str) -> None: ...

    def headers(self) -> Mapping[str, str]:
        """What tells a server that is called of it."""
        ...

    def end(self) -> None: ...


class Tracer(Protocol):
    """Makes spans."""

    def start(self, name: str, kind: SpanKind, caller: Mapping[str, str]) -> Span:
        """A span below the current one, or below what a caller's headers tell of."""
        ...

    def current(self, span: Span) -> AbstractContextManager[None]:
        """Make `span` the one that others begin below."""
        ...

    def close(self) -> None:
        """Send what is left."""
        ...


class _NoSpan:
    def name(self, name: str) -> None:
        return

    def set(self, key: str, value: Value) -> None:
        return

    def fail(self, reason: str) -> None:
        return

    def headers(self) -> Mapping[str, str]:
        return {}

    def end(self) -> None:
        return


_NO_SPAN: Final = _NoSpan()
_NO_BLOCK: Final[AbstractContextManager[Span]] = nullcontext(_NO_SPAN)
_outgoing: ContextVar[Mapping[str, str]] = ContextVar("outgoing", default={})  # noqa: B039  never written to
_tracers: Final[list[Tracer]] = []  # one or none


def set_up_tracing(environ: Mapping[str, str], build: Callable[[], Tracer]) -> None:
    """Trace with what `build` makes, if the environment names a collector. Raises SetupError without the extra."""
    if not any(environ.get(name) for name in _ENDPOINTS) or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return
    try:
        use_tracer(build())
    except ImportError as error:
        raise SetupError(
            "OTEL_EXPORTER_OTLP_ENDPOINT asks for traces, which need an extra: pip install 'ebbtide[otel]'"
        ) from error


def use_tracer(tracer: Tracer | None) -> None:
    """Trace with this one from now on; None: not at all."""
    _tracers[:] = [] if tracer is None else [tracer]


def close_tracing() -> None:
    """Send what is left, and stop tracing."""
    for tracer in _tracers:
        tracer.close()
    use_tracer(None)


def name_request(request_id: str) -> None:
    """From here on, in this task and those that it starts, upstreams are told this id."""
    _outgoing.set({"X-Request-ID": request_id})


def outgoing_headers() -> Mapping[str, str]:
    """What an upstream is told of the request that is running."""
    return _outgoing.get()


def start_span(name: str, kind: SpanKind, caller: Mapping[str, str] | None = None) -> Span:
    """A span that whoever started it ends; others do not begin below it."""
    return _tracers[0].start(name, kind, caller or {}) if _tracers else _NO_SPAN


def span(name: str, kind: SpanKind, caller: Mapping[str, str] | None = None) -> AbstractContextManager[Span]:
    """A span for a block within one task: what begins there begins below it; what the block raises, it failed with."""
    return _spanned(_tracers[0], name, kind, caller or {}) if _tracers else _NO_BLOCK


@contextmanager
def _spanned(tracer: Tracer, name: str, kind: SpanKind, caller: Mapping[str, str]) -> Iterator[Span]:
    begun = tracer.start(name, kind, caller)
    try:
        with tracer.current(begun):
            yield begun
    except BaseException as error:
        begun.fail(type(error).__name__)
        raise
    finally:
        begun.end()


def told_upstream(told: Span) -> AbstractContextManager[object]:
    """In this block and task, upstreams are told of `told`, beside the request's id."""
    return _NO_BLOCK if told is _NO_SPAN else _told(told)


@contextmanager
def _told(told: Span) -> Iterator[None]:
    before = _outgoing.set({**_outgoing.get(), **told.headers()})
    try:
        yield
    finally:
        _outgoing.reset(before)
