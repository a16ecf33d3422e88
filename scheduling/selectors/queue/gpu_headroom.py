"""Waiting gangs that the GPU quota of their pool's namespace holds back, with the reason.

They are read without locks and excluded from the plan. A start is checked again under the locks
(:mod:`scheduling.services.workflows.gpu_workers`). A gang whose tasks start together needs headroom for all of them, an
elastic gang for its minimum, and a running gang for one more task.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from pools.database.prepared import read_rows
from pools.database.statements import execute_sql
from pools.domain.gpu_quota.checks import BrokenCap, GpuQuotaSpec, broken_single_caps, broken_total_caps
from pools.domain.gpu_quota.pool_settings import GPU_NAMESPACE, gpu_namespace_of, worker_for_task
from pools.domain.gpu_quota.workers import GpuAmounts, GpuWorker, WorkerTotals, totals_of_worker, totals_of_workers
from pools.domain.values.quantities import Quantity
from pools.models import Pool
from pools.selectors.gpu_namespace import GpuNamespace, read_namespaces
from scheduling.domain.engine.facts import StartHold
from scheduling.domain.gang import DEFAULT_SUB_GROUP, GangTree, tree_from_json
from scheduling.domain.reason_codes import ReasonCode
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES, TaskStatus

"""The code of the reason."""

_WAITING = (TaskStatus.SUBMITTING, TaskStatus.PROCESSING, TaskStatus.SCHEDULING)
_PLACED = (TaskStatus.INITIALIZING, TaskStatus.RUNNING)
_TASKS_SQL = """
    SELECT gang.uuid, work.root_pool_id, gang.gang, bool_or(task.status = ANY(%(placed)s)),
        jsonb_agg(jsonb_build_array(task.sub_group, task.platform, task.gpu_count) ORDER BY task.position)
            FILTER (WHERE task.status = ANY(%(waiting)s))
    FROM scheduling_workflow work
    JOIN scheduling_group gang ON gang.workflow_id = work.uuid
    JOIN scheduling_task task ON task.group_id = gang.uuid AND task.dispatched_at IS NULL
    WHERE work.root_pool_id = ANY(%(roots)s) AND work.status = ANY(%(live)s)
        AND task.status = ANY(%(open)s) AND gang.status = ANY(%(open)s)
    GROUP BY gang.uuid, work.root_pool_id
