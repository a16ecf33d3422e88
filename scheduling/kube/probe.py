"""Trying a cluster out, question by question, without leaving anything there: what is written is a dry run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from scheduling.domain.cluster.naming import OWNER
from scheduling.domain.queues.desired import Place, Queue, queue_body, root_name
from scheduling.kube import errors
from scheduling.kube.errors import ClusterError
from scheduling.kube.kinds import NAMESPACE, POD, POD_GROUP, PRIORITY_CLASS, QUEUE, TOPOLOGY
from scheduling.kube.port import Cluster, Object
from scheduling.kube.words import reason_of, sentence_of

PROBE = "osmo-connection-test"


@dataclass(frozen=True, slots=True)
class Check:
    """One question and its answer. `needed` without `ok` means that the house cannot work there."""

    name: str
    ok: bool
    sentence: str
    needed: bool = True


@dataclass(frozen=True, slots=True)
class Report:
    """All answers, and the one sentence that sums them up."""

    ok: bool
    sentence: str
    version: str
    checks: tuple[Check, ...]

    def as_json(self) -> Object:
        """As it is stored and shown."""
        checks = [{"name": c.name, "ok": c.ok, "needed": c.needed, "sentence": c.sentence} for c in self.checks]
        return {"ok": self.ok, "sentence": self.sentence, "version": self.version, "checks": checks}


def unreachable(error: ClusterError) -> Report:
    """A cluster that could not even be asked."""
    return Report(False, sentence_of(error), "", (Check("connection", False, sentence_of(error)),))


def probe(cluster: Cluster, place: Place) -> Report:
    """Ask everything that the house needs. Never raises for what the cluster says; when it does not answer at all the
    rest is not asked."""
    try:
        version = cluster.version()
    except ClusterError as error:
        return unreachable(error)
    checks = [Check("connection", True, f"The cluster answers: Kubernetes {version}.")]
    for check in _checks(cluster, place):
        checks.append(check)
        if check.sentence.startswith(_SILENT):
            break
    missing = [check for check in checks if check.needed and not check.ok]
    if missing:
        more = f" {len(missing) - 1} more things are missing." if len(missing) > 1 else ""
        return Report(False, missing[0].sentence + more, version, tuple(checks))
    sentence = f"Connected to Kubernetes {version}: queues and work of namespace {place.namespace} can be kept there."
    return Report(True, sentence, version, tuple(checks))


_SILENT = "The cluster does not answer"


def _checks(cluster: Cluster, place: Place) -> Iterator[Check]:
    root = queue_body(place, Queue(root_name(place.namespace), None, root_name(place.namespace), -1))
    pod_group = _object(place, {"minMember": 1, "queue": root["metadata"]["name"]})
    pod = _object(place, {"containers": [{"name": "main", "image": "none"}]})
    yield _asked("queues", "KAI's Queues can be read.", lambda: cluster.get(QUEUE, root["metadata"]["name"]))
    yield _asked(
        "queue writes",
        "Queues can be written.",
        lambda: cluster.apply(QUEUE, root, owner=OWNER, force=True, dry_run=True),
    )
    yield _asked(
        "namespace",
        f"Namespace {place.namespace} is there.",
        lambda: cluster.get(NAMESPACE, place.namespace),
        missing=f"Namespace {place.namespace} is not there; make it: kubectl create namespace {place.namespace}.",
    )
    yield _asked(
        "PodGroups", "PodGroups can be read.", lambda: cluster.get(POD_GROUP, PROBE, namespace=place.namespace)
    )
    yield _asked(
        "PodGroup writes",
        "PodGroups can be made.",
        lambda: cluster.create(POD_GROUP, pod_group, owner=OWNER, dry_run=True),
    )
    yield _asked("pod writes", "Pods can be made.", lambda: cluster.create(POD, pod, owner=OWNER, dry_run=True))
    yield _asked("priority classes", "PriorityClasses can be read.", lambda: cluster.get(PRIORITY_CLASS, "osmo-normal"))
    yield _asked("topologies", "Topologies can be read.", lambda: cluster.get(TOPOLOGY, PROBE), needed=False)


def _asked(name: str, good: str, ask: Callable[[], Any], *, missing: str | None = None, needed: bool = True) -> Check:
    """That something is not there is an answer too, unless `missing` says that it has to be."""
    try:
        ask()
    except errors.KindMissing as error:
        return Check(name, False, sentence_of(error), needed)
    except (errors.NotFound, errors.AlreadyExists) as error:
        if missing is None and "namespaces" not in error.message:
            return Check(name, True, good, needed)
        return Check(name, False, missing or f"{error.message}.", needed)
    except ClusterError as error:
        return Check(name, False, sentence_of(error) or reason_of(error), needed)
    return Check(name, True, good, needed)


def _object(place: Place, spec: Object) -> Object:
    return {"metadata": {"name": PROBE, "namespace": place.namespace}, "spec": spec}
