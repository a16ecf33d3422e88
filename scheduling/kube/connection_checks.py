"""Checks whether a cluster can be worked with. Every write of a check is a dry run, so nothing stays in the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypedDict

from scheduling.domain.cluster.naming import FIELD_MANAGER, root_queue_name
from scheduling.domain.kubernetes_json import Object
from scheduling.domain.queues.desired import DesiredQueue, QueueTarget, queue_manifest
from scheduling.kube.connection import errors
from scheduling.kube.connection.error_messages import condition_reason, error_message
from scheduling.kube.connection.errors import ClusterError
from scheduling.kube.connection.port import Cluster, ClusterReader, ResourceKind
from scheduling.kube.connection.resource_kinds import NAMESPACE, NODE, POD, POD_GROUP, PRIORITY_CLASS, QUEUE, TOPOLOGY
from scheduling.kube.observed_kinds import WORKLOADS

PROBE_NAME = "osmo-connection-test"


@dataclass(frozen=True, slots=True)
class ConnectionCheck:
    """One check. A failed check that `is_required` means that OSMO Admin cannot work with the cluster."""

    name: str
    is_ok: bool
    message: str
    is_required: bool = True


class ConnectionCheckAnswer(TypedDict):
    """A check of a connection test. A failed check that is `needed` means that the cluster cannot be used."""

    name: str
    ok: bool
    needed: bool
    sentence: str


class ConnectionAnswer(TypedDict):
    """The report of a connection test; `version` is empty where the cluster did not answer."""

    ok: bool
    sentence: str
    version: str
    checks: list[ConnectionCheckAnswer]


@dataclass(frozen=True, slots=True)
class ConnectionReport:
    """All checks, and one message that sums them up."""

    is_ok: bool
    message: str
    version: str
    checks: tuple[ConnectionCheck, ...]

    def as_json(self) -> ConnectionAnswer:
        """The report as it is stored and answered."""
        checks: list[ConnectionCheckAnswer] = [
            {"name": c.name, "ok": c.is_ok, "needed": c.is_required, "sentence": c.message} for c in self.checks
        ]
        return {"ok": self.is_ok, "sentence": self.message, "version": self.version, "checks": checks}


def unreachable_report(error: ClusterError) -> ConnectionReport:
    """The report about a cluster without a connection."""
    return ConnectionReport(
        False, error_message(error), "", (ConnectionCheck("connection", False, error_message(error)),)
    )


def check_cluster(cluster: Cluster, target: QueueTarget) -> ConnectionReport:
    """Run all checks. An error of the cluster is a failed check; after an unanswered call the others are skipped."""
    return _report(
        cluster, _checks(cluster, target), f"queues and work in namespace {target.namespace} can be managed there"
    )


def check_observed_cluster(cluster: ClusterReader) -> ConnectionReport:
    """Run the checks of a cluster that is only read: what is read of it may be listed."""
    return _report(cluster, _read_checks(cluster), "its nodes and its work can be read")


def _report(cluster: ClusterReader, to_check: Iterable[ConnectionCheck], result: str) -> ConnectionReport:
    try:
        version = cluster.version()
    except ClusterError as error:
        return unreachable_report(error)
    checks = [ConnectionCheck("connection", True, f"The cluster answers: Kubernetes {version}.")]
    for check in to_check:
        checks.append(check)
        if check.message.startswith(_NO_ANSWER):
            break
    missing = [check for check in checks if check.is_required and not check.is_ok]
    if missing:
        more = f" {len(missing) - 1} more things are missing." if len(missing) > 1 else ""
        return ConnectionReport(False, missing[0].message + more, version, tuple(checks))
    return ConnectionReport(True, f"Connected to Kubernetes {version}: {result}.", version, tuple(checks))


_NO_ANSWER = "The cluster does not answer"


def _read_checks(cluster: ClusterReader) -> Iterator[ConnectionCheck]:
    """A list of one name needs the same right as the list of all, and answers at once."""
    for kind, title, is_required in _OBSERVED_KINDS:
        yield _check(
            title,
            f"{title[0].upper()}{title[1:]} can be read.",
            partial(cluster.list, kind, fields=f"metadata.name={PROBE_NAME}"),
            is_required=is_required,
        )


_OBSERVED_KINDS: tuple[tuple[ResourceKind, str, bool], ...] = (
    (NODE, "nodes", True),
    (POD, "pods", True),
    (POD_GROUP, "PodGroups of KAI", False),
    (WORKLOADS[0], "Workloads of Kueue", False),
    (PRIORITY_CLASS, "priority classes", False),
)


def _checks(cluster: Cluster, target: QueueTarget) -> Iterator[ConnectionCheck]:
    root = queue_manifest(
        target, DesiredQueue(root_queue_name(target.namespace), None, root_queue_name(target.namespace), -1)
    )
    pod_group = _object(target, {"minMember": 1, "queue": root["metadata"]["name"]})
    pod = _object(target, {"containers": [{"name": "main", "image": "none"}]})
    yield _check("queues", "KAI's Queues can be read.", lambda: cluster.get(QUEUE, root["metadata"]["name"]))
    yield _check(
        "queue writes",
        "Queues can be written.",
        lambda: cluster.apply(QUEUE, root, field_manager=FIELD_MANAGER, force=True, dry_run=True),
    )
    yield _check(
        "namespace",
        f"Namespace {target.namespace} exists.",
        lambda: cluster.get(NAMESPACE, target.namespace),
        missing=f"Namespace {target.namespace} does not exist; create it: kubectl create namespace {target.namespace}.",
    )
    yield _check(
        "PodGroups", "PodGroups can be read.", lambda: cluster.get(POD_GROUP, PROBE_NAME, namespace=target.namespace)
    )
    yield _check(
        "PodGroup writes",
        "PodGroups can be created.",
        lambda: cluster.create(POD_GROUP, pod_group, field_manager=FIELD_MANAGER, dry_run=True),
    )
    yield _check(
        "pod writes",
        "Pods can be created.",
        lambda: cluster.create(POD, pod, field_manager=FIELD_MANAGER, dry_run=True),
    )
    yield _check("priority classes", "PriorityClasses can be read.", lambda: cluster.get(PRIORITY_CLASS, "osmo-normal"))
    yield _check("topologies", "Topologies can be read.", lambda: cluster.get(TOPOLOGY, PROBE_NAME), is_required=False)


def _check(
    name: str, success: str, call: Callable[[], Any], *, missing: str | None = None, is_required: bool = True
) -> ConnectionCheck:
    """Run one check. A missing object is fine, unless `missing` has a message for it."""
    try:
        call()
    except errors.KindMissing as error:
        return ConnectionCheck(name, False, error_message(error), is_required)
    except (errors.ObjectNotFound, errors.AlreadyExists) as error:
        if missing is None and "namespaces" not in error.message:
            return ConnectionCheck(name, True, success, is_required)
        return ConnectionCheck(name, False, missing or f"{error.message}.", is_required)
    except ClusterError as error:
        return ConnectionCheck(name, False, error_message(error) or condition_reason(error), is_required)
    return ConnectionCheck(name, True, success, is_required)


def _object(target: QueueTarget, spec: Object) -> Object:
    return {"metadata": {"name": PROBE_NAME, "namespace": target.namespace}, "spec": spec}
