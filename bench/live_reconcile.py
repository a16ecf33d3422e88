"""Settling a large simulated backend: all of it, and one submission into a state in which 10,000 gangs wait.

1,000 nodes of 8 GPUs, 50 pools of 9 slices (500 leaves), their quotas full; 10,000 gangs wait for quotas and room.
`full`: one settling of everything in this process, its parts apart. `submission`: seconds from the answer to a
submission until the workflow is seen RUNNING over HTTP, with room for it. A start is seen when it is on the disk, so
`disk` tells how long, in the same minutes, the disk below the database took to confirm one page that nothing depends
on. With `TMPDIR` in memory there is no disk, and what is left is our own.
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

POOLS, SLICES, NODES, GANGS = 50, 9, 1_000, 12_200
QUOTA = 14  # of each leaf; the pools' guarantees together are less than what the nodes have
MOST_NODES = 200  # whole nodes that a wide gang asks for; fewer are left by the quotas
SAMPLES = 250  # a minute and a half of them: the beat's looks at everything come in between
TARGET_SECONDS = 1.0
PAGE, PROBE_SECONDS = b"0" * 8192, 0.05


def run(house: Installation, *, seconds: int) -> dict[str, Any]:
    """Seconds of a full settling, of being seen, and of the disk."""
    from scheduling.services.simulated.reconcile import reconcile_backend

    backend = _cluster()
    _work()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE pools_backend SET offline = false WHERE id = %s", [backend])
    cold = _timed(lambda: reconcile_backend(backend, lock_timeout=600))
    os.sync()  # else the disk is still busy with what the filling wrote
    again = _timed(lambda: reconcile_backend(backend, lock_timeout=600))
    parts, waiting, running = _parts(backend), _count("SCHEDULING"), _count("RUNNING")
    with _disk_watched(house.data_dir) as disk:
        seen = _submissions(house)
    return {
        "nodes": NODES,
        "leaves": POOLS * (SLICES + 1),
        "waiting": waiting,
        "running": running,
        "cold_seconds": cold[0],
        "steps": len(cold[1]["steps"]),
        "again_seconds": again[0],
        "parts_seconds": parts,
        "submission": seen | {"within_target": seen["worst_seconds"] <= TARGET_SECONDS},
        "disk": _tail(disk),
    }


def _timed(deed: Any) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = deed()
    return round(time.perf_counter() - begin, 2), result


def _parts(backend_id: int) -> dict[str, float]:
    from bench.engine import paused_cycle
    from pools.models import Backend
    from scheduling.selectors.live_facts import read_live_facts

    reading, live = _timed(lambda: read_live_facts(Backend.objects.get(pk=backend_id)))
    planning, _ = _timed(lambda: paused_cycle(live.facts))
    return {"reading": reading, "planning": planning}


def _cluster() -> int:
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
            [row.pk, QUOTA * (SLICES + 1), POOLS, QUOTA, SLICES],
        )
    return row.pk


def _work() -> None:
    """On all leaves in turn firm gangs of 1 to 16 tasks, which fill the quotas and wait for them; and LOW ones that ask
    for more whole nodes than are ever free. So some room is left that nobody who waits can use."""
    slices = ["", *(f"--s{number}" for number in range(1, SLICES + 1))]
    leaves = [f"big{pool}{short}" for pool in range(1, POOLS + 1) for short in slices]
    tasks, gpus = [1, 1, 1, 2, 4, 4, 8, 16], [1, 2, 4, 8, 8, 2, 1, 1, 4]
    firm = [fill.PendingWorkload(leaves[n % len(leaves)], tasks[n % 8], gpus[n % 9], "NORMAL") for n in range(GANGS)]
    wide = [fill.PendingWorkload(leaves[n % len(leaves)], MOST_NODES, 8, "LOW") for n in range(20)]
    fill.insert_pending(firm + wide)


def _count(status: str) -> int:
    from scheduling.models import Group

    return Group.objects.filter(status=status).count()


def _submissions(house: Installation) -> dict[str, Any]:
    """One after another, each when the one before is seen."""
    found = []
    for number in range(SAMPLES):
        name = _post(house, "pool/big1/workflow?priority=LOW", {"file": workflow_file(f"new{number}")})["name"]
        begin = time.perf_counter()
        while _get(house, f"workflow/{name}?skip_groups=True")["status"] != "RUNNING":
            if time.perf_counter() - begin > 60:
                break
            time.sleep(0.01)
        found.append(time.perf_counter() - begin)
    return _tail(found)


def _tail(seconds: list[float]) -> dict[str, Any]:
    found = sorted(seconds)
    return {
        "samples": len(found),
        "p50_seconds": round(found[len(found) // 2], 3),
        "p99_seconds": round(found[len(found) * 99 // 100], 3),
        "worst_seconds": round(found[-1], 3),
    }


@contextmanager
def _disk_watched(folder: Path) -> Iterator[list[float]]:
    """Note how long the disk below this folder takes to confirm a page that is written over and over."""
    found: list[float] = []
    over = Event()
    with (folder / "probe").open("wb", buffering=0) as file:

        def watch() -> None:
            while not over.wait(PROBE_SECONDS):
                file.seek(0)
                file.write(PAGE)
                begin = time.perf_counter()
                os.fdatasync(file.fileno())
                found.append(time.perf_counter() - begin)

        watching = Thread(target=watch)
        watching.start()
        try:
            yield found
        finally:
            over.set()
            watching.join()


def _post(house: Installation, path: str, body: dict[str, Any]) -> Any:
    return _ask(house, path, json.dumps(body).encode())


def _get(house: Installation, path: str) -> Any:
    return _ask(house, path, None)


def _ask(house: Installation, path: str, body: bytes | None) -> Any:
    headers = {"Authorization": f"Bearer {house.login()}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{house.base_url}/api/{path}", data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)
