"""Dispatch admission: checks and counts cohorts and GPU quota of namespaces before a gang is sent to its cluster.

Verdict and count are one transaction under the locks of the pool's tree and of its cohorts' tree, so two agents never
give the same GPUs to two gangs. The admission may be repeated after a crash: an admitted gang stays admitted and counts
once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet, Sum
from django.utils import timezone

from pools.database.transactions import DatabaseLost, change
from pools.domain.errors import Busy
from pools.domain.gpu_quota.pool_settings import GPU_NAMESPACE
from pools.domain.people.roles import SYSTEM
from pools.domain.quota.forest import pool_key
from pools.locking import lock_cohort_trees, lock_pool_tree
from pools.models import Backend, Pool
from pools.selectors.quotas.quota_facts import pool_ids_below
from scheduling.domain.judgement.dispatch_admission import (
    dispatch_verdict,
    explain_dispatch_wait,
    idle_unlent_gpus,
    needs_dispatch_admission,
)
from scheduling.domain.judgement.plan_units import Gates
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Group, Task
from scheduling.selectors.queue.dispatched_usage import read_dispatched_usage
from scheduling.selectors.queue.start_gates import build_tree_gates, read_gate_paths, read_quota_tree
from scheduling.services.kubernetes.dispatching.observation import set_waiting_reasons
from scheduling.services.workflows.gpu_workers import reserve_for_dispatch

MAX_GANGS_PER_TRANSACTION = 50
"""Every other start of work in the same tree of cohorts waits for the transaction."""

_UNADMITTED_GPUS = Sum(
    "tasks__gpu_count",
    filter=Q(tasks__status=TaskStatus.SCHEDULING, tasks__dispatched_at=None, tasks__admitted_at=None),
    default=0,
)


def admit_gangs(backend: Backend, groups: Sequence[UUID], *, before_batch: Callable[[], None]) -> list[UUID]:
    """The gangs among these that may be sent to their cluster now. The others get a waiting reason; a gang whose pool
    is locked by others is checked again with the next comparison. `before_batch` is called before each transaction."""
    not_admitted: set[UUID] = set()
    for root_id, gangs in _read_gangs(backend, groups).items():
        for first in range(0, len(gangs), MAX_GANGS_PER_TRANSACTION):
            batch = gangs[first : first + MAX_GANGS_PER_TRANSACTION]
            before_batch()
            try:
                refusals = _admit_batch(root_id, batch)
            except DatabaseLost:
                raise
            except Busy:
                not_admitted |= {gang.group_id for gang in batch}
                continue
            not_admitted |= refusals.keys()
            known = {gang.group_id: gang.reason for gang in batch}
            set_waiting_reasons(
                {pk: reason for pk, reason in refusals.items() if reason is not None and reason != known[pk]}
            )
    return [group for group in groups if group not in not_admitted]


@dataclass(frozen=True, slots=True)
class _GangToAdmit:
    group_id: UUID
    priority: Priority
    reason: Mapping[str, Any] | None


def _read_gangs(backend: Backend, groups: Collection[UUID]) -> dict[int, list[_GangToAdmit]]:
    """The gangs that need admission, by their top-level pool; non-preemptible work first, then by age. A gang without
    cohorts above it and without a namespace for GPU quota needs none."""
    root = "workflow__root_pool"
    rows = Group.objects.filter(
        Q(**{f"{root}__cohort__isnull": False}) | Q(**{f"{root}__config__{GPU_NAMESPACE}__isnull": False}),
        pk__in=groups,
        workflow__root_pool__backend=backend,
    ).order_by("workflow__submit_time", "workflow__name", "position")
    found: dict[int, list[_GangToAdmit]] = {}
    for root_id, group_id, priority, reason in rows.values_list(
        "workflow__root_pool_id", "pk", "workflow__priority", "waiting_reason"
    ):
        found.setdefault(root_id, []).append(_GangToAdmit(group_id, Priority(priority), reason))
    for gangs in found.values():
        gangs.sort(key=lambda gang: -gang.priority.priority_class_value)
    return found


def _admit_batch(root_id: int, gangs: Sequence[_GangToAdmit]) -> dict[UUID, Mapping[str, Any] | None]:
    """Admit the gangs that may start. Returns the refused gangs with the reason; None where the reason is already
    written elsewhere."""
    with change(actor=SYSTEM, description="dispatched"):
        root = lock_pool_tree(root_id)
        rows = Group.objects.filter(pk__in=[gang.group_id for gang in gangs], workflow__root_pool=root)
        rows = rows.select_related("workflow").defer("workflow__spec", "workflow__template_spec")
        by_id = {row.pk: row for row in rows.annotate(unadmitted_gpus=_UNADMITTED_GPUS)}
        gate = _lock_cohort_gate(root)
        refusals: dict[UUID, Mapping[str, Any] | None] = {}
        admitted = []
        for row in (by_id[gang.group_id] for gang in gangs if gang.group_id in by_id):
            reason = None if gate is None else gate.admit(row)
            if reason is not None:
                refusals[row.pk] = reason
            elif reserve_for_dispatch(root, row):
                admitted.append(row.pk)
            else:
                refusals[row.pk] = None
                if gate is not None:
                    gate.release(row)
        if gate is not None:
            _unadmitted_tasks(admitted).update(admitted_at=timezone.now())
        return refusals


def _unadmitted_tasks(groups: Collection[UUID]) -> QuerySet[Task]:
    return Task.objects.filter(
        group__in=groups, status=TaskStatus.SCHEDULING, dispatched_at=None, admitted_at=None, gpu_count__gt=0
    )


def _lock_cohort_gate(root: Pool) -> _CohortGate | None:
    """The gate of a locked pool's cohorts, whose tree is locked here; None where the cluster's queues are enough."""
    if root.cohort_id is None:
        return None
    tops = lock_cohort_trees({root.cohort_id})
    gate = _CohortGate(root, tops)
    backends = Pool.objects.filter(pk__in=pool_ids_below(tops), archived=False).values("backend").distinct().count()
    return gate if needs_dispatch_admission(gate.tree, backends) else None


class _CohortGate:
    """The numbers of a pool and of its cohorts while gangs are admitted one after the other."""

    def __init__(self, root: Pool, tops: Collection[int]) -> None:
        self._root = root
        dispatched = read_dispatched_usage(tops)
        self.tree = read_quota_tree(tops, dispatched)
        self._tree_gates = build_tree_gates(self.tree, [root])
        self._pool_gates = Gates(read_gate_paths(root))
        for usage in dispatched:
            if usage.root == root.pk:
                self._pool_gates.add_usage(usage.leaf, usage.priority, usage.gpus)

    def admit(self, row: Group) -> Mapping[str, Any] | None:
        """Count a gang and return None, or return the reason against it."""
        leaf, priority, gpus = _request_of(row)
        verdict = dispatch_verdict(self._pool_gates, self._tree_gates, leaf, priority, gpus)
        if verdict is not None:
            return explain_dispatch_wait(verdict, idle_unlent_gpus(self.tree, pool_key(self._root.name))).as_json()
        self._add_usage(row, 1)
        return None

    def release(self, row: Group) -> None:
        """Stop counting an admitted gang."""
        self._add_usage(row, -1)

    def _add_usage(self, row: Group, sign: int) -> None:
        leaf, priority, gpus = _request_of(row)
        self._pool_gates.add_usage(leaf, priority, sign * gpus)
        self._tree_gates.add_usage(leaf, sign * gpus)


def _request_of(row: Group) -> tuple[int, Priority, int]:
    gpus = int(row.unadmitted_gpus)  # type: ignore[attr-defined]
    return row.workflow.pool_id, Priority(row.workflow.priority), gpus
