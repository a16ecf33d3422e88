"""Carrying out what a comparison found: gangs are made in their cluster, and what is over is taken away.

The plan is read before and what became of it is written after; between them only the cluster is spoken to, and no
transaction is open. A gang that cannot be made is tried again, later each time, and says why it waits; one that can
never be made there ends with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from scheduling.domain.cluster.diff import confirm
from scheduling.domain.cluster.naming import HOUSE, OWNER
from scheduling.domain.cluster.pod_status import Report
from scheduling.kube import errors, gangs, kinds
from scheduling.kube.backoff import Backoff
from scheduling.kube.errors import ClusterError
from scheduling.kube.gangs import Made, Order
from scheduling.kube.parallel import each
from scheduling.kube.port import Cluster, Object
from scheduling.kube.words import sentence_of
from scheduling.selectors.pending_manifests import Place, Unmakeable, orders
from scheduling.services.kubernetes import observation
from scheduling.services.kubernetes.dispatch_admission import cleared

Thing = TypeVar("Thing")
AT_ONCE = 40  # gangs or objects between two looks at the lease
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before a gang that could not be made is tried again


class Dispatcher:
    """Makes and removes gangs of one backend. It remembers which could not be made, and until when to leave them."""

    def __init__(self) -> None:
        self._pauses: dict[UUID, tuple[Backoff, float]] = {}

    def make(
        self,
        cluster: Cluster,
        place: Place,
        groups: Collection[UUID],
        *,
        there: Callable[[UUID], Object | None],
        go_on: Callable[[], None],
    ) -> tuple[set[UUID], ClusterError | None]:
        """Dispatch what is to be made of these gangs, some at a time; `go_on` is called before each of these. Returns
        those that ended because they cannot be made, and the silence of the cluster if it stopped answering. `there`
        finds a gang's PodGroup as it was last seen. Nothing is made while an admin keeps the backend offline."""
        if place.backend.kept_offline:
            return set(), None
        now = time.monotonic()
        ready = [group for group in groups if group not in self._pauses or self._pauses[group][1] <= now]
        ready = cleared(place.backend, ready, go_on=go_on)
        refused: set[UUID] = set()
        for some in _some(ready):
            go_on()
            ended, silence = self._make_some(cluster, place, some, there)
            refused |= ended
            if silence is not None:
                return refused, silence
        return refused, None

    def _make_some(
        self, cluster: Cluster, place: Place, groups: Collection[UUID], there: Callable[[UUID], Object | None]
    ) -> tuple[set[UUID], ClusterError | None]:
        plan = list(orders(place, groups, there))
        refused = {each.group: each.reason for each in plan if isinstance(each, Unmakeable)}
        to_make = [order for order in plan if isinstance(order, Order)]
        made = each(to_make, lambda order: gangs.make(cluster, order), lambda done: done.fault)
        observation.note_dispatched([task for done in made for task in done.pods])
        refused |= {done.group: done.refused for done in made if done.refused}
        observation.end_refused(place.backend, refused)
        self._note(made)
        return set(refused), next((done.fault for done in made if isinstance(done.fault, errors.Unreachable)), None)

    def _note(self, made: Iterable[Made]) -> None:
        reasons: dict[UUID, Mapping[str, Any] | None] = {}
        for done in made:
            if done.fault is None:
                self._pauses.pop(done.group, None)
                if done.pods and not done.refused:
                    reasons[done.group] = None
                continue
            backoff, _ = self._pauses.get(done.group, (Backoff(FIRST_PAUSE, LONGEST_PAUSE), 0.0))
            self._pauses[done.group] = (backoff, time.monotonic() + backoff.pause(done.fault.retry_after))
            reasons[done.group] = {"code": observation.CLUSTER_FAULT, "message": sentence_of(done.fault)}
        observation.note_reasons(reasons)

    def forget(self, still_open: Collection[UUID]) -> None:
        """Gangs that are over are waited for no more."""
        self._pauses = {group: pause for group, pause in self._pauses.items() if group in still_open}

    def hurry(self) -> None:
        """The cluster answers again: nobody has to wait for what was its silence."""
        self._pauses.clear()


def remove(
    cluster: Cluster, pod_groups: Sequence[Object], pods: Sequence[Object], *, go_on: Callable[[], None]
) -> list[ClusterError]:
    """Take these objects away, some at a time; what was wrong with those that stay."""
    found: list[ClusterError] = []
    for things, deed in ((pod_groups, gangs.remove_pod_group), (pods, gangs.remove_pod)):
        for some in _some(things):
            go_on()
            found += _attempt(cluster, some, deed)
    return found


def _attempt(
    cluster: Cluster, things: Sequence[Object], deed: Callable[[Cluster, Object], None]
) -> Iterator[ClusterError]:
    done = each(things, lambda there: _fault(cluster, there, deed), lambda error: error)
    yield from (error for error in done if error is not None)


def _some(things: Sequence[Thing]) -> Iterator[Sequence[Thing]]:
    for first in range(0, len(things), AT_ONCE):
        yield things[first : first + AT_ONCE]


def _fault(cluster: Cluster, there: Object, deed: Callable[[Cluster, Object], None]) -> ClusterError | None:
    try:
        deed(cluster, there)
    except ClusterError as error:
        return error
    return None


def find_missing(
    cluster: Cluster, place: Place, missing: Mapping[UUID, Collection[UUID]]
) -> dict[UUID, dict[UUID, Report]]:
    """Tries whose pods were there and are not seen any more: reports of those that are gone for good. One that is only
    out of our sight, because somebody took our mark off, gets it back. Raises ClusterError."""

    def look(name: str) -> Object | None:
        try:
            there = cluster.get(kinds.POD, name, namespace=place.backend.namespace)
        except errors.NotFound:
            return None
        if (there["metadata"].get("labels") or {}).get(HOUSE) != place.house:
            mark = {"metadata": {"labels": {HOUSE: place.house}}}
            cluster.merge(kinds.POD, name, mark, owner=OWNER, namespace=place.backend.namespace)
        return there

    return confirm(missing, look)
