"""Every metric there is, in one table: what is counted as it happens, and what stands when somebody asks.

Names begin with `ebbtide_`; no label holds what a caller sent. Counters and histograms are the sum over the processes
behind a port, dead ones included; `process` gauges are told by each of them, `deployment` gauges are read from the
database and the same whichever gateway is asked, so they are not to be summed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_LATEST

disable_created_metrics()  # type: ignore[no-untyped-call]
REGISTRY: Final = CollectorRegistry()
MEDIA_TYPE: Final = CONTENT_TYPE_LATEST
Kind = Literal["counter", "histogram", "process", "deployment"]


@dataclass(frozen=True, slots=True)
class Described:
    """One metric as the table of them tells it. `name` is without the `_total` of counters."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    sentence: str


TABLE: Final[list[Described]] = []
_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_LAG_SECONDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


def _counter(name: str, sentence: str, *labels: str) -> Counter:
    TABLE.append(Described(f"ebbtide_{name}", "counter", labels, sentence))
    return Counter(f"ebbtide_{name}", sentence, labels, registry=REGISTRY)


def _histogram(name: str, sentence: str, *labels: str, buckets: tuple[float, ...] = _SECONDS) -> Histogram:
    TABLE.append(Described(f"ebbtide_{name}", "histogram", labels, sentence))
    return Histogram(f"ebbtide_{name}", sentence, labels, buckets=buckets, registry=REGISTRY)


def _process(name: str, sentence: str, *labels: str) -> str:
    TABLE.append(Described(f"ebbtide_{name}", "process", (*labels, "process"), sentence))
    return f"ebbtide_{name}"


def _deployment(name: str, sentence: str, *labels: str) -> str:
    TABLE.append(Described(f"ebbtide_{name}", "deployment", labels, sentence))
    return f"ebbtide_{name}"


HTTP_REQUESTS: Final = _counter(
    "http_requests",
    "HTTP requests answered, by the route's template (`unknown` for a path that is none) and status.",
    "method",
    "route",
    "status",
)
REQUESTS: Final = _counter(
    "requests",
    "Requests to models that ended; a try of a batch request is one. `status` is `2xx`, `4xx`, `5xx` or `cancelled`.",
    "source",
    "model",
    "status",
)
TOKENS: Final = _counter(
    "tokens",
    "Tokens as upstreams reported them; `cached` ones are part of `input`, `reasoning` ones of `output`.",
    "source",
    "model",
    "kind",
)
COST: Final = _counter("cost_usd", "What those requests cost, in USD, where it is known.", "source", "model")
COST_UNKNOWN: Final = _counter(
    "cost_unknown", "Requests that an upstream may have charged without telling what it used.", "source", "model"
)
FIRST_TOKEN: Final = _histogram(
    "first_token_seconds", "From a stream's request to the beginning of its answer.", "source", "model"
)
DURATION: Final = _histogram(
    "request_seconds", "From a request to the end of its answer, however it ended.", "source", "model"
)
UPSTREAM_CALLS: Final = _counter(
    "upstream_calls",
    "Calls to upstreams by the head of their answer: `ok`, `http_` with the status, or how the connection broke.",
    "model",
    "route",
    "result",
)
CLAIMED: Final = _counter("batch_items_claimed", "Batch requests that this deployment's workers claimed.", "model")
SETTLED: Final = _counter(
    "batch_items_settled",
    "Batch requests put on record, by what became of them: `complete`, `fail`, `retry` or `hand_back`.",
    "model",
    "verb",
)
TAKEN_OVER: Final = _counter("batch_items_taken_over", "Batch requests taken over from workers that were lost.")
LOOP_LAG: Final = _histogram(
    "event_loop_lag_seconds",
    "How late a process' event loop woke up for something due, looked at four times a second.",
    buckets=_LAG_SECONDS,
)
LOG_ROWS: Final = _counter(
    "request_log_rows",
    "Rows of interactive requests: `written` to the request log, or `dropped`, being unstorable.",
    "result",
)
LOG_CONTENTS: Final = _counter(
    "request_log_contents",
    "Contents of interactive requests: `written` beside their rows, or `dropped`, there being no room to hold them.",
    "result",
)
ALERTS: Final = _counter("alerts", "Alerts raised and resolved.", "kind", "event")

