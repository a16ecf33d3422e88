"""What it costs to keep the snapshot that a cycle had seen: one submission starts on a cluster with 200 nodes and 500
gangs that run, in turn with and without the row of the cycle. The reconciliation is called in this process."""

from __future__ import annotations

import time
from contextlib import nullcontext
from statistics import median
from typing import Any
from unittest.mock import patch

from django.db import connection

from bench import fill
from bench.installation import Installation
from bench.pgbench import workflow_file

NODES, RUNNING, SAMPLES = 200, 500, 300


def run(installation: Installation, *, seconds: int) -> dict[str, Any]:
    """Milliseconds of a reconciliation that starts one gang, of new work alone and of everything."""
    from pools.models import Backend, Node, Pool
    from scheduling.models import SchedulingCycle
    from scheduling.services import notifications
    from scheduling.services.simulated.dirty import Scope
    from scheduling.services.simulated.reconcile import reconcile_backend

    backend = Backend.objects.create(name="large", namespace="large", auto_end=False)
    Node.objects.bulk_create([Node(backend=backend, name=f"n{number:03}", gpus=16) for number in range(NODES)])
    Pool.objects.create(name="big", backend=backend, guarantee=NODES * 16)
    with patch.object(notifications, "_enqueue", lambda *_: None):  # the worker would start it first
        fill.insert_pending([fill.PendingWorkload("big")] * RUNNING)
        reconcile_backend(backend.pk, lock_timeout=60)
        found = {
            "new_work": _compare(backend.pk, Scope.HINT),
            "everything": _compare(backend.pk, Scope.THOROUGH),
        }
    with connection.cursor() as cursor:
        cursor.execute("SELECT avg(pg_column_size(row.*))::int FROM scheduling_schedulingcycle row")
        size = cursor.fetchone()[0]
    return {
        "nodes": NODES,
        "running": RUNNING,
        "samples": SAMPLES,
        **found,
        "row_bytes": size,
        "rows": SchedulingCycle.objects.filter(backend=backend).count(),
    }


def _compare(backend: int, scope: Any) -> dict[str, float]:
    """The medians with the row and without, in turn."""
    took: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * SAMPLES):
        keeps = number % 2 == 0
        _time_start(backend, scope, took[keeps], f"{scope}{number}", keeps=keeps)
    with_row, without = (1000 * median(took[keeps]) for keeps in (True, False))
    return {
        "with_ms": round(with_row, 2),
        "without_ms": round(without, 2),
        "percent": round(100 * (with_row / without - 1), 1),
    }


def _time_start(backend: int, scope: Any, took: list[float], name: str, *, keeps: bool) -> None:
    from pools.models import User
    from scheduling.services.simulated import reconcile
    from scheduling.services.workflows.submission import Submission, submit

    actor = User.objects.get(username="admin").as_actor()
    submit(actor=actor, pool="big", submission=Submission(file=workflow_file(name)))
    without = nullcontext() if keeps else patch.object(reconcile, "seen_by_cycle", lambda *_: None)
    with without:
        begin = time.perf_counter()
        answer = reconcile.reconcile_backend(backend, scope=scope, lock_timeout=60)
        elapsed = time.perf_counter() - begin
    if len(answer["steps"]) == 1:  # else a periodic cycle of the worker was first
        took.append(elapsed)
