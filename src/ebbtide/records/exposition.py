"""The metrics as Prometheus reads them: what was counted, here or in the family's folder, and gauges as given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from ebbtide.records.metrics import REGISTRY, TABLE, Described
from ebbtide.siblings import Sample


def render_metrics(samples: Sequence[Sample] = (), folder: Path | None = None) -> bytes:
    """Everything in the text form. `folder` is where every process of a family counts, None where this one is alone."""
    registry = CollectorRegistry()
    if folder is None:
        registry.register(_Collected(REGISTRY))
    else:
        MultiProcessCollector(registry, str(folder))  # type: ignore[no-untyped-call]
    registry.register(_Gauges(samples))
    return generate_latest(registry)


class _Collected(Collector):
    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        return self._registry.collect()

    def describe(self) -> Iterable[Metric]:
        return ()


class _Gauges(Collector):
    """Gauges in the order of the table, and none that is not in it."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        families = {one.name: _family(one) for one in TABLE if one.kind in ("process", "deployment")}
        for name, labels, value in self._samples:
            families[name].add_metric(labels, value)
        return [family for family in families.values() if family.samples]


def _family(one: Described) -> GaugeMetricFamily:
    return GaugeMetricFamily(one.name, one.sentence, labels=one.labels)
