"""The agent of one cluster: dispatches gangs that may start, follows the running ones and deletes the objects of ended
ones.

One agent works on a backend at a time (a lease, :mod:`scheduling.services.kubernetes.leased_loop`). Even two agents at
the same time would do nothing twice. The agent reads its cluster through informers
(:mod:`scheduling.services.kubernetes.informers`), compares it with the ledger (:mod:`scheduling.domain.cluster.diff`)
and acts on the difference, again and again. Each step may be repeated and may stop anywhere; the next comparison finds
the rest. The agent speaks to its own cluster only, and only outside of transactions, so a dead cluster delays no other.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from django.utils import timezone

from pools.database.one_by_one import left_out_on_error
from pools.domain.values.counting import counted
from pools.models import Backend, KubernetesSettings
from scheduling.domain.cluster.diff import ClusterDiff, OpenGang, diff_gangs
from scheduling.domain.cluster.election import Candidate
from scheduling.domain.cluster.naming import installation_selector, pod_name
from scheduling.domain.cluster.node import foreign_usage_by_node, trim_pod
from scheduling.domain.cluster.pods.pod_status import PodStatusReport
from scheduling.domain.kubernetes_json import Object
from scheduling.domain.receipts.words import PREEMPTED_BY_CLUSTER
from scheduling.domain.statuses import TaskStatus
from scheduling.kube import gang_objects
from scheduling.kube.cluster_lease import DURATION_SECONDS, RENEW_SECONDS, ClusterLease, LeaseState
from scheduling.kube.connection import errors, resource_kinds
from scheduling.kube.connection.backoff import Backoff
from scheduling.kube.connection.error_messages import error_message
from scheduling.kube.connection.errors import ClusterError
from scheduling.kube.connection.port import Cluster, ResourceKind
from scheduling.kube.events import EventReason, EventSubject, EventWriter
from scheduling.kube.fence import fence
from scheduling.kube.gang_objects import GangCreation
from scheduling.kube.informer import InformerTiming
from scheduling.models import ClusterState
from scheduling.selectors.cluster.nodes import read_attempts_with_pods
from scheduling.selectors.queue.cluster_gangs import find_open_groups, read_open_gangs
from scheduling.selectors.work.pending_manifests import ClusterContext
from scheduling.services import notifications
from scheduling.services.kubernetes import connections, heartbeats
from scheduling.services.kubernetes.dispatching import dispatch, observation
from scheduling.services.kubernetes.dispatching.other_flavors import try_other_flavors
from scheduling.services.kubernetes.informers import ClusterInformers, group_id_of, informer_scope, uuid_name
from scheduling.services.kubernetes.instance_id import read_instance_id
from scheduling.services.kubernetes.leased_loop import NOT_COUNTED, BackendRemoved, ContactLoop, kubernetes_backend
from scheduling.services.kubernetes.leases import LOOP_TIMING, HeldElsewhere, Lease
from scheduling.services.kubernetes.nodes import list_device_use, write_cluster_nodes
from scheduling.services.kubernetes.syncing import sync_condition
from scheduling.services.kubernetes.syncing.drift_repair import DriftRepair

_QUEUE_SYNC_PAUSES = (0.5, 30.0)
"""Seconds: the first and the longest pause between two syncs that changes of queues by others cause."""

_QUIET_SECONDS = 60.0
"""After this time without such a change the pauses begin again."""

_NOT_FOUND = "Pods that are missing cannot be looked for"
_NOT_DELETED = "Objects of ended work stay in the cluster"
"""What does not happen where the cluster refuses a call."""

_RECOVERY_SECONDS = 60.0
"""The time for which each heartbeat after an outage ends the pauses of others: a run that began in the outage may still
fail."""


@dataclass(frozen=True, slots=True)
class AgentIntervals:
    """Seconds between comparisons of all open gangs (`reconcile`), recounts of the whole cluster, heartbeats, reads of
    the backend's configuration, and attempts to claim a lease that another agent holds (`standby`). `debounce` is how
    long events gather before they are handled, `lease_duration` that of the Lease in the cluster."""

    reconcile: float = 5.0
    recount: float = 60.0
    heartbeat: float = 10.0
    configuration: float = 2.0
    standby: float = 1.0
    debounce: float = 0.02
    lease_duration: int = DURATION_SECONDS
    informer_timing: InformerTiming = field(default_factory=InformerTiming)


class ClusterAgent(ContactLoop):
    """The agent of a backend. :meth:`relist_and_reconcile` and :meth:`reconcile` are single steps of :meth:`run`."""

    title = "agent"

    def __init__(
        self,
        backend_id: int,
        *,
        connect: Callable[[Backend], Cluster] = connections.connect,
        intervals: AgentIntervals = AgentIntervals(),
        read_instance: Callable[[Backend], str] = read_instance_id,
    ) -> None:
        super().__init__(backend_id, Lease(backend_id, ClusterState, LOOP_TIMING), standby_seconds=intervals.standby)
        self._connect, self._intervals, self._read_instance = connect, intervals, read_instance
        self._cluster_lease: ClusterLease | None = None
        self._recorded_lease: tuple[LeaseState, str] | None = None  # what the row of the backend says
        self._cluster: Cluster | None = None  # fenced
        self._bare_cluster: Cluster | None = None  # the same, for the Lease alone
        self._informers: ClusterInformers | None = None
        self._context: ClusterContext | None = None
        self._dispatcher = dispatch.Dispatcher()
        self._events = EventWriter(lambda: self._cluster)
        self._drift_repair = DriftRepair(self._events)
        self._full_requested = True  # the next comparison covers all open gangs
        self._queue_sync_backoff = Backoff(*_QUEUE_SYNC_PAUSES)
        self._queue_sync_due = 0.0
        self._ends_pauses_until = time.monotonic() + _RECOVERY_SECONDS  # a new agent may follow one that saw an outage

    def wake(self) -> None:
        """Something changed in the ledger: compare all open gangs soon."""
        self._full_requested = True
        super().wake()

    def end_pauses(self) -> None:
        """The cluster answered somebody else: ask it now, and follow it again."""
        if self._error is not None:
            self._due["heartbeat"] = 0.0
        if (informers := self._informers) is not None:
            informers.retry_now()
        self._wake.set()

    # --- the loop ---------------------------------------------------------------------------------------------------
    def _ensure_lease_row(self) -> None:
        heartbeats.cluster_state(kubernetes_backend(self.backend_id))

    def _work(self, stop: threading.Event, backoff: Backoff) -> None:
        informers_stop = threading.Event()
        self._due.clear()
        self._recorded_lease = None
        while not self._enter_election(self._prepare()):
            self._keep_lease()
            if stop.wait(self._intervals.standby):
                return
        if sync_condition.is_held_elsewhere(self.backend_id):
            notifications.enqueue_queue_sync(self.backend_id)
        assert self._informers is not None
        running = self._informers
        running.start(informers_stop, f"cluster-{self.backend_id}")
        renewal = threading.Thread(target=self._renew_cluster_lease, args=[informers_stop], daemon=True)
        renewal.start()
        try:
            while not stop.is_set() and self._informers is running:  # another namespace or shard needs other informers
                self._keep_lease()
                self._follow_instance()
                self._require_election()
                self.reconcile(everything=self._full_requested or self._is_due("reconcile", self._intervals.reconcile))
                backoff.reset()
                self._wake.wait(min(self._intervals.reconcile, 1.0))
                stop.wait(self._intervals.debounce)
        finally:
            informers_stop.set()
            self._informers = None
            if stop.is_set():
                self._release_cluster_lease()

    # --- the Lease in the cluster -----------------------------------------------------------------------------------
    def _enter_election(self, context: ClusterContext) -> bool:
        """Take the Lease in the cluster; False where another installation holds it."""
        self._name_candidate(context.backend)
        self._step_cluster_lease()
        try:
            self._require_election()
        except HeldElsewhere:
            return False
        return True

    def _follow_instance(self) -> None:
        """Take the Lease under the new id of the installation after a restart of the database server: its other
        processes know the new id only. No statement of this loop need have met the restart."""
        context = self._context
        if context is None or not self._is_due("instance", self._intervals.configuration):
            return
        if self._name_candidate(context.backend):
            self._step_cluster_lease()

    def _name_candidate(self, backend: Backend) -> bool:
        """Prepare the Lease for the installation's id as it is now; False where the Lease at hand is that one."""
        candidate = Candidate(self._read_instance(backend), f"{socket.gethostname()}/{os.getpid()}")
        lease = self._cluster_lease
        if lease is not None and (lease.namespace, lease.candidate) == (backend.namespace, candidate):
            return False
        self._release_cluster_lease()  # of another namespace, or from before a restart of the database server
        self._cluster_lease = ClusterLease(backend.namespace, candidate, duration=self._intervals.lease_duration)
        return True

    def _step_cluster_lease(self) -> None:
        lease, cluster = self._cluster_lease, self._bare_cluster
        if lease is not None and cluster is not None:
            lease.step(cluster)

    def _require_election(self) -> None:
        """Record the state of the Lease in the cluster. Raises HeldElsewhere where another installation holds it."""
        lease, context = self._cluster_lease, self._context
        if lease is None or context is None:
            return
        state, message = lease.state, lease.problem
        if state is LeaseState.ELSEWHERE:
            since = f" since {lease.since}" if lease.since else ""
            message = (
                f"Another installation works with this namespace: {lease.holder}{since}. Nothing is dispatched,"
                " repaired or synced from here; stop one of the two, or give this backend another namespace or cluster."
            )
        elif state is LeaseState.UNUSABLE:
            message = f"Only the database keeps other processes away: the Lease cannot be used. {message}"
        if (state, message) != self._recorded_lease:
            heartbeats.record_cluster_lease(context.backend, state.value, message)
            self._recorded_lease = (state, message)
        if state is LeaseState.ELSEWHERE:
            raise HeldElsewhere(message, retry_after=1)

    def _renew_cluster_lease(self, stop: threading.Event) -> None:
        """Renew the Lease in the cluster until `stop` is set, also while the loop waits. Nothing is renewed without the
        lease in the database."""
        pause = RENEW_SECONDS * self._intervals.lease_duration / DURATION_SECONDS
        while not stop.wait(pause):
            if self._lease.may_write():
                self._step_cluster_lease()

    def _release_cluster_lease(self) -> None:
        lease, cluster, context = self._cluster_lease, self._bare_cluster, self._context
        if lease is None or cluster is None or context is None or lease.state is not LeaseState.HELD:
            return
        with suppress(ClusterError):
            lease.release(cluster)
        heartbeats.record_cluster_lease(context.backend, lease.state.value, "")

    def _require_lease(self) -> None:
        super()._require_lease()
        lease = self._cluster_lease
        if not self._is_leased or lease is None or lease.may_write():
            return
        if lease.state is LeaseState.ELSEWHERE:
            raise HeldElsewhere("Another installation holds the Lease in the cluster.", retry_after=1)
        raise errors.Unreachable("The Lease in the cluster is not renewed yet; nothing is written without it.")

    # --- single steps -----------------------------------------------------------------------------------------------
    def relist_and_reconcile(self) -> None:
        """List the whole cluster instead of following it, then compare everything."""
        self._prepare()
        assert self._informers is not None
        self._informers.relist()
        self.reconcile(everything=True)

    def reconcile(self, *, everything: bool) -> None:
        """Compare the gangs that changed, or all open ones, with the ledger, and act on the difference."""
        self._wake.clear()
        context = self._prepare()
        informers = self._informers
        assert informers is not None
        observation.end_overdue_gangs(context.backend)
        self._heartbeat(context, informers)
        if self._error is not None:
            problem = error_message(self._error)
        else:
            problem = "" if informers.has_synced else informers.error_message
        if problem and everything:
            observation.set_cluster_fault_reason(context.backend, problem)
        if not informers.has_synced:
            return
        changed = informers.pop_changed_gangs()
        is_full = everything or self._full_requested
        self._full_requested = False
        try:
            self._reconcile_gangs(context, informers, None if is_full else changed)
        except BaseException:
            informers.mark_changed(changed)
            self._full_requested = self._full_requested or is_full
            raise
        if is_full and self._error is None and self._is_due("recount", self._intervals.recount):
            self._recount(context, informers)
            if try_other_flavors(context.backend):
                self._full_requested = True
                self._wake.set()
        self._repair_queues(context, informers)
        if informers.pop_nodes_changed():
            write_cluster_nodes(context.backend, informers.nodes.objects(), None)

    def _reconcile_gangs(
        self, context: ClusterContext, informers: ClusterInformers, changed: Collection[UUID | None] | None
    ) -> None:
        """Compare these gangs, or (None) all that are open or have objects in the cluster."""
        if changed is None:
            self._refusals.pop(_NOT_FOUND, None)
            self._refusals.pop(_NOT_DELETED, None)
            # Informers before rows: an object of ours that an informer knows was recorded before it was created.
            group_ids: set[UUID | None] = informers.pods.keys() | informers.pod_groups.keys()
            open_gangs = read_open_gangs(context.backend)
            group_ids |= open_gangs.keys()
            self._dispatcher.forget_closed(open_gangs)
            self._drift_repair.forget_missing(informers.known_uids())
        elif changed:
            group_ids = set(changed)
            open_gangs = read_open_gangs(context.backend, [group for group in group_ids if group is not None])
            self._add_gangs_by_name(context, informers, group_ids, open_gangs)
        else:
            return
        diff = diff_gangs(
            open_gangs,
            group_ids,
            pods=informers.pods,
            pod_groups=informers.pod_groups,
            now=timezone.now(),
            is_verified=self._drift_repair.is_verified,
            apart=partial(left_out_on_error, "a gang in a cluster"),
        )
        cluster = self._cluster if self._error is None else None
        if cluster is not None and diff.missing_pods:
            try:
                for group, reports in dispatch.find_lost_pods(cluster, context, diff.missing_pods).items():
                    diff.reports.setdefault(group, {}).update(reports)
            except ClusterError as error:
                self._record_error(error, _NOT_FOUND)
        observation.mark_dispatched(diff.created_pods)
        observation.set_waiting_reasons(diff.waiting_reasons)
        if diff.reports:
            has_ended_gang = observation.write_observations(context.backend, diff.reports)
            self._tell_preemptions(informers, diff.reports.values())
            informers.mark_changed(set(diff.reports))  # for the consequences, and for gangs whose tree was busy
            # The successors of an ended gang may start.
            self._full_requested = self._full_requested or has_ended_gang
            self._wake.set()
        observation.follow_ended_pods(context.backend, informers.pods.get)
        if cluster is not None:
            self._apply_diff(cluster, context, informers, diff)

    def _apply_diff(
        self, cluster: Cluster, context: ClusterContext, informers: ClusterInformers, diff: ClusterDiff
    ) -> None:
        self._tell_stops(diff.pods_to_delete)
        refused, silence = self._dispatcher.dispatch(
            cluster,
            context,
            diff.to_create,
            find_pod_group=informers.find_pod_group,
            before_batch=self._keep_lease,
            on_created=self._on_created,
        )
        if refused:
            informers.mark_changed(set(refused))
            self._wake.set()
        if silence is not None:
            self._record_error(silence)
            return
        for error in dispatch.delete_objects(
            cluster, diff.pod_groups_to_delete, diff.pods_to_delete, before_batch=self._keep_lease
        ):
            self._record_error(error, _NOT_DELETED)
        to_verify = [group for group in diff.to_verify if group not in refused]
        if to_verify and self._error is None:
            is_more_left, silence = self._drift_repair.repair(
                cluster,
                context,
                to_verify,
                find_pod_group=informers.find_pod_group,
                find_pod=informers.pods.get,
                before_batch=self._keep_lease,
            )
            if silence is not None:
                self._record_error(silence)
            elif is_more_left:
                informers.mark_changed(set(to_verify))
                self._wake.set()

    # --- Kubernetes Events ------------------------------------------------------------------------------------------
    def _on_created(self, creation: GangCreation) -> None:
        self._drift_repair.remember_created(creation)
        if creation.pods and creation.pod_group is not None:
            pods, queue = counted(len(creation.pods), "pod"), creation.pod_group["spec"]["queue"]
            message = f"OSMO Admin dispatched {pods} to queue {queue}."
            self._events.record(
                EventSubject.of(resource_kinds.POD_GROUP, creation.pod_group), EventReason.DISPATCHED, message
            )

    def _tell_preemptions(self, informers: ClusterInformers, reports: Iterable[Mapping[UUID, PodStatusReport]]) -> None:
        for of_gang in reports:
            for task_id, report in of_gang.items():
                if report.status is TaskStatus.FAILED_PREEMPTED and (pod := informers.pods.get(pod_name(task_id))):
                    subject = EventSubject.of(resource_kinds.POD, pod)
                    self._events.record(subject, EventReason.PREEMPTED, PREEMPTED_BY_CLUSTER)

    def _tell_stops(self, pods: Iterable[Object]) -> None:
        for pod in pods:
            phase = (pod.get("status") or {}).get("phase")
            if not pod["metadata"].get("deletionTimestamp") and phase not in {"Succeeded", "Failed"}:
                message = "OSMO Admin deletes this pod, because its task has ended or is not of this installation."
                self._events.record(EventSubject.of(resource_kinds.POD, pod), EventReason.STOPPED, message)

    def _add_gangs_by_name(
        self,
        context: ClusterContext,
        informers: ClusterInformers,
        group_ids: set[UUID | None],
        open_gangs: dict[UUID, OpenGang],
    ) -> None:
        """Add the open gangs whose objects have the label of another gang: their names tell where they belong."""
        strays = [group for group in group_ids if group not in open_gangs]
        pods = [name for group in strays for pod in informers.pods.by_key(group) if (name := uuid_name(pod))]
        named = {name for group in strays for item in informers.pod_groups.by_key(group) if (name := uuid_name(item))}
        owners = (named | find_open_groups(pods)) - set(strays)
        if owners:
            found = read_open_gangs(context.backend, owners)
            open_gangs |= found
            group_ids.update(found)

    # --- periodic work ----------------------------------------------------------------------------------------------
    def _recount(self, context: ClusterContext, informers: ClusterInformers) -> None:
        """Handle what no event reports: Secrets and Services left behind, and the use of nodes by foreign pods."""
        cluster = self._cluster
        assert cluster is not None
        self._refusals.pop(NOT_COUNTED, None)
        try:
            owned = [
                (kind, item)
                for kind in (resource_kinds.SECRET, resource_kinds.SERVICE)
                for item in _list_owned(cluster, context, kind)
            ]
            group_ids = {group_id_of(item) for _, item in owned}
            open_gangs = read_open_gangs(context.backend, [group for group in group_ids if group is not None])
            gang_objects.delete_auxiliary_objects(
                cluster, [(kind, item) for kind, item in owned if group_id_of(item) not in open_gangs]
            )
            counted = read_attempts_with_pods(context.backend)
            pods = cluster.list(resource_kinds.POD, transform=trim_pod).items
            counted |= read_attempts_with_pods(context.backend)  # a pod that was made or has gone meanwhile counts once
            device_lists, claims = list_device_use(cluster)
            foreign_usage = foreign_usage_by_node(
                pods,
                context.installation_id,
                context.backend.namespace,
                counted=counted,
                device_lists=device_lists,
                claims=claims,
            )
        except ClusterError as error:
            self._record_error(error, NOT_COUNTED)
            return
        if informers.nodes.has_synced:
            write_cluster_nodes(context.backend, informers.nodes.objects(), foreign_usage)

    def _repair_queues(self, context: ClusterContext, informers: ClusterInformers) -> None:
        """Let a worker sync the queues soon after another client changed one. A client that repeats its change meets
        growing pauses, up to that of the regular sync."""
        now = time.monotonic()
        if not informers.queues_changed or now < self._queue_sync_due:
            return
        informers.forget_changed_queues()
        if context.settings.sync_mode == KubernetesSettings.Sync.OFF:
            return
        if now - self._queue_sync_due > _QUIET_SECONDS:
            self._queue_sync_backoff.reset()
        self._queue_sync_due = now + self._queue_sync_backoff.next_pause()
        notifications.enqueue_queue_sync(self.backend_id)

    def _heartbeat(self, context: ClusterContext, informers: ClusterInformers) -> None:
        """Ask the API server for its version and record whether the cluster can be worked with."""
        if not self._is_due("heartbeat", self._intervals.heartbeat):
            return
        try:
            if self._cluster is None:
                raise self._error or errors.Unreachable("There is no connection yet.")
            self._cluster.version()
            if self._is_leased and self._cluster_lease is not None and not self._cluster_lease.may_write():
                self._step_cluster_lease()
        except ClusterError as error:
            self._error = error
            self._due["heartbeat"] = time.monotonic() + self._heartbeat_backoff.next_pause(error.retry_after)
            heartbeats.record_cluster_error(context.backend, error_message(error))
            return
        self._heartbeat_backoff.reset()
        if self._error is not None:
            self._error, self._full_requested = None, True
            self._dispatcher.clear_pauses()
            informers.retry_now()
            self._ends_pauses_until = time.monotonic() + _RECOVERY_SECONDS
        if time.monotonic() < self._ends_pauses_until:
            heartbeats.end_pauses(context.backend)
        problem = informers.error_message or self._drift_repair.problem or next(iter(self._refusals.values()), "")
        if informers.pods.has_synced and informers.pods.error is None:
            heartbeats.record_heartbeat(context.backend, problem)
        elif problem:
            heartbeats.record_cluster_error(context.backend, problem)

    def _prepare(self) -> ClusterContext:
        """The backend's current configuration, after connection and informers were adapted to it. Raises
        BackendRemoved."""
        if (
            self._context is not None
            and self._informers is not None
            and not self._is_due("configuration", self._intervals.configuration)
        ):
            return self._context
        self._context = context = _read_context(self.backend_id)
        self._events.label = context.backend.name
        try:
            self._bare_cluster = self._connect(context.backend)
            self._cluster = fence(self._bare_cluster, self._require_lease)
        except ClusterError as error:  # the credential cannot be used at all
            self._cluster = self._bare_cluster = None
            self._error = error
        if self._informers is None or self._informers.scope != informer_scope(context):
            self._informers = ClusterInformers(
                context, lambda: self._cluster, self._wake.set, self._intervals.informer_timing
            )
        return context


def _list_owned(cluster: Cluster, context: ClusterContext, kind: ResourceKind) -> list[Object]:
    selector = installation_selector(context.installation_id)
    return cluster.list(kind, namespace=context.backend.namespace, labels=selector).items


def _read_context(backend_id: int) -> ClusterContext:
    backend = kubernetes_backend(backend_id)
    try:
        settings = connections.kubernetes_settings(backend)
    except errors.BadCredentials as error:
        raise BackendRemoved from error
    return ClusterContext(backend, settings, str(heartbeats.cluster_state(backend).identity))
