"""The Celery application. Each app declares its periodic tasks in `tasks.py`; the database holds the schedule."""

from __future__ import annotations

import gc
import os
import signal
import time
from typing import Any

from celery import Celery
from celery.signals import beat_init, celeryd_init, heartbeat_sent, worker_init, worker_process_init, worker_ready
from django_structlog.celery.steps import DjangoStructLogInitStep
from kombu.transport import TRANSPORT_ALIASES

from osmo_admin.ops.programs.processes import request_death_signal

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
# Celery would run Django's checks at the start of a worker and of beat, and ignore what they find. They touch every
# model, and each touched page of memory is no longer shared with the other services.
os.environ.setdefault("CELERY_SKIP_CHECKS", "true")

# Each scheme of an address of Redis, Unix sockets (redis+socket) included.
TRANSPORT_ALIASES.update(dict.fromkeys(("redis", "rediss"), "osmo_admin.processes.broker:Transport"))

app = Celery("osmo_admin")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.steps["worker"].add(DjangoStructLogInitStep)  # request ids travel with the task


@celeryd_init.connect
def _begin_worker(**_: Any) -> None:
    _end_unless_fit("worker")


@beat_init.connect
def _begin_beat(**_: Any) -> None:
    _end_unless_fit("beat")


def _end_unless_fit(process: str) -> None:
    from osmo_admin.processes.start_checks import end_unless_fit  # noqa: PLC0415  (this module is loaded by Django's setup)

    end_unless_fit(process)


# Longer than any task: a worker all of whose tasks run longer does nothing more.
LONGEST_TASK_SECONDS = 1800.0


@worker_init.connect
def _show_life_of_worker(sender: Any, **_: Any) -> None:
    """Celery sends its heartbeat in the main loop of the worker."""
    from celery.worker import state  # noqa: PLC0415  (a web process needs none of it)

    from osmo_admin.monitoring.liveness import Liveness  # noqa: PLC0415  (Django's settings are loaded by now)

    def is_free() -> bool:
        try:
            began = [request.time_start or time.time() for request in state.active_requests]
        except RuntimeError:  # a task began or ended meanwhile
            return True
        return len(began) < sender.concurrency or time.time() - max(began) < LONGEST_TASK_SECONDS

    liveness = Liveness("worker", is_free)
    liveness.start()
    heartbeat_sent.connect(lambda **_: liveness.note_round(), weak=False)


@worker_ready.connect
def _report_about_worker(**_: Any) -> None:
    """Not before its processes are forked: one that is forked while a thread imports a module could never import it."""
    from django.conf import settings  # noqa: PLC0415  (they are loaded by now)

    from osmo_admin.doctor.reports import Reporter  # noqa: PLC0415  (Django's settings are loaded by now)
    from osmo_admin.processes.counter_page import serve_counters  # noqa: PLC0415  (a web process needs none of it)

    Reporter("worker").start()
    serve_counters(settings.OSMO.metrics_port)


@worker_process_init.connect
def _begin_process(**_: Any) -> None:
    request_death_signal(signal.SIGTERM, parent=os.getppid())  # a task of a dead worker is delivered again
    gc.freeze()  # loaded objects stay, so the garbage collector need not scan them during a task
