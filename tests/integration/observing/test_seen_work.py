"""Work of an observed cluster counts in pools, by the same code as work of ours."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from django.db import IntegrityError
from django.utils import timezone

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.pools import PatchPool
from pools.domain.changes.subpools import DeleteSubpool
from pools.domain.errors import Conflict, NotFound
from pools.domain.people.user_names import user_name_violations
from pools.models import Backend, KubernetesSettings, LeafUsage, Reservation
from pools.services.configuration.backends import put_backend
from pools.services.configuration.pools import patch_pool
from pools.services.configuration.subpools import delete_subpool
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.observed.observed_object import OWNER_PREFIX
from scheduling.domain.observed.seen_pods import SeenWork
from scheduling.domain.observed.seen_work import read_work
from scheduling.kube.connection import errors, resource_kinds
from scheduling.kube.connection.port import ResourceKind
from scheduling.models import ClusterState, NodeState, ObservedWork, Task, Workflow
from scheduling.selectors.queue.pending_queue import build_pending_queue
from scheduling.selectors.work.workflows import get_visible_workflow
from scheduling.services.kubernetes.leased_loop import BackendRemoved
from scheduling.services.kubernetes.observing import record
from scheduling.services.kubernetes.observing.observer import ClusterObserver
from scheduling.services.kubernetes.observing.seen_transition import SeenTransition
from scheduling.services.verify import verify
from scheduling.services.workflows.submission import Submission, submit
from scheduling.services.workflows.user_actions import cancel_workflow
from tests.support import world
from tests.support.fake_cluster import FakeCluster
from tests.support.kube_server import RecordingCluster
from tests.support.observed_cluster import Firm, observed_backend, observer_of


class Lab:
    """A firm's cluster with KAI, and its observer."""

    def __init__(self, name: str = "lab") -> None:
        self.cluster = FakeCluster(namespaces=["osmo", "science", "vision"])
        self.firm = Firm(self.cluster)
        self.seen = RecordingCluster(self.cluster)
        self.backend: Backend = observed_backend(name, f"osmo-{name}")
        self.observer: ClusterObserver = observer_of(self.backend, self.seen)
        for node in ("n1", "n2"):
            self.firm.add_node(node, gpus=4)

    def look(self) -> None:
        self.observer.relist_and_observe()
        assert not self.seen.writes

    def delete(self, *names: str, kind: ResourceKind = resource_kinds.POD) -> None:
        """Deletions that a watch tells, with the last state of each object."""
        (informer,) = (each for each in self.observer._informers._all if each.kind == kind)
        for name in names:
            last = self.cluster.get(kind, name, namespace="science")
            self.firm.delete(name, namespace="science", kind=kind)
            informer._apply_event(last, is_deleted=True)

    def states(self) -> dict[str, tuple[str, int]]:
        """Status and GPUs held of each open piece of work, by the name of its object."""
        held = dict(Reservation.objects.values_list("workflow", "held_gpus"))
        marks = ObservedWork.objects.filter(backend=self.backend, is_open=True).select_related("workflow")
        return {mark.name: (mark.workflow.status, held[mark.workflow_id]) for mark in marks}

    def sizes(self) -> dict[str, tuple[int, object, int]]:
        """GPUs and tree of each open gang, and the GPUs that its reservation needs, by the name of its object."""
        needed = dict(Reservation.objects.values_list("workflow", "needed_gpus"))
        marks = ObservedWork.objects.filter(backend=self.backend, is_open=True)
        rows = marks.values_list("name", "workflow__groups__gpus", "workflow__groups__gang", "workflow")
        return {name: (gpus, gang, needed[workflow]) for name, gpus, gang, workflow in rows}

    def used(self, leaf: str) -> tuple[int, int]:
        """Guaranteed and total use of a leaf."""
        row = LeafUsage.objects.get(pool__name=leaf)
        return row.used, row.total_usage

    def unassigned(self) -> list[dict[str, object]]:
        return list(ClusterState.objects.get(backend=self.backend).unassigned)

    def other_gpus(self) -> dict[str, int]:
        return dict(NodeState.objects.filter(node__backend=self.backend).values_list("node__name", "other_gpus"))


