"""Filling an installation quickly: many pools, many active workflows. All triggers are on; the inserts are bulk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection

from bench.installation import BACKEND


def ensure_backend() -> int:
    """An offline backend, so that nothing starts while admission is measured; its id."""
    from pools.models import Backend

    row, _ = Backend.objects.get_or_create(name=BACKEND, defaults={"namespace": "bench", "offline": True})
    return row.pk


def offset_pool_ids() -> None:
    """Let pool ids begin at a large number, so that a pool id in a captured statement differs from other numbers."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval(pg_get_serial_sequence('pools_pool', 'id'), 7000000)")


def insert_pools(
    count: int, *, prefix: str, subpools: int = 0, guarantee: int = 1000, on: int | None = None
) -> list[str]:
    """Make `count` pools, each with `subpools` ACTIVE subpools, on this backend (or the bench's); their names."""
    names = [f"{prefix}{number}" for number in range(count)]
    backend_id = ensure_backend() if on is None else on
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO pools_pool
                (name, backend_id, description, guarantee, archived, enable_maintenance, config, version)
            SELECT name, %s, '', %s, false, false, '{}', 1 FROM unnest(%s::text[]) AS name
            """,
            [backend_id, guarantee, names],
        )
        if subpools:
            cursor.execute(
                """
                INSERT INTO pools_pool (name, parent_id, subpool_name, subpool_state, last_quota, description, archived,
                    enable_maintenance, config, version)
                SELECT parent.name || '--s' || number, parent.id, 's' || number, 'ACTIVE', %s, '', false, false, '{}', 1
                FROM pools_pool parent CROSS JOIN generate_series(1, %s) AS number WHERE parent.name = ANY(%s)
                """,
                [guarantee // (subpools + 1), subpools, names],
            )
    return names


@dataclass(frozen=True, slots=True)
class PendingWorkload:
    """A workflow of one waiting gang: some tasks of equal GPUs, on a pool or subpool."""

    pool: str
    tasks: int = 1
    gpus: int = 1
    priority: str = "NORMAL"


def insert_live_workflows(pool: str, count: int) -> None:
    """Put `count` PENDING workflows of one GPU on a pool's shared leaf."""
    insert_pending([PendingWorkload(pool)] * count)


def insert_pending(work: Sequence[PendingWorkload]) -> None:
    """Put these on their pools, submitted a second apart up to now.

    The first is submitted, the others are copies of its rows, so that this module does not depend on their columns.
    """
    from pools.models import User
    from scheduling.services.workflows.submission import Submission, submit

    first = work[0]
    actor = User.objects.get(username="admin").as_actor()
    receipt = submit(actor=actor, pool=first.pool, submission=Submission(file=_FILE))
    assert receipt.workflow is not None
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('osmo.actor', 'bench', false)")
        cursor.execute(
            """
            WITH rows AS MATERIALIZED (
                SELECT gen_random_uuid() AS uuid, gen_random_uuid() AS part, 'filler-' || number AS name,
                    pool.id AS leaf, COALESCE(pool.parent_id, pool.id) AS root, priority, tasks, gpus,
                    now() - (%s - number) * interval '1 second' AS at
                FROM unnest(%s::text[], %s::text[], %s::int[], %s::int[]) WITH ORDINALITY
                    AS requested (pool_name, priority, tasks, gpus, number)
                JOIN pools_pool pool ON pool.name = requested.pool_name
                WHERE number > 1
            ), workflows AS (
                INSERT INTO scheduling_workflow SELECT made.* FROM rows
                JOIN scheduling_workflow first ON first.uuid = %s
                CROSS JOIN LATERAL jsonb_populate_record(first, jsonb_build_object('uuid', rows.uuid, 'name', rows.name,
                    'pool_id', leaf, 'root_pool_id', root, 'priority', rows.priority, 'submit_time', at)) AS made
            ), parts AS (
                INSERT INTO scheduling_group SELECT made.* FROM rows
                JOIN scheduling_group first ON first.workflow_id = %s
                CROSS JOIN LATERAL jsonb_populate_record(first, jsonb_build_object('uuid', part,
                    'workflow_id', rows.uuid, 'gpus', tasks * rows.gpus, 'ready_at', at)) AS made
            ), tasks AS (
                INSERT INTO scheduling_task SELECT made.* FROM rows CROSS JOIN LATERAL generate_series(1, tasks) AS n
                JOIN scheduling_task first
                    ON first.group_id IN (SELECT uuid FROM scheduling_group WHERE workflow_id = %s)
                CROSS JOIN LATERAL jsonb_populate_record(first, jsonb_build_object('uuid', gen_random_uuid(),
                    'group_id', part, 'name', 't' || n, 'position', n, 'lead', n = 1, 'gpu_count', rows.gpus)) AS made
            )
            INSERT INTO pools_reservation SELECT made.* FROM rows
            JOIN pools_reservation first ON first.workflow = %s
            CROSS JOIN LATERAL jsonb_populate_record(first, jsonb_build_object('workflow', rows.uuid, 'pool_id', leaf,
                'workflow_name', rows.name, 'priority', rows.priority, 'needed_gpus', tasks * rows.gpus)) AS made
            """,
            [
                len(work),
                [each.pool for each in work],
                [each.priority for each in work],
                [each.tasks for each in work],
                [each.gpus for each in work],
                *[receipt.workflow.pk] * 4,
            ],
        )
        cursor.execute("UPDATE scheduling_workflowname SET last_number = %s WHERE name = 'filler'", [len(work)])
        cursor.execute("VACUUM ANALYZE")


_FILE = """workflow:
  name: filler
  resources: {default: {gpu: 1}}
  tasks: [{name: t, image: ubuntu, command: [sh]}]
"""


def insert_draining_subpools(count: int) -> None:
    """Subpools that are DELETING without active work, which the monitor has to archive."""
    with connection.cursor() as cursor:
        for start in range(0, count, 100):
            names = insert_pools(1, prefix=f"drain{start}x", subpools=min(100, count - start), guarantee=10_000)
            cursor.execute(
                "UPDATE pools_pool SET subpool_state = 'DELETING' WHERE subpool_name IS NOT NULL AND name LIKE %s",
                [f"{names[0]}--%"],
            )
