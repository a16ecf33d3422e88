"""Repair of the GPU quota ledger: its allocations follow the existing pods, and its counters follow its rows.

Pods are listed first, without a lock; each namespace is then repaired in one transaction under its own lock, so no
amount counts as free in between. Rows that changed after the list began stay: the list cannot know of the change.
Source: design, G7, D14.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from django.db.models import Q
from django.utils import timezone

from pools.database.one_by_one import left_out_on_error
from pools.database.statements import execute_sql
from pools.database.transactions import change
from pools.domain.gpu_quota.workers import GpuAmountsBody, GpuWorker
from pools.domain.people.roles import SYSTEM
from pools.locking import lock_namespace
from pools.models import GpuAllocation
from pools.models.gpu_quota import RECOUNTS
from pools.selectors.gpu_namespace import GpuNamespace, allocation_columns, read_namespaces, worker_from_row
from pools.services.gpu_quota.gpu_quota_conditions import update_conditions

State, Source = GpuAllocation.State, GpuAllocation.Source


@dataclass(frozen=True, slots=True)
class PodWorker:
    """A worker as its pod describes it. `backend` is the id of the cluster's row, `uncounted` the names of annotations
    that say an amount that is not counted, with spaces between them."""

    namespace: str
    uid: str
    workload: str
    worker: GpuWorker
    backend: int
    uncounted: str = ""


class WorkerSize(TypedDict):
    """GPUs of a worker, and its amounts per GPU."""

    request: GpuAmountsBody
    limit: GpuAmountsBody
    count: int


class GpuRepairAnswer(TypedDict):
    """A difference that was repaired: of a worker, of its state, or of a sum."""

    namespace: str
    path: str
    code: str
    before: WorkerSize | str | None
    after: WorkerSize | str | None
    message: str


@dataclass(frozen=True, slots=True)
class GpuRepair:
    """One difference that was repaired. `code` is `added`, `removed`, `changed`, `committed` or `recounted`."""

    namespace: str
    path: str
    code: str
    before: WorkerSize | str | None
    after: WorkerSize | str | None

    def as_dict(self) -> GpuRepairAnswer:
        """For JSON."""
        said = f"{self.namespace}: {self.path} {self.code}"
        return {
            "namespace": self.namespace,
            "path": self.path,
            "code": self.code,
            "before": self.before,
            "after": self.after,
            "message": said,
        }


def rebuild_gpu_usage(
    pods: Iterable[PodWorker], listed: Mapping[int, datetime], only: str | None = None
) -> list[GpuRepair]:
    """Make the allocations of every namespace (or of `only` one) agree with these pods, and recount them.

    An amount that a pod does not give is the default of its namespace at the time when the pod is first counted, as in
    the admission of the pod. `listed` has the clusters (by the id of their backend) whose pods are complete, and the
    time when each list began. Reservations of unbound pods stay until they expire; allocations through the API and of
    workflows stay.
    """
    by_namespace: dict[str, list[PodWorker]] = {}
    for pod in pods:
        by_namespace.setdefault(pod.namespace, []).append(pod)
    repairs: list[GpuRepair] = []
    for namespace in sorted({*by_namespace, *_known_namespaces()} if only is None else {only}):
        # A person who asks for one namespace gets its error.
        guard = nullcontext() if only else left_out_on_error("the rebuild of the GPU usage of a namespace", namespace)
        with guard, change(actor=SYSTEM, description="rebuilt"):
            facts = lock_namespace(namespace)
            found = _replace_pods(facts, by_namespace.get(namespace, []), listed) if listed else []
            found += _recount(namespace)
            if found:
                now = read_namespaces([namespace])[namespace]
                update_conditions(facts.quota, facts.spec, now.committed, timezone.now())
            repairs += found
    return repairs


def _known_namespaces() -> set[str]:
    return {name for (name,) in execute_sql("SELECT namespace FROM pools_gpuusage")}


def _replace_pods(facts: GpuNamespace, pods: Sequence[PodWorker], listed: Mapping[int, datetime]) -> list[GpuRepair]:
    live = {row.name: row for row in GpuAllocation.objects.filter(namespace=facts.name).exclude(state=State.RELEASED)}
    there = {pod.uid: pod for pod in pods}
    repairs, gone = [], []
    for uid, row in live.items():
        if row.source != Source.POD:
            continue
        pod = there.get(uid)
        if pod is not None:
            is_newer = row.changed_at >= listed[pod.backend]
            repairs += [] if is_newer and row.state == State.COMMITTED else _update_known_pod(row, pod)
        elif row.state == State.COMMITTED and _is_older_than_list(row, listed):
            gone.append(row)
            repairs.append(GpuRepair(facts.name, uid, "removed", _worker_body(worker_from_row(row)), None))
    GpuAllocation.objects.filter(pk__in=[row.pk for row in gone]).update(state=State.RELEASED, reason="gone")
    new = [pod for uid, pod in there.items() if uid not in live]
    late = _pods_released_later(facts.name, new, listed)
    new = [pod for pod in new if pod.uid not in late]
    _count_new(facts, new)
    return repairs + [
        GpuRepair(facts.name, pod.uid, "added", None, _worker_body(facts.spec.with_defaults(pod.worker))) for pod in new
    ]


def _is_older_than_list(row: GpuAllocation, listed: Mapping[int, datetime]) -> bool:
    """Whether the list of its cluster would have shown this row's pod."""
    return row.backend_id is not None and row.backend_id in listed and row.changed_at < listed[row.backend_id]


