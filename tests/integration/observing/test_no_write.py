"""A backend in mode observe: its cluster is read and never written, whatever is asked for. What a real server's audit
log says of it: test_real_server.py."""

from __future__ import annotations

from collections import Counter

import pytest
from django.db import IntegrityError, transaction

from pools.domain.changes.backends import PutBackend
from pools.domain.errors import BadInput, Conflict
from pools.models import Backend, KubernetesSettings, Node
from pools.services.configuration.backends import put_backend
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.kube.connection import errors, resource_kinds
from scheduling.kube.events import EventReason, EventSubject
from scheduling.models import ClusterState, NodeState, QueueSync, Workflow
from scheduling.services.kubernetes import cluster_events, connections
from scheduling.services.kubernetes.cluster_workers import ClusterWorkers
from scheduling.services.kubernetes.leased_loop import LeasedLoop
from scheduling.services.kubernetes.observing.observer import ClusterObserver
from scheduling.services.kubernetes.syncing.queue_sync import (
    backends_due_for_sync,
    needs_no_sync,
    request_sync,
    sync_backend_queues,
)
from scheduling.services.webhooks.installation import remove_webhook
from scheduling.services.workflows.submission import Submission, submit
from scheduling.services.workflows.user_actions import cancel_workflow
from tests.support import world
from tests.support.fake_cluster import FakeCluster
from tests.support.kube_server import RecordingCluster, wait_for
from tests.support.observed_cluster import Firm, observed_backend, observer_of


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster(namespaces=["osmo", "science"])


def test_an_observer_keeps_nodes_and_what_runs_there(db: None, cluster: FakeCluster) -> None:
    firm, backend = Firm(cluster), observed_backend()
    firm.add_node("n1", gpus=8)
    firm.add_pod("train", namespace="science", gpus=3, node="n1")
    seen = RecordingCluster(cluster)
    observer_of(backend, seen).relist_and_observe()
    assert Node.objects.get(backend=backend, name="n1").gpus == 8
    assert NodeState.objects.get(node__backend=backend).other_gpus == 3
    assert ClusterState.objects.get(backend=backend).heartbeat_at is not None
    assert not seen.writes
    firm.set_phase("train", "Succeeded", namespace="science")
    observer_of(backend, seen).relist_and_observe()
    assert NodeState.objects.get(node__backend=backend).other_gpus == 0


def test_each_way_to_write_is_refused(ledger: None, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = observed_backend()
    world.make_pool("team", 8, on=backend)
    made: list[object] = []
    monkeypatch.setattr(connections.CONNECTIONS, "get", lambda *_: made.append("a connection that writes"))
    admin = world.admin_actor()
    with pytest.raises(errors.ClusterObserved, match="lab is observed"):
        connections.connect(backend)
    with pytest.raises(BadInput, match="cluster lab of team is observed") as refused:
        submit(actor=admin, pool="team", submission=Submission(file=world.workflow_file()))
    assert refused.value.details[0].code == "cluster_observed"
    for asked in (
        lambda: request_sync(actor=admin, backend="lab"),
        lambda: request_sync(actor=admin, backend="lab", reapply=True),
        lambda: remove_webhook(actor=admin, backend="lab"),
    ):
        with pytest.raises(Conflict) as found:
            asked()
        assert found.value.details[0].code == "cluster_observed"
    assert sync_backend_queues(backend.pk, manual=True).synced == QueueSync.Synced.UNKNOWN
    assert QueueSync.objects.get(backend=backend).reason == "Observed"
    assert needs_no_sync(backend.pk)
    assert backends_due_for_sync() == []
    cluster_events.record_event(backend, EventSubject(resource_kinds.QUEUE, "q"), EventReason.REPAIRED, "x")
    assert cluster_events.writer_of(backend).flush(10)
    assert not made
    assert not Workflow.objects.exists()


def test_the_mode_changes_without_work_only(ledger: None) -> None:
    backend = Backend.objects.create(name="lab", namespace="t1", kind=Backend.Kind.KUBERNETES)
    KubernetesSettings.objects.create(backend=backend, access="in_cluster", server="test:lab")
    world.make_pool("team", 8, on=backend)
    work = submit(actor=world.admin_actor(), pool="team", submission=Submission(file=world.workflow_file()))
    assert work.workflow is not None
    with pytest.raises(Conflict, match=r"team \(1\)") as refused:
        put_backend(PutBackend(name="lab", body={"mode": "observe"}), actor=world.admin_actor())
    assert [(each.path, each.code) for each in refused.value.details] == [("mode", "live_work")]
    cancel_workflow(CancelWorkflow(name=work.workflow.name), actor=world.admin_actor())
    changed = put_backend(PutBackend(name="lab", body={"mode": "observe"}), actor=world.admin_actor())
    assert changed.row.kubernetes.mode == "observe"
    with pytest.raises(BadInput):
        submit(actor=world.admin_actor(), pool="team", submission=Submission(file=world.workflow_file()))


def test_the_database_refuses_a_change_of_the_mode_with_work(db: None) -> None:
    backend = observed_backend()
    world.make_pool("team", 8, on=backend)

    def set_mode(mode: str) -> None:
        with transaction.atomic():
            KubernetesSettings.objects.update(mode=mode)
            world.check_deferred_constraints()

    set_mode("manage")
    world.make_reservation("team", 2)
    with pytest.raises(IntegrityError, match="pool team has some"):
        set_mode("observe")


def test_two_clusters_and_one_that_changes(ledger: None) -> None:
    """An observed and a managed cluster side by side: each has its own loop, and a change of the mode changes it."""

    made: Counter[tuple[str, int]] = Counter()

    def loop(kind: str, backend_id: int) -> LeasedLoop:
        made[kind, backend_id] += 1
        found = ClusterObserver(backend_id)
        found.run = lambda stop: stop.wait(30)  # type: ignore[method-assign,assignment,return-value]
        return found

    seen, managed = observed_backend("seen"), observed_backend("managed", "t2")
    KubernetesSettings.objects.filter(backend=managed).update(mode="manage")
    workers = ClusterWorkers(lambda pk: loop("agent", pk), lambda pk: loop("observer", pk))
    quotas = ClusterWorkers(lambda pk: loop("gpu quotas", pk))
    try:
        for each in (workers, quotas):
            each.start_missing()
        assert made == {("observer", seen.pk): 1, ("agent", managed.pk): 1, ("gpu quotas", managed.pk): 1}
        KubernetesSettings.objects.filter(backend=seen).update(mode="manage")

        def is_agent() -> bool:
            workers.start_missing()
            return made["agent", seen.pk] == 1

        wait_for(is_agent, description="the agent of the cluster that is managed now")
    finally:
        for each in (workers, quotas):
            each.stop()