@pytest.fixture
def lab(db: None) -> Lab:
    return Lab()


def test_a_gang_waits_runs_and_ends(lab: Lab) -> None:
    world.make_pool("team", 8, on=lab.backend)
    pods = lab.firm.add_pod_group("train", namespace="science", queue="team", pods=2)
    lab.look()
    assert lab.states() == {"train": ("PENDING", 0)}
    (waiting,) = build_pending_queue(lab.backend).gangs
    assert (waiting.gpus, waiting.pool, waiting.reason.code) == (2, "team", "waiting_for_cluster")
    for pod in pods:
        lab.firm.start(pod["metadata"]["name"], "n1", namespace="science")
    lab.look()
    assert lab.states() == {"train": ("RUNNING", 2)}
    assert set(Task.objects.values_list("node_name", "status")) == {("n1", "RUNNING")}
    assert lab.used("team") == (0, 2)
    assert lab.other_gpus() == {"n1": 0, "n2": 0}
    for pod in pods:
        lab.firm.set_phase(pod["metadata"]["name"], "Succeeded", namespace="science")
    lab.look()
    assert lab.states() == {}
    assert Workflow.objects.get().status == "COMPLETED"
    assert lab.used("team") == (0, 0)
    assert verify() == []


def test_work_that_may_not_be_preempted_is_guaranteed(lab: Lab) -> None:
    world.make_pool("team", 8, on=lab.backend)
    lab.firm.add_pod_group("serve", namespace="science", queue="team", priorityClassName="inference")
    lab.firm.add_pod_group("train", namespace="science", queue="team", priorityClassName="train")
    lab.firm.add_pod_group("kept", namespace="science", queue="team", preemptibility="non-preemptible")
    lab.look()
    found = dict(ObservedWork.objects.values_list("name", "workflow__priority"))
    assert found == {"serve": "NORMAL", "train": "LOW", "kept": "NORMAL"}


def test_reasons_are_by_our_rules(lab: Lab) -> None:
    """Under the quotas that were imported: over its quota, more than it, or inside it and no node is free."""
    world.make_pool("team", 2, on=lab.backend)
    world.make_pool("rest", 6, on=lab.backend)
    kept = {"preemptibility": "non-preemptible"}
    for pod in lab.firm.add_pod_group("mine", namespace="science", queue="team", pods=2, **kept):
        lab.firm.start(pod["metadata"]["name"], "n1", namespace="science")
    for pod, node in zip(
        lab.firm.add_pod_group("fill", namespace="vision", queue="rest", pods=6), "112222", strict=True
    ):
        lab.firm.start(pod["metadata"]["name"], f"n{node}", namespace="vision")
    lab.firm.add_pod_group("more", namespace="science", queue="team", **kept)
    lab.firm.add_pod_group("huge", namespace="science", queue="team", pods=3, **kept)
    lab.firm.add_pod_group("late", namespace="vision", queue="rest", pods=2)
    lab.look()
    reasons = {entry.gpus: str(entry.reason.code) for entry in build_pending_queue(lab.backend).gangs}
    assert reasons == {1: "over_quota", 3: "never_fits", 2: "no_room"}


def test_a_preempted_gang_waits_and_starts_again(lab: Lab) -> None:
    world.make_pool("team", 8, on=lab.backend)
    lab.firm.add_pod_group("train", namespace="science", queue="team")
    lab.firm.start("train-0", "n1", namespace="science")
    lab.look()
    lab.firm.preempt("train-0", namespace="science")
    lab.look()
    assert lab.states() == {"train": ("PENDING", 0)}
    lab.firm.delete("train-0", namespace="science")
    lab.firm.add_member("train", "train-1", namespace="science", node="n2")
    lab.look()
    assert lab.states() == {"train": ("RUNNING", 1)}
    attempts = Task.objects.order_by("retry_id").values_list("status", "node_name")
    assert list(attempts) == [("FAILED_PREEMPTED", "n1"), ("RUNNING", "n2")]
    assert Workflow.objects.count() == 1


