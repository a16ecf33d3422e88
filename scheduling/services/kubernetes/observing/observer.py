"""The observer of a cluster that is only read: it keeps its nodes, its work and the use of both in the ledger.

It is the loop of a backend in mode observe, in place of the agent, under the same lease in the database. Its connection
has no call that writes (:class:`scheduling.kube.connection.port.ClusterReader`), and it takes no Lease in the cluster:
any number of installations may observe the same cluster.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from django.utils import timezone

from pools.database.one_by_one import left_out_on_error
from pools.models import Backend
from scheduling.domain.cluster.node import ForeignUsage, foreign_usage_by_node
from scheduling.domain.kubernetes_json import Object
from scheduling.domain.observed.seen_pods import SeenWork
from scheduling.domain.observed.seen_work import POD, read_work
from scheduling.kube.connection import errors
from scheduling.kube.connection.backoff import Backoff
from scheduling.kube.connection.error_messages import error_message
from scheduling.kube.connection.errors import ClusterError
from scheduling.kube.connection.port import ClusterReader
from scheduling.kube.informer import InformerTiming
from scheduling.models import ClusterState, QueueSync
from scheduling.services.kubernetes import connections, heartbeats
from scheduling.services.kubernetes.leased_loop import NOT_COUNTED, ContactLoop, observed_backend
from scheduling.services.kubernetes.leases import LOOP_TIMING, Lease
from scheduling.services.kubernetes.nodes import list_device_use, write_cluster_nodes
from scheduling.services.kubernetes.observing.difference_watch import DifferenceWatch, decisions_between
from scheduling.services.kubernetes.observing.informers import ObservedInformers
from scheduling.services.kubernetes.observing.record import RecordResult, WorkRecorder
from scheduling.services.kubernetes.syncing import sync_condition


@dataclass(frozen=True, slots=True)
class ObserverIntervals:
    """Seconds between two looks where no event reports a change (`round`), lists of devices and claims (`recount`),
    comparisons of what waits (`waiting`), heartbeats, reads of the backend's configuration, and attempts to claim a
    lease that another process holds (`standby`)."""

    round: float = 10.0
    recount: float = 60.0
    waiting: float = 30.0
    heartbeat: float = 10.0
    configuration: float = 2.0
    standby: float = 1.0
    informer_timing: InformerTiming = field(default_factory=InformerTiming)


class ClusterObserver(ContactLoop):
    """The observer of a backend. :meth:`relist_and_observe` is one whole round of :meth:`run`."""

    title = "observer"

    def __init__(
        self,
        backend_id: int,
        *,
        connect: Callable[[Backend], ClusterReader] = connections.connect_reader,
        intervals: ObserverIntervals = ObserverIntervals(),
    ) -> None:
        super().__init__(backend_id, Lease(backend_id, ClusterState, LOOP_TIMING), standby_seconds=intervals.standby)
        self._connect, self._intervals = connect, intervals
        self._cluster: ClusterReader | None = None
        self._informers = ObservedInformers(lambda: self._cluster, self._wake.set, intervals.informer_timing)
        self._recorder, self._differences = WorkRecorder(self._require_lease), DifferenceWatch()
        self._backend: Backend | None = None
        self._devices: tuple[list[Object], list[Object]] | None = None
        self._usage: dict[str, ForeignUsage] | None = None

    def end_pauses(self) -> None:
        """The cluster answers after an outage: read it again now."""
        if self._error is not None:
            self._due["heartbeat"] = 0.0
        self._informers.retry_now()
        self._wake.set()

    def relist_and_observe(self) -> None:
        """List everything, and write what is found."""
        self._ensure_lease_row()
        self._due.clear()
        self._read_backend()
        self._informers.relist()
        self.observe()

    def observe(self) -> None:
        """Write the work and the nodes of the cluster where they have changed."""
        self._wake.clear()
        backend = self._read_backend()
        self._heartbeat(backend)
        if not self._informers.has_synced:
            return
        is_look_due = self._is_due("round", self._intervals.round)
        if not self._informers.pop_changed() and not is_look_due:
            return
        pods, deleted = self._informers.pods.objects(), self._informers.read_deleted()
        seen = read_work(
            (*pods.values(), *deleted.pods.values()),
            self._informers.pod_groups.objects().values(),
            self._informers.workloads(),
            self._informers.local_queues(),
            gone_groups=deleted.pod_groups.values(),
            gone_workloads=deleted.workloads.values(),
            priority_classes=self._informers.priority_classes.objects().values(),
            owner_label=self._informers.owner_label,
            now=timezone.now(),
        )
        works = [self._recorder.with_losses(work) for work in seen.works]
        unread = frozenset(each.uid for each in seen.unread)
        found = self._write_work(backend, works, unread)
        if found.is_unfinished:
            self._due["round"] = 0.0
        else:
            self._informers.forget_deleted(deleted)
        self._require_lease()
        heartbeats.record_uncounted(backend, found.unassigned, seen.unread, found.failed)
        unreadable = {each.uid for each in seen.unread if each.is_malformed and each.kind == POD}
        left_out = found.counted | unreadable
        others = [pod for pod in pods.values() if str(pod["metadata"].get("uid") or "") not in left_out]
        has_new_nodes = self._write_nodes(backend, others)
        if has_new_nodes and self._recorder.misses_flavors:
            self._recorder.write(backend, works, unread)

    # --- the loop ---------------------------------------------------------------------------------------------------
    def _ensure_lease_row(self) -> None:
        backend = observed_backend(self.backend_id)
        heartbeats.cluster_state(backend)
        sync_condition.set_observed(QueueSync.objects.get_or_create(backend=backend)[0])

    def _work(self, stop: threading.Event, backoff: Backoff) -> None:
        self._due.clear()
        # Another process may have observed meanwhile: nothing that this one saw before is a decision of now.
        self._recorder, self._differences = WorkRecorder(self._require_lease), DifferenceWatch()
        self._devices = self._usage = None
        self._read_backend()
        informers_stop = threading.Event()
        self._informers.start(informers_stop, f"observed-{self.backend_id}")
        try:
            while not stop.is_set():
                self._keep_lease()
                self.observe()
                backoff.reset()
                self._wake.wait(min(self._intervals.round, 1.0))
                stop.wait(0.02)
        finally:
            informers_stop.set()
            self._informers = ObservedInformers(lambda: self._cluster, self._wake.set, self._intervals.informer_timing)

    def _write_work(self, backend: Backend, works: Sequence[SeenWork], unread: Collection[str]) -> RecordResult:
        """Write the work. First without the decisions since the last look, so that our engine can judge them from the
        facts that the cluster's scheduler had. While the cluster is silent nothing is judged: what is seen is old."""
        is_current = self._error is None and not self._informers.error_message and not backend.offline
        if self._recorder.has_looked and is_current:
            before = [self._recorder.before_decisions(work) for work in works]
            if decided := decisions_between(before, works):
                self._recorder.write(backend, before, unread)
                with left_out_on_error("the differences of a cluster", backend.name):
                    self._differences.judge(backend, decided)
            elif self._is_due("waiting", self._intervals.waiting):
                with left_out_on_error("the differences of a cluster", backend.name):
                    self._differences.judge_waiting(backend)
        return self._recorder.write(backend, works, unread)

    def _write_nodes(self, backend: Backend, others: Sequence[Object]) -> bool:
        """The nodes, and what the pods that count in no pool hold there: a GPU that a pod holds is never free. Devices
        and claims are listed from time to time; before the first list the last known amounts stay. Returns whether
        nodes have changed."""
        is_recount = self._error is None and self._cluster is not None
        is_recount = is_recount and self._is_due("recount", self._intervals.recount)
        if is_recount and self._cluster is not None:
            self._refusals.pop(NOT_COUNTED, None)
            try:
                self._devices = list_device_use(self._cluster)
            except ClusterError as error:
                self._record_error(error, NOT_COUNTED)
                self._due["recount"] = time.monotonic() + self._intervals.heartbeat
        usage = None
        if self._devices is not None:
            device_lists, claims = self._devices
            usage = foreign_usage_by_node(others, "", "", device_lists=device_lists, claims=claims)
        have_changed = self._informers.pop_nodes_changed()
        if have_changed or is_recount or usage != self._usage:
            write_cluster_nodes(backend, self._informers.nodes.objects(), usage)
            self._usage = usage
        return have_changed

    def _heartbeat(self, backend: Backend) -> None:
        """Ask the API server for its version and record whether the cluster answers."""
        if not self._is_due("heartbeat", self._intervals.heartbeat):
            return
        try:
            if self._cluster is None:
                raise self._error or errors.Unreachable("There is no connection yet.")
            self._cluster.version()
        except ClusterError as error:
            self._error = error
            self._due["heartbeat"] = time.monotonic() + self._heartbeat_backoff.next_pause(error.retry_after)
            heartbeats.record_cluster_error(backend, error_message(error))
            return
        self._heartbeat_backoff.reset()
        if self._error is not None:
            self._error = None
            self._informers.retry_now()
        if problem := self._informers.error_message:
            heartbeats.record_cluster_error(backend, problem)
        elif self._informers.has_synced:
            heartbeats.record_heartbeat(backend, next(iter(self._refusals.values()), ""))

    def _read_backend(self) -> Backend:
        """The backend's current configuration, after the connection was adapted to it. Raises BackendRemoved when it is
        no longer observed."""
        if self._backend is not None and not self._is_due("configuration", self._intervals.configuration):
            return self._backend
        self._backend = backend = observed_backend(self.backend_id)
        self._informers.owner_label = backend.kubernetes.owner_label
        try:
            self._cluster = self._connect(backend)
        except ClusterError as error:  # the credential cannot be used at all
            self._cluster, self._error = None, error
        return backend
