"""The process that loads the program once for all: `python -m osmo_admin.processes.preloaded FD`.

`osmo-admin up` starts it, and asks it for each service over the socket FD. It forks, so a service begins with
everything loaded: it starts in milliseconds, and its memory is shared with the others until it is written to. A service
becomes a child of the supervisor (which is a subreaper), so the end of this process does not end any service.

One request and one answer are lines of JSON: `{"name", "module", "arguments", "env", "log"}` → `{"pid"}`.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from cryptography.fernet import Fernet
from django.apps import apps
from django.conf import settings
from django.db.migrations.loader import MigrationLoader
from django.urls import reverse
from psycopg.conninfo import make_conninfo

# The title stays within the arguments: orphans of an installation are found by the environment of a process.
os.environ["SPT_NOENV"] = "1"
from setproctitle import setproctitle

from osmo_admin.ops.programs.processes import request_death_signal

# Everything that a service loads before it begins. The module of a service itself is run and not loaded.
MODULES = (
    "osmo_admin.web.rsgi",
    "osmo_admin.urls",
    "billiard.heap",
    "billiard.popen_fork",
    "billiard.sharedctypes",
    "celery.bin.celery",
    "celery.app.amqp",
    "celery.app.control",
    "celery.app.events",
    "celery.app.log",
    "celery.app.routes",
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.concurrency.prefork",
    "celery.contrib.django.task",
    "celery.events.dispatcher",
    "celery.events.receiver",
    "celery.worker.autoscale",
    "celery.worker.components",
    "celery.worker.consumer",
    "celery.worker.consumer.delayed_delivery",
    "celery.worker.strategy",
    "cffi.cparser",  # billiard declares a function of C with it in each process of the worker
    "osmo_admin.processes.beat",
    "osmo_admin.processes.broker",
    "scheduling.services.kubernetes.agent",
    "scheduling.services.kubernetes.cluster_workers",
    "osmo_admin.celery",
    "granian.server.mp",
)


def main() -> None:
    """Load, then fork a service for each request, until the supervisor closes the socket."""
    supervisor = os.getppid()
    requests = socket.socket(fileno=int(sys.argv[1]))
    _load()
    with requests, requests.makefile("r", encoding="utf-8") as lines:
        for line in lines:
            request = json.loads(line)
            pid = _fork_service(supervisor, requests)
            if pid is None:
                break
            requests.sendall(json.dumps({"pid": pid}).encode() + b"\n")
        else:
            return
    _become_service(request)


def _load() -> None:
    _leave_out_terminals()
    _build_static_files()
    for module in MODULES:
        __import__(module)
    app = sys.modules["osmo_admin.celery"].app
    app.loader.import_default_modules()
    app.finalize()
    _compute_once()
    if threading.active_count() > 1:
        raise RuntimeError(f"A module started a thread while it was loaded: {threading.enumerate()}.")
    gc.collect()
    gc.freeze()  # a collection in a service would write to the shared memory of these objects


def _leave_out_terminals() -> None:
    """What libraries load for people at a terminal, 14 MB that no service uses: `celery amqp` as a shell, and coloured
    tracebacks of structlog, which does without them where they are not installed."""

    def register_repl(*_: Any, **__: Any) -> None: ...

    shell = ModuleType("click_repl")
    vars(shell).update(register_repl=register_repl)
    sys.modules["click_repl"] = shell
    sys.modules["rich"] = None  # type: ignore[assignment]  # an import of it fails as if it were not installed


def _build_static_files() -> None:
    """The settings name the build of static files that exists when they are read, so on a first start it is made before
    that, by a process of its own. If it fails, the sources are sent, and the log says why."""
    from osmo_admin import settings as first_reading  # noqa: PLC0415  # with the environment of the services

    if first_reading.STATIC_ROOT is None:
        subprocess.run([sys.executable, "-m", "osmo_admin.web.static_build"], check=False)
        importlib.reload(first_reading)


def _compute_once() -> None:
    """What each service would compute at its first use, and so keep in memory of its own."""
    reverse("openapi")  # the table of all addresses
    MigrationLoader(None)  # each service compares the applied migrations with these files
    for model in apps.get_models():
        str(model._base_manager.order_by("pk").query)  # without a query
        str(model._base_manager.select_related().query)  # what a first JOIN reads of the fields
    make_conninfo(dbname="of any connection")
    entry_points(group="celery.beat_schedulers")  # reads what each installed distribution offers
    Fernet(Fernet.generate_key()).encrypt(b"any text")  # loads the providers of OpenSSL
    # Logs are configured. Celery and the agents set Django up once more, which would write to each logger.
    settings.LOGGING_CONFIG = None


def _fork_service(supervisor: int, requests: socket.socket) -> int | None:
    """The process id of the new service here; None in the service.

    The process between the two ends at once, so the system gives the service to the supervisor.
    """
    receiver, sender = os.pipe()
    between = os.fork()
    if between:
        os.close(sender)
        with os.fdopen(receiver) as answer:
            pid = int(answer.read())
        os.waitpid(between, 0)
        return pid
    os.close(receiver)
    service = os.fork()
    if service:
        os.write(sender, str(service).encode())
        os._exit(0)
    os.close(sender)
    while os.getppid() not in (supervisor, 1):
        os.sched_yield()  # the process between has not ended yet
    request_death_signal(signal.SIGTERM, parent=supervisor)
    return None


def _become_service(request: dict[str, Any]) -> None:
    """Run the module of the service as if `python -m MODULE` had started it."""
    os.setsid()
    output = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    setproctitle(f"osmo-admin {request['name']}")  # for ps and top; it needs the first environment
    os.environ.clear()
    os.environ.update(request["env"])
    os.environ.setdefault("CELERY_SKIP_CHECKS", "true")  # as `osmo_admin.celery` did before the fork
    sys.argv = [request["module"], *request["arguments"]]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
