"""The command line of each process of OSMO Admin, for the supervisor, tests and container images."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

WEB = "web"
WEBHOOK = "webhook"
WORKER = "worker"
BEAT = "beat"
CLUSTERS = "clusters"
WEB_WORKERS = 2
# The most of a process; a thread is started when it is needed. They share one interpreter lock, so more of them make
# nothing faster that computes.
WEB_THREADS = 8
WEBHOOK_THREADS = 2
WORKER_PROCESSES = 2
# Connections of one server process, with or without a request, and its other files: further ones wait to be accepted.
CONNECTIONS = 4096
OTHER_FILES = 256
# Milliseconds for the headers of a request, and for the pause before the next request on a connection.
HEADER_TIMEOUT_MS = 30_000
# For the cluster process: the file of the authority that signed the certificate of the webhook server.
WEBHOOK_AUTHORITY = "OSMO_WEBHOOK_AUTHORITY"
# The folder for the shared counters of the web processes; it must be empty when they start.
METRICS_DIR = "PROMETHEUS_MULTIPROC_DIR"
# The port at which worker and clusters answer /metrics with their own counters.
METRICS_PORT = "OSMO_METRICS_PORT"
# The address of the database with the role that owns the tables.
OWNER_URL = "OSMO_OWNER_DATABASE_URL"
# Variables that only the preparation of the database needs; no other process gets them.
SETUP_SECRETS = ("OSMO_ADMIN_PASSWORD", OWNER_URL, "POSTGRES_PASSWORD")


def web_command(host: str, port: int, *, workers: int = WEB_WORKERS) -> list[str]:
    """The web server."""
    return _server("osmo_admin.web.rsgi:application", host, port, workers)


def webhook_command(host: str, port: int, certificate: Path, key: Path, client_ca: Path | None = None) -> list[str]:
    """The server of the admission webhooks, over TLS: the only address that Kubernetes calls. `client_ca`: only clients
    with a certificate of this authority are served."""
    command = _server("osmo_admin.web.rsgi:webhooks", host, port, 1)
    command += ["--certificate", str(certificate), "--key", str(key)]
    return command if client_ca is None else [*command, "--client-ca", str(client_ca)]


def _server(target: str, host: str, port: int, workers: int) -> list[str]:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    connections = CONNECTIONS if hard == resource.RLIM_INFINITY else max(1, min(CONNECTIONS, hard - OTHER_FILES))
    return [
        sys.executable, "-m", "osmo_admin.web.serve_web", target, "--host", host, "--port", str(port),
        "--workers", str(workers), "--connections", str(connections),
    ]  # fmt: skip


def worker_command(*, processes: int = WORKER_PROCESSES) -> list[str]:
    """The Celery worker, without gossip and mingle, which only large fleets of workers need."""
    return [
        sys.executable, "-m", "celery", "--app", "osmo_admin.celery", "worker", "--pool", "prefork",
        "--concurrency", str(processes), "--without-gossip", "--without-mingle", "--loglevel", "INFO",
    ]  # fmt: skip


def beat_command() -> list[str]:
    """Celery beat. A lease in the database lets one of several work, so it needs no pid file."""
    return [
        sys.executable, "-m", "celery", "--app", "osmo_admin.celery", "beat", "--loglevel", "INFO", "--pidfile", "",
    ]  # fmt: skip


def clusters_command() -> list[str]:
    """The agents of Kubernetes backends. Without such a backend the process is idle."""
    return [sys.executable, "-m", "osmo_admin.processes.clusters"]


def bootstrap_command(*arguments: str) -> list[str]:
    """Migrations, defaults and the first user, in one process that loads Django once."""
    return [sys.executable, "-m", "osmo_admin.processes.bootstrap", *arguments]


def round_trip_command(url: str) -> list[str]:
    """One workflow through all parts, for `up --check`."""
    return [sys.executable, "-m", "osmo_admin.processes.roundtrip", url]
