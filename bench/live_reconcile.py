"""Reconciling a large simulated backend: a full scheduling cycle, and one submission while 10,000 gangs wait.

1,000 nodes of 8 GPUs, 50 pools of 9 subpools (500 leaves), their quotas full; 10,000 gangs wait for quotas and nodes.
`cold` and `again` are full cycles in this process, `parts` their parts. `submission` is the time from the answer to a
submission until the workflow is RUNNING over HTTP, with free capacity. A start becomes visible when it is on the disk,
so `disk` is the time that the disk below the database took, in the same minutes, to confirm one independent page. With
`TMPDIR` in memory there is no disk, and only our own time remains.
"""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from django.db import connection

from bench import fill
from bench.installation import Installation
from bench.pgbench import workflow_file

POOLS, SUBPOOLS, NODES, GANGS = 50, 9, 1_000, 12_200
QUOTA = 14  # of each leaf; the quotas of all pools are less than the GPUs of the nodes
MOST_NODES = 200  # whole nodes that a wide gang requests; the quotas leave fewer free
SAMPLES = 250  # a minute and a half, so that full cycles of Celery beat come in between
TARGET_SECONDS = 1.0
PAGE, PROBE_SECONDS = b"0" * 8192, 0.05


def run(installation: Installation, *, seconds: int) -> dict[str, Any]:
    """Seconds of a full cycle, of a submission until it runs, and of the disk."""
    from scheduling.services.simulated.reconcile import reconcile_backend

    backend = _insert_cluster()
    _insert_work()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE pools_backend SET offline = false WHERE id = %s", [backend])
    cold = _time_call(lambda: reconcile_backend(backend, lock_timeout=600))
    os.sync()  # the disk may still be busy with the rows of the filling
    again = _time_call(lambda: reconcile_backend(backend, lock_timeout=600))
    parts, waiting, running = _time_parts(backend), _count_groups("SCHEDULING"), _count_groups("RUNNING")
    with _watch_disk(installation.data_dir) as disk:
        seen = _time_submissions(installation)
    return {
        "nodes": NODES,
        "leaves": POOLS * (SUBPOOLS + 1),
        "waiting": waiting,
        "running": running,
        "cold_seconds": cold[0],
        "steps": len(cold[1]["steps"]),
        "again_seconds": again[0],
        "parts_seconds": parts,
        "submission": seen | {"within_target": seen["worst_seconds"] <= TARGET_SECONDS},
        "disk": _summarize(disk),
    }


def _time_call(operation: Any) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = operation()
    return round(time.perf_counter() - begin, 2), result


def _time_parts(backend_id: int) -> dict[str, float]:
    from bench.engine import paused_cycle
    from pools.models import Backend
    from scheduling.selectors.queue.live_facts import read_live_facts

    reading, live = _time_call(lambda: read_live_facts(Backend.objects.get(pk=backend_id)))
    planning, _ = _time_call(lambda: paused_cycle(live.facts))
    return {"reading": reading, "planning": planning}


def _insert_cluster() -> int:
    from pools.models import Backend, Node

    row = Backend.objects.create(name="large", namespace="large", auto_end=False, offline=True)
    Node.objects.bulk_create([Node(backend=row, name=f"n{number:04}", gpus=8) for number in range(NODES)])
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH roots AS (
                INSERT INTO pools_pool
                    (name, backend_id, description, guarantee, archived, enable_maintenance, config, version)
                SELECT 'big' || number, %s, '', %s, false, false, '{}', 1 FROM generate_series(1, %s) AS number
                RETURNING id, name
            )
            INSERT INTO pools_pool (name, parent_id, subpool_name, subpool_state, last_quota, description, archived,
                enable_maintenance, config, version)
            SELECT name || '--s' || number, id, 's' || number, 'ACTIVE', %s, '', false, false, '{}', 1
            FROM roots CROSS JOIN generate_series(1, %s) AS number
            """,
            [row.pk, QUOTA * (SUBPOOLS + 1), POOLS, QUOTA, SUBPOOLS],
        )
    return row.pk


def _insert_work() -> None:
    """On all leaves in turn NORMAL gangs of 1 to 16 tasks, which fill the quotas and wait for them, and LOW gangs that
    request more whole nodes than are ever free. So some capacity stays free that no waiting gang can use."""
    suffixes = ["", *(f"--s{number}" for number in range(1, SUBPOOLS + 1))]
    leaves = [f"big{pool}{suffix}" for pool in range(1, POOLS + 1) for suffix in suffixes]
    tasks, gpus = [1, 1, 1, 2, 4, 4, 8, 16], [1, 2, 4, 8, 8, 2, 1, 1, 4]
    firm = [fill.PendingWorkload(leaves[n % len(leaves)], tasks[n % 8], gpus[n % 9], "NORMAL") for n in range(GANGS)]
    wide = [fill.PendingWorkload(leaves[n % len(leaves)], MOST_NODES, 8, "LOW") for n in range(20)]
    fill.insert_pending(firm + wide)


def _count_groups(status: str) -> int:
    from scheduling.models import Group

    return Group.objects.filter(status=status).count()


def _time_submissions(installation: Installation) -> dict[str, Any]:
    """One after another, each when the previous one runs."""
    found = []
    for number in range(SAMPLES):
        name = _post(installation, "pool/big1/workflow?priority=LOW", {"file": workflow_file(f"new{number}")})["name"]
        begin = time.perf_counter()
        while _get(installation, f"workflow/{name}?skip_groups=True")["status"] != "RUNNING":
            if time.perf_counter() - begin > 60:
                break
            time.sleep(0.01)
        found.append(time.perf_counter() - begin)
    return _summarize(found)


def _summarize(seconds: list[float]) -> dict[str, Any]:
    found = sorted(seconds)
    return {
        "samples": len(found),
        "p50_seconds": round(found[len(found) // 2], 3),
        "p99_seconds": round(found[len(found) * 99 // 100], 3),
        "worst_seconds": round(found[-1], 3),
    }


@contextmanager
def _watch_disk(folder: Path) -> Iterator[list[float]]:
    """Record how long the disk below this folder takes to confirm a page that is written repeatedly."""
    found: list[float] = []
    over = Event()
    with (folder / "probe").open("wb", buffering=0) as file:

        def probe_disk() -> None:
            while not over.wait(PROBE_SECONDS):
                file.seek(0)
                file.write(PAGE)
                begin = time.perf_counter()
                os.fdatasync(file.fileno())
                found.append(time.perf_counter() - begin)

        watching = Thread(target=probe_disk)
        watching.start()
        try:
            yield found
        finally:
            over.set()
            watching.join()


def _post(installation: Installation, path: str, body: dict[str, Any]) -> Any:
    return _send_request(installation, path, json.dumps(body).encode())


def _get(installation: Installation, path: str) -> Any:
    return _send_request(installation, path, None)


def _send_request(installation: Installation, path: str, body: bytes | None) -> Any:
    headers = {"Authorization": f"Bearer {installation.login()}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{installation.base_url}/api/{path}", data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)
