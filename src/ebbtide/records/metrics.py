"""What this process counts, for Prometheus: each name begins with `ebbtide_`; no label holds what a caller sent."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

REGISTRY: Final = CollectorRegistry()
MEDIA_TYPE: Final = CONTENT_TYPE_LATEST

ALERTS: Final = Counter(
    "ebbtide_alerts", "Alerts raised and resolved by this process.", ["kind", "event"], registry=REGISTRY
)
MODEL_WAITING: Final = Gauge(
    "ebbtide_batch_model_waiting_for_capacity",
    "1 while an alert stands that batch requests of the model wait for its deployment's capacity.",
    ["model"],
    registry=REGISTRY,
)
LOG_ROWS: Final = Counter(
    "ebbtide_request_log_rows",
    "Rows of interactive requests: written to the request log by this process, or dropped, being unstorable.",
    ["result"],
    registry=REGISTRY,
)


def render_metrics() -> bytes:
    """Everything in Prometheus' text form."""
    return generate_latest(REGISTRY)
