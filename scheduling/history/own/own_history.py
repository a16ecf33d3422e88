"""The recorded history of a simulated backend in a window, from the audit trail, the attempts of tasks and the record
of decisions. Cohorts with pools of other clusters, GPU limits of namespaces, and retries by exit actions are not
followed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.db.models import Model, Q, QuerySet

from pools.database.transactions import one_snapshot
from pools.domain import names
from pools.domain.errors import BadInput, Conflict, DomainError, Fault, Violation
from pools.domain.quota.forest import CohortQuotaFacts
from pools.domain.quota.pool_balance import PoolBalance, Subpool, split_by_flavor
from pools.domain.quota.stored_quotas import flavor_quotas, gpus_by_flavor
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import DEFAULT_FLAVOR, gpu_key, simplify
from pools.models import AuditEntry, Backend, Cohort, Node, Pool
from scheduling.domain.engine.facts import CohortFacts, QueueFacts, StartReservationFacts
from scheduling.domain.priorities import Priority
from scheduling.domain.receipts.lost import checkpoint_interval
from scheduling.domain.statuses import TaskStatus
from scheduling.history.own.work_seen import in_order_seen
from scheduling.history.replay.history import (
    Configuration,
    Ending,
    RecordedHistory,
    RecordedJob,
    RecordedStep,
    RecordedTask,
)
from scheduling.history.replay.seen_order import RecordedCycle, SeenOrder, Snapshot
from scheduling.models import Decision, Group, OfflineSpan, SchedulingCycle, Task, WaitSpan
from scheduling.selectors.queue.cohorts_above import engine_cohort
from scheduling.selectors.queue.live_facts import (
    MAX_GROUPS,
    UNITS,
    LiveTask,
    SharedObjects,
    container_queue,
    leaf_queue,
    leaf_quotas,
    microseconds,
    node_facts,
    policy_of,
)

T = TypeVar("T", bound=Model)

MAX_JOBS = 5_000
MAX_CONFIGURATIONS = 2_000
MAX_ENTRIES = 50_000
_ENDINGS = {
    TaskStatus.FAILED_CANCELED: Ending.STOPPED,
    TaskStatus.FAILED_EXEC_TIMEOUT: Ending.EXEC_TIMEOUT,
    TaskStatus.FAILED_QUEUE_TIMEOUT: Ending.QUEUE_TIMEOUT,
    TaskStatus.FAILED_UPSTREAM: Ending.OPEN,
}
_PLACING = frozenset({Decision.Action.START, Decision.Action.MOVE})


def read_history(backend: Backend, since: datetime, until: datetime) -> RecordedHistory:
    """The history of the window in one snapshot. Raises BadInput when it is too large, Conflict when a cohort of its
    pools had pools of other clusters."""
    with one_snapshot():
        cycles = _read_cycles(backend, since, until)
        order = SeenOrder(cycles)
        configurations = _read_configurations(backend, since, until, order)
        queue_of = _leaf_queues(backend)
        jobs = in_order_seen(_read_jobs(backend, since, until, queue_of), backend, since, until, order)
        known = {group: job.name for group, job in jobs.items()}
        steps = [
            RecordedStep(
                microseconds(row.time), row.action, known[row.group_id], tuple(row.tasks),
                tuple(row.nodes) if row.action in _PLACING else (),
            )
            for row in Decision.objects.filter(
                backend=backend, time__gt=since, time__lte=until, group__in=known
            ).order_by("id")
        ]  # fmt: skip
    ordered = sorted(jobs.values(), key=lambda job: job.rank)
    known_cycles = {cycle.time for cycle in cycles}
    without = [step.time for step in steps if step.time not in known_cycles]
    return RecordedHistory(
        microseconds(since), microseconds(until), configurations, ordered, steps, cycles,
        exact_since=without[-1] + 1 if without else None,
    )  # fmt: skip


def _read_cycles(backend: Backend, since: datetime, until: datetime) -> list[RecordedCycle]:
    rows = SchedulingCycle.objects.filter(backend=backend, time__gt=since, time__lte=until).order_by("time")
    return [
        RecordedCycle(
            microseconds(row.time), microseconds(row.judged_at), row.units,
            None if row.snapshot is None else Snapshot.parse(row.snapshot),
            None if row.new_since is None else Snapshot.parse(row.new_since),
            tuple(StartReservationFacts(*each) for each in row.reservations),
        )
        for row in rows
    ]  # fmt: skip


# -- queues and nodes -------------------------------------------------------------------------------------------------


def _read_configurations(backend: Backend, since: datetime, until: datetime, order: SeenOrder) -> list[Configuration]:
    roots = Pool.objects.roots().filter(backend=backend).values("id")
    entries = AuditEntry.objects.filter(
        Q(object__startswith="pool/", pool_id__in=roots)
        | Q(object__startswith="node/", after__backend_id=backend.pk)
        | Q(object__startswith="node/", before__backend_id=backend.pk)
        | Q(object__startswith="cohort/")
        | Q(object=f"backend/{backend.name}"),
        time__lte=until,
    ).order_by("id")[: MAX_ENTRIES + 1]
    images: dict[str, dict[int, Mapping[str, Any]]] = {"pool": {}, "node": {}, "backend": {}, "cohort": {}}
    found: list[Configuration] = []
    first = microseconds(since)
    pending: int | None = None
    seen = ((order.seen_from(microseconds(entry.time), int(entry.transaction)), entry) for entry in entries)
    for count, (at, entry) in enumerate(sorted(seen, key=lambda each: (each[0], each[1].pk))):
        if count == MAX_ENTRIES or len(found) > MAX_CONFIGURATIONS:
            raise _too_long("changes of nodes and quotas", MAX_CONFIGURATIONS)
        if pending is not None and at != pending:
            found.append(_configuration(backend, images, pending))
            pending = None
        if at > first and not found:
            found.append(_configuration(backend, images, first))
        kind, image = entry.object.split("/", 1)[0], entry.after or entry.before
        if kind not in images or image is None or "id" not in image:
            continue
        if entry.after is None:
            images[kind].pop(image["id"], None)
        else:
            images[kind][image["id"]] = image
        if at > first:
            pending = at
    if not found:
        found.append(_configuration(backend, images, first))
    if pending is not None:
        found.append(_configuration(backend, images, pending))
    found = _without_lost_nodes(backend, found, first, microseconds(until))
    _refuse_shared_cohorts(roots, {cohort.name for each in found for cohort in each.cohorts}, until)
    return found


def _without_lost_nodes(backend: Backend, found: list[Configuration], first: int, last: int) -> list[Configuration]:
    """The configurations without the nodes that were away, by the record of use: also from and until when they were."""
    names = dict(Node.objects.filter(backend=backend).values_list("pk", "name"))
    spans = [
        (names[node or 0], microseconds(since), last + 1 if until is None else microseconds(until))
        for node, since, until in OfflineSpan.objects.filter(backend_id=backend.pk, node_id__in=names).values_list(
            "node_id", "since", "until"
        )
    ]
    spans = [span for span in spans if span[2] > first and span[1] <= last]
    if not spans:
        return found
    times = {each.since for each in found} | {at for _, *ends in spans for at in ends if first < at <= last}
    then = found[0]
    complete: list[Configuration] = []
    by_time = {each.since: each for each in found}
    for at in sorted(times):
        then = by_time.get(at, then)
        lost = {name for name, since, until in spans if since <= at < until}
        complete.append(
            replace(
                then,
                since=at,
                nodes=tuple(node for node in then.nodes if node.name not in lost),
                platforms={name: of - lost for name, of in then.platforms.items()},
            )
        )
    return complete


def _refuse_shared_cohorts(roots: QuerySet[Any], cohorts: Collection[str], until: datetime) -> None:
    """Work of other clusters, which this history does not have, uses the quota of such a cohort."""
    if not cohorts:
        return
    ids = AuditEntry.objects.filter(object__in=[f"cohort/{name}" for name in cohorts]).values_list("after__id")
    others = AuditEntry.objects.filter(object__startswith="pool/", time__lte=until, after__cohort_id__in=ids)
    other = others.exclude(pool_id__in=roots).order_by("id").first()
    if other is not None:
        raise Conflict(
            f"Pool {other.object.partition('/')[2]} of another cluster is or was in a cohort of these pools, and the "
            "replay of one cluster's history does not know that work. Export a trace (osmo usage export --trace) and "
            "replay that."
        )


def _configuration(backend: Backend, images: Mapping[str, Mapping[int, Mapping[str, Any]]], at: int) -> Configuration:
    then = _row(Backend, images["backend"].get(backend.pk, {})) if images["backend"] else backend
    pools = [_row(Pool, image) for image in images["pool"].values()]
    parts: dict[int, list[Pool]] = defaultdict(list)
    for pool in pools:
        if pool.parent_id is not None:
            parts[pool.parent_id].append(pool)
    queues: list[QueueFacts] = []
    draining: dict[str, dict[str, int]] = {}
    shared: dict[str, str] = {}
    flavors: dict[str, tuple[str, ...]] = {}
    cohorts = {pk: _row(Cohort, image) for pk, image in images["cohort"].items()}
    joined: set[int] = set()
    for root in sorted((pool for pool in pools if pool.parent_id is None and not pool.archived), key=lambda p: p.name):
        root.backend = then
        if root.cohort_id is not None:
            root.cohort = cohorts[root.cohort_id]
            joined.add(root.cohort_id)
        _add_pool(root, sorted(parts[root.pk], key=lambda p: p.subpool_name or ""), queues, draining, shared)
        if root.flavors:
            flavors |= {queue.name: root.gpu_flavors for queue in queues if queue.parent == _container(root)}
    nodes = sorted((_row(Node, image) for image in images["node"].values()), key=lambda node: node.name)
    platforms: dict[str, set[str]] = defaultdict(set)
    there: dict[str, set[str]] = defaultdict(set)
    for node in nodes:
        platforms[node.platform].add(node.name)
        if node.gpus:
            there[node.platform].add(node.flavor)
    return Configuration(
        at, tuple(queues), tuple(map(node_facts, nodes)), {name: frozenset(of) for name, of in platforms.items()},
        cohorts=_cohort_facts(cohorts, joined),
        policy=policy_of(then),
        units=UNITS, is_offline=then.offline, draining=draining, shared=shared,
        flavors=flavors, flavors_there={name: frozenset(of) for name, of in there.items()},
    )  # fmt: skip


def _cohort_facts(cohorts: Mapping[int, Cohort], joined: Iterable[int]) -> tuple[CohortFacts, ...]:
    """The trees of the cohorts that pools have joined, by name."""
    tops = {_top_of(cohorts, pk) for pk in joined}
    inside = [row for pk, row in cohorts.items() if _top_of(cohorts, pk) in tops]
    return tuple(
        engine_cohort(
            CohortQuotaFacts(
                row.name,
                None if row.parent_id is None else cohorts[row.parent_id].name,
                row.quotas,
                simplify(Fraction(row.weight)),
            )
        )
        for row in sorted(inside, key=lambda row: row.name)
    )


def _top_of(cohorts: Mapping[int, Cohort], pk: int) -> int:
    """The top of the tree of a cohort; of a cycle of parents its smallest id."""
    path = [pk]
    while (parent := cohorts[path[-1]].parent_id) is not None:
        if parent in path:
            return min(path)
        path.append(parent)
    return path[-1]


def _add_pool(
    root: Pool,
    subpools: Iterable[Pool],
    queues: list[QueueFacts],
    draining: dict[str, dict[str, int]],
    shared: dict[str, str],
) -> None:
    facts = tuple(
        Subpool(
            row.subpool_name or "", SubpoolState(row.subpool_state or ""), row.last_quota or 0,
            last_quotas=gpus_by_flavor(row.flavors),
        )
        for row in subpools
    )  # fmt: skip
    balance = split_by_flavor(
        PoolBalance(root.name, root.effective_guarantee, root.effective_maximum, facts), flavor_quotas(root.flavors), {}
    )
    top = container_queue(root, balance)
    leaf = names.queue_name(root.namespace, root.name, names.SHARED_QUEUE)
    shared[top.name] = leaf
    quotas = leaf_quotas(balance)
    queues += [top, leaf_queue(leaf, top.name, quotas[names.SHARED_QUEUE], root.created_at)]
    for row, part in zip(subpools, facts, strict=True):
        if part.state is SubpoolState.ARCHIVED:
            continue
        name = names.queue_name(root.namespace, root.name, part.name)
        queues.append(leaf_queue(name, top.name, quotas[part.name], row.created_at))
        if part.state is SubpoolState.DELETING:
            last = {flavor: part.last_quotas.get(flavor, 0) for flavor in balance.kinds}
            last = last or {DEFAULT_FLAVOR: part.last_quota}
            draining[name] = {gpu_key(flavor): gpus for flavor, gpus in last.items()}


def _container(root: Pool) -> str:
    return names.queue_name(root.namespace, root.name, None)


def _row(model: type[T], image: Mapping[str, Any]) -> T:
    """A row as its image in the audit trail shows it."""
    values: dict[str, Any] = {}
    for field in model._meta.concrete_fields:
        if (column := field.column or field.attname) in image:
            is_json = field.get_internal_type() == "JSONField"
            values[field.attname] = image[column] if is_json else field.to_python(image[column])
    return model(**values)


# -- work -------------------------------------------------------------------------------------------------------------


def _leaf_queues(backend: Backend) -> dict[int, str]:
    rows = Pool.objects.filter(Q(backend=backend) | Q(parent__backend=backend)).select_related("parent")
    return {
        row.pk: names.queue_name(
            backend.namespace,
            row.name if row.parent is None else row.parent.name,
            names.SHARED_QUEUE if row.parent is None else row.subpool_name,
        )
        for row in rows
    }


def _read_jobs(
    backend: Backend, since: datetime, until: datetime, queue_of: Mapping[int, str]
) -> dict[UUID, RecordedJob]:
    active = Q(end_time__isnull=True) | Q(end_time__gt=since)
    groups = list(
        Group.objects.filter(active, workflow__root_pool__backend=backend, workflow__submit_time__lte=until)
        .filter(Q(workflow__end_time__isnull=True) | Q(workflow__end_time__gt=since))
        .select_related("workflow", "workflow__submitted_by")
        .defer("workflow__spec", "workflow__template_spec")
        .order_by("workflow__submit_time", "position")[: MAX_JOBS + 1]
    )
    if len(groups) > MAX_JOBS:
        raise _too_long("gangs", MAX_JOBS)
    ids = [group.pk for group in groups]
    tasks: dict[UUID, dict[str, Task]] = defaultdict(dict)
    running: dict[UUID, dict[str, str]] = defaultdict(dict)
    held: dict[UUID, dict[str, str]] = defaultdict(dict)
    started: dict[UUID, datetime] = {}
    for task in Task.objects.filter(group__in=ids).order_by("position", "retry_id"):
        tasks[task.group_id].setdefault(task.name, task)
        begin, end = task.start_time, task.end_time
        if begin is not None and begin <= since and (end is None or end > since):
            running[task.group_id][task.name] = task.node_name
            held[task.group_id][task.name] = task.flavor
            started[task.group_id] = min(begin, started.get(task.group_id, begin))
    waits: dict[UUID, list[datetime]] = defaultdict(list)
    began: dict[UUID, datetime] = {}
    spans = WaitSpan.objects.filter(group_id__in=ids).order_by("since")
    for group_id, wait, over in spans.values_list("group_id", "since", "until"):
        waits[group_id].append(wait)
        if over is not None and over <= since:
            began[group_id] = over
    workflows = {group.workflow_id for group in groups}
    moved = Decision.objects.last_moves(workflows)
    moved_before = Decision.objects.filter(time__lte=since).last_moves(workflows)
    siblings = _count_groups(groups)
    shapes = SharedObjects([])
    name_of = {
        (group.workflow_id, group.name): f"{group.workflow.name}/{group.name}"
        if siblings[group.workflow_id] > 1
        else group.workflow.name
        for group in groups
    }
    jobs: dict[UUID, RecordedJob] = {}
    for group in groups:
        workflow = group.workflow
        times = [*waits[group.pk], *([] if group.ready_at is None else [group.ready_at])]
        earlier = [at for at in times if at <= since]
        ready = max(earlier) if earlier else min(times, default=workflow.submit_time)
        before = tuple(name for each in group.upstream if (name := name_of.get((workflow.pk, each))) is not None)
        is_ready = bool(earlier) or group.pk in running
        has_begun = workflow.start_time is not None and workflow.start_time <= since
        recorded = TaskStatus(group.status)
        ending = _ENDINGS.get(recorded, Ending.WORKED) if group.end_time is not None else Ending.OPEN
        last_start = group.start_time
        if last_start is not None and group.pk in moved:
            last_start = max(last_start, moved[group.pk])  # work that moves begins again
        if last_start is not None and last_start <= since and group.pk in started:
            started[group.pk] = last_start
        elif group.pk in started:
            since_then = began.get(group.pk, started[group.pk])
            started[group.pk] = max(since_then, moved_before.get(group.pk, since_then))
        run_time = None if last_start is None else _span(last_start, group.end_time)
        jobs[group.pk] = RecordedJob(
            name_of[workflow.pk, group.name], str(workflow.pk), workflow.submitted_by.username,
            queue_of[workflow.pool_id], Priority(workflow.priority),
            microseconds(workflow.submit_time) * MAX_GROUPS + group.position,
            microseconds(workflow.submit_time), microseconds(ready),
            tuple(_task(task, shapes) for task in tasks[group.pk].values()), group.gpus,
            tree=shapes.tree(None if group.gang is None else json.dumps(group.gang)),
            after=() if is_ready else before,
            run_time=run_time, simulated=_simulated(backend, group, last_start),
            declared=_microseconds_of(workflow.simulated_runtime),
            exec_timeout=_microseconds_of(workflow.exec_timeout),
            queue_timeout=_microseconds_of(workflow.queue_timeout),
            running=running[group.pk], held=held[group.pk], started=_optional(started.get(group.pk)),
            began=_optional(began.get(group.pk, started[group.pk]) if group.pk in started else None),
            workflow_started=_optional(workflow.start_time) if has_begun else None,
            ending=ending, fails=recorded.is_failed, ended=_optional(group.end_time),
            last_start=_optional(last_start), last_ready=_optional(group.ready_at),
            checkpoint_every=_microseconds_of(checkpoint_interval(workflow.labels)),
        )  # fmt: skip
    return jobs


def _count_groups(groups: Iterable[Group]) -> dict[UUID, int]:
    """The number of groups of each of these workflows, those that ended before the window too."""
    counts: dict[UUID, int] = defaultdict(int)
    workflows = {group.workflow_id for group in groups}
    for workflow in Group.objects.filter(workflow__in=workflows).values_list("workflow_id", flat=True):
        counts[workflow] += 1
    return counts


def _task(task: Task, shapes: SharedObjects) -> RecordedTask:
    waiting = LiveTask(
        task.name, task.sub_group, TaskStatus.SCHEDULING.value, task.gpu_count, task.cpu_count, task.memory_bytes,
        task.storage_bytes, task.platform, "[]", "",
    )  # fmt: skip
    facts = shapes.task(waiting, DEFAULT_FLAVOR)
    return RecordedTask(facts, task.platform, frozenset(task.nodes_excluded), tuple(task.gpu_flavors))


def _simulated(backend: Backend, group: Group, last_start: datetime | None) -> int | None:
    """How long an attempt runs on the simulated backend; None where only people end work."""
    if last_start is not None and group.ends_at is not None:
        return _span(last_start, group.ends_at)
    if not backend.auto_end:
        return None
    return (
        round(settings.OSMO.simulated_runtime * 10**6)
        if group.workflow.simulated_runtime is None
        else _microseconds_of(group.workflow.simulated_runtime)
    )


def _span(begin: datetime, end: datetime | None) -> int | None:
    return None if end is None else microseconds(end) - microseconds(begin)


def _optional(at: datetime | None) -> int | None:
    return None if at is None else microseconds(at)


def _microseconds_of(span: Any) -> int | None:
    return None if span is None else round(span.total_seconds() * 10**6)


def _too_long(what: str, most: int) -> DomainError:
    message = f"A replay follows at most {most} {what}, and this time has more: give a shorter time."
    return BadInput.of([Violation("since", Fault.WINDOW_TOO_LONG, message, numbers=(("max", most),))])
