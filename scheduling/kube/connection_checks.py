"""Trying a cluster out, question by question, without leaving anything there: what is written is a dry run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from scheduling.domain.cluster.naming import FIELD_MANAGER
from scheduling.domain.kubernetes_json import Object
from scheduling.domain.queues.desired import DesiredQueue, QueueTarget, queue_manifest, root_queue_name
from scheduling.kube import errors
from scheduling.kube.error_messages import condition_reason, error_message
from scheduling.kube.errors import ClusterError
from scheduling.kube.port import Cluster
from scheduling.kube.resource_kinds import NAMESPACE, POD, POD_GROUP, PRIORITY_CLASS, QUEUE, TOPOLOGY

PROBE_NAME = "osmo-connection-test"


@dataclass(frozen=True, slots=True)
class ConnectionCheck:
    """One question and its answer. `needed` without `ok` means that the house cannot work there."""

    name: str
    is_ok: bool
    message: str
    is_required: bool = True


@dataclass(frozen=True, slots=True)
class ConnectionReport:
    """All answers, and the one sentence that sums them up."""

    is_ok: bool
    message: str
    version: str
    checks: tuple[ConnectionCheck, ...]

    def as_json(self) -> Object:
        """As it is stored and shown."""
        checks = [{"name": c.name, "ok": c.is_ok, "needed": c.is_required, "sentence": c.message} for c in self.checks]
        return {"ok": self.is_ok, "sentence": self.message, "version": self.version, "checks": checks}


def unreachable_report(error: ClusterError) -> ConnectionReport:
    """A cluster that could not even be asked."""
    return ConnectionReport(
        False, error_message(error), "", (ConnectionCheck("connection", False, error_message(error)),)
    )


def check_cluster(cluster: Cluster, place: QueueTarget) -> ConnectionReport:
    """Ask everything that the house needs. Never raises for what the cluster says; when it does not answer at all the
    rest is not asked."""
    try:
        version = cluster.version()
    except ClusterError as error:
        return unreachable_report(error)
    checks = [ConnectionCheck("connection", True, f"The cluster answers: Kubernetes {version}.")]
    for check in _checks(cluster, place):
        checks.append(check)
        if check.message.startswith(_SILENT):
            break
    missing = [check for check in checks if check.is_required and not check.is_ok]
    if missing:
        more = f" {len(missing) - 1} more things are missing." if len(missing) > 1 else ""
        return ConnectionReport(False, missing[0].message + more, version, tuple(checks))
    sentence = f"Connected to Kubernetes {version}: queues and work of namespace {place.namespace} can be kept there."
    return ConnectionReport(True, sentence, version, tuple(checks))


_SILENT = "The cluster does not answer"


def _checks(cluster: Cluster, place: QueueTarget) -> Iterator[ConnectionCheck]:
    root = queue_manifest(
        place, DesiredQueue(root_queue_name(place.namespace), None, root_queue_name(place.namespace), -1)
    )
    pod_group = _object(place, {"minMember": 1, "queue": root["metadata"]["name"]})
    pod = _object(place, {"containers": [{"name": "main", "image": "none"}]})
    yield _asked("queues", "KAI's Queues can be read.", lambda: cluster.get(QUEUE, root["metadata"]["name"]))
    yield _asked(
        "queue writes",
        "Queues can be written.",
        lambda: cluster.apply(QUEUE, root, field_manager=FIELD_MANAGER, force=True, dry_run=True),
    )
    yield _asked(
        "namespace",
        f"Namespace {place.namespace} is there.",
        lambda: cluster.get(NAMESPACE, place.namespace),
        missing=f"Namespace {place.namespace} is not there; make it: kubectl create namespace {place.namespace}.",
    )
    yield _asked(
        "PodGroups", "PodGroups can be read.", lambda: cluster.get(POD_GROUP, PROBE_NAME, namespace=place.namespace)
    )
    yield _asked(
        "PodGroup writes",
        "PodGroups can be made.",
        lambda: cluster.create(POD_GROUP, pod_group, field_manager=FIELD_MANAGER, dry_run=True),
    )
    yield _asked(
        "pod writes", "Pods can be made.", lambda: cluster.create(POD, pod, field_manager=FIELD_MANAGER, dry_run=True)
    )
    yield _asked("priority classes", "PriorityClasses can be read.", lambda: cluster.get(PRIORITY_CLASS, "osmo-normal"))
    yield _asked("topologies", "Topologies can be read.", lambda: cluster.get(TOPOLOGY, PROBE_NAME), needed=False)


def _asked(
    name: str, good: str, ask: Callable[[], Any], *, missing: str | None = None, needed: bool = True
) -> ConnectionCheck:
    """That something is not there is an answer too, unless `missing` says that it has to be."""
    try:
        ask()
    except errors.KindMissing as error:
        return ConnectionCheck(name, False, error_message(error), needed)
    except (errors.ObjectNotFound, errors.AlreadyExists) as error:
        if missing is None and "namespaces" not in error.message:
            return ConnectionCheck(name, True, good, needed)
        return ConnectionCheck(name, False, missing or f"{error.message}.", needed)
    except ClusterError as error:
        return ConnectionCheck(name, False, error_message(error) or condition_reason(error), needed)
    return ConnectionCheck(name, True, good, needed)


def _object(place: QueueTarget, spec: Object) -> Object:
    return {"metadata": {"name": PROBE_NAME, "namespace": place.namespace}, "spec": spec}
