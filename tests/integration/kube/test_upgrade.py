"""From the layout of an earlier OSMO, one leaf queue per pool, to ours: waiting work is moved, and running work is not
touched."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.changes.pools import PutPool
from scheduling.domain.kubernetes_json import Object
from scheduling.kube.connection import errors
from scheduling.kube.connection.port import ResourceKind
from scheduling.kube.connection.resource_kinds import POD, POD_GROUP, QUEUE
from tests.integration.kube.conftest import SyncHarness
from tests.support.world import apply_change

UPSTREAM = "osmo-backend-worker"


class EarlierOsmo:
    """The objects of an earlier OSMO in a cluster."""

    def __init__(self, lab: SyncHarness) -> None:
        self._lab = lab
        self._cluster = lab.cluster.cluster
        self.old, self.new = lab.name("team"), lab.name("team---shared")
        unlimited = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        root = {"resources": {"gpu": unlimited, "cpu": unlimited, "memory": unlimited}}
        gpu = {"quota": 100, "limit": -1, "overQuotaWeight": 1}
        team = {"parentQueue": lab.root, "resources": {"gpu": gpu, "cpu": unlimited, "memory": unlimited}}
        for name, spec in ((lab.root, root), (self.old, team)):
            body = {"metadata": {"name": name, "labels": {"osmo.namespace": lab.ns}}, "spec": spec}
            self._cluster.create(QUEUE, body, field_manager=UPSTREAM)

    def gang(self, name: str, *pods: str, queue: str = "") -> None:
        """A PodGroup; each pod is `waits`, `runs` or `done`."""
        queue = queue or self.old
        labels = {"kai.scheduler/queue": queue, "runai/queue": queue, "osmo.pool": "team"}
        self._create(POD_GROUP, name, labels, {}, {"queue": queue, "minMember": max(1, len(pods))})
        for number, state in enumerate(pods):
            pod = f"{name}-{number}"
            spec: Object = {"containers": [{"name": "main", "image": "x"}], "schedulerName": "kai-scheduler"}
            if state != "waits":
                spec["nodeName"] = "n1"
            self._create(POD, pod, labels, {"pod-group-name": name}, spec)
            phase = {"waits": "Pending", "runs": "Running", "done": "Succeeded"}[state]
            change = {"status": {"phase": phase}}
            self._cluster.merge(POD, pod, change, field_manager="kubelet", namespace=self._lab.ns, status=True)

    def _create(self, kind: ResourceKind, name: str, labels: Any, annotations: Any, spec: Object) -> None:
        metadata = {"name": name, "namespace": self._lab.ns, "labels": labels, "annotations": annotations}
        self._cluster.create(kind, {"metadata": metadata, "spec": spec}, field_manager=UPSTREAM)

    def queues_of(self, kind: ResourceKind) -> dict[str, str]:
        """The queue label of each object of a kind."""
        found = self._cluster.list(kind, namespace=self._lab.ns).items
        for item in found:
            labels = item["metadata"]["labels"]
            assert labels["kai.scheduler/queue"] == labels["runai/queue"]
            assert kind is not POD_GROUP or item["spec"]["queue"] == labels["runai/queue"]
        return {item["metadata"]["name"]: item["metadata"]["labels"]["runai/queue"] for item in found}


@pytest.fixture(params=["pinned", "newer"])
def kube_namespace(request: pytest.FixtureRequest) -> Any:
    """Real API servers with both versions of the PodGroup's definition."""
    from tests.support.kube_server import KubeNamespace, create_namespace

    server = request.getfixturevalue("kube_server" if request.param == "pinned" else "newer_kube_server")
    cluster = server.connect()
    yield KubeNamespace(cluster, create_namespace(cluster))
    cluster.close()


@pytest.fixture
def earlier_osmo(lab: SyncHarness) -> EarlierOsmo:
    apply_change(PutPool(name="team", body={"backend": "lab", "resources": {"gpu": {"guarantee": 100}}}))
    return EarlierOsmo(lab)


@pytest.mark.k8s
def test_waiting_work_moves_to_the_leaf_and_running_work_stays(lab: SyncHarness, earlier_osmo: EarlierOsmo) -> None:
    old, new = earlier_osmo.old, earlier_osmo.new
    earlier_osmo.gang("nothing-yet")
    earlier_osmo.gang("waiting", "waits", "waits")
    earlier_osmo.gang("running", "runs", "runs")
    earlier_osmo.gang("partly", "runs", "waits")
    earlier_osmo.gang("ending", "done", "runs")
    earlier_osmo.gang("elsewhere", "waits", queue="somebody-elses")
    untouched = {name: lab.cluster.cluster.get(POD, name, namespace=lab.ns) for name in ("running-0", "partly-0")}

    outcome = lab.sync()

    assert outcome.synced == "True"
    assert lab.queues() == {"": -1, "team": 100, "team---shared": 100}
    assert earlier_osmo.queues_of(POD_GROUP) == {
        "nothing-yet": new,
        "waiting": new,
        "running": old,
        "partly": new,
        "ending": old,
        "elsewhere": "somebody-elses",
    }
    pods = earlier_osmo.queues_of(POD)
    assert {name for name, queue in pods.items() if queue == new} == {"waiting-0", "waiting-1", "partly-1"}
    for name, before in untouched.items():
        assert lab.cluster.cluster.get(POD, name, namespace=lab.ns) == before
    order = lab.cluster.writes
    assert order.index(f"apply {new}") < order.index("merge waiting"), "the leaf exists before a PodGroup names it"
    again = lab.sync()
    assert (lab.cluster.writes, again.synced) == ([], "True")


@pytest.mark.k8s
def test_a_crash_between_the_new_leaf_and_the_move_is_repaired(lab: SyncHarness, earlier_osmo: EarlierOsmo) -> None:
    earlier_osmo.gang("waiting", "waits")

    def dies(verb: str, kind: ResourceKind, name: str) -> None:
        if kind is POD_GROUP and verb == "merge":
            raise errors.Unreachable("the worker was killed here")

    lab.cluster.before_call = dies
    assert lab.sync().synced == "False"
    assert lab.queues()["team---shared"] == 100
    assert earlier_osmo.queues_of(POD_GROUP) == {"waiting": earlier_osmo.old}
    lab.cluster.before_call = lambda *_: None
    assert lab.sync().written == (f"point PodGroup waiting from {earlier_osmo.old} to {earlier_osmo.new}",)
    assert earlier_osmo.queues_of(POD_GROUP) == {"waiting": earlier_osmo.new}


@pytest.mark.k8s
def test_later_work_in_the_old_queue_is_moved_too(lab: SyncHarness, earlier_osmo: EarlierOsmo) -> None:
    lab.sync()
    earlier_osmo.gang("late", "waits")
    assert lab.sync().written == (f"point PodGroup late from {earlier_osmo.old} to {earlier_osmo.new}",)
