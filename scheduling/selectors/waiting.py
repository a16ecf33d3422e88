"""Gangs that wait for GPUs, with the gates they must pass and what their tasks need."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from uuid import UUID

from django.db import connection

from pools.domain import names
from pools.domain.quotas import UNLIMITED, PoolBalance, Usage
from pools.models import Pool
from scheduling.domain.admission import Gate
from scheduling.domain.placement import Need
from scheduling.domain.priorities import Priority
from scheduling.domain.starting import Path, WaitingGang, room
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Task

PAGE = 500


def leaf_ids(roots: Iterable[Pool]) -> dict[str, int]:
    """Row ids of the leaves of these trees by canonical name; the shared leaf goes by its pool's."""
    trees = list(roots)
    slices = Pool.objects.filter(parent__in=trees).values_list("name", "pk")
    return {root.name: root.pk for root in trees} | dict(slices)


def leaf_paths(facts: PoolBalance, ids: Mapping[str, int]) -> dict[int, Path]:
    """The gates of every leaf of a tree by its row id, from the leaf to the container (the scheduling view, D4)."""
    container = Gate(facts.name, facts.scheduling_quota, facts.used, facts.maximum, facts.total_usage)
    shared_name = names.canonical(facts.name, names.SHARED)
    leaves = [(facts.name, _leaf_gate(shared_name, facts.shared_scheduling_quota, facts.shared_usage))]
    for part in facts.slices:
        name = names.canonical(facts.name, part.name)
        leaves.append((name, _leaf_gate(name, part.scheduling_quota, part.usage)))
    # A slice made between the two reads has nothing waiting yet that could be missed.
    return {ids[name]: (gate, container) for name, gate in leaves if name in ids}


def _leaf_gate(name: str, quota: int, usage: Usage) -> Gate:
    return Gate(name, quota, usage.used, UNLIMITED, usage.total_usage)


def waiting_gangs(paths: Mapping[int, Path], *, free_gpus: int) -> Iterator[list[WaitingGang]]:
    """Waiting gangs of these leaves in the order they are served, a page at a time; those that are too large for what
    their path or the machines have left are not read at all."""
    firm = {leaf: room(path, preemptible=False, free_gpus=free_gpus) for leaf, path in paths.items()}
    low = {leaf: room(path, preemptible=True, free_gpus=free_gpus) for leaf, path in paths.items()}
    largest = max([*firm.values(), *low.values()], default=0)
    rank = {str(priority): -priority.value_in_kai for priority in Priority}
    for page in itertools.count():
        with connection.cursor() as cursor:
            cursor.execute(
                """
                SELECT gang.uuid, work.pool_id, work.priority, work.submit_time, gang.position, gang.gpus
                FROM scheduling_group gang
                JOIN scheduling_workflow work ON work.uuid = gang.workflow_id
                JOIN unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS leaf(id, firm, low) ON leaf.id = work.pool_id
                JOIN unnest(%s::text[], %s::integer[]) AS served(priority, rank) ON served.priority = work.priority
                WHERE gang.status = 'SCHEDULING' AND gang.gpus <= %s
                    AND gang.gpus <= CASE work.priority WHEN %s THEN leaf.low ELSE leaf.firm END
                ORDER BY served.rank, work.submit_time, gang.position, gang.uuid
                LIMIT %s OFFSET %s
                """,
                [
                    list(paths),
                    list(firm.values()),
                    list(low.values()),
                    list(rank),
                    list(rank.values()),
                    largest,
                    str(Priority.LOW),
                    PAGE,
                    page * PAGE,
                ],
            )
            rows = cursor.fetchall()
        if rows:
            yield [WaitingGang(uuid, leaf, Priority(priority), *rest) for uuid, leaf, priority, *rest in rows]
        if len(rows) < PAGE:
            return


def needs_of(gangs: Iterable[WaitingGang]) -> dict[UUID, Sequence[Need]]:
    """What the waiting tasks of these gangs ask of a machine, by gang; one query."""
    needs: dict[UUID, list[Need]] = defaultdict(list)
    tasks = Task.objects.filter(group__in=[gang.group for gang in gangs], status=TaskStatus.SCHEDULING)
    for task in tasks.order_by("group", "position"):
        needs[task.group_id].append(
            Need(
                task=str(task.pk),
                gpus=task.gpu_count,
                cpu=task.cpu_count,
                memory_bytes=task.memory_bytes,
                storage_bytes=task.storage_bytes,
                platform=task.platform,
                nodes_excluded=tuple(task.nodes_excluded),
            )
        )
    return dict(needs)
