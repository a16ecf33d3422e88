"""Filling a house quickly: many pools, many live workflows. Rows go in with all triggers on, only not one by one."""

from __future__ import annotations

from django.db import connection

from bench.house import BACKEND


def backend() -> int:
    """An offline backend, so that nothing starts while admission is measured; its id."""
    from pools.models import Backend

    row, _ = Backend.objects.get_or_create(name=BACKEND, defaults={"namespace": "bench", "offline": True})
    return row.pk


def spread_ids() -> None:
    """Let pool ids begin where no other number is, so that a captured statement's pool can be told from its other
    numbers."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval(pg_get_serial_sequence('pools_pool', 'id'), 7000000)")


def pools(count: int, *, prefix: str, slices: int = 0, guarantee: int = 1000) -> list[str]:
    """Make `count` pools, each with `slices` ACTIVE slices; their names."""
    names = [f"{prefix}{number}" for number in range(count)]
    home = backend()
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO pools_pool
                (name, backend_id, description, guarantee, archived, enable_maintenance, config, version)
            SELECT name, %s, '', %s, false, false, '{}', 1 FROM unnest(%s::text[]) AS name
            """,
            [home, guarantee, names],
        )
        if slices:
            cursor.execute(
                """
                INSERT INTO pools_pool (name, parent_id, subpool_name, subpool_state, last_quota, description, archived,
                    enable_maintenance, config, version)
                SELECT parent.name || '--s' || number, parent.id, 's' || number, 'ACTIVE', %s, '', false, false, '{}', 1
                FROM pools_pool parent CROSS JOIN generate_series(1, %s) AS number WHERE parent.name = ANY(%s)
                """,
                [guarantee // (slices + 1), slices, names],
            )
    return names


def live_workflows(pool: str, count: int) -> None:
    """Put `count` PENDING workflows of one GPU on a pool's shared leaf."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('osmo.actor', 'bench', false)")
        cursor.execute(
            """
            WITH rows AS MATERIALIZED (
                SELECT gen_random_uuid() AS uuid, gen_random_uuid() AS part, 'filler-' || number AS name,
                    (SELECT id FROM pools_pool WHERE name = %s) AS pool, (SELECT id FROM pools_user LIMIT 1) AS person
                FROM generate_series(1, %s) AS number
            ), workflows AS (
                INSERT INTO scheduling_workflow (uuid, name, spec_name, pool_id, root_pool_id, submitted_by_id,
                priority,
                    status, failure_message, submit_time, labels, env_vars, tags, spec, template_spec, warnings,
                    cancelled_by, app_uuid, app_version)
                SELECT uuid, name, 'filler', pool, pool, person, 'NORMAL', 'PENDING', '', now(), '{}', '{}', '[]', '',
                '',
                    '[]', '', '', '' FROM rows
            ), parts AS (
                INSERT INTO scheduling_group (uuid, workflow_id, name, position, upstream, status, gpus,
                failure_message,
                    ready_at)
                SELECT part, uuid, 't-group', 0, '[]', 'SCHEDULING', 1, '', now() FROM rows
            ), tasks AS (
                INSERT INTO scheduling_task (uuid, group_id, name, retry_id, position, lead, status, gpu_count,
                cpu_count,
                    memory_bytes, storage_bytes, platform, nodes_excluded, node_name, failure_message)
                SELECT gen_random_uuid(), part, 't', 0, 0, true, 'SCHEDULING', 1, 0, 0, 0, 'default', '[]', '', ''
                FROM rows
            )
            INSERT INTO pools_reservation (workflow, workflow_name, pool_id, owner, priority, held_gpus, needed_gpus)
            SELECT uuid, name, pool, 'bench', 'NORMAL', 0, 1 FROM rows
            """,
            [pool, count],
        )
        cursor.execute(
            "INSERT INTO scheduling_workflowname (name, last_number) VALUES ('filler', %s)"
            " ON CONFLICT (name) DO UPDATE SET last_number = excluded.last_number",
            [count],
        )
        cursor.execute("VACUUM ANALYZE")


def draining_slices(count: int) -> None:
    """Slices that are DELETING with nothing live: what the monitor has to catch."""
    with connection.cursor() as cursor:
        for start in range(0, count, 100):
            names = pools(1, prefix=f"drain{start}x", slices=min(100, count - start), guarantee=10_000)
            cursor.execute(
                "UPDATE pools_pool SET subpool_state = 'DELETING' WHERE subpool_name IS NOT NULL AND name LIKE %s",
                [f"{names[0]}--%"],
            )
