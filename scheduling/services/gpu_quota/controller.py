"""The keeper of one cluster's GPU quotas: reads the quota objects, follows the worker pods, writes the status.

One keeper works on a backend at a time: a lease, which ends by itself when its process dies. Should two work all the
same, they say the same. It is level-triggered: what the ledger should say follows from what the cluster shows, and what
the cluster should show from what the ledger says; the status is written where the two differ, so no change can be lost.
Statuses have a thread of their own, so that a long rebuild keeps none of them waiting. It speaks to its cluster only
outside of transactions.
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

from pools.domain.errors import Busy, Conflict
from pools.domain.gpu_quota.spec import parse_gpu_quota_spec
from pools.domain.roles import SYSTEM
from pools.models import Backend, GpuQuota
from pools.representations.gpu_quota import gpu_status_body
from pools.selectors.gpu_namespace import GpuNamespace, read_namespaces
from pools.services.gpu_quotas import apply_cluster_quota, drop_cluster_quota, is_cluster_quota_applied
from pools.services.gpu_rebuild import GpuRepair, PodWorker, apply_pod_changes, database_time, rebuild_gpu_usage
from scheduling.domain.cluster.gpu_pod import (
    WORKER_SELECTOR,
    format_time,
    object_status_body,
    read_gpu_pod,
    refused_status_body,
    trim_worker_pod,
)
from scheduling.domain.cluster.naming import FIELD_MANAGER
from scheduling.kube import connections, errors, resource_kinds
from scheduling.kube.backoff import Backoff
from scheduling.kube.errors import ClusterError
from scheduling.kube.informer import Informer, InformerTiming
from scheduling.kube.parallel import map_bounded
from scheduling.kube.port import Cluster, Object
from scheduling.models import GpuControllerLease
from scheduling.services.kubernetes.leases import AlreadyClaimed, Lease, LeaseLost

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GpuControllerIntervals:
    """Seconds between looks (a status is at most so late), rebuilds from all pods, and looks at somebody else's
    lease; and how long to let changes gather."""

    reconcile: float = 5.0
    debounce: float = 0.2
    rebuild: float = 300.0
    standby: float = 2.0
    informer_timing: InformerTiming = field(default_factory=InformerTiming)


def cluster_source(backend: Backend, name: str) -> str:
    """How a quota's row calls the object that keeps it."""
    return f"kubernetes:{backend.name}/{name}"


