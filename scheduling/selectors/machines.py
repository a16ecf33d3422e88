"""What the nodes hold, and what running tasks take of it."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection

from pools.domain.node_sets import Place


@dataclass(frozen=True, slots=True)
class NodeUse:
    """One node and the sums over the tasks that run there. Memory and storage in bytes."""

    backend_id: int
    name: str
    platform: str
    gpus: int
    cpu: int
    memory_bytes: int
    storage_bytes: int
    used_gpus: int
    used_cpu: int
    used_memory: int
    used_storage: int


# A node's name is its own only on its backend, so tasks are told apart by their pool's backend.
_HELD = """
    SELECT root.backend_id, task.node_name, sum(task.gpu_count) AS gpus, sum(task.cpu_count) AS cpu,
        sum(task.memory_bytes) AS memory, sum(task.storage_bytes) AS storage
    FROM scheduling_task task
    JOIN scheduling_group gang ON gang.uuid = task.group_id
    JOIN scheduling_workflow work ON work.uuid = gang.workflow_id
    JOIN pools_pool root ON root.id = work.root_pool_id
    WHERE task.status = 'RUNNING'
    GROUP BY root.backend_id, task.node_name
"""


def gpus_by_place() -> dict[Place, tuple[int, int]]:
    """(GPUs there are, GPUs that running tasks take) of all nodes of each backend and platform; one query."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT node.backend_id, node.platform, sum(node.gpus), COALESCE(sum(held.gpus), 0)
            FROM pools_node node
            LEFT JOIN ({_HELD}) held ON held.backend_id = node.backend_id AND held.node_name = node.name
            GROUP BY node.backend_id, node.platform
            """
        )
        return {(backend, platform): (int(gpus), int(used)) for backend, platform, gpus, used in cursor.fetchall()}


def node_uses(name: str | None = None) -> list[NodeUse]:
    """Every node (or those of one name) by backend and name; one query."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT node.backend_id, node.name, node.platform, node.gpus, node.cpu, node.memory_bytes,
                node.storage_bytes, COALESCE(held.gpus, 0)::bigint, COALESCE(held.cpu, 0)::bigint,
                COALESCE(held.memory, 0)::bigint, COALESCE(held.storage, 0)::bigint
            FROM pools_node node
            LEFT JOIN ({_HELD}) held ON held.backend_id = node.backend_id AND held.node_name = node.name
            WHERE %(name)s::text IS NULL OR node.name = %(name)s
            ORDER BY node.backend_id, node.name COLLATE "C"
            """,
            {"name": name},
        )
        return [NodeUse(*row) for row in cursor.fetchall()]