BUILD_INFO: Final = _process("build_info", "Always 1; the version that runs, and Python's.", "version", "python")
PROCESS_UP: Final = _process("process_up", "1 while a process is ready, else 0.")
IN_FLIGHT: Final = _process("requests_in_flight", "Requests to models that run now.", "model", "source")
HEARTBEAT_AGE: Final = _process(
    "heartbeat_age_seconds", "Seconds since a loop of the process last began a round.", "loop"
)
POOL: Final = _process("database_connections", "Connections to the database, `used` or `idle`.", "state")
MEMORY: Final = _process("resident_memory_bytes", "Memory of the process that is resident (on Linux).")
OPEN_FILES: Final = _process("open_files", "Files and sockets that the process holds open (on Linux).")
THREADS: Final = _process("threads", "Threads of the process.")
TASKS: Final = _process("tasks", "Tasks of the process' event loop.")
UNSETTLED: Final = _process("batch_items_unsettled", "Outcomes of batch requests that wait to be put on record.")
CIRCUIT: Final = _process("route_circuit", "A route's circuit: 0 closed, 1 half open, 2 open.", "model", "route")
ROUTE_IN_FLIGHT: Final = _process("route_in_flight", "Calls that run now on a route.", "model", "route")
KEYS_RESTING: Final = _process("route_keys_resting", "API keys of a route that rest.", "model", "route")

FIGURES_UP: Final = _deployment("deployment_figures_up", "1 when the figures of the database could be read, else 0.")
QUEUE: Final = _deployment(
    "deployment_batch_items", "Batch requests that wait or run, `queued` or `running`.", "model", "state"
)
OLDEST: Final = _deployment(
    "deployment_oldest_queued_seconds", "The age of the oldest batch with requests that wait for the model.", "model"
)
BATCHES: Final = _deployment(
    "deployment_batches", "Unfinished batches by phase; those in `sealing` are the backlog of sealing.", "phase"
)
SEAL_AGE: Final = _deployment("deployment_oldest_sealing_seconds", "How long the batch to seal next has waited; or 0.")
WEBHOOKS: Final = _deployment("deployment_webhook_events", "Webhook events that wait to be delivered.")
WEBHOOK_AGE: Final = _deployment("deployment_oldest_webhook_seconds", "The age of the oldest of those; or 0.")
WORKERS: Final = _deployment("deployment_workers", "Workers whose lease holds.")
MODEL_WAITING: Final = _deployment(
    "batch_model_waiting_for_capacity",
    "1 while an alert stands that batch requests of the model wait for its deployment's capacity.",
    "model",
)


def reference_page() -> str:
    """The metrics reference as Markdown."""
    lines = [_PAGE]
    for kind, title in _TITLES.items():
        lines += [f"## {title}", "", "| Metric | Labels | Meaning |", "|---|---|---|"]
        for one in TABLE:
            if one.kind == kind:
                labels = ", ".join(f"`{label}`" for label in one.labels) or "none"
                lines.append(f"| `{one.name}{'_total' if kind == 'counter' else ''}` | {labels} | {one.sentence} |")
        lines.append("")
    return "\n".join(lines)


_TITLES: Final[dict[Kind, str]] = {
    "counter": "Counters",
    "histogram": "Histograms",
    "process": "Gauges of each process",
    "deployment": "Gauges of the deployment",
}
_PAGE: Final = """\
# Metrics

This page is made from the table of metrics (`make docs`). `GET /metrics` gives them in Prometheus' text form, to an
administrator's key or to the token that `EBBTIDE_METRICS_TOKEN` sets. `model` is always a model's own id, never what a
caller wrote.

One answer speaks for every process behind the port (`--processes`). Counters and histograms are sums over them, and
keep what processes that have died had counted. Gauges of a process carry its number as `process`; what it told is up
to two seconds old, and a process that is gone or silent has none but `ebbtide_process_up`. Gauges of the deployment are
read from the database at most every five seconds, and every gateway on that database tells the same: take their
maximum, never their sum.
"""
