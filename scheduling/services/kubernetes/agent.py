"""The agent of one cluster: dispatches what may start, follows what runs, and takes away what is over.

One agent works on a backend at a time, whoever else stands by: a lease, which ends by itself when its process dies.
Should two work all the same, nothing happens twice; they only get in each other's way. It sees its cluster through
mirrors (:mod:`scheduling.services.kubernetes.informers`), compares them with the ledger (:mod:`scheduling.domain.cluster.diff`) and
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
from scheduling.domain.cluster.diff import compare
from scheduling.domain.cluster.naming import house_selector
from scheduling.domain.cluster.node import read_node, slim_pod, used_by_others
from scheduling.kube import connections, errors, gangs, kinds
from scheduling.kube.backoff import Backoff
from scheduling.kube.errors import ClusterError
from scheduling.kube.informer import Pace
from scheduling.kube.port import Cluster, Kind, Object
from scheduling.kube.words import sentence_of
from scheduling.models import ClusterState
from scheduling.selectors.cluster_work import open_gangs
from scheduling.selectors.pending_manifests import Place
from scheduling.services.kubernetes import dispatch, heartbeats, observation
from scheduling.services.kubernetes.informers import Sights, gang_of
from scheduling.services.kubernetes.leases import AlreadyClaimed, Lease, LeaseLost
from scheduling.services.kubernetes.nodes import write_nodes

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=30)  # longer than the longest call to a cluster
RENEW_AFTER = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Seconds between looks at everything that is open, recounts of the whole cluster, heartbeats, looks at the
    backend's configuration, looks at a lease that somebody else holds; and how long to let events gather."""

    look: float = 5.0
    recount: float = 60.0
    heartbeat: float = 10.0
    configuration: float = 2.0
    standby: float = 2.0
    gather: float = 0.02
    pace: Pace = field(default_factory=Pace)


class Retired(Exception):
    """The backend is gone, or is no cluster any more."""