@pytest.mark.parametrize("is_gang", [True, False])
def test_what_is_preempted_and_gone_between_two_looks_is_preempted(lab: Lab, *, is_gang: bool) -> None:
    """A watch ends with the last state of the object, which no later list has."""
    world.make_pool("science", 8, on=lab.backend)
    if is_gang:
        lab.firm.add_pod_group("train", namespace="science", queue="science")
        lab.firm.start("train-0", "n1", namespace="science")
    else:
        lab.firm.add_pod("train-0", namespace="science", gpus=1, node="n1")
    lab.look()
    lab.firm.preempt("train-0", namespace="science", message="for urgent work")
    lab.delete("train-0")
    lab.observer.observe()
    ended = Task.objects.order_by("retry_id").first()
    assert ended is not None
    assert ended.status == "FAILED_PREEMPTED"
    assert Workflow.objects.get().status == ("PENDING" if is_gang else "FAILED_PREEMPTED")
    assert not lab.observer._informers.pods.deleted()
    lab.look()
    assert lab.states() == ({"train": ("PENDING", 0)} if is_gang else {})
    assert verify() == []


def test_a_gang_grows_and_shrinks_with_its_pods(lab: Lab) -> None:
    """KAI makes the PodGroup with the first pod of a gang."""
    world.make_pool("team", 8, on=lab.backend)
    lab.firm.add_pod_group("train", namespace="science", queue="team", minMember=4)
    lab.firm.add_pod_group("elastic", namespace="science", queue="team", minMember=2)
    lab.look()
    assert lab.sizes() == {"train": (1, None, 1), "elastic": (1, None, 1)}
    for number in range(1, 4):
        lab.firm.add_member("train", f"train-{number}", namespace="science")
        lab.firm.add_member("elastic", f"elastic-{number}", namespace="science", gpus=2)
    lab.look()
    assert lab.sizes() == {"train": (4, None, 4), "elastic": (3, {"min_member": 2}, 3)}
    assert verify() == []
    for number in range(4):
        lab.firm.start(f"train-{number}", "n1", namespace="science")
    lab.look()
    lab.firm.set_phase("train-0", "Succeeded", namespace="science")
    for number in (0, 1):
        lab.firm.delete(f"elastic-{number}", namespace="science")
    lab.look()
    assert lab.sizes() == {"train": (3, None, 3), "elastic": (4, None, 4)}
    assert verify() == []


def test_pods_come_under_the_names_of_others(lab: Lab) -> None:
    """The attempts of a gang keep names that its pods have no more."""
    world.make_pool("team", 8, on=lab.backend)
    lab.firm.add_pod_group("train", namespace="science", queue="team", pods=2)
    for number in (0, 1):
        lab.firm.start(f"train-{number}", "n1", namespace="science")
    lab.look()
    for number in (0, 1):
        lab.firm.preempt(f"train-{number}", namespace="science")
    lab.look()
    for number in (0, 1):
        lab.firm.delete(f"train-{number}", namespace="science")
    lab.firm.add_member("train", "train-1", namespace="science", node="n1")
    lab.firm.add_member("train", "other", namespace="science", node="n2")
    lab.look()
    running = dict(Task.objects.filter(status="RUNNING").values_list("name", "node_name"))
    assert running == {"train-1": "n1", "train-0": "n2"}, "each takes the attempt of its name first"
    lab.firm.add_member("train", "train-0", namespace="science", node="n2")  # while its name is in use
    lab.look()
    assert lab.states() == {"train": ("RUNNING", 3)}
    for name in ("other", "train-0"):
        lab.firm.preempt(name, namespace="science")
    lab.look()
    assert lab.states() == {"train": ("RUNNING", 1)}
    attempts = Task.objects.filter(name="train-0").order_by("retry_id").values_list("retry_id", flat=True)
    assert (list(attempts)[:3], len(attempts)) == ([0, 1, 2], 4), "one waits, for the gang needs two"
    assert verify() == []


