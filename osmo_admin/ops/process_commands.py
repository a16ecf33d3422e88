"""The command line of each process of the house, in one place for the supervisor, tests and container images."""

from __future__ import annotations

import sys
from pathlib import Path

WEB = "web"
WEBHOOK = "webhook"
WORKER = "worker"
BEAT = "beat"
CLUSTERS = "clusters"
WEB_WORKERS = 2
# Two for requests and one that an event stream may hold (OSMO_EVENT_STREAMS). More only lengthen the tail: one
# interpreter lock serves them all.
WEB_THREADS = 3
WORKER_PROCESSES = 2
# Where the web processes put their counters together; must be empty when they start.
METRICS_DIR = "PROMETHEUS_MULTIPROC_DIR"


def web_command(host: str, port: int, *, workers: int = WEB_WORKERS) -> list[str]:
    """Granian serving the WSGI application. A worker process that dies is started again."""
    return [
        sys.executable, "-m", "granian", "--interface", "wsgi", "--host", host, "--port", str(port),
        "--workers", str(workers), "--blocking-threads", str(WEB_THREADS), "--no-ws",
        "--respawn-failed-workers", "--workers-kill-timeout", "3", "--log-level", "warning",
        "osmo_admin.wsgi:application",
    ]  # fmt: skip


def webhook_command(host: str, port: int, certificate: Path, key: Path) -> list[str]:
    """Granian serving what clusters ask, over TLS: the one address of the house that Kubernetes calls."""
    return [
        sys.executable, "-m", "granian", "--interface", "wsgi", "--host", host, "--port", str(port),
        "--workers", "1", "--blocking-threads", "2", "--no-ws", "--respawn-failed-workers",
        "--workers-kill-timeout", "3", "--log-level", "warning", "--ssl-protocol-min", "tls1.2",
        "--ssl-certificate", str(certificate), "--ssl-keyfile", str(key), "osmo_admin.wsgi:webhooks",
    ]  # fmt: skip


def worker_command(*, processes: int = WORKER_PROCESSES) -> list[str]:
    """The Celery worker. Gossip and mingle serve fleets that watch each other; nobody reads them here."""
    return [
        sys.executable, "-m", "celery", "--app", "osmo_admin.celery", "worker", "--pool", "prefork",
        "--concurrency", str(processes), "--without-gossip", "--without-mingle", "--loglevel", "INFO",
    ]  # fmt: skip


def beat_command() -> list[str]:
    """Celery's clock. The supervisor's lock on the data directory keeps it single, so no pid file."""
    return [
        sys.executable, "-m", "celery", "--app", "osmo_admin.celery", "beat", "--loglevel", "INFO", "--pidfile", "",
    ]  # fmt: skip


def clusters_command() -> list[str]:
    """The agents of Kubernetes backends. Without one it idles."""
    return [sys.executable, "-m", "osmo_admin.clusters"]


def bootstrap_command(*arguments: str) -> list[str]:
    """Migrations, defaults and the first user: one process, so Django is loaded once."""
    return [sys.executable, "-m", "osmo_admin.bootstrap", *arguments]


def round_trip_command(url: str) -> list[str]:
    """One call through the whole house, for `up --check`."""
    return [sys.executable, "-m", "osmo_admin.roundtrip", url]