class GpuQuotaController:
    """The keeper of a backend. :meth:`run` works until told to stop; :meth:`relist_and_reconcile` is one whole look."""

    def __init__(
        self,
        backend_id: int,
        *,
        connect: Callable[[Backend], Cluster] = connections.connect,
        intervals: GpuControllerIntervals = GpuControllerIntervals(),
    ) -> None:
        self.backend_id = backend_id
        self.last_alive_at = time.monotonic()
        self._wake, self._moved_on = threading.Event(), threading.Event()
        self._open, self._rhythm = connect, intervals
        self._cluster: Cluster | None = None
        self._lock, self._moved = threading.Lock(), set[str]()
        self._rebuilt_at: float | None = None
        self._lease = Lease(backend_id, GpuControllerLease)
        common: dict[str, Any] = {"connect": lambda: self._cluster, "timing": intervals.informer_timing}
        self._quotas: Informer[str] = Informer(
            resource_kinds.GPU_RESOURCE_QUOTA, key_of=_namespace, on_change=lambda _: None, name_of=_full_name, **common
        )
        self._pods: Informer[str] = Informer(
            resource_kinds.POD,
            key_of=_uid,
            on_change=self._pod_moved,
            name_of=_uid,
            transform=trim_worker_pod,
            labels=WORKER_SELECTOR,
            **common,
        )

    def wake(self) -> None:
        """Something moved in the ledger: look soon."""
        self._wake.set()
        self._moved_on.set()

    # --- living -----------------------------------------------------------------------------------------------------
    def run(self, stop: threading.Event) -> None:
        """Work until told to stop or until the backend is gone. Whatever goes wrong, it goes on after a while."""
        backoff = Backoff(0.5, 30)
        while not stop.is_set():
            pause = self._rhythm.standby
            try:
                if self._backend() is None:
                    break
                GpuControllerLease.objects.get_or_create(backend_id=self.backend_id)
                self._lease.claim()
                try:
                    self._work(stop, backoff)
                finally:
                    with suppress(DatabaseError, InterfaceError):
                        self._lease.release()
            except (AlreadyClaimed, LeaseLost):
                pass  # somebody else keeps them
            except (DatabaseError, InterfaceError, Busy) as problem:
                logger.warning("the GPU quota keeper of backend %s waits: %s", self.backend_id, problem)
                pause = backoff.next_pause()
            except Exception:
                logger.exception("the GPU quota keeper of backend %s stumbled", self.backend_id)
                pause = backoff.next_pause()
            with suppress(DatabaseError, InterfaceError):
                connection.close()
            self.last_alive_at = time.monotonic()
            stop.wait(pause)
        connection.close()

    def _work(self, stop: threading.Event, backoff: Backoff) -> None:
        """Follow and look until told to stop or until the backend is gone. Raises LeaseLost."""
        over = threading.Event()
        self._rebuilt_at = None
        for mirror in (self._quotas, self._pods):
            threading.Thread(target=mirror.run, args=[over], daemon=True).start()
        writer = threading.Thread(target=self._keep_statuses, args=[over], daemon=True)
        writer.start()
        try:
            while not stop.is_set() and self._backend() is not None:
                self._lease.renew()
                self.last_alive_at = time.monotonic()
                self._wake.clear()
                self.update_ledger()
                self._moved_on.set()
                backoff.reset()
                self._wake.wait(self._rhythm.reconcile)
                stop.wait(self._rhythm.debounce)
        finally:
            over.set()
            self._moved_on.set()
            writer.join()

    def _keep_statuses(self, over: threading.Event) -> None:
        """Write what statuses should say, again and again, until told that it is over; with a connection of its own.
        It holds the lease too, while the other thread is long at a rebuild."""
        while not over.is_set():
            self._moved_on.clear()
            try:
                self._lease.renew()
                self.write_statuses()
            except LeaseLost:
                break
            except Exception:
                logger.exception("the statuses of backend %s wait", self.backend_id)
                with suppress(DatabaseError, InterfaceError):
                    connection.close()
            self._moved_on.wait(self._rhythm.reconcile)
            over.wait(self._rhythm.debounce)
        connection.close()

    # --- single steps -----------------------------------------------------------------------------------------------
    def relist_and_reconcile(self) -> list[GpuRepair]:
        """List everything instead of following it, rebuild, and write every status. Raises ClusterError."""
        if self._backend() is None:
            return []
        if self._cluster is None:
            raise errors.Unreachable("There is no connection.")
        with suppress(errors.KindMissing):
            self._quotas.relist()
        self._pods.relist()
        self._rebuilt_at = None
        return self.reconcile()

    def reconcile(self) -> list[GpuRepair]:
        """One look at what is known now, and every status; what a rebuild repaired, if one was due."""
        repairs = self.update_ledger()
        self.write_statuses()
        return repairs

    def update_ledger(self) -> list[GpuRepair]:
        """Bring the ledger in line with what is known of the cluster now; what a rebuild repaired, if one was due."""
        backend, repairs = self._backend(), list[GpuRepair]()
        if backend is None or self._cluster is None:
            return repairs
        if self._quotas.has_synced:
            self._take_quotas(backend)
        if self._is_rebuild_due():
            with suppress(ClusterError):
                repairs = self._rebuild(self._cluster)
        elif self._pods.has_synced:
            self._follow(backend)
        return repairs

    def write_statuses(self) -> None:
        """Write the status of every object whose status is another one."""
        backend, cluster = Backend.objects.filter(pk=self.backend_id).first(), self._cluster
        if backend is not None and cluster is not None and self._quotas.has_synced:
            self._write_statuses(backend, cluster)

    def _backend(self) -> Backend | None:
        backend = Backend.objects.filter(pk=self.backend_id, kind=Backend.Kind.KUBERNETES).first()
        if backend is not None:
            try:
                self._cluster = self._open(backend)
            except ClusterError as error:
                self._cluster = None
                logger.info("backend %s cannot be reached: %s", backend.name, error)
        return backend

    # --- pods -------------------------------------------------------------------------------------------------------
    def _pod_moved(self, uid: str) -> None:
        with self._lock:
            self._moved.add(uid)

    def _is_rebuild_due(self) -> bool:
        return self._rebuilt_at is None or time.monotonic() - self._rebuilt_at > self._rhythm.rebuild

    def _rebuild(self, cluster: Cluster) -> list[GpuRepair]:
        with self._lock:
            self._moved.clear()
        repairs = rebuild_from_clusters({self.backend_id: cluster})
        self._rebuilt_at = time.monotonic()
        return repairs

    def _follow(self, backend: Backend) -> None:
        with self._lock:
            moved, self._moved = self._moved, set()
        if not moved:
            return
        try:
            there = {uid: self._pods.get(uid) for uid in moved}
            count = {uid: found for uid, pod in there.items() if (found := _worker(pod, backend.pk)) is not None}
            idle = [uid for uid, pod in there.items() if pod is not None and uid not in count]
            apply_pod_changes(
                backend.pk, list(count.values()), idle, [uid for uid, pod in there.items() if pod is None]
            )
        except BaseException:
            with self._lock:
                self._moved |= moved
            raise

    # --- quotas -----------------------------------------------------------------------------------------------------
    def _take_quotas(self, backend: Backend) -> None:
        """Bring the ledger's quotas in line with the objects: of each namespace the oldest one is in force. What is in
        line already is not locked, for allocations stand at that lock."""
        first = {namespace: objects[0] for namespace, objects in self._by_namespace().items()}
        ours = GpuQuota.objects.filter(source__startswith=cluster_source(backend, ""))
        for namespace, source in ours.values_list("namespace", "source"):
            if namespace not in first or cluster_source(backend, _name(first[namespace])) != source:
                drop_cluster_quota(actor=SYSTEM, namespace=namespace, source=source)
        there = {row.namespace: row for row in GpuQuota.objects.filter(namespace__in=first)}
        for namespace, item in sorted(first.items()):
            if is_cluster_quota_applied(
                there.get(namespace), cluster_source(backend, _name(item)), item.get("spec") or {}
            ):
                continue
            with suppress(Conflict):  # kept by somebody else; the object's status says so
                apply_cluster_quota(
                    actor=SYSTEM,
                    namespace=namespace,
                    source=cluster_source(backend, _name(item)),
                    spec=item.get("spec") or {},
                )

    def _by_namespace(self) -> dict[str, list[Object]]:
        found: dict[str, list[Object]] = {}
        for item in self._quotas.objects().values():
            found.setdefault(_namespace(item), []).append(item)
        for items in found.values():
            items.sort(key=lambda item: (item["metadata"].get("creationTimestamp") or "", _uid(item)))
        return found

    # --- status -----------------------------------------------------------------------------------------------------
    def _write_statuses(self, backend: Backend, cluster: Cluster) -> None:
        by_namespace = self._by_namespace()
        facts = read_namespaces(by_namespace)
        wanted = [
            (item, status)
            for namespace, items in by_namespace.items()
            for item, status in zip(items, _statuses(backend, items, facts[namespace]), strict=True)
            if status is not None and (item.get("status") or {}) != status
        ]
        for error in map_bounded(wanted, lambda due: _write(cluster, *due), lambda fault: fault):
            if error is not None and not isinstance(error, errors.ObjectNotFound):
                logger.warning("backend %s: a GPU quota's status is not written yet: %s", backend.name, error)


