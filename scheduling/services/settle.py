"""Settling a simulated backend: end what is due, start what may start, until nothing moves.

One settling per backend at a time (an advisory lock). The plan is made from an unlocked snapshot; each tree is then
locked in turn, the verdict asked again on what is true now, and only what still holds is written. A crash between two
trees leaves nothing half done: a gang starts in one transaction or not at all. What is read grows with what may move,
not with what waits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection
from django.db.models import Q
from django.utils import timezone

from pools.domain.errors import Busy, Conflict, NotFound
from pools.domain.roles import SYSTEM, Actor
from pools.locking import lock_tree
from pools.models import Backend, Pool
from pools.permissions import require_house
from pools.selectors import balance, balances
from pools.transactions import Lost, change
from scheduling.domain.starting import Path, Plan, Start, still_allowed
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Group
from scheduling.selectors.cluster import free_machines
from scheduling.selectors.waiting import leaf_ids, leaf_paths, needs_of, waiting_gangs
from scheduling.services import hints
from scheduling.services.progress import WorkInHand

MOST_PASSES = 100
MOST_ENDS = 1000  # gangs ended in one transaction; the rest follows in the next pass
PATIENCE_BY_HAND = 10.0  # seconds that somebody who asks for a settling waits for another one to finish
_MOST_ROUNDS = 100
_LOCK_SPACE = 0x05E7  # first key of the advisory locks of settling; the second is the backend's id

_MESSAGES = {
    TaskStatus.FAILED_EXEC_TIMEOUT: "ran longer than its exec_timeout",
    TaskStatus.FAILED_QUEUE_TIMEOUT: "waited longer than its queue_timeout",
}


class AlreadySettling(Busy):
    """Somebody else is at it."""


def settle_now(*, actor: Actor, backend: str) -> dict[str, Any]:
    """Settle by hand and say what moved (api.md, "Simulated backend"). `osmo-admin` only."""
    require_house(actor)
    row = Backend.objects.filter(name=backend).first()
    if row is None:
        raise NotFound(f"Backend {backend} does not exist.")
    if row.kind != Backend.Kind.SIMULATED:
        raise Conflict(f"Backend {backend} is a Kubernetes cluster; there the cluster's scheduler decides.")
    return settle(row.pk, patience=PATIENCE_BY_HAND)


def settle_while_asked(backend_id: int) -> None:
    """Settle, and again while new hints came meanwhile.

    Beside a settling under way there is nothing to do: that one looks for hints after it has let go of its lock, so a
    hint whose task met the lock is not lost.
    """
    for _ in range(_MOST_ROUNDS):
        try:
            settle(backend_id)
        except AlreadySettling:
            return
        if not hints.is_asked(backend_id):
            return


def settle(backend_id: int, *, patience: float = 0) -> dict[str, Any]:
    """Passes of ends and starts until nothing moves: `{"steps": [...], "settled": bool}`.

    Raises AlreadySettling when another settling of the same backend is not over after `patience` seconds, and Busy when
    a tree's lock was not had; the other trees were settled then all the same.
    """
    steps: list[dict[str, Any]] = []
    with _only_one(backend_id, patience):
        hints.taken(backend_id)  # what moves from now on asks for another settling
        backend = Backend.objects.filter(pk=backend_id, kind=Backend.Kind.SIMULATED).first()
        if backend is None:
            return {"steps": [], "settled": True}
        for number in range(1, MOST_PASSES + 1):
            now = timezone.now()
            moved = _end_due(backend, now)
            if not backend.offline:
                moved += _start(backend, now)
            if not moved:
                return {"steps": steps, "settled": True}
            steps += [{"pass": number, **step} for step in moved]
    return {"steps": steps, "settled": False}


@contextmanager
def _only_one(backend_id: int, patience: float) -> Iterator[None]:
    """Hold the backend's settling lock. It belongs to the connection, so it goes with a process that dies, and with a
    connection that is lost."""
    with connection.cursor() as cursor:
        for _ in range(1 + round(patience * 10)):
            cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [_LOCK_SPACE, backend_id])
            if cursor.fetchone()[0]:
                break
            cursor.execute("SELECT pg_sleep(%s)", [0.1 if patience else 0])
        else:
            raise AlreadySettling("This backend is being settled already; try again in a moment.", retry_after=1)
    try:
        yield
    finally:
        with suppress(OperationalError, InterfaceError), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [_LOCK_SPACE, backend_id])


def _tree_by_tree(roots: Iterable[int], deed: Callable[[int], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Do it to each tree in the order of ids. A tree that is busy does not keep the others waiting; a lost connection
    does, for the settling's lock went with it and the plan may be old before the next tree is locked."""
    steps, busy = [], None
    for root_id in sorted(roots):
        try:
            steps += deed(root_id)
        except Lost:
            raise
        except Busy as error:
            busy = error
    if busy is not None:
        raise busy
    return steps