def _count_new(facts: GpuNamespace, pods: Iterable[PodWorker]) -> None:
    spec = facts.spec
    GpuAllocation.objects.bulk_create(
        GpuAllocation(
            namespace=pod.namespace,
            name=pod.uid,
            workload=pod.workload,
            source=Source.POD,
            backend_id=pod.backend,
            uncounted=pod.uncounted,
            **allocation_columns(spec.with_defaults(pod.worker)),
        )
        for pod in pods
    )


def _update_known_pod(row: GpuAllocation, pod: PodWorker) -> list[GpuRepair]:
    """Update the row of a known pod that is bound now or has other amounts. Amounts that the pod does not give stay."""
    before, repairs = worker_from_row(row), []
    after = pod.worker.or_else(before)
    columns: dict[str, Any] = {}
    if row.state == State.ASSUMED:
        columns |= {"state": State.COMMITTED, "expires_at": None}
        repairs.append(GpuRepair(row.namespace, row.name, "committed", "assumed", "committed"))
    if not before.is_same_size(after):
        columns |= allocation_columns(after)
        repairs.append(GpuRepair(row.namespace, row.name, "changed", _worker_body(before), _worker_body(after)))
    if (row.workload, row.backend_id, row.uncounted) != (pod.workload, pod.backend, pod.uncounted):
        columns |= {"workload": pod.workload, "backend_id": pod.backend, "uncounted": pod.uncounted}
    if columns:
        GpuAllocation.objects.filter(pk=row.pk).update(**columns)
    return repairs


def _pods_released_later(namespace: str, pods: Sequence[PodWorker], listed: Mapping[int, datetime]) -> set[str]:
    """The uids of listed pods that were released after the list began; they must not be counted again."""
    rows = GpuAllocation.objects.filter(
        namespace=namespace, state=State.RELEASED, name__in=[pod.uid for pod in pods]
    ).values_list("name", "released_at")
    since = {pod.uid: listed[pod.backend] for pod in pods}
    return {name for name, at in rows if at is not None and at >= since[name]}


def _worker_body(worker: GpuWorker) -> WorkerSize:
    return {"request": worker.request.as_dict(), "limit": worker.limit.as_dict(), "count": worker.count}


def _recount(namespace: str) -> list[GpuRepair]:
    """Repair counters that are not the sum of their rows."""
    names = list(RECOUNTS)
    stored, counted = execute_sql(
        f"""
        SELECT {", ".join(names)} FROM pools_gpuusage WHERE namespace = %s
        UNION ALL
        SELECT {", ".join(RECOUNTS.values())} FROM pools_gpuallocation WHERE namespace = %s AND state <> 'released'
        """,
        [namespace, namespace],
    ).fetchall()
    wrong = [place for place in range(len(names)) if stored[place] != counted[place]]
    if wrong:
        execute_sql("SELECT set_config('osmo.recount', 'on', true)")
        execute_sql(  # the trigger sets the counters
            "UPDATE pools_gpuusage SET revision = revision + 1, changed_at = clock_timestamp() WHERE namespace = %s",
            [namespace],
        )
        execute_sql("SELECT set_config('osmo.recount', 'off', true)")
    return [GpuRepair(namespace, names[place], "recounted", str(stored[place]), str(counted[place])) for place in wrong]


def apply_pod_changes(
    backend: int, workers: Sequence[PodWorker], idle: Sequence[str] = (), gone: Sequence[str] = ()
) -> None:
    """Apply the events of a watch on the pods of one cluster: `workers` are bound pods, which count from now on; `idle`
    and `gone` are uids of pods that do not count. For `gone` pods the reservations are released, too.

    No cap is checked, because a bound pod runs whatever the caps say. A pod that was gone once never counts again.
    """
    over = Q(name__in=gone, state__in=(State.COMMITTED, State.ASSUMED)) | Q(name__in=idle, state=State.COMMITTED)
    lost = GpuAllocation.objects.filter(over, source=Source.POD, backend=backend)
    by_namespace: dict[str, list[PodWorker]] = {name: [] for name in lost.values_list("namespace", flat=True)}
    for worker in workers:
        by_namespace.setdefault(worker.namespace, []).append(worker)
    for namespace in sorted(by_namespace):
        # The next rebuild repairs a namespace that is left out.
        with (
            left_out_on_error("the count of GPU pods of a namespace", namespace),
            change(actor=SYSTEM, description="observed"),
        ):
            facts = lock_namespace(namespace)
            rows = list(lost.filter(namespace=namespace))
            for reason, names in (("gone", set(gone)), ("idle", set(idle))):  # an idle pod may count again
                ended = GpuAllocation.objects.filter(pk__in=[row.pk for row in rows if row.name in names])
                ended.update(state=State.RELEASED, reason=reason, expires_at=None)
            has_changed = _count_bound_pods(facts, by_namespace[namespace]) or bool(rows)
            if has_changed:
                update_conditions(
                    facts.quota, facts.spec, read_namespaces([namespace])[namespace].committed, timezone.now()
                )


def _count_bound_pods(facts: GpuNamespace, pods: Sequence[PodWorker]) -> bool:
    """Count pods that are bound; returns whether any row changed."""
    there = {pod.uid: pod for pod in pods}
    rows = GpuAllocation.objects.filter(namespace=facts.name, name__in=there)
    live = {row.name: row for row in rows.exclude(state=State.RELEASED)}
    over = set(rows.filter(state=State.RELEASED, reason="gone").values_list("name", flat=True))
    has_changed = False
    for uid, row in live.items():
        if row.source == Source.POD and _update_known_pod(row, there[uid]):
            has_changed = True
    new = [pod for uid, pod in there.items() if uid not in live and uid not in over]
    _count_new(facts, new)
    return has_changed or bool(new)
