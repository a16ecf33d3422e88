"""The Lease object by which one installation at a time works with a namespace of a cluster
(:mod:`scheduling.domain.cluster.election`). Calls go to the cluster only, never to the database."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from scheduling.domain.cluster.election import (
    Candidate,
    held_spec,
    lease_holder,
    lease_name,
    may_take,
    released_spec,
)
from scheduling.domain.cluster.naming import FIELD_MANAGER
from scheduling.domain.kubernetes_json import Object
from scheduling.kube.connection import errors
from scheduling.kube.connection.error_messages import error_message
from scheduling.kube.connection.errors import ClusterError
from scheduling.kube.connection.port import Cluster
from scheduling.kube.connection.resource_kinds import LEASE

DURATION_SECONDS = 7
RENEW_SECONDS = 2.0
SAFE_SECONDS = 4.5
"""The time after the last renewal was sent in which a write may begin."""


_UNUSABLE = (errors.ObjectNotFound, errors.AccessDenied, errors.InvalidObject)
"""Answers after which the database alone keeps processes away: no such kind or namespace, no right, or refused."""


class LeaseState(StrEnum):
    """What is known of the Lease: nothing yet, held by this process, held by another installation, or unusable (the
    cluster serves no Leases, or grants no right to them)."""

    UNKNOWN = ""
    HELD = "held"
    ELSEWHERE = "elsewhere"
    UNUSABLE = "unusable"


class ClusterLease:
    """The Lease of one namespace, as one candidate sees it. Safe to use from several threads.

    `state`, `holder`, `since` (the other holder's `acquireTime`) and `problem` tell the last answer."""

    def __init__(
        self,
        namespace: str,
        candidate: Candidate,
        *,
        duration: int = DURATION_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.namespace, self.candidate = namespace, candidate
        self.state, self.holder, self.since, self.problem = LeaseState.UNKNOWN, "", "", ""
        self._duration, self._clock = duration, clock
        self._safe_for = SAFE_SECONDS * duration / DURATION_SECONDS
        self._seen: tuple[Any, ...] | None = None
        self._seen_at = self._renewed = 0.0
        self._is_over = False
        self._lock = threading.Lock()

    def may_write(self) -> bool:
        """Whether a write to the cluster may begin now, as far as this process knows."""
        if self.state is LeaseState.HELD:
            return self._clock() - self._renewed < self._safe_for
        return self.state is LeaseState.UNUSABLE

    def step(self, cluster: Cluster) -> LeaseState:
        """Take or renew the Lease where this is allowed. No answer leaves the state as it was. Never raises
        ClusterError."""
        with self._lock:
            if self._is_over:
                return self.state
            try:
                self._step(cluster)
            except (errors.WriteConflict, errors.AlreadyExists):
                pass  # another process was faster: the next step sees the outcome
            except _UNUSABLE as error:
                self.state, self.problem, self.holder, self.since = LeaseState.UNUSABLE, error_message(error), "", ""
            except ClusterError as error:
                self.problem = error_message(error)
            return self.state

    def release(self, cluster: Cluster) -> None:
        """Let another process hold the Lease at once; this candidate never takes it again. Raises ClusterError."""
        with self._lock:
            self._is_over = True
            if self.state is not LeaseState.HELD:
                return
            self.state = LeaseState.UNKNOWN
            there = cluster.get(LEASE, lease_name(self.namespace), namespace=self.namespace)
            if lease_holder(there.get("spec") or {}) == self.candidate.holder:
                self._write(cluster, there, released_spec(now=datetime.now(UTC)))

    def _step(self, cluster: Cluster) -> None:
        began = self._clock()
        there = _find(cluster, self.namespace)
        now = datetime.now(UTC)
        if there is None:
            spec = held_spec({}, self.candidate, now=now, duration=self._duration)
            metadata = {"name": lease_name(self.namespace), "namespace": self.namespace}
            cluster.create(LEASE, {"metadata": metadata, "spec": spec}, field_manager=FIELD_MANAGER)
        else:
            before = there.get("spec") or {}
            seen = (there["metadata"].get("uid"), lease_holder(before), before.get("renewTime"))
            if seen != self._seen:
                self._seen, self._seen_at = seen, self._clock()
            unchanged_for = began - self._seen_at
            if not may_take(before, self.candidate, unchanged_for=unchanged_for, duration=self._duration):
                self.state, self.problem = LeaseState.ELSEWHERE, ""
                self.holder, self.since = lease_holder(before), str(before.get("acquireTime") or "")
                return
            self._write(cluster, there, held_spec(before, self.candidate, now=now, duration=self._duration))
        self._renewed, self.state, self.problem = began, LeaseState.HELD, ""
        self.holder, self.since = self.candidate.holder, ""

    def _write(self, cluster: Cluster, there: Object, spec: Object) -> None:
        """Change the Lease if nobody else changed it meanwhile. Raises WriteConflict."""
        patch = {"metadata": {"resourceVersion": there["metadata"]["resourceVersion"]}, "spec": spec}
        cluster.merge(LEASE, lease_name(self.namespace), patch, field_manager=FIELD_MANAGER, namespace=self.namespace)


class HolderCheck:
    """Whether another installation holds the Lease, for work that does not take the Lease itself. Safe to use from
    several threads."""

    def __init__(self, namespace: str, instance: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._namespace, self._candidate, self._clock = namespace, Candidate(instance, ""), clock
        self._found, self._read_at = "", -math.inf
        self._lock = threading.Lock()

    def find_other(self, cluster: Cluster) -> str:
        """The process of another installation that the Lease names as its holder, or nothing; read again when the last
        answer is older than `RENEW_SECONDS`. Where Leases cannot be used there is no holder. Raises ClusterError."""
        with self._lock:
            began = self._clock()
            if began - self._read_at >= RENEW_SECONDS:
                self._found = self._read(cluster)
                self._read_at = began
            return self._found

    def _read(self, cluster: Cluster) -> str:
        try:
            there = _find(cluster, self._namespace)
        except _UNUSABLE:
            return ""
        holder = lease_holder((there or {}).get("spec") or {})
        return "" if self._candidate.is_of_same_instance(holder) else holder


def _find(cluster: Cluster, namespace: str) -> Object | None:
    """The Lease, or None where it does not exist."""
    try:
        return cluster.get(LEASE, lease_name(namespace), namespace=namespace)
    except errors.KindMissing:
        raise
    except errors.ObjectNotFound:
        return None
