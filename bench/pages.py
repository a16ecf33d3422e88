"""The time to the first byte of each page on a large installation: `python -m bench pages`.

1,000 pools of 20 subpools on a cluster of 500 nodes, and 100,000 workflows of which 2,000 wait. The pools and nodes are
three hours old, and the record of use has closed these hours. Each page is rendered
in this process, through all middlewares, by a platform admin and by a researcher. A row is the median of five requests
after the first one, in milliseconds, with its number of SQL statements and the size of the page.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection

from bench import fill
from bench.installation import Installation
from bench.statements import counted_statements
from osmo_admin.ops.stores.postgres import SUPERUSER
from pools.domain.changes.users import CreateUser

POOLS, SUBPOOLS, NODES, WAITING, ENDED = 1000, 20, 500, 2_000, 98_000
HOURS_ON_RECORD = 3
REQUESTS = 5
TARGET_MS = 150
PAGES = {
    "home": "/",
    "pools": "/pools",
    "pools by name": "/pools?q=large77",
    "pool": "/pools/large7",
    "quota tree": "/cohorts",
    "tree node": "/pools/large7/quota",
    "workflows": "/workflows",
    "workflows of a pool": "/workflows?pool=large7",
    "workflows waiting": "/workflows?status=PENDING",
    "workflow": "/workflows/filler-2",
    "queue": "/queue",
    "queue of a pool": "/queue/large7",
    "submit": "/submit",
    "nodes": "/nodes?backend=large",
    "node": "/nodes/large/n0001",
    "usage": "/usage",
    "scheduler events": "/activity",
    "audit": "/activity/audit",
    "users": "/users",
    "new user": "/users/-/create",
    "tokens": "/tokens",
    "clusters": "/clusters",
    "cluster": "/clusters/large",
    "search": "/api/search?q=large7",
    "record of use (REST)": "/api/usage",
    "metrics": "/metrics",
}
NO_PAGES = {"record of use (REST)", "metrics"}
"""Measured with the pages, without their target."""


def run(installation: Installation, *, seconds: int) -> dict[str, Any]:
    """Every page: median milliseconds, statements, kilobytes; `over` names the pages above the target."""
    _fill()
    rows = {who: _measure(who) for who in ("admin", "rita")}
    over = sorted(
        {f"{who}: {name}" for who, pages in rows.items() for name, row in pages.items() if row["ms"] > TARGET_MS}
        - {f"{who}: {name}" for who in rows for name in NO_PAGES}
    )
    return {"target_ms": TARGET_MS, **rows, "over": over}


def _measure(username: str) -> dict[str, Any]:
    from django.test import Client

    from pools.models import User

    client = Client()
    client.force_login(User.objects.get(username=username), "django.contrib.auth.backends.ModelBackend")
    rows = {}
    for name, address in PAGES.items():
        with counted_statements() as count:
            answer = client.get(address)
        if answer.status_code != 200:
            continue  # not for this reader
        times = []
        for _ in range(REQUESTS):
            begin = time.perf_counter()
            answer = client.get(address)
            times.append(1000 * (time.perf_counter() - begin))
        size = round(len(answer.content) / 1000)
        rows[name] = {"ms": round(statistics.median(times)), "statements": count(), "kB": size}
    return rows


def _fill() -> None:
    from django.conf import settings

    from pools.domain.people.roles import SYSTEM
    from pools.models import Backend, Node
    from pools.services.people.users import create_user
    from scheduling.services.usage import close_hours

    settings.ALLOWED_HOSTS = ["testserver"]
    backend = Backend.objects.create(name="large", namespace="large", offline=True)
    Node.objects.bulk_create([Node(backend=backend, name=f"n{number:04}", gpus=8) for number in range(NODES)])
    names = fill.insert_pools(POOLS, prefix="large", subpools=SUBPOOLS, on=backend.pk)
    create_user(CreateUser(id="rita", roles=["osmo-large7-user", "osmo-large8-user"]), actor=SYSTEM)
    fill.insert_pending([fill.PendingWorkload(f"{names[number % POOLS]}--s1") for number in range(WAITING)])
    with _superuser_session() as cursor:
        # Ended work of the past weeks: rows as they are after their end, without the triggers of a life.
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(
            """
            WITH rows AS MATERIALIZED (
                SELECT gen_random_uuid() AS uuid, 'ended-' || number AS name, one.uuid AS like_workflow,
                    now() - number * interval '30 seconds' AS at
                FROM generate_series(1, %s) AS number
                JOIN (SELECT uuid, row_number() OVER () AS place FROM scheduling_workflow) one
                    ON one.place = 1 + number %% %s
            ), workflows AS (
                INSERT INTO scheduling_workflow SELECT made.* FROM rows
                JOIN scheduling_workflow model ON model.uuid = like_workflow
                CROSS JOIN LATERAL jsonb_populate_record(model, jsonb_build_object('uuid', rows.uuid, 'name', rows.name,
                    'status', 'COMPLETED', 'submit_time', at - interval '1 hour', 'start_time', at - interval '50 min',
                    'end_time', at)) AS made
            )
            INSERT INTO scheduling_group SELECT made.* FROM rows
            JOIN scheduling_group model ON model.workflow_id = like_workflow
            CROSS JOIN LATERAL jsonb_populate_record(model, jsonb_build_object('uuid', gen_random_uuid(),
                'workflow_id', rows.uuid, 'status', 'COMPLETED', 'start_time', at - interval '50 min', 'end_time', at))
                AS made
            """,
            [ENDED, WAITING],
        )
        for spans in ("quotaspan", "nodespan", "offlinespan"):
            cursor.execute(f"UPDATE scheduling_{spans} SET since = since - interval '{HOURS_ON_RECORD} hours'")
        cursor.execute("UPDATE scheduling_usageprogress SET closed_until = NULL")
        cursor.execute("VACUUM ANALYZE")
    close_hours()


@contextmanager
def _superuser_session() -> Iterator[psycopg.Cursor[Any]]:
    """A session of the superuser of the embedded server, who may switch triggers off."""
    known = connection.get_connection_params()
    address = {name: known[name] for name in ("host", "port", "dbname") if name in known}
    with psycopg.connect(**address, user=SUPERUSER, autocommit=True) as session, session.cursor() as cursor:
        yield cursor
