"""The gauges of one answer of /metrics: every process behind the port, and the deployment as the database tells it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ebbtide.batches.backlog import Backlog
from ebbtide.records import metrics
from ebbtide.siblings import Beat, Sample


def process_samples(family: Mapping[int, Beat], now: float) -> Iterator[Sample]:
    """What each process told last; of one that is gone or silent only that it is not up."""
    for place, beat in family.items():
        process = str(place)
        yield metrics.PROCESS_UP, (process,), float(beat.trouble(now) is None)
        if not beat.is_alive(now):
            continue
        for name, labels, value in beat.gauges:
            yield name, (*labels, process), value
        for loop, began_at in beat.loops.items():
            yield metrics.HEARTBEAT_AGE, (loop, process), max(0.0, now - began_at)


def deployment_samples(backlog: Backlog | None) -> Iterator[Sample]:
    """The figures of the database; when they cannot be read, nothing but that."""
    yield metrics.FIGURES_UP, (), float(backlog is not None)
    if backlog is None:
        return
    for queue in backlog.queues:
        yield metrics.QUEUE, (queue.model, "queued"), queue.queued
        yield metrics.QUEUE, (queue.model, "running"), queue.running
        yield metrics.OLDEST, (queue.model,), queue.oldest
    for phase in ("validating", "open", "sealing"):
        yield metrics.BATCHES, (phase,), backlog.batches.get(phase, 0)
    yield metrics.SEAL_AGE, (), backlog.oldest_sealing
    yield metrics.WEBHOOKS, (), backlog.webhook_events
    yield metrics.WEBHOOK_AGE, (), backlog.oldest_webhook
    yield metrics.WORKERS, (), backlog.workers
    for model in backlog.waiting_models:
        yield metrics.MODEL_WAITING, (model,), 1