"""


@dataclass(frozen=True, slots=True)
class _BoundPool:
    """A pool whose work counts in a namespace with a quota."""

    root: Pool
    namespace: GpuNamespace
    spec: GpuQuotaSpec

    def worker(self, platform: str, gpus: int) -> GpuWorker:
        """A task of this size, with the defaults of the namespace."""
        return self.spec.with_defaults(worker_for_task(self.root.platforms.get(platform) or {}, gpus))


def read_gpu_holds(roots: Iterable[Pool], *, whole: bool = False) -> dict[UUID, StartHold]:
    """The reasons why namespaces hold gangs back, by the id of the gang. Three queries, none if no pool names a
    namespace with a quota. `whole`: all tasks of a gang are dispatched to a cluster at once, also of an elastic
    gang."""
    named = {root.pk: (root, gpu_namespace_of(root.config)) for root in roots if gpu_namespace_of(root.config)}
    facts = read_namespaces(name for _, name in named.values()) if named else {}
    bound = {
        pk: _BoundPool(root, facts[name], facts[name].spec)
        for pk, (root, name) in named.items()
        if facts[name].quota is not None
    }
    if not bound:
        return {}
    parameters: dict[str, list[Any]] = {
        "placed": list(_PLACED),
        "waiting": list(_WAITING),
        "open": [*_WAITING, *_PLACED],
        "roots": list(bound),
        "live": sorted(ACTIVE_WORKFLOW_STATUSES),
    }
    rows = execute_sql(_TASKS_SQL, parameters).fetchall()
    known: dict[tuple[Any, ...], StartHold | None] = {}  # equal gangs are checked once
    found = {}
    for group, root_id, tree, runs, shapes in rows:
        if shapes is None:
            continue
        shape_key = (root_id, tree, runs, shapes)
        if shape_key not in known:
            known[shape_key] = _find_hold(
                bound[root_id], None if whole else tree, json.loads(shapes), runs=runs and not whole
            )
        if (hold := known[shape_key]) is not None:
            found[group] = hold
    return found


def _find_hold(
    bound: _BoundPool, tree: str | None, shapes: Sequence[tuple[str, str, int]], *, runs: bool
) -> StartHold | None:
    waiting = _WaitingTasks(bound, shapes)
    if not waiting.workers:
        return None
    plain = json.loads(tree) if tree else None
    if plain is None and not runs:
        broken = waiting.broken_by_all()
    elif runs:
        broken = waiting.broken_by_one()
    else:
        broken = waiting.broken_by_least(tree_from_json(plain, len(shapes)))
    return _build_hold(bound.namespace.name, broken[0]) if broken else None


class _WaitingTasks:
    """The waiting tasks of one gang."""

    def __init__(self, bound: _BoundPool, shapes: Sequence[tuple[str, str, int]]) -> None:
        self._spec, self._used = bound.spec, bound.namespace.committed_and_assumed
        self._groups = [group or DEFAULT_SUB_GROUP for group, _, _ in shapes]
        self._all = [bound.worker(platform, gpus) if gpus else None for _, platform, gpus in shapes]

    @cached_property
    def workers(self) -> list[GpuWorker]:
        """The tasks with GPUs; the others are not workers."""
        return [worker for worker in self._all if worker is not None]

    def broken_by_all(self) -> list[BrokenCap]:
        """The caps that keep all tasks from starting together."""
        single = [broken for worker in self.workers for broken in broken_single_caps(self._spec, worker)]
        return [*single, *broken_total_caps(self._spec, self._used, totals_of_workers(self.workers))]

    def broken_by_one(self) -> list[BrokenCap]:
        """The caps that keep even the smallest task from starting."""
        found = [
            [*broken_single_caps(self._spec, each), *broken_total_caps(self._spec, self._used, totals_of_worker(each))]
            for each in self.workers
        ]
        return min(found, key=len)

    def broken_by_least(self, tree: GangTree) -> list[BrokenCap]:
        """The caps that keep the minimum of the tree from starting: pods that are too large in every choice, or totals
        that every choice exceeds."""
        if large := self._single_caps_in_every_choice(tree):
            return large
        smallest: dict[int, list[int]] = {}
        for group, worker in zip(self._groups, self._all, strict=True):
            leaf = tree.index.get(group)
            if leaf is None:
                continue
            amounts = _milli_amounts(worker)
            known = smallest.setdefault(leaf, amounts)
            smallest[leaf] = [min(pair) for pair in zip(known, amounts, strict=True)]
        needs = [tree.min_amount({leaf: amounts[index] for leaf, amounts in smallest.items()}) for index in range(5)]
        more = WorkerTotals(
            GpuAmounts(Quantity(needs[0]), Quantity(needs[1])),
            GpuAmounts(Quantity(needs[2]), Quantity(needs[3])),
            needs[4],
        )
        return broken_total_caps(self._spec, self._used, more)

    def _single_caps_in_every_choice(self, tree: GangTree) -> list[BrokenCap]:
        """The caps on one worker that a pod exceeds in every choice of the tree."""
        broken: dict[int, list[list[BrokenCap]]] = {}
        for group, worker in zip(self._groups, self._all, strict=True):
            leaf = tree.index.get(group)
            if leaf is not None:
                broken.setdefault(leaf, []).append([] if worker is None else broken_single_caps(self._spec, worker))
        large = {leaf: found for leaf, found in broken.items() if all(found)}
        if not tree.min_amount(dict.fromkeys(large, 1)):
            return []
        return next(iter(large.values()))[0]


def _milli_amounts(worker: GpuWorker | None) -> list[int]:
    if worker is None:
        return [0] * 5
    held = totals_of_worker(worker)
    return [*held.requests.millis, *held.limits.millis, 1]


def _build_hold(namespace: str, broken: BrokenCap) -> StartHold:
    message = f"{_capitalize(broken.refusal_text(namespace))}."
    if not broken.is_resolvable:
        unblock = f"{broken.resource} of namespace {namespace} is raised to {broken.requested} or more"
        return StartHold(ReasonCode.GPU_QUOTA, message, unblock, namespace, broken.resource)
    unblock = (
        f"Workers of namespace {namespace} end until {broken.requested} fit under {broken.limit}, "
        f"or {broken.resource} is raised"
    )
    return StartHold(ReasonCode.GPU_QUOTA, message, unblock, namespace, broken.resource)


def _capitalize(message: str) -> str:
    return message[0].upper() + message[1:]


_BACKENDS_SQL = f"""
    SELECT DISTINCT backend_id FROM pools_pool
    WHERE parent_id IS NULL AND NOT archived AND backend_id IS NOT NULL AND config ->> '{GPU_NAMESPACE}' = ANY(%s)
"""


def backends_of_namespaces(namespaces: Collection[str]) -> frozenset[int]:
    """The backends whose pools use one of these namespaces; one query, none where there are no namespaces."""
    if not namespaces:
        return frozenset()
    return frozenset(backend_id for (backend_id,) in read_rows(_BACKENDS_SQL, [list(namespaces)]))
