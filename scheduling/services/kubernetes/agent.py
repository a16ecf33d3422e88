"""The agent of one cluster: dispatches what may start, follows what runs, and takes away what is over.

One agent works on a backend at a time, whoever else stands by: a lease, which ends by itself when its process dies.
Should two work all the same, nothing happens twice; they only get in each other's way. It sees its cluster through
mirrors (:mod:`scheduling.services.kubernetes.informers`), compares them with the ledger (:mod:`scheduling.services.kubernetes.gang_diff`) and
does what follows, over and over. Each step may be repeated and may stop anywhere; the next look finds what is left. It
speaks to its cluster only outside of transactions and to no other cluster, so a dead one holds up nobody else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connection
from django.utils import timezone

from pools.domain.errors import Busy
from pools.models import Backend
from scheduling.domain.cluster.naming import installation_selector
from scheduling.domain.cluster.node import foreign_usage_by_node, read_node, trim_pod
from scheduling.kube import connections, errors, gang_objects, resource_kinds
from scheduling.kube.backoff import Backoff
from scheduling.kube.error_messages import error_message
from scheduling.kube.errors import ClusterError
from scheduling.kube.informer import InformerTiming
from scheduling.kube.port import Cluster, Object, ResourceKind
from scheduling.models import ClusterState
from scheduling.selectors.cluster_gangs import read_open_gangs
from scheduling.selectors.pending_manifests import ClusterContext
from scheduling.services.kubernetes import dispatch, heartbeats, observation
from scheduling.services.kubernetes.gang_diff import diff_gangs
from scheduling.services.kubernetes.informers import ClusterInformers, group_id_of
from scheduling.services.kubernetes.leases import AlreadyClaimed, Lease, LeaseLost
from scheduling.services.kubernetes.nodes import write_nodes

logger = logging.getLogger(__name__)

AGENT_LEASE_DURATION = timedelta(seconds=30)  # longer than the longest call to a cluster
AGENT_RENEW_AFTER_SECONDS = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class AgentIntervals:
    """Seconds between looks at everything that is open, recounts of the whole cluster, heartbeats, looks at the
    backend's configuration, looks at a lease that somebody else holds; and how long to let events gather."""

    reconcile: float = 5.0
    recount: float = 60.0
    heartbeat: float = 10.0
    configuration: float = 2.0
    standby: float = 2.0
    debounce: float = 0.02
    informer_timing: InformerTiming = field(default_factory=InformerTiming)


class BackendRemoved(Exception):
    """The backend is gone, or is no cluster any more."""


