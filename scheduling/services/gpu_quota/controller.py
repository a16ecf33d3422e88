"""The GPU quota controller of one cluster: reads the quota objects, follows the worker pods, writes the statuses.

One controller works on a backend at a time (a lease, :mod:`scheduling.services.kubernetes.leased_loop`), and none while
another installation holds the Lease in the cluster. Two controllers at the same time would write the same values. The
controller is level-triggered: the ledger is derived from the state of the cluster, the statuses are derived from the
ledger, and every status that differs is written, so no change is lost. Statuses have a thread of their own, so that a
long rebuild does not delay them. The controller speaks to its cluster only outside of transactions.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from django.db import DatabaseError, InterfaceError, connection
from django.utils import timezone

from pools.database.one_by_one import left_out_on_error
from pools.database.transactions import database_time
from pools.domain.errors import Conflict
from pools.domain.gpu_quota.spec import parse_gpu_quota_spec
from pools.domain.people.roles import SYSTEM
from pools.models import Backend, GpuQuota
from pools.representations.gpu_quota import gpu_status_body
from pools.selectors.gpu_namespace import GpuNamespace, read_namespaces
from pools.services.gpu_quota.gpu_quotas import apply_cluster_quota, drop_cluster_quota, is_cluster_quota_applied
from pools.services.gpu_quota.gpu_rebuild import (
    GpuRepair,
    PodWorker,
    apply_pod_changes,
    rebuild_gpu_usage,
)
from scheduling.domain.cluster.naming import FIELD_MANAGER
from scheduling.domain.cluster.pods.gpu_pod import (
    WORKER_SELECTOR,
    claimed_task,
    format_time,
    object_status_body,
    read_gpu_pod,
    refused_status_body,
    trim_worker_pod,
)
from scheduling.domain.kubernetes_json import Object
from scheduling.kube.cluster_lease import HolderCheck
from scheduling.kube.connection import errors, resource_kinds
from scheduling.kube.connection.backoff import Backoff
from scheduling.kube.connection.errors import ClusterError
from scheduling.kube.connection.parallel import map_bounded
from scheduling.kube.connection.port import Cluster
from scheduling.kube.fence import fence
from scheduling.kube.informer import Informer, InformerTiming
from scheduling.models import GpuControllerLease
from scheduling.selectors.cluster.own_pods import own_tasks
from scheduling.services.kubernetes import connections
from scheduling.services.kubernetes.instance_id import read_instance_id
from scheduling.services.kubernetes.leased_loop import BackendRemoved, LeasedLoop, kubernetes_backend
from scheduling.services.kubernetes.leases import LOOP_TIMING, HeldElsewhere, Lease, LeaseLost
from scheduling.services.webhooks.upkeep import keep_webhooks

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GpuControllerIntervals:
    """Seconds between rounds (`reconcile`, the longest delay of a status), rebuilds from all pods, and attempts to
    claim a lease that another controller holds (`standby`); `webhooks` are those between checks of the webhook
    configuration. `debounce` is how long changes gather before a round."""

    reconcile: float = 5.0
    debounce: float = 0.2
    rebuild: float = 300.0
    standby: float = 1.0
    webhooks: float = 10.0
    informer_timing: InformerTiming = field(default_factory=InformerTiming)


def cluster_source(backend: Backend, name: str) -> str:
    """The `source` of a quota that an object of a cluster sets."""
    return f"kubernetes:{backend.name}/{name}"


class GpuQuotaController(LeasedLoop):
    """The controller of a backend. :meth:`relist_and_reconcile` is one whole round of :meth:`run`."""

    title = "GPU quota controller"

    def __init__(
        self,
        backend_id: int,
        *,
        connect: Callable[[Backend], Cluster] = connections.connect,
        intervals: GpuControllerIntervals = GpuControllerIntervals(),
    ) -> None:
        super().__init__(
            backend_id, Lease(backend_id, GpuControllerLease, LOOP_TIMING), standby_seconds=intervals.standby
        )
        self._statuses_due = threading.Event()
        self._connect, self._intervals = connect, intervals
        self._cluster: Cluster | None = None  # fenced
        self._holder_check: HolderCheck | None = None
        self._lock, self._changed_pods = threading.Lock(), set[str]()
        self._rebuilt_at: float | None = None
        self._webhooks_checked_at: float | None = None
        common: dict[str, Any] = {"connect": lambda: self._cluster, "timing": intervals.informer_timing}
        self._quotas: Informer[str] = Informer(
            resource_kinds.GPU_RESOURCE_QUOTA, key_of=_namespace, on_change=lambda _: None, name_of=_full_name, **common
        )
        self._pods: Informer[str] = Informer(
            resource_kinds.POD,
            key_of=_uid,
            on_change=self._mark_pod_changed,
            name_of=_uid,
            transform=trim_worker_pod,
            labels=WORKER_SELECTOR,
            **common,
        )

    def wake(self) -> None:
        """Something changed in the ledger: work soon."""
        super().wake()
        self._statuses_due.set()

    def end_pauses(self) -> None:
        """The cluster answers after an outage: follow it again now."""
        for informer in (self._quotas, self._pods):
            informer.retry_now()
        self.wake()

    # --- the loop ---------------------------------------------------------------------------------------------------
    def _ensure_lease_row(self) -> None:
        self._read_backend()
        GpuControllerLease.objects.get_or_create(backend_id=self.backend_id)

    def _work(self, stop: threading.Event, backoff: Backoff) -> None:
        backend = self._read_backend()
        self._holder_check = HolderCheck(backend.namespace, read_instance_id(backend))
        while self._is_held_elsewhere():
            self._keep_lease()
            if stop.wait(self._standby_seconds):
                return
            self._read_backend()
        threads_stop = threading.Event()
        self._rebuilt_at = None
        for informer in (self._quotas, self._pods):
            threading.Thread(target=informer.run, args=[threads_stop], daemon=True).start()
        writer = threading.Thread(target=self._write_statuses_repeatedly, args=[threads_stop], daemon=True)
        writer.start()
        try:
            while not stop.is_set():
                backend = self._read_backend()
                self._keep_lease()
                if self._is_held_elsewhere():
                    raise HeldElsewhere("Another installation holds the Lease in the cluster.", retry_after=1)
                self._wake.clear()
                self._keep_webhooks(backend)
                self.update_ledger()
                self._statuses_due.set()
                backoff.reset()
                self._wake.wait(self._intervals.reconcile)
                stop.wait(self._intervals.debounce)
        finally:
            threads_stop.set()
            self._statuses_due.set()
            writer.join()

    def _is_held_elsewhere(self) -> bool:
        """Whether another installation works with the namespace of this backend. While the cluster does not answer,
        none is known; the fence lets no write pass then."""
        check, cluster = self._holder_check, self._cluster
        with suppress(ClusterError):
            return check is not None and cluster is not None and bool(check.find_other(cluster))
        return False

    def _require_lease(self) -> None:
        super()._require_lease()
        check, cluster = self._holder_check, self._cluster
        if self._is_leased and check is not None and cluster is not None and check.find_other(cluster):
            raise HeldElsewhere("Another installation holds the Lease in the cluster.", retry_after=1)

    def _write_statuses_repeatedly(self, stop: threading.Event) -> None:
        """Write the statuses again and again until `stop` is set, with a database connection of this thread's own. The
        thread also renews the lease, while the other thread is busy with a rebuild."""
        while not stop.is_set():
            self._statuses_due.clear()
            try:
                self._lease.renew()
                self.write_statuses()
            except LeaseLost:
                pass  # where the lease is gone for good, the other thread ends the work
            except Exception:
                logger.exception("the GPU quota statuses of backend %s are not written yet", self.backend_id)
                with suppress(DatabaseError, InterfaceError):
                    connection.close()
            self._statuses_due.wait(self._intervals.reconcile)
            stop.wait(self._intervals.debounce)
        connection.close()

    def _keep_webhooks(self, backend: Backend) -> None:
        """Check the webhooks of the cluster now and then; they say which namespaces have a quota."""
        due = (
            self._webhooks_checked_at is None or time.monotonic() - self._webhooks_checked_at > self._intervals.webhooks
        )
        if self._cluster is not None and due:
            self._webhooks_checked_at = time.monotonic()
            keep_webhooks(backend, self._cluster)

    # --- single steps -----------------------------------------------------------------------------------------------
    def relist_and_reconcile(self) -> list[GpuRepair]:
        """List everything instead of following it, rebuild, and write every status. Raises ClusterError."""
        try:
            self._read_backend()
        except BackendRemoved:
            return []
        if self._cluster is None:
            raise errors.Unreachable("There is no connection.")
        with suppress(errors.KindMissing):
            self._quotas.relist()
        self._pods.relist()
        self._rebuilt_at = None
        return self.reconcile()

    def reconcile(self) -> list[GpuRepair]:
        """Update the ledger from what is known of the cluster, and write the statuses. Returns the repairs of a
        rebuild, if one was due."""
        repairs = self.update_ledger()
        self.write_statuses()
        return repairs

    def update_ledger(self) -> list[GpuRepair]:
        """Update the ledger from what is known of the cluster. Returns the repairs of a rebuild, if one was due."""
        repairs = list[GpuRepair]()
        try:
            backend = self._read_backend()
        except BackendRemoved:
            return repairs
        if self._cluster is None:
            return repairs
        if self._quotas.has_synced:
            self._apply_quota_objects(backend)
        if self._is_rebuild_due():
            with suppress(ClusterError):
                repairs = self._rebuild(self._cluster)
        elif self._pods.has_synced:
            self._apply_changed_pods(backend)
        return repairs

    def write_statuses(self) -> None:
        """Write the status of every quota object whose status differs."""
        backend, cluster = Backend.objects.filter(pk=self.backend_id).first(), self._cluster
        if backend is not None and cluster is not None and self._quotas.has_synced:
            self._write_statuses(backend, cluster)

    def _read_backend(self) -> Backend:
        """The backend as it is now, after connecting to its cluster. Raises BackendRemoved."""
        backend = kubernetes_backend(self.backend_id)
        try:
            self._cluster = fence(self._connect(backend), self._require_lease)
        except ClusterError as error:
            self._cluster = None
            logger.info("backend %s cannot be reached: %s", backend.name, error)
        return backend

    # --- pods -------------------------------------------------------------------------------------------------------
    def _mark_pod_changed(self, uid: str) -> None:
        with self._lock:
            self._changed_pods.add(uid)

    def _is_rebuild_due(self) -> bool:
        return self._rebuilt_at is None or time.monotonic() - self._rebuilt_at > self._intervals.rebuild

    def _rebuild(self, cluster: Cluster) -> list[GpuRepair]:
        with self._lock:
            self._changed_pods.clear()
        repairs = rebuild_from_clusters({self.backend_id: cluster})
        self._rebuilt_at = time.monotonic()
        return repairs

    def _apply_changed_pods(self, backend: Backend) -> None:
        with self._lock:
            changed, self._changed_pods = self._changed_pods, set()
        if not changed:
            return
        try:
            pods = {uid: self._pods.get(uid) for uid in changed}
            workers = {each.uid: each for each in _pod_workers(pods.values(), backend)}
            idle = [uid for uid, pod in pods.items() if pod is not None and uid not in workers]
            gone = [uid for uid, pod in pods.items() if pod is None]
            apply_pod_changes(backend.pk, list(workers.values()), idle, gone)
        except BaseException:
            with self._lock:
                self._changed_pods |= changed
            raise

    # --- quotas -----------------------------------------------------------------------------------------------------
    def _apply_quota_objects(self, backend: Backend) -> None:
        """Write the quotas of the objects to the ledger; the oldest object of a namespace is in force. A quota that is
        up to date is not locked, because allocations wait for that lock."""
        in_force = {namespace: objects[0] for namespace, objects in self._objects_by_namespace().items()}
        known = GpuQuota.objects.filter(source__startswith=cluster_source(backend, ""))
        for namespace, source in known.values_list("namespace", "source"):
            if namespace not in in_force or cluster_source(backend, _name(in_force[namespace])) != source:
                with left_out_on_error("the GPU quota object of a namespace", namespace):
                    drop_cluster_quota(actor=SYSTEM, namespace=namespace, source=source)
        rows = {row.namespace: row for row in GpuQuota.objects.filter(namespace__in=in_force)}
        for namespace, item in sorted(in_force.items()):
            source, spec = cluster_source(backend, _name(item)), item.get("spec") or {}
            # Another source may set this quota (Conflict); the object's status says so.
            with left_out_on_error("the GPU quota object of a namespace", namespace), suppress(Conflict):
                if not is_cluster_quota_applied(rows.get(namespace), source, spec):
                    apply_cluster_quota(actor=SYSTEM, namespace=namespace, source=source, spec=spec)

    def _objects_by_namespace(self) -> dict[str, list[Object]]:
        found: dict[str, list[Object]] = {}
        for item in self._quotas.objects().values():
            found.setdefault(_namespace(item), []).append(item)
        for items in found.values():
            items.sort(key=lambda item: (item["metadata"].get("creationTimestamp") or "", _uid(item)))
        return found

    # --- status -----------------------------------------------------------------------------------------------------
    def _write_statuses(self, backend: Backend, cluster: Cluster) -> None:
        by_namespace = self._objects_by_namespace()
        facts = read_namespaces(by_namespace)
        due = list[tuple[Object, dict[str, Any]]]()
        for namespace, items in by_namespace.items():
            with left_out_on_error("the status of the GPU quota object of a namespace", namespace):
                due += [
                    (item, status)
                    for item, status in zip(items, _status_bodies(backend, items, facts[namespace]), strict=True)
                    if status is not None and (item.get("status") or {}) != status
                ]
        for error in map_bounded(due, lambda each: _write_status(cluster, *each), lambda error: error):
            if error is not None and not isinstance(error, errors.ObjectNotFound):
                logger.warning("backend %s: a GPU quota's status is not written yet: %s", backend.name, error)


def rebuild_from_clusters(clusters: Mapping[int, Cluster], only_namespace: str | None = None) -> list[GpuRepair]:
    """Replace the recorded pods by the pods of these clusters (by the id of their backend), and recount.

    Raises ClusterError before anything is changed."""
    workers: list[PodWorker] = []
    listed = {}
    backends = Backend.objects.in_bulk(list(clusters))
    for backend_id, cluster in clusters.items():
        listed[backend_id] = database_time()
        found = cluster.list(
            resource_kinds.POD, namespace=only_namespace, labels=WORKER_SELECTOR, transform=trim_worker_pod
        ).items
        if backend_id in backends:
            workers += _pod_workers(found, backends[backend_id])
    return rebuild_gpu_usage(workers, listed, only_namespace)


def _pod_workers(pods: Iterable[Object | None], backend: Backend) -> list[PodWorker]:
    """The workers that these pods count as. Pods of our open tasks are counted with their workflows."""
    there = [pod for pod in pods if pod is not None]
    inside = [pod for pod in there if _namespace(pod) == backend.namespace]
    ours = own_tasks(backend, backend.namespace, inside)
    return [
        PodWorker(found.namespace, found.uid, found.workload, found.worker, backend.pk, " ".join(found.uncounted))
        for pod in there
        if (found := read_gpu_pod(pod)) is not None
        and found.is_counted
        and not (found.namespace == backend.namespace and claimed_task(pod) in ours)
    ]


def _status_bodies(backend: Backend, items: Sequence[Object], facts: GpuNamespace) -> Iterable[dict[str, Any] | None]:
    """The statuses of one namespace's objects, the oldest object first, because only the oldest may be in force. None:
    the ledger has not read the object yet, so there is nothing to write."""
    oldest, prefix = _name(items[0]), cluster_source(backend, "")
    for position, item in enumerate(items):
        if position:
            yield _refused_status(item, "Duplicate", f"{oldest} is older and in force; a namespace has one quota.")
        elif facts.quota is None:
            faults = " ".join(fault.message for fault in parse_gpu_quota_spec(item.get("spec") or {})[1])
            message = f"The spec is not valid, so nothing limits this namespace: {faults}"
            yield _refused_status(item, "InvalidSpec", message) if faults else None
        elif facts.quota.source != f"{prefix}{oldest}":
            if facts.quota.source.startswith(prefix):
                yield None
                continue
            source = facts.quota.source.partition(":")[2] or "the API of OSMO Admin"
            yield _refused_status(item, "NotInForce", f"The quota of this namespace is set by {source}.")
        else:
            yield object_status_body(gpu_status_body(facts))


def _refused_status(item: Object, reason: str, message: str) -> dict[str, Any]:
    condition = ((item.get("status") or {}).get("conditions") or [{}])[0]
    is_unchanged = (condition.get("type"), condition.get("status")) == ("Ready", "False")
    since = condition.get("lastTransitionTime") if is_unchanged else None
    return refused_status_body(reason, message, since or format_time(timezone.now()))


def _write_status(cluster: Cluster, item: Object, status: Mapping[str, Any]) -> ClusterError | None:
    metadata = item["metadata"]
    removed = {key: None for key in item.get("status") or {} if key not in status}
    try:
        cluster.merge(
            resource_kinds.GPU_RESOURCE_QUOTA,
            metadata["name"],
            {"status": {**removed, **status}},
            field_manager=FIELD_MANAGER,
            namespace=metadata["namespace"],
            status=True,
        )
    except ClusterError as error:
        return error
    return None


def _name(item: Object) -> str:
    return str(item["metadata"]["name"])


def _namespace(item: Object) -> str:
    return str(item["metadata"]["namespace"])


def _full_name(item: Object) -> str:
    return f"{_namespace(item)}/{_name(item)}"


def _uid(item: Object) -> str:
    return str(item["metadata"].get("uid") or "")