class Agent:
    """The agent of a backend. :meth:`run` works until told to stop; :meth:`look_now` and :meth:`turn` are its single
    steps."""

    def __init__(
        self,
        backend_id: int,
        *,
        connect: Callable[[Backend], Cluster] = connections.connect,
        rhythm: Rhythm = Rhythm(),
    ) -> None:
        self.backend_id = backend_id
        self.alive_at = time.monotonic()
        self._open, self._rhythm = connect, rhythm
        self._cluster: Cluster | None = None
        self._sights: Sights | None = None
        self._known: Place | None = None
        self._dispatcher = dispatch.Dispatcher()
        self._wake = threading.Event()
        self._asked = True  # to look at everything
        self._due: dict[str, float] = {}
        self._fault: ClusterError | None = None
        self._heart = Backoff(1, 15)
        self._is_leased = False
        self._lease = Lease(backend_id, ClusterState, length=LEASE, renew_after=RENEW_AFTER)

    def wake(self) -> None:
        """Something moved in the ledger: look at everything soon."""
        self._asked = True
        self._wake.set()

    # --- living -----------------------------------------------------------------------------------------------------
    def run(self, stop: threading.Event) -> None:
        """Work until told to stop or until the backend is gone. Whatever goes wrong, it goes on after a while."""
        backoff = Backoff(0.5, 30)
        while not stop.is_set():
            self.alive_at = time.monotonic()
            try:
                heartbeats.state_of(_cluster_of(self.backend_id))
                self._lease.claim()
                self._is_leased = True
                try:
                    self._work(stop, backoff)
                finally:
                    self._is_leased = False
                    with suppress(DatabaseError, InterfaceError):
                        self._lease.let_go()
                pause = self._rhythm.standby
            except Retired:
                break
            except (AlreadyClaimed, LeaseLost):
                pause = self._rhythm.standby
            except (DatabaseError, InterfaceError, Busy) as problem:
                logger.warning("the agent of backend %s waits for the database: %s", self.backend_id, problem)
                pause = backoff.pause()
            except Exception:
                logger.exception("the agent of backend %s stumbled", self.backend_id)
                pause = backoff.pause()
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
        followed.follow(over, f"cluster-{self.backend_id}")
        try:
            while not stop.is_set() and self._sights is followed:  # a place that moved needs other mirrors
                self._go_on()
                self.turn(everything=self._asked or self._is_time("look", self._rhythm.look))
                backoff.reset()
                self._wake.wait(min(self._rhythm.look, 1.0))
                stop.wait(self._rhythm.gather)
        finally:
            over.set()
            self._sights = None

    def _go_on(self) -> None:
        """Before anything that takes its time. Raises LeaseLost."""
        self.alive_at = time.monotonic()
        if self._is_leased:
            self._lease.hold()

    # --- single steps -----------------------------------------------------------------------------------------------
    def look_now(self) -> None:
        """List everything at once instead of following, then look at all of it."""
        self._prepare()
        assert self._sights is not None
        self._sights.refresh()
        self.turn(everything=True)

    def turn(self, *, everything: bool) -> None:
        """One look at what moved, or at all that is open, and what follows from it."""
        self._wake.clear()
        place = self._prepare()
        sights = self._sights
        assert sights is not None
        observation.end_late(place.backend)
        self._beat(place, sights)
        wrong = sentence_of(self._fault) if self._fault is not None else "" if sights.is_ready else sights.fault
        if wrong and everything:
            observation.note_silence(place.backend, wrong)
        if not sights.is_ready:
            return
        moved = sights.take_moved()
        asked = everything or self._asked
        self._asked = False
        try:
            self._look(place, sights, None if asked else moved)
        except BaseException:
            sights.mark(moved)
            self._asked = self._asked or asked
            raise
        if asked and self._fault is None and self._is_time("recount", self._rhythm.recount):
            self._recount(place, sights)
        if sights.take_nodes_moved():
            write_nodes(place.backend, map(read_node, sights.nodes.objects().values()), None)

    def _look(self, place: Place, sights: Sights, gangs_moved: Collection[UUID | None] | None) -> None:
        """At some gangs, or (None) at all that are open or have objects in the cluster."""
        if gangs_moved is None:
            # Objects first: what is seen of ours then was recorded before it was made.
            looked_at: set[UUID | None] = sights.pods.keys() | sights.pod_groups.keys()
            open_now = open_gangs(place.backend)
            looked_at |= open_now.keys()
            self._dispatcher.forget(open_now)
        elif gangs_moved:
            looked_at = set(gangs_moved)
            open_now = open_gangs(place.backend, [group for group in looked_at if group is not None])
        else:
            return
        findings = compare(open_now, looked_at, pods=sights.pods, pod_groups=sights.pod_groups, now=timezone.now())
        cluster = self._cluster if self._fault is None else None
        if cluster is not None and findings.missing:
            try:
                for group, reports in dispatch.find_missing(cluster, place, findings.missing).items():
                    findings.news.setdefault(group, {}).update(reports)
            except ClusterError as error:
                self._note_fault(error)
        observation.note_dispatched(findings.found)
        observation.note_reasons(findings.reasons)
        if findings.news:
            written = observation.write_observed(place.backend, findings.news)
            sights.mark(set(findings.news))  # for what follows from it, and what was too busy
            self._asked = self._asked or written.is_over  # what waited behind an ended gang may start
            self._wake.set()
        if cluster is not None:
            self._carry_out(cluster, place, sights, findings.to_make, findings.pod_groups, findings.pods)

    def _carry_out(
        self,
        cluster: Cluster,
        place: Place,
        sights: Sights,
        to_make: Collection[UUID],
        pod_groups: Sequence[Object],
        pods: Sequence[Object],
    ) -> None:
        refused, silence = self._dispatcher.make(
            cluster,
            place,
            to_make,
            there=lambda group: next(iter(sights.pod_groups.of(group)), None),
            go_on=self._go_on,
        )
        if refused:
            sights.mark(set(refused))
            self._wake.set()
        if silence is not None:
            self._note_fault(silence)
            return
        for error in dispatch.remove(cluster, pod_groups, pods, go_on=self._go_on):
            self._note_fault(error)

    # --- now and then -----------------------------------------------------------------------------------------------
    def _recount(self, place: Place, sights: Sights) -> None:
        """What no event tells: leftovers beside pods, and what other people's pods hold of the nodes."""
        cluster = self._cluster
        assert cluster is not None
        try:
            things = [(kind, there) for kind in (kinds.SECRET, kinds.SERVICE) for there in _ours(cluster, place, kind)]
            known = {gang_of(there) for _, there in things}
            alive = open_gangs(place.backend, [group for group in known if group is not None])
            gangs.remove_belongings(cluster, [each for each in things if gang_of(each[1]) not in alive])
            others = used_by_others(cluster.list(kinds.POD, keep=slim_pod).items, place.house)
        except ClusterError as error:
            self._note_fault(error)
            return
        if sights.nodes.is_ready:
            write_nodes(place.backend, map(read_node, sights.nodes.objects().values()), others)

    def _beat(self, place: Place, sights: Sights) -> None:
        """Ask the cluster for a sign of life and write down what came of it."""
        if not self._is_time("heartbeat", self._rhythm.heartbeat):
            return
        try:
            if self._cluster is None:
                raise self._fault or errors.Unreachable("There is no connection yet.")
            self._cluster.version()
        except ClusterError as error:
            self._fault = error
            self._due["heartbeat"] = time.monotonic() + self._heart.pause(error.retry_after)
            heartbeats.note_fault(place.backend, sentence_of(error))
            return
        self._heart.reset()
        if self._fault is not None:
            self._fault, self._asked = None, True
            self._dispatcher.hurry()
        if sights.pods.is_ready and sights.pods.fault is None:
            heartbeats.beat(place.backend)
        if sights.fault:
            heartbeats.note_fault(place.backend, sights.fault)

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

    def _prepare(self) -> Place:
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
        if self._sights is None or self._sights.of_place != (place.backend.namespace, place.house):
            self._sights = Sights(place, lambda: self._cluster, self._wake.set, self._rhythm.pace)
        return place


def _ours(cluster: Cluster, place: Place, kind: Kind) -> list[Object]:
    return cluster.list(kind, namespace=place.backend.namespace, labels=house_selector(place.house)).items


def _cluster_of(backend_id: int) -> Backend:
    backend = Backend.objects.filter(pk=backend_id, kind=Backend.Kind.KUBERNETES).first()
    if backend is None:
        raise Retired
    return backend


def _place(backend_id: int) -> Place:
    backend = _cluster_of(backend_id)
    try:
        settings = connections.settings_of(backend)
    except errors.BadCredentials as error:
        raise Retired from error
    return Place(backend, settings, str(heartbeats.state_of(backend).identity))
