"""Dispatch admission: checks and counts cohorts and GPU quota of namespaces before a gang is sent to its cluster.

Verdict and count are one transaction under the locks of the pool's tree and of its cohorts' tree, so two agents never
give the same GPUs to two gangs. The admission may be repeated after a crash: an admitted gang stays admitted and counts
once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db.models import Q, Sum
from django.utils import timezone

from pools.database.transactions import DatabaseLost, change
from pools.domain.errors import Busy
from pools.domain.gpu_quota.pool_settings import GPU_NAMESPACE
from pools.domain.people.roles import SYSTEM
from pools.domain.quota.forest import pool_key
from pools.domain.quota.tree import QuotaTree
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.locking import lock_cohort_trees, lock_pool_tree
from pools.models import Backend, Pool
from pools.selectors.quotas.quota_facts import pool_ids_below
from scheduling.domain.engine.facts import WhenCanBorrow, WhenCanPreempt
from scheduling.domain.flavor_choices import TaskGpus, flavors_beside, sum_by_flavor
from scheduling.domain.judgement.dispatch_admission import (
    DispatchWait,
    dispatch_verdict,
    explain_dispatch_wait,
    idle_unlent_gpus,
    is_within_leaf_quota,
    needs_dispatch_admission,
)
from scheduling.domain.judgement.flavor_room import FlavorChance, FlavorRoom, Places, choose_flavor
from scheduling.domain.judgement.plan_units import Gates
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import UNFINISHED_TASK_STATUSES, TaskStatus
from scheduling.models import Group, Task
from scheduling.selectors.cluster.nodes import read_node_usage
from scheduling.selectors.cluster.pool_flavors import read_pool_flavors
from scheduling.selectors.queue.dispatched_usage import read_dispatched_usage
from scheduling.selectors.queue.start_gates import build_tree_gates, read_gate_paths, read_quota_tree
from scheduling.services.kubernetes.dispatching.observation import set_waiting_reasons
from scheduling.services.workflows.gpu_workers import reserve_for_dispatch

NOTHING_BARRED: Mapping[UUID, Collection[str]] = {}
MAX_GANGS_PER_TRANSACTION = 50
"""Every other start of work in the same tree of cohorts waits for the transaction."""


def admit_gangs(
    backend: Backend,
    groups: Sequence[UUID],
    *,
    before_batch: Callable[[], None],
    barred: Mapping[UUID, Collection[str]] = NOTHING_BARRED,
) -> list[UUID]:
    """The gangs among these that may be sent to their cluster now. The others get a waiting reason; a gang whose pool
    is locked by others is checked again with the next comparison. `before_batch` is called before each transaction;
    `barred` are flavors that some gangs do not get, because others come first there."""
    not_admitted: set[UUID] = set()
    for root_id, gangs in _read_gangs(backend, groups).items():
        for first in range(0, len(gangs), MAX_GANGS_PER_TRANSACTION):
            batch = gangs[first : first + MAX_GANGS_PER_TRANSACTION]
            before_batch()
            try:
                refusals = _admit_batch(root_id, batch, barred)
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
    cohorts above it, without GPU flavors and without a namespace for GPU quota needs none."""
    root = "workflow__root_pool"
    rows = Group.objects.filter(
        Q(**{f"{root}__cohort__isnull": False})
        | Q(**{f"{root}__config__{GPU_NAMESPACE}__isnull": False})
        | ~Q(**{f"{root}__flavors": []}),
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


def _admit_batch(
    root_id: int, gangs: Sequence[_GangToAdmit], barred: Mapping[UUID, Collection[str]]
) -> dict[UUID, Mapping[str, Any] | None]:
    """Admit the gangs that may start. Returns the refused gangs with the reason; None where the reason is already
    written elsewhere."""
    with change(actor=SYSTEM, description="dispatched"):
        root = lock_pool_tree(root_id)
        rows = Group.objects.filter(pk__in=[gang.group_id for gang in gangs], workflow__root_pool=root)
        rows = rows.select_related("workflow").defer("workflow__spec", "workflow__template_spec")
        by_id = {row.pk: row for row in rows}
        gate = lock_gate(root)
        if gate is not None:
            gate.take_room_of_sent()
        tasks = read_tasks(by_id) if gate is not None else {}
        refusals: dict[UUID, Mapping[str, Any] | None] = {}
        admitted: list[_Request] = []
        for row in (by_id[gang.group_id] for gang in gangs if gang.group_id in by_id):
            request: _Request | None = None
            if gate is not None:
                answer = gate.admit(row, tasks.get(row.pk, ()), barred.get(row.pk, ()))
                if not isinstance(answer, _Request):
                    refusals[row.pk] = answer
                    continue
                request = answer
            if reserve_for_dispatch(root, row):
                admitted += [] if request is None else [request]
                if request is not None and (request.passed or row.passed_flavors):
                    row.passed_flavors = [list(each) for each in request.passed]
                    row.save(update_fields=["passed_flavors"])
            else:
                refusals[row.pk] = None
                if gate is not None and request is not None:
                    gate.release(request)
        _mark_admitted(admitted, has_flavors=bool(root.flavors))
        return refusals


def read_tasks(groups: Collection[UUID]) -> dict[UUID, list[Task]]:
    """The open tasks with GPUs of these gangs."""
    found: dict[UUID, list[Task]] = defaultdict(list)
    for task in Task.objects.filter(group__in=groups, status__in=UNFINISHED_TASK_STATUSES, gpu_count__gt=0):
        found[task.group_id].append(task)
    return found


def _is_unadmitted(task: Task) -> bool:
    return task.status == TaskStatus.SCHEDULING and task.dispatched_at is None and task.admitted_at is None


@dataclass(frozen=True, slots=True)
class _Request:
    """What a gang asks for: the tasks that are not admitted yet, with the flavor of each, and their GPUs by flavor."""

    leaf: int
    priority: Priority
    tasks: Sequence[Task]
    flavors: Sequence[str]
    places: Places = ()
    passed: Sequence[tuple[str, str]] = ()
    """The flavors that come before its own, each with why it did not get that."""

    @property
    def needs(self) -> list[tuple[str, int]]:
        """The flavor and the GPUs of each task."""
        return [(flavor, task.gpu_count) for flavor, task in zip(self.flavors, self.tasks, strict=True)]

    @property
    def gpus(self) -> dict[str, int]:
        """GPUs by flavor; a gang without any asks for 0 of one."""
        return sum_by_flavor((task.gpu_count for task in self.tasks), self.flavors) or {DEFAULT_FLAVOR: 0}


def _mark_admitted(requests: Sequence[_Request], *, has_flavors: bool) -> None:
    """Write that the tasks are admitted, in a pool with flavors each in its flavor: their pods go to nodes of it."""
    of_flavor: dict[str, list[UUID]] = defaultdict(list)
    for request in requests:
        for task, flavor in zip(request.tasks, request.flavors, strict=True):
            of_flavor[flavor if has_flavors else ""].append(task.pk)
    now = timezone.now()
    for flavor, tasks in of_flavor.items():
        Task.objects.filter(pk__in=tasks).update(admitted_at=now, flavor=flavor)


def lock_gate(root: Pool) -> StartGate | None:
    """The gate of a locked pool, whose tree of cohorts is locked here; None where the cluster's queues are enough: they
    have one number of GPUs, and know neither flavors nor lending limits."""
    tops = [] if root.cohort_id is None else lock_cohort_trees({root.cohort_id})
    if root.flavors:
        return StartGate(root, tops)
    if not tops:
        return None
    gate = StartGate(root, tops)
    backends = Pool.objects.filter(pk__in=pool_ids_below(tops), archived=False).values("backend").distinct().count()
    return gate if needs_dispatch_admission(gate.tree, backends) else None


class StartGate:
    """The numbers of a pool and of its cohorts while gangs are admitted one after the other."""

    def __init__(self, root: Pool, tops: Collection[int]) -> None:
        self._root = root
        dispatched = read_dispatched_usage(tops, [root.pk])
        in_trees = dispatched if tops else []
        self.tree = read_quota_tree(tops, in_trees) if tops else QuotaTree([])
        self._tree_gates = build_tree_gates(self.tree, [root])
        self._pool_gates = Gates(read_gate_paths(root))
        self._flavors = read_pool_flavors(root)
        self._nodes = read_node_usage(backend=root.backend_id) if root.flavors else []
        self._room = FlavorRoom((node.flavor or DEFAULT_FLAVOR, node.free_gpus) for node in self._nodes)
        self._rooms_without: dict[int | None, FlavorRoom] = {}
        self._taken: list[Places] = []
        for usage in dispatched:
            if usage.root == root.pk:
                self._pool_gates.add_usage(usage.leaf, usage.priority, usage.gpus, usage.flavor)

    def admit(self, row: Group, tasks: Sequence[Task], barred: Collection[str] = ()) -> _Request | Mapping[str, Any]:
        """Count a gang and return what it gets, or return the reason against it. Of the flavors whose quotas let it
        start, without those that are barred, it gets the first with room on its nodes, else the first."""
        requests = self._requests(row, tasks)
        open_ = [each for each in requests if not set(barred) & set(each.flavors)] or requests
        waits = [self._wait(request) for request in open_]
        allowed = [request for request, wait in zip(open_, waits, strict=True) if wait is None]
        if not allowed:
            closed = [each for each in requests if not any(each is other for other in open_)]
            return _nearest_first(open_, [wait for wait in waits if wait is not None], closed)
        chances = [self._chance(request) for request in allowed] if len(allowed) > 1 else []
        place = choose_flavor(chances, *self._switches) if chances else 0
        request = self._place(allowed[place]) or allowed[place]
        self._add_usage(request, 1)
        self._take(request)
        if not self._root.flavors:
            return request
        whys = {id(each): chance.why_passed for each, chance in zip(allowed, chances, strict=False)}
        whys |= {id(each): wait.why_passed for each, wait in zip(open_, waits, strict=True) if wait is not None}
        before = requests[: requests.index(allowed[place])]
        passed = [(_names(each, request), whys.get(id(each), _COMES_LATER)) for each in before]
        return replace(request, passed=passed)

    @cached_property
    def _switches(self) -> tuple[WhenCanBorrow, WhenCanPreempt]:
        config = self._root.config
        return (
            WhenCanBorrow(config.get("when_can_borrow", WhenCanBorrow.BORROW)),
            WhenCanPreempt(config.get("when_can_preempt", WhenCanPreempt.NEXT)),
        )

    def _chance(self, request: _Request) -> FlavorChance:
        is_inside = all(
            is_within_leaf_quota(leaf, request.priority, gpus)
            for flavor, gpus in request.gpus.items()
            for leaf in self._pool_gates.path(request.leaf, flavor)[:1]
        )
        has_room = self._room.find(request.needs) is not None
        could = not has_room and is_inside and self._room_without(request).find(request.needs) is not None
        return FlavorChance(is_inside, has_room, could)

    def _room_without(self, request: _Request) -> FlavorRoom:
        """The room if the LOW work that this gang may preempt or reclaim was gone: that of its own leaf makes room for
        HIGH and NORMAL work alone."""
        spared = request.leaf if request.priority.is_preemptible else None
        if spared not in self._rooms_without:
            freed = _read_low_gpus(self._root, spared)
            room = FlavorRoom(
                (node.flavor or DEFAULT_FLAVOR, min(node.gpus, node.free_gpus + freed.get(node.name, 0)))
                for node in self._nodes
                if node.ready
            )
            for places in self._taken:
                room.take(room.find([(flavor, gpus) for flavor, _, gpus in places]) or ())
            self._rooms_without[spared] = room
        return self._rooms_without[spared]

    def _take(self, request: _Request) -> None:
        """Fill the places of a gang, also where LOW work would leave."""
        self._room.take(request.places)
        self._taken.append(request.places)
        for room in self._rooms_without.values():
            room.take(room.find(request.needs) or ())

    def take_room_of_sent(self) -> None:
        """Fill the room that gangs will use which were sent to the cluster and have no nodes yet."""
        if not self._root.flavors:
            return
        waiting = Task.objects.filter(status=TaskStatus.SCHEDULING, admitted_at__isnull=False, gpu_count__gt=0)
        rows = waiting.filter(group__workflow__root_pool__backend=self._root.backend_id).exclude(flavor="")
        gangs: dict[UUID, list[tuple[str, int]]] = defaultdict(list)
        for group, flavor, gpus in rows.order_by("admitted_at", "pk").values_list("group_id", "flavor", "gpu_count"):
            gangs[group].append((flavor, gpus))
        for needs in gangs.values():
            places = self._room.find(needs) or ()
            self._room.take(places)
            self._taken.append(places)

    def release(self, request: _Request) -> None:
        """Stop counting an admitted gang."""
        self._add_usage(request, -1)
        self._room.release(request.places)
        self._taken.remove(request.places)
        self._rooms_without.clear()

    def finds_other_flavor(self, row: Group, tasks: Sequence[Task]) -> bool:
        """Whether a gang that was sent to its cluster, and has no node there, has no room on nodes of its flavor, and
        would get a flavor with room if it was admitted now. If so, it counts as admitted anew. Pods of work that was
        sent before the pool had flavors may go to every node."""
        if not all(task.flavor for task in tasks):
            return False
        held = _Request(row.workflow.pool_id, Priority(row.workflow.priority), tasks, [task.flavor for task in tasks])
        if (placed := self._place(held)) is not None:
            self._take(placed)
            return False
        self._add_usage(held, -1)
        others = (each for each in self._requests(row, tasks, is_sent=True) if self._wait(each) is None)
        request = next(filter(None, map(self._place, others)), None)
        self._add_usage(request or held, 1)
        self._take(request or held)
        return request is not None

    def _requests(self, row: Group, tasks: Sequence[Task], *, is_sent: bool = False) -> list[_Request]:
        """What the gang asks for in each of its choices; `is_sent` if its tasks were admitted, and may be again."""
        leaf, priority = row.workflow.pool_id, Priority(row.workflow.priority)
        new = [place for place, task in enumerate(tasks) if is_sent or _is_unadmitted(task)]
        if not self._root.flavors:
            return [_Request(leaf, priority, [tasks[place] for place in new], [DEFAULT_FLAVOR] * len(new))]
        requested = [TaskGpus(task.gpu_count, tuple(task.gpu_flavors), task.platform) for task in tasks]
        held = ["" if is_sent or _is_unadmitted(task) else task.flavor for task in tasks]
        choices = self._flavors.choices_or_named(requested)
        return [
            _Request(leaf, priority, [tasks[place] for place in new], [flavors[place] for place in new])
            for flavors in ([flavors_beside(choices, held)] if any(held) else choices)
        ]

    def _wait(self, request: _Request) -> DispatchWait | None:
        """Why a gang may not be dispatched with this choice, or None if it may."""
        for flavor, gpus in request.gpus.items():
            verdict = dispatch_verdict(self._pool_gates, self._tree_gates, request.leaf, request.priority, gpus, flavor)
            if verdict is not None:
                idle = idle_unlent_gpus(self.tree, pool_key(self._root.name), flavor) if self.tree.names else 0
                return explain_dispatch_wait(verdict, idle, flavor, self._root.part_flavors)
        return None

    def _place(self, request: _Request) -> _Request | None:
        """The same with places on nodes; None if they have no room for it."""
        places = self._room.find(request.needs)
        return None if places is None else replace(request, places=places)

    def _add_usage(self, request: _Request, sign: int) -> None:
        for flavor, gpus in request.gpus.items():
            self._pool_gates.add_usage(request.leaf, request.priority, sign * gpus, flavor)
            self._tree_gates.add_usage(request.leaf, sign * gpus, flavor)


def _nearest_first(
    requests: Sequence[_Request], waits: Sequence[DispatchWait], closed: Sequence[_Request]
) -> Mapping[str, Any]:
    """The reason of a gang that may start in none of its choices: that of the nearest one, with a line for each.
    `closed`: those in which others come first."""
    if len(waits) == 1 and not closed:
        return waits[0].as_json()
    by_need = sorted(zip(requests, waits, strict=True), key=lambda pair: pair[1].requested - pair[1].free)
    lines = [f"{' and '.join(request.gpus)}: {_clause(wait.why)}" for request, wait in by_need]
    lines += [f"{' and '.join(request.gpus)}: {_COMES_LATER}" for request in closed]
    nearest = by_need[0][1]
    message = f"{'; '.join(lines)}. {nearest.until}".rstrip()
    return {**nearest.as_json(), "message": f"{message} One of the flavors is enough."}


def _clause(sentence: str) -> str:
    return f"{sentence[:1].lower()}{sentence[1:].removesuffix('.')}"


_COMES_LATER = "another gang comes first there"


def _names(request: _Request, chosen: _Request) -> str:
    """The flavors of a choice that the gang did not get."""
    return " and ".join(dict.fromkeys(each for each in request.flavors if each not in chosen.flavors))


def _read_low_gpus(root: Pool, spared: int | None) -> dict[str, int]:
    """The GPUs of running LOW work by node of the backend, without that of one leaf."""
    running = Task.objects.filter(
        status=TaskStatus.RUNNING, gpu_count__gt=0, group__workflow__priority=Priority.LOW,
        group__workflow__root_pool__backend=root.backend_id,
    )  # fmt: skip
    if spared is not None:
        running = running.exclude(group__workflow__pool=spared)
    return dict(running.order_by().values_list("node_name").annotate(Sum("gpu_count")))
