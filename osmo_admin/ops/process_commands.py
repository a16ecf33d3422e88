"""The command line of each process of OSMO Admin, for the supervisor, tests and container images."""

from __future__ import annotations

import sys
from pathlib import Path

WEB = "web"
WEBHOOK = "webhook"
WORKER = "worker"
BEAT = "beat"
CLUSTERS = "clusters"
WEB_WORKERS = 2
# Two for requests and one for an event stream (OSMO_EVENT_STREAMS). More threads only raise the latency, because they
# share one interpreter lock.
WEB_THREADS = 3
WORKER_PROCESSES = 2
# The folder for the shared counters of the web processes; it must be empty when they start.
METRICS_DIR = "PROMETHEUS_MULTIPROC_DIR"


def web_command(host: str, port: int, *, workers: int = WEB_WORKERS) -> list[str]:
    """Granian serving the WSGI application. A worker process that dies is restarted."""
    return [
        sys.executable, "-m", "granian", "--interface", "wsgi", "--host", host, "--port", str(port),
        "--workers", str(workers), "--blocking-threads", str(WEB_THREADS), "--no-ws",
        "--respawn-failed-workers", "--workers-kill-timeout", "3", "--log-level", "warning",
        "osmo_admin.wsgi:application",
    ]  # fmt: skip


def webhook_command(host: str, port: int, certificate: Path, key: Path) -> list[str]:
    """Granian serving the admission webhooks over TLS: the only address that Kubernetes calls."""
    return [
        sys.executable, "-m", "granian", "--interface", "wsgi", "--host", host, "--port", str(port),
        "--workers", "1", "--blocking-threads", "2", "--no-ws", "--respawn-failed-workers",
        "--workers-kill-timeout", "3", "--log-level", "warning", "--ssl-protocol-min", "tls1.2",
        "--ssl-certificate", str(certificate), "--ssl-keyfile", str(key), "osmo_admin.wsgi:webhooks",
    ]  # fmt: skip


def worker_command(*, processes: int = WORKER_PROCESSES) -> list[str]:
    """The Celery worker, without gossip and mingle, which only large fleets of workers need."""
    return [
        sys.executable, "-m", "celery", "--app", "osmo_admin.celery", "worker", "--pool", "prefork",
        "--concurrency", str(processes), "--without-gossip", "--without-mingle", "--loglevel", "INFO",
    ]  # fmt: skip


def beat_command() -> list[str]:
    """Celery beat. The supervisor's lock on the data directory keeps it single, so it needs no pid file."""
    return [
        sys.executable, "-m", "celery", "--app", "osmo_admin.celery", "beat", "--loglevel", "INFO", "--pidfile", "",
    ]  # fmt: skip


def clusters_command() -> list[str]:
    """The agents of Kubernetes backends. Without such a backend the process is idle."""
    return [sys.executable, "-m", "osmo_admin.clusters"]


def bootstrap_command(*arguments: str) -> list[str]:
    """Migrations, defaults and the first user, in one process that loads Django once."""
    return [sys.executable, "-m", "osmo_admin.bootstrap", *arguments]


def round_trip_command(url: str) -> list[str]:
    """One workflow through all parts, for `up --check`."""
    return [sys.executable, "-m", "osmo_admin.roundtrip", url]