class ClusterAgent:
    """The agent of a backend. :meth:`run` works until told to stop; :meth:`relist_and_reconcile` and :meth:`turn` are its single
    steps."""

    def __init__(
        self,
        backend_id: int,
        *,
        connect: Callable[[Backend], Cluster] = connections.connect,
        intervals: AgentIntervals = AgentIntervals(),
    ) -> None:
        self.backend_id = backend_id
        self.last_alive_at = time.monotonic()
        self._open, self._rhythm = connect, intervals
        self._cluster: Cluster | None = None
        self._sights: ClusterInformers | None = None
        self._known: ClusterContext | None = None
        self._dispatcher = dispatch.Dispatcher()
        self._wake = threading.Event()
        self._asked = True  # to look at everything
        self._due: dict[str, float] = {}
        self._fault: ClusterError | None = None
        self._heart = Backoff(1, 15)
        self._is_leased = False
        self._lease = Lease(
            backend_id, ClusterState, duration=AGENT_LEASE_DURATION, renew_after_seconds=AGENT_RENEW_AFTER_SECONDS
        )

    def wake(self) -> None:
        """Something moved in the ledger: look at everything soon."""
        self._asked = True
        self._wake.set()

    # --- living -----------------------------------------------------------------------------------------------------
    def run(self, stop: threading.Event) -> None:
        """Work until told to stop or until the backend is gone. Whatever goes wrong, it goes on after a while."""
        backoff = Backoff(0.5, 30)
        while not stop.is_set():
            self.last_alive_at = time.monotonic()
            try:
                heartbeats.cluster_state(_cluster_of(self.backend_id))
                self._lease.claim()
                self._is_leased = True
                try:
                    self._work(stop, backoff)
                finally:
                    self._is_leased = False
                    with suppress(DatabaseError, InterfaceError):
                        self._lease.release()
                pause = self._rhythm.standby
            except BackendRemoved:
                break
            except (AlreadyClaimed, LeaseLost):
                pause = self._rhythm.standby
            except (DatabaseError, InterfaceError, Busy) as problem:
                logger.warning("the agent of backend %s waits for the database: %s", self.backend_id, problem)
                pause = backoff.next_pause()
            except Exception:
                logger.exception("the agent of backend %s stumbled", self.backend_id)
                pause = backoff.next_pause()
            with suppress(DatabaseError, InterfaceError):
                connection.close()
            stop.wait(pause)
        connection.close()

    def _work(self, stop: threading.Event, backoff: Backoff) -> None:
        over = threading.Event()
        self._due.clear()
        self._prepare()
        assert self._sights is not None
        followed = self._sights
        followed.start(over, f"cluster-{self.backend_id}")
        try:
            while not stop.is_set() and self._sights is followed:  # a place that moved needs other mirrors
                self._go_on()
                self.reconcile(everything=self._asked or self._is_time("look", self._rhythm.reconcile))
                backoff.reset()
                self._wake.wait(min(self._rhythm.reconcile, 1.0))
                stop.wait(self._rhythm.debounce)
        finally:
            over.set()
            self._sights = None

    def _go_on(self) -> None:
        """Before anything that takes its time. Raises LeaseLost."""
        self.last_alive_at = time.monotonic()
        if self._is_leased:
            self._lease.renew()

    # --- single steps -----------------------------------------------------------------------------------------------
    def relist_and_reconcile(self) -> None:
        """List everything at once instead of following, then look at all of it."""
        self._prepare()
        assert self._sights is not None
        self._sights.relist()
        self.reconcile(everything=True)

    def reconcile(self, *, everything: bool) -> None:
        """One look at what moved, or at all that is open, and what follows from it."""
        self._wake.clear()
        place = self._prepare()
        sights = self._sights
        assert sights is not None
        observation.end_overdue_gangs(place.backend)
        self._beat(place, sights)
        wrong = (
            error_message(self._fault) if self._fault is not None else "" if sights.has_synced else sights.error_message
        )
        if wrong and everything:
            observation.set_cluster_fault_reason(place.backend, wrong)
        if not sights.has_synced:
            return
        moved = sights.pop_changed_gangs()
        asked = everything or self._asked
        self._asked = False
        try:
            self._look(place, sights, None if asked else moved)
        except BaseException:
            sights.mark_changed(moved)
            self._asked = self._asked or asked
            raise
        if asked and self._fault is None and self._is_time("recount", self._rhythm.recount):
            self._recount(place, sights)
        if sights.pop_nodes_changed():
            write_nodes(place.backend, map(read_node, sights.nodes.objects().values()), None)

    def _look(
        self, place: ClusterContext, sights: ClusterInformers, gangs_moved: Collection[UUID | None] | None
    ) -> None:
        """At some gangs, or (None) at all that are open or have objects in the cluster."""
        if gangs_moved is None:
            # Objects first: what is seen of ours then was recorded before it was made.
            looked_at: set[UUID | None] = sights.pods.keys() | sights.pod_groups.keys()
            open_now = read_open_gangs(place.backend)
            looked_at |= open_now.keys()
            self._dispatcher.forget_closed(open_now)
        elif gangs_moved:
            looked_at = set(gangs_moved)
            open_now = read_open_gangs(place.backend, [group for group in looked_at if group is not None])
        else:
            return
        findings = diff_gangs(open_now, looked_at, pods=sights.pods, pod_groups=sights.pod_groups, now=timezone.now())
        cluster = self._cluster if self._fault is None else None
        if cluster is not None and findings.missing_pods:
            try:
                for group, reports in dispatch.find_lost_pods(cluster, place, findings.missing_pods).items():
                    findings.reports.setdefault(group, {}).update(reports)
            except ClusterError as error:
                self._note_fault(error)
        observation.mark_dispatched(findings.created_pods)
        observation.set_waiting_reasons(findings.waiting_reasons)
        if findings.reports:
            written = observation.write_observations(place.backend, findings.reports)
            sights.mark_changed(set(findings.reports))  # for what follows from it, and what was too busy
            self._asked = self._asked or written.has_ended_gang  # what waited behind an ended gang may start
            self._wake.set()
        if cluster is not None:
            self._carry_out(
                cluster, place, sights, findings.to_create, findings.pod_groups_to_delete, findings.pods_to_delete
            )

    def _carry_out(
        self,
        cluster: Cluster,
        place: ClusterContext,
        sights: ClusterInformers,
        to_make: Collection[UUID],
        pod_groups: Sequence[Object],
        pods: Sequence[Object],
    ) -> None:
        refused, silence = self._dispatcher.dispatch(
            cluster,
            place,
            to_make,
            find_pod_group=lambda group: next(iter(sights.pod_groups.by_key(group)), None),
            before_batch=self._go_on,
        )
        if refused:
            sights.mark_changed(set(refused))
            self._wake.set()
        if silence is not None:
            self._note_fault(silence)
            return
        for error in dispatch.delete_objects(cluster, pod_groups, pods, before_batch=self._go_on):
            self._note_fault(error)

    # --- now and then -----------------------------------------------------------------------------------------------
    def _recount(self, place: ClusterContext, sights: ClusterInformers) -> None:
        """What no event tells: leftovers beside pods, and what other people's pods hold of the nodes."""
        cluster = self._cluster
        assert cluster is not None
        try:
            things = [
                (kind, there)
                for kind in (resource_kinds.SECRET, resource_kinds.SERVICE)
                for there in _ours(cluster, place, kind)
            ]
            known = {group_id_of(there) for _, there in things}
            alive = read_open_gangs(place.backend, [group for group in known if group is not None])
            gang_objects.delete_auxiliary_objects(
                cluster, [each for each in things if group_id_of(each[1]) not in alive]
            )
            others = foreign_usage_by_node(
                cluster.list(resource_kinds.POD, transform=trim_pod).items, place.installation_id
            )
        except ClusterError as error:
            self._note_fault(error)
            return
        if sights.nodes.has_synced:
            write_nodes(place.backend, map(read_node, sights.nodes.objects().values()), others)

    def _beat(self, place: ClusterContext, sights: ClusterInformers) -> None:
        """Ask the cluster for a sign of life and write down what came of it."""
        if not self._is_time("heartbeat", self._rhythm.heartbeat):
            return
        try:
            if self._cluster is None:
                raise self._fault or errors.Unreachable("There is no connection yet.")
            self._cluster.version()
        except ClusterError as error:
            self._fault = error
            self._due["heartbeat"] = time.monotonic() + self._heart.next_pause(error.retry_after)
            heartbeats.record_fault(place.backend, error_message(error))
            return
        self._heart.reset()
        if self._fault is not None:
            self._fault, self._asked = None, True
            self._dispatcher.clear_pauses()
        if sights.pods.has_synced and sights.pods.error is None:
            heartbeats.record_heartbeat(place.backend)
        if sights.error_message:
            heartbeats.record_fault(place.backend, sights.error_message)

    def _note_fault(self, error: ClusterError) -> None:
        """A cluster that does not answer is asked nothing more until it gives a sign of life."""
        logger.info("backend %s: %s", self.backend_id, error)
        if isinstance(error, errors.Unreachable):
            self._fault = error
            self._due["heartbeat"] = 0.0

    def _is_time(self, what: str, seconds: float) -> bool:
        now = time.monotonic()
        if self._due.get(what, 0.0) > now:
            return False
        self._due[what] = now + seconds
        return True

    def _prepare(self) -> ClusterContext:
        """How the backend is configured now; connection and mirrors follow it. Raises Retired."""
        if (
            self._known is not None
            and self._sights is not None
            and not self._is_time("configuration", self._rhythm.configuration)
        ):
            return self._known
        self._known = place = _place(self.backend_id)
        try:
            self._cluster = self._open(place.backend)
        except ClusterError as error:  # the credential cannot even be tried
            self._cluster, self._fault = None, error
        if self._sights is None or self._sights.scope != (place.backend.namespace, place.installation_id):
            self._sights = ClusterInformers(place, lambda: self._cluster, self._wake.set, self._rhythm.informer_timing)
        return place


def _ours(cluster: Cluster, place: ClusterContext, kind: ResourceKind) -> list[Object]:
    return cluster.list(
        kind, namespace=place.backend.namespace, labels=installation_selector(place.installation_id)
    ).items


def _cluster_of(backend_id: int) -> Backend:
    backend = Backend.objects.filter(pk=backend_id, kind=Backend.Kind.KUBERNETES).first()
    if backend is None:
        raise BackendRemoved
    return backend


def _place(backend_id: int) -> ClusterContext:
    backend = _cluster_of(backend_id)
    try:
        settings = connections.kubernetes_settings(backend)
    except errors.BadCredentials as error:
        raise BackendRemoved from error
    return ClusterContext(backend, settings, str(heartbeats.cluster_state(backend).identity))