def _end_due(backend: Backend, now: datetime) -> list[dict[str, Any]]:
    """End what has run its time, and what has run or waited longer than it may."""
    due = Group.objects.filter(due_at__lte=now, workflow__root_pool__backend=backend)
    roots = set(due.values_list("workflow__root_pool_id", flat=True)[:MOST_ENDS])
    return _tree_by_tree(roots, lambda root_id: _end_in_tree(root_id, now))


def _end_in_tree(root_id: int, now: datetime) -> list[dict[str, Any]]:
    with change(actor=SYSTEM, description="settled"):
        root = lock_tree(root_id)
        due = Group.objects.filter(due_at__lte=now, workflow__root_pool=root).order_by("due_at")
        work = WorkInHand(root, set(due.values_list("workflow_id", flat=True)[:MOST_ENDS]), now=now)
        steps = _end_those_due(work)
        work.save()
        return steps


def _end_those_due(work: WorkInHand) -> list[dict[str, Any]]:
    before = {group.pk: group.status for groups in work.groups.values() for group in groups.values()}
    for workflow in work.workflows.values():
        groups = list(work.groups[workflow.pk].values())
        verdicts = {group.pk: work.deadlines(group).verdict(work.now) for group in groups}
        for group in groups:
            status = verdicts[group.pk]
            if status is TaskStatus.COMPLETED:
                work.report(group, status)
            elif status is TaskStatus.FAILED_QUEUE_TIMEOUT:
                work.end(group, status, _MESSAGES[status])
        if TaskStatus.FAILED_EXEC_TIMEOUT in verdicts.values():  # the time is the workflow's, so all of it ends
            late = TaskStatus.FAILED_EXEC_TIMEOUT
            work.end_open(workflow, late, _MESSAGES[late], waiting_too=False)
    return [
        {"action": "end", "workflow": work.workflows[group.workflow_id].name, "group": name, "status": group.status}
        for groups in work.groups.values()
        for name, group in groups.items()
        if group.status != before[group.pk]
    ]


def _start(backend: Backend, now: datetime) -> list[dict[str, Any]]:
    """Start what may start, best first over the whole backend, written tree by tree."""
    busy = Q(usage__live_workflows__gt=0) | Q(subpools__usage__live_workflows__gt=0)
    roots = {root.pk: root for root in Pool.objects.roots().filter(busy, backend=backend).distinct()}
    if not roots:
        return []
    ids = leaf_ids(roots.values())
    paths: dict[int, Path] = {}
    root_of: dict[int, int] = {}
    for root_id, facts in balances(roots.values()).items():
        of_tree = leaf_paths(facts, ids)
        paths |= of_tree
        root_of |= dict.fromkeys(of_tree, root_id)
    plan = Plan(paths, machines := free_machines(backend))
    for gangs in waiting_gangs(paths, free_gpus=sum(machine.gpus for machine in machines.values() if machine.gpus > 0)):
        plan.consider(gangs, needs_of(gangs))
        if plan.starts and plan.is_full:
            break  # gangs without GPUs further back are found in the next pass
    by_root: dict[int, list[Start]] = defaultdict(list)
    for start in plan.starts:
        by_root[root_of[start.gang.leaf]].append(start)
    return _tree_by_tree(by_root, lambda root_id: _start_in_tree(root_id, backend, by_root[root_id], now))


def _start_in_tree(root_id: int, backend: Backend, starts: Sequence[Start], now: datetime) -> list[dict[str, Any]]:
    """Write the starts of one tree that are still right under its lock."""
    with change(actor=SYSTEM, description="settled"):
        root = lock_tree(root_id)
        root.backend = backend
        waiting: Mapping[UUID, UUID] = dict(
            Group.objects.filter(
                pk__in=[start.gang.group for start in starts], status=TaskStatus.SCHEDULING
            ).values_list("pk", "workflow_id")
        )
        right = still_allowed(
            [start for start in starts if start.gang.group in waiting],
            leaf_paths(balance(root), leaf_ids([root])),
        )
        work = WorkInHand(root, {waiting[start.gang.group] for start in right}, now=now)
        groups = {group.pk: group for groups in work.groups.values() for group in groups.values()}
        steps = []
        for start in right:
            group = groups[start.gang.group]
            names = {str(task.pk): task.name for task in work.tries.open(group.pk)}
            work.start(group, {names[task]: node for task, node in start.nodes.items()})
            workflow = work.workflows[group.workflow_id]
            nodes = sorted(set(start.nodes.values()))
            steps.append({"action": "start", "workflow": workflow.name, "group": group.name, "nodes": nodes})
        work.save()
        return steps
