"""Clearing gangs for their cluster: what the house itself keeps track of (cohorts, GPU quota of namespaces) is asked
and counted before the cluster hears of a gang.

Verdict and count are one transaction under the locks of the pool's tree and of the tree of cohorts above it, so two
agents that dispatch at the same time never give away the same GPUs. It may be done again after a crash at any point:
what was cleared stays cleared and counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet, Sum
from django.utils import timezone

from pools.domain.errors import Busy
from pools.domain.gpu_quota.pool_settings import GPU_NAMESPACE
from pools.domain.quota.forest import pool_key
from pools.domain.roles import SYSTEM
from pools.locking import lock_cohort_trees, lock_pool_tree
from pools.models import Backend, Pool
from pools.selectors.quota_facts import pool_ids_below
from pools.transactions import DatabaseLost, change
from scheduling.domain.dispatch_admission import (
    dispatch_verdict,
    explain_dispatch_wait,
    idle_unlent_gpus,
    needs_dispatch_admission,
)
from scheduling.domain.plan_units import Gates
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Group, Task
from scheduling.selectors.dispatched_usage import read_dispatched_usage
from scheduling.selectors.start_gates import build_tree_gates, read_gate_paths, read_quota_tree
from scheduling.services.gpu_quota.workloads import reserve_for_dispatch
from scheduling.services.kubernetes.observation import set_waiting_reasons

MAX_GANGS_PER_TRANSACTION = 50
"""Gangs judged in one transaction: everybody else who starts work in that tree of cohorts waits for it."""

_ASKED = Sum(
    "tasks__gpu_count",
    filter=Q(tasks__status=TaskStatus.SCHEDULING, tasks__dispatched_at=None, tasks__admitted_at=None),
    default=0,
)


def admit_gangs(backend: Backend, groups: Sequence[UUID], *, before_batch: Callable[[], None]) -> list[UUID]:
    """Those of these gangs that may be given to their cluster now. The others learn why not; a gang whose pool is busy
    is asked again at the next look. `before_batch` is called before each transaction."""
    kept: set[UUID] = set()
    for root_id, gangs in _judged(backend, groups).items():
        for first in range(0, len(gangs), MAX_GANGS_PER_TRANSACTION):
            some = gangs[first : first + MAX_GANGS_PER_TRANSACTION]
            before_batch()
            try:
                verdicts = _clear(root_id, some)
            except DatabaseLost:
                raise
            except Busy:
                kept |= {gang.group for gang in some}
                continue
            kept |= verdicts.keys()
            said = {gang.group: gang.reason for gang in some}
            set_waiting_reasons({pk: why for pk, why in verdicts.items() if why is not None and why != said[pk]})
    return [group for group in groups if group not in kept]


@dataclass(frozen=True, slots=True)
class _Gang:
    group: UUID
    priority: Priority
    reason: Mapping[str, Any] | None


def _judged(backend: Backend, groups: Collection[UUID]) -> dict[int, list[_Gang]]:
    """The gangs among these on which we have a say, by their top-level pool; firm work first, then by age."""
    root = "workflow__root_pool"
    rows = Group.objects.filter(
        Q(**{f"{root}__cohort__isnull": False}) | Q(**{f"{root}__config__{GPU_NAMESPACE}__isnull": False}),
        pk__in=groups,
        workflow__root_pool__backend=backend,
    ).order_by("workflow__submit_time", "workflow__name", "position")
    found: dict[int, list[_Gang]] = {}
    for root_id, group, priority, reason in rows.values_list(
        "workflow__root_pool_id", "pk", "workflow__priority", "waiting_reason"
    ):
        found.setdefault(root_id, []).append(_Gang(group, Priority(priority), reason))
    for gangs in found.values():
        gangs.sort(key=lambda gang: -gang.priority.priority_class_value)
    return found


def _clear(root_id: int, gangs: Sequence[_Gang]) -> dict[UUID, Mapping[str, Any] | None]:
    """Clear what may be cleared; the others, each with the reason (None where somebody else tells it)."""
    with change(actor=SYSTEM, description="dispatched"):
        root = lock_pool_tree(root_id)
        rows = Group.objects.filter(pk__in=[gang.group for gang in gangs], workflow__root_pool=root)
        rows = rows.select_related("workflow").defer("workflow__spec", "workflow__template_spec")
        by_id = {row.pk: row for row in rows.annotate(asked=_ASKED)}
        keeper = _keeper(root)
        verdicts: dict[UUID, Mapping[str, Any] | None] = {}
        clear = []
        for row in (by_id[gang.group] for gang in gangs if gang.group in by_id):
            why = None if keeper is None else keeper.take(row)
            if why is not None:
                verdicts[row.pk] = why
            elif reserve_for_dispatch(root, row):
                clear.append(row.pk)
            else:
                verdicts[row.pk] = None
                if keeper is not None:
                    keeper.give_back(row)
        if keeper is not None:
            _uncleared(clear).update(admitted_at=timezone.now())
        return verdicts


def _uncleared(groups: Collection[UUID]) -> QuerySet[Task]:
    return Task.objects.filter(
        group__in=groups, status=TaskStatus.SCHEDULING, dispatched_at=None, admitted_at=None, gpu_count__gt=0
    )


def _keeper(root: Pool) -> _Keeper | None:
    """Who keeps the cohorts above a locked pool, once their tree is locked too; None where the cluster can do it."""
    if root.cohort_id is None:
        return None
    tops = lock_cohort_trees({root.cohort_id})
    keeper = _Keeper(root, tops)
    backends = Pool.objects.filter(pk__in=pool_ids_below(tops), archived=False).values("backend").distinct().count()
    return keeper if needs_dispatch_admission(keeper.tree, backends) else None


class _Keeper:
    """The numbers of a pool and of the cohorts above it, while gangs of it are cleared one after the other."""

    def __init__(self, root: Pool, tops: Collection[int]) -> None:
        self._root = root
        more = read_dispatched_usage(tops)
        self.tree = read_quota_tree(tops, more)
        self._above = build_tree_gates(self.tree, [root])
        self._gates = Gates(read_gate_paths(root))
        for each in more:
            if each.root == root.pk:
                self._gates.add_usage(each.leaf, each.priority, each.gpus)

    def take(self, row: Group) -> Mapping[str, Any] | None:
        """Count a gang, or say why it may not be given away."""
        leaf, priority, gpus = _of(row)
        verdict = dispatch_verdict(self._gates, self._above, leaf, priority, gpus)
        if verdict is not None:
            return explain_dispatch_wait(verdict, idle_unlent_gpus(self.tree, pool_key(self._root.name))).as_json()
        self._hold(row, 1)
        return None

    def give_back(self, row: Group) -> None:
        """Count a gang no more."""
        self._hold(row, -1)

    def _hold(self, row: Group, sign: int) -> None:
        leaf, priority, gpus = _of(row)
        self._gates.add_usage(leaf, priority, sign * gpus)
        self._above.add_usage(leaf, sign * gpus)


def _of(row: Group) -> tuple[int, Priority, int]:
    return row.workflow.pool_id, Priority(row.workflow.priority), int(row.asked)  # type: ignore[attr-defined]
