"""The counters of a process without an address (worker, clusters) for Prometheus, at a port of its own.

These processes count their calls to clusters, repairs, leases and Events. Where they share a folder with the web
processes (`osmo-admin up`), `/metrics` has the sums; in pods of their own each has a page of its own. The page has only
these counters: names of backends, kinds and fields, and no login. Source: docs/watching.md, "Metrics".
"""

from __future__ import annotations

import os

import prometheus_client
import structlog
from prometheus_client import CollectorRegistry, multiprocess

from osmo_admin.ops.programs import process_commands

log = structlog.get_logger(__name__)


def serve_counters(port: int) -> int | None:
    """Answer `GET /metrics` at this port, in a thread of the process (0: not at all); returns the port. The counters of
    child processes are in the folder `PROMETHEUS_MULTIPROC_DIR`. If the port is taken, the log says so, and work goes
    on without the page."""
    if not port:
        return None
    registry = prometheus_client.REGISTRY
    if process_commands.METRICS_DIR in os.environ:
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    try:
        server, _ = prometheus_client.start_http_server(port, registry=registry)
    except (OSError, OverflowError) as problem:
        log.warning("no_page_of_counters", port=port, problem=str(problem))
        return None
    return int(server.server_port)
