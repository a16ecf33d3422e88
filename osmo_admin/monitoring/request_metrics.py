"""The metrics of requests by view, method and status: those of django_prometheus, whose labels are looked up once."""

from __future__ import annotations

from typing import Any

from django_prometheus.middleware import PrometheusAfterMiddleware

MAX_KEPT = 10_000
"""Clients choose no label: methods, views and statuses are ours. Beyond this number nothing is kept."""


class RequestMetricsMiddleware(PrometheusAfterMiddleware):  # type: ignore[misc]  # the library has no types
    """Counts the requests that reach a view. A metric checks and converts its labels at each use, which costs more than
    to count, so the counters are kept by their labels."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._kept: dict[Any, Any] = {}

    def label_metric(self, metric: Any, request: Any, response: Any = None, **labels: Any) -> Any:
        """The counter with these labels."""
        if not labels:
            return metric
        key = (metric, *labels.values())
        found = self._kept.get(key)
        if found is None:
            found = metric.labels(**labels)
            if len(self._kept) < MAX_KEPT:
                self._kept[key] = found
        return found