def rebuild_from_clusters(clusters: Mapping[int, Cluster], only_namespace: str | None = None) -> list[GpuRepair]:
    """Replace what was recorded of pods by what these clusters (by the id of their backend) say now, and recount.

    Raises ClusterError before anything is changed."""
    workers: list[PodWorker] = []
    listed = {}
    for backend_id, cluster in clusters.items():
        listed[backend_id] = database_time()
        found = cluster.list(
            resource_kinds.POD, namespace=only_namespace, labels=WORKER_SELECTOR, transform=trim_worker_pod
        ).items
        workers += [worker for pod in found if (worker := _worker(pod, backend_id)) is not None]
    return rebuild_gpu_usage(workers, listed, only_namespace)


def _worker(pod: Object | None, backend_id: int) -> PodWorker | None:
    found = None if pod is None else read_gpu_pod(pod)
    if found is None or not found.is_counted:
        return None
    return PodWorker(found.namespace, found.uid, found.workload, found.worker, backend_id)


def _statuses(backend: Backend, items: Sequence[Object], facts: GpuNamespace) -> Iterable[dict[str, Any] | None]:
    """What the objects of one namespace should say; the first is the one that may be in force. None: it is not taken
    into the ledger yet, so nothing is to be said."""
    first, ours = _name(items[0]), cluster_source(backend, "")
    for place, item in enumerate(items):
        if place:
            yield _refused(item, "Duplicate", f"{first} is older and in force; a namespace has one quota.")
        elif facts.quota is None:
            faults = " ".join(fault.message for fault in parse_gpu_quota_spec(item.get("spec") or {})[1])
            said = f"The spec is not valid, so nothing limits this namespace: {faults}"
            yield _refused(item, "InvalidSpec", said) if faults else None
        elif facts.quota.source != f"{ours}{first}":
            if facts.quota.source.startswith(ours):
                yield None
                continue
            keeper = facts.quota.source.partition(":")[2] or "the API of OSMO Admin"
            yield _refused(item, "NotInForce", f"The quota of this namespace is kept by {keeper}.")
        else:
            yield object_status_body(gpu_status_body(facts))


def _refused(item: Object, reason: str, message: str) -> dict[str, Any]:
    kept = ((item.get("status") or {}).get("conditions") or [{}])[0]
    same = (kept.get("type"), kept.get("status")) == ("Ready", "False")
    since = kept.get("lastTransitionTime") if same else None
    return refused_status_body(reason, message, since or format_time(timezone.now()))


def _write(cluster: Cluster, item: Object, status: Mapping[str, Any]) -> ClusterError | None:
    metadata, there = item["metadata"], item.get("status") or {}
    gone = {key: None for key in there if key not in status}
    try:
        cluster.merge(
            resource_kinds.GPU_RESOURCE_QUOTA,
            metadata["name"],
            {"status": {**gone, **status}},
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