def test_a_plain_pod_counts_in_the_pool_of_its_namespace(lab: Lab) -> None:
    """A namespace without a pool is use of others, and named."""
    world.make_pool("lab-pool", 8, on=lab.backend, science=2)
    lab.firm.add_pod("job", namespace="science", gpus=3, node="n1")
    lab.firm.add_pod("job", namespace="vision", gpus=2, node="n1")
    lab.firm.add_pod("helper", namespace="science", gpus=0, node="n1")
    lab.look()
    assert lab.states() == {"job": ("RUNNING", 3)}
    assert lab.used("lab-pool--science") == (3, 3)
    assert lab.other_gpus() == {"n1": 2, "n2": 0}
    assert lab.unassigned() == [{"queue": "vision", "workloads": 1, "gpus": 2}]
    lab.firm.delete("job", namespace="science")
    lab.look()
    assert lab.states() == {}
    work = Workflow.objects.get()
    words = "it was deleted in the cluster; why, the cluster does not say"
    assert (work.status, work.failure_message) == ("FAILED_CANCELED", words)


def test_a_subpool_that_drains_keeps_its_work_and_takes_no_more(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    """New work there is use of others."""
    world.make_pool("lab-pool", 8, on=lab.backend, science=2)
    lab.firm.add_pod("job", namespace="science", gpus=3, node="n1")
    lab.look()
    delete_subpool(DeleteSubpool(parent="lab-pool", subpool_name="science"), actor=world.admin_actor())
    lab.firm.add_pod("late", namespace="science", gpus=2, node="n2")
    lab.look()
    assert lab.states() == {"job": ("RUNNING", 3)}
    assert lab.other_gpus() == {"n1": 0, "n2": 2}
    assert lab.unassigned() == [{"queue": "science", "workloads": 1, "gpus": 2, "pool": "lab-pool--science"}]
    assert "unforeseen error" not in caplog.text


def test_work_that_was_not_written_counts_as_use_of_others(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    world.make_pool("science", 8, on=lab.backend)
    lab.firm.add_pod("job", namespace="science", gpus=3, node="n1")
    with monkeypatch.context() as patch:
        patch.setattr(record, "_insert", Mock(side_effect=ValueError("broken")))
        lab.look()
    assert (lab.states(), lab.other_gpus()) == ({}, {"n1": 3, "n2": 0})
    lab.look()
    assert (lab.states(), lab.other_gpus()) == ({"job": ("RUNNING", 3)}, {"n1": 0, "n2": 0})


def test_work_that_fails_does_not_stop_the_others(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are written again one by one, from the same facts."""
    world.make_pool("science", 8, on=lab.backend)
    for name in ("bad", "ends", "grows"):
        lab.firm.add_pod_group(name, namespace="vision", queue="science", pods=2)
        lab.firm.start(f"{name}-0", "n1", namespace="vision")
    lab.look()
    for number in (0, 1):
        lab.firm.set_phase(f"ends-{number}", "Succeeded", namespace="vision")
    lab.firm.start("grows-1", "n2", namespace="vision")
    lab.firm.start("bad-1", "n2", namespace="vision")
    follow = SeenTransition.follow

    def fail(self: SeenTransition, mark: ObservedWork, work: SeenWork) -> None:
        follow(self, mark, work)
        if work.name == "bad":
            raise ValueError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(SeenTransition, "follow", fail)
        lab.look()
    assert lab.states() == {"bad": ("RUNNING", 1), "grows": ("RUNNING", 2)}
    assert Workflow.objects.get(observed__name="ends").status == "COMPLETED"
    assert [each["name"] for each in ClusterState.objects.get(backend=lab.backend).unread] == ["bad"]
    assert lab.other_gpus() == {"n1": 0, "n2": 1}, "its new pod counts somewhere"
    lab.look()
    assert lab.states() == {"bad": ("RUNNING", 2), "grows": ("RUNNING", 2)}
    assert ClusterState.objects.get(backend=lab.backend).unread == []
    assert verify() == []


def test_what_nothing_counts_is_named(lab: Lab) -> None:
    """A part of a GPU is not 0 GPUs."""
    world.make_pool("science", 8, on=lab.backend)
    lab.firm.add_pod("part", namespace="science", gpus=0, node="n1", annotations={"gpu-fraction": "0.5"})
    lab.firm.add_pod("claims", namespace="science", gpus=0, resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    lab.look()
    notes = dict(ObservedWork.objects.values_list("name", "notes"))
    assert notes == {
        "part": ["gpu-fraction of 1 pod is not counted"],
        "claims": ["ResourceClaims of 1 pod is not counted"],
    }
    assert Workflow.objects.get(observed__name="part").warnings == notes["part"]


def test_a_killed_observer_counts_nothing_twice(lab: Lab) -> None:
    world.make_pool("science", 8, on=lab.backend)
    lab.firm.add_pod("job", namespace="science", gpus=3, node="n1")
    lab.look()
    lab.observer = observer_of(lab.backend, lab.seen)
    lab.look()
    assert (Workflow.objects.count(), lab.states()) == (1, {"job": ("RUNNING", 3)})


def test_a_silent_cluster_loses_nothing(lab: Lab) -> None:
    """While the API server is away the record stays, and no work ends."""
    world.make_pool("science", 8, on=lab.backend)
    lab.firm.add_pod("job", namespace="science", gpus=3, node="n1")
    lab.look()

    def fail(*_: object) -> None:
        raise errors.Unreachable("away")

    lab.seen.before_call = fail
    lab.observer.relist_and_observe()
    assert lab.states() == {"job": ("RUNNING", 3)}
    lab.observer = observer_of(lab.backend, lab.seen)  # one that has never seen the cluster
    lab.observer.relist_and_observe()
    assert lab.states() == {"job": ("RUNNING", 3)}


def test_the_database_counts_an_object_once(db: None) -> None:
    lab = Lab()
    world.make_pool("science", 8, on=lab.backend)
    lab.firm.add_pod("job", namespace="science", node="n1")
    lab.firm.add_pod("job2", namespace="science", node="n1")
    lab.look()
    with pytest.raises(IntegrityError, match="observed_object_once"):
        ObservedWork.objects.update(uid="same")


def test_two_observed_clusters_are_apart(db: None) -> None:
    one, two = Lab("one"), Lab("two")
    world.make_pool("science", 8, on=one.backend)
    world.make_pool("vision", 8, on=two.backend)
    for lab in (one, two):
        lab.firm.add_pod("job", namespace="science", gpus=1, node="n1")
        lab.firm.add_pod("other", namespace="vision", gpus=2, node="n1")
        lab.look()
    assert one.states() == {"job": ("RUNNING", 1)}
    assert two.states() == {"other": ("RUNNING", 2)}


def test_people_see_the_work_of_their_pools_only(lab: Lab) -> None:
    world.make_pool("science", 8, on=lab.backend)
    world.make_pool("vision", 8, on=lab.backend)
    lab.firm.add_pod("secret-project", namespace="vision", node="n1")
    lab.look()
    name = Workflow.objects.get().name
    assert name == "secret-project-1"
    researcher = world.make_user("ann", "osmo-science-user")
    with pytest.raises(NotFound):
        get_visible_workflow(researcher, name)
    assert get_visible_workflow(world.make_user("bob", "osmo-vision-user"), name).name == name


def test_nobody_stops_it_from_here(lab: Lab) -> None:
    world.make_pool("science", 8, on=lab.backend)
    lab.firm.add_pod("job", namespace="science", node="n1")
    lab.look()
    with pytest.raises(Conflict, match="pod science/job of cluster lab") as refused:
        cancel_workflow(CancelWorkflow(name="job-1", force=True), actor=world.admin_actor())
    assert refused.value.details[0].code == "cluster_observed"
    assert user_name_violations(f"{OWNER_PREFIX}lab"), "no person can have the name of its owner"


@pytest.mark.django_db(transaction=True)
def test_the_switch_to_manage_leaves_the_work_to_its_scheduler(lab: Lab) -> None:
    world.make_pool("science", 8, on=lab.backend)
    lab.firm.add_pod("job", namespace="science", gpus=2, node="n1")
    lab.look()
    put_backend(PutBackend(name="lab", body={"mode": "manage"}), actor=world.admin_actor())
    work = Workflow.objects.get()
    assert work.status == "FAILED_CANCELED"
    assert "goes on there" in work.failure_message
    assert (lab.states(), lab.used("science")) == ({}, (0, 0))
    assert lab.cluster.get(resource_kinds.POD, "job", namespace="science")["status"]["phase"] == "Running"
    with pytest.raises(BackendRemoved):
        lab.observer.relist_and_observe()
    put_backend(PutBackend(name="lab", body={"mode": "observe"}), actor=world.admin_actor())
    lab.observer = observer_of(lab.backend, lab.seen)
    lab.look()
    assert lab.states() == {"job": ("RUNNING", 2)}


def test_a_switch_during_a_look_ends_it_without_a_fault(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    world.make_pool("science", 8, on=lab.backend)
    lab.firm.add_pod("job", namespace="science", gpus=2, node="n1")
    stale = Backend.objects.get(pk=lab.backend.pk)
    pods = lab.cluster.list(resource_kinds.POD).items
    put_backend(PutBackend(name="lab", body={"mode": "manage"}), actor=world.admin_actor())
    with pytest.raises(BackendRemoved):
        record.WorkRecorder().write(stale, read_work(pods, (), now=timezone.now()).works)
    assert "unforeseen error" not in caplog.text
    assert not ObservedWork.objects.exists()


def test_pools_switch_one_by_one(lab: Lab) -> None:
    """A second backend of the same cluster, in a namespace of its own, manages; the others stay observed."""
    managed = Backend.objects.create(name="ours", namespace="ours", kind=Backend.Kind.KUBERNETES)
    KubernetesSettings.objects.create(backend=managed, access="in_cluster", server="test:lab")
    world.make_pool("science", 4, on=lab.backend)
    world.make_pool("vision", 4, on=lab.backend)
    for namespace in ("science", "vision"):
        lab.firm.add_pod("job", namespace=namespace, gpus=2, node="n1")
    lab.look()
    moved = patch_pool(PatchPool(name="science", patch={"backend": "ours"}), actor=world.admin_actor())
    assert any("The scheduler of cluster lab goes on" in warning for warning in moved.warnings)
    assert (lab.used("science"), lab.used("vision")) == ((0, 0), (2, 2))
    lab.look()
    assert lab.states() == {"job": ("RUNNING", 2)}
    assert lab.unassigned() == [{"queue": "science", "workloads": 1, "gpus": 2}]
    assert lab.other_gpus() == {"n1": 2, "n2": 0}
    work = submit(actor=world.admin_actor(), pool="science", submission=Submission(file=world.workflow_file()))
    with pytest.raises(Conflict, match="1 active workflow"):
        patch_pool(PatchPool(name="science", patch={"backend": "lab"}), actor=world.admin_actor())
    assert work.workflow is not None
    cancel_workflow(CancelWorkflow(name=work.workflow.name), actor=world.admin_actor())
    patch_pool(PatchPool(name="science", patch={"backend": "lab"}), actor=world.admin_actor())
    lab.look()
    assert lab.used("science") == (2, 2)
