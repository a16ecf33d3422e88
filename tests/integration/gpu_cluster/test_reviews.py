"""A worker's pod is checked before it is created, with a reservation, and again before it is bound."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.crypto import salted_hmac

from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.people.roles import SYSTEM
from pools.models import Backend, GpuAllocation, GpuUsage
from pools.services.gpu_quota.gpu_allocations import expire_assumed
from scheduling.domain.changes.webhooks import PutQueueGuard
from scheduling.domain.cluster.admission_review import ReviewAnswer
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Task
from scheduling.services.webhooks.marks import current_mark, rotate_mark
from scheduling.services.webhooks.queue_guard import queue_guard_for
from tests.support import world
from tests.support.agent_harness import kubernetes_backend
from tests.support.shapes import assert_has_shape

pytestmark = pytest.mark.django_db
PREFIX = "tensor-fusion.ai/"


@pytest.fixture(scope="module", autouse=True)
def lab(module_data: Callable[[], Any]) -> None:
    with module_data():
        kubernetes_backend("ns")
        world.apply_change(PutQueueGuard(backend="lab", mode="enforce"))
        world.apply_change(
            PutGpuQuota(
                namespace="team-a",
                spec={"total": {"maxWorkers": 1}, "single": {"maxRequests": {"tflops": "50"}, "maxGPUCount": 4}},
            )
        )


def pod(uid: str = "u1", **marks: str) -> dict[str, Any]:
    marks = {"tflops_request": "10"} | marks
    metadata = {"name": "w", "namespace": "team-a", "uid": uid, "labels": {f"{PREFIX}component": "worker"}}
    annotations = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in marks.items()}
    return {"metadata": {**metadata, "annotations": annotations}, "spec": {}}


def ask(now: Any, *, mark: str | None = None, kind: str = "Pod", **more: Any) -> dict[str, Any]:
    request = {
        "uid": "q1",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": kind},
        "namespace": "team-a",
        "name": "w",
        "userInfo": {"username": "sa"},
        "object": now,
        "oldObject": None,
        "dryRun": False,
        **more,
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    known = current_mark(queue_guard_for(Backend.objects.get(name="lab")))
    address = f"/webhooks/gpu_quota/lab/{known if mark is None else mark}".rstrip("/")
    answer = Client().post(address, body, content_type="application/json")
    assert answer.status_code == 200, answer.content
    assert_has_shape(answer.json(), ReviewAnswer)
    return dict(answer.json()["response"])


def test_a_pod_that_fits_gets_a_reservation() -> None:
    assert ask(pod()) == {"uid": "q1", "allowed": True}
    row = GpuAllocation.objects.get()
    assert (row.name, row.source, row.state, row.backend and row.backend.name) == ("u1", "pod", "assumed", "lab")
    assert GpuUsage.objects.get(pk="team-a").assumed_workers == 1
    assert ask(pod())["allowed"], "a second review reserves nothing more"
    assert GpuAllocation.objects.count() == 1


def test_the_next_pod_is_refused_with_the_numbers() -> None:
    ask(pod())
    answer = ask(pod("u2"))
    assert not answer["allowed"]
    assert answer["status"]["code"] == 403
    assert answer["status"]["message"] == (
        "quota exceeded in namespace team-a for total.max.workers.limit: requested 1, limit 1, used 1"
    )
    assert answer["status"]["details"]["causes"][0]["reason"] == "total.max.workers.limit"


TASK, IDENTITY = "osmo.task_uuid", "system:serviceaccount:ns:osmo-admin"


@pytest.fixture
def own_task() -> str:
    """An open task on the backend, whose guard knows our account."""
    backend = Backend.objects.get(name="lab")
    world.apply_change(PutQueueGuard(backend="lab", mode="enforce", identity=IDENTITY))
    world.make_pool("team", 10, on=backend, a=5)
    world.submit_workflow(world.admin_actor(), "team--a")
    return str(Task.objects.get().pk)


def claiming(task: str, *, name: str = "", component: str = "worker") -> dict[str, Any]:
    """A pod of two GPUs more than the cap of one worker allows, that claims to be the pod of a task."""
    made = pod("u9", tflops_request="51")
    metadata = made["metadata"]
    metadata["name"] = name or task
    metadata["labels"] = {f"{PREFIX}component": component, TASK: task}
    return made


class TestOursByAgreement:
    """A pod is counted with its workflow only where task, backend, namespace and account agree."""

    def test_the_pod_of_an_open_task_made_by_us_is_not_asked(self, own_task: str) -> None:
        assert ask(claiming(own_task), namespace="ns", userInfo={"username": IDENTITY}) == {
            "uid": "q1",
            "allowed": True,
        }
        assert not GpuAllocation.objects.exists()

    @pytest.mark.parametrize("fault", ["no such task", "other account", "other namespace", "other name", "ended task"])
    def test_any_disagreement_makes_it_a_stranger(self, own_task: str, fault: str) -> None:
        world.apply_change(PutGpuQuota(namespace="ns", spec={"single": {"maxRequests": {"tflops": "50"}}}))
        now, namespace, who = claiming(own_task), "ns", IDENTITY
        if fault == "no such task":
            now = claiming("11111111-2222-3333-4444-555555555555")
        elif fault == "other account":
            who = "mallory"
        elif fault == "other namespace":
            namespace = "team-a"
        elif fault == "other name":
            now = claiming(own_task, name="anything")
        else:
            Task.objects.update(status=TaskStatus.COMPLETED)
        answer = ask(now, namespace=namespace, userInfo={"username": who})
        assert not answer["allowed"]
        assert answer["status"]["details"]["causes"][0]["reason"] == "single.max.tflops.request"

    def test_a_task_of_another_backend_is_not_believed(self, own_task: str) -> None:
        world.apply_change(PutGpuQuota(namespace="ns", spec={"single": {"maxRequests": {"tflops": "50"}}}))
        kubernetes_backend("ns-b", "lab2")
        world.apply_change(PutQueueGuard(backend="lab2", mode="enforce", identity=IDENTITY))
        Backend.objects.filter(name="lab").update(namespace="moved")
        answer = ask(claiming(own_task), namespace="ns", userInfo={"username": IDENTITY})
        assert not answer["allowed"]

    def test_a_later_change_keeps_the_reviewed_claim(self, own_task: str) -> None:
        before, after = claiming(own_task, component="other"), claiming(own_task)
        more = {"namespace": "ns", "operation": "UPDATE", "userInfo": {"username": "kubelet"}}
        world.apply_change(PutGpuQuota(namespace="ns", spec={"single": {"maxRequests": {"tflops": "50"}}}))
        assert ask(after, oldObject=before, **more)["allowed"]
        del before["metadata"]["labels"][TASK]
        assert not ask(after, oldObject=before, **more)["allowed"], "the claim is new"


class TestChanges:
    """A pod that becomes a worker, or a larger one, by an update."""

    def test_a_pod_that_becomes_a_worker_is_reserved_at_once(self) -> None:
        plain = pod()
        plain["metadata"] = plain["metadata"] | {"labels": {}}
        assert ask(pod(), operation="UPDATE", oldObject=plain)["allowed"]
        assert GpuAllocation.objects.get().name == "u1"
        other = pod("u2")
        other["metadata"] = other["metadata"] | {"labels": {}}
        assert not ask(pod("u2"), operation="UPDATE", oldObject=other)["allowed"]

    def test_amounts_that_grow_are_checked_and_counted(self) -> None:
        ask(pod())
        assert ask(pod(tflops_request="20"), operation="UPDATE", oldObject=pod())["allowed"]
        assert GpuAllocation.objects.get().request_tflops == 20
        assert not ask(pod(tflops_request="51"), operation="UPDATE", oldObject=pod(tflops_request="20"))["allowed"]
        assert GpuAllocation.objects.get().request_tflops == 20

    def test_other_changes_pass_above_the_caps(self) -> None:
        ask(pod())
        world.apply_change(PutGpuQuota(namespace="team-a", spec={"total": {"maxWorkers": 0}}))
        assert ask(pod(gpu_ids="a"), operation="UPDATE", oldObject=pod())["allowed"]


class TestGivingUp:
    """A worker that has its GPUs stays counted: nobody takes off it the marks by which it is counted."""

    LABEL, IDS = f"{PREFIX}component", f"{PREFIX}gpu-ids"

    def running(self, *, without: str = "", **marks: str) -> dict[str, Any]:
        made = pod(**({"gpu_ids": "a"} | marks))
        made["spec"] = {"nodeName": "n1"}
        for part in ("labels", "annotations"):
            made["metadata"][part] = {key: value for key, value in made["metadata"][part].items() if key != without}
        return made

    def change(self, now: dict[str, Any], **more: Any) -> dict[str, Any]:
        return ask(now, **{"operation": "UPDATE", "oldObject": self.running(), **more})

    @pytest.mark.parametrize("mark", [LABEL, IDS])
    def test_a_mark_that_is_taken_off_is_refused_with_its_place(self, mark: str) -> None:
        answer = self.change(self.running(without=mark))
        assert not answer["allowed"]
        (cause,) = answer["status"]["details"]["causes"]
        assert cause["reason"] == "foreign_change" and mark in cause["field"]

    def test_a_label_with_another_value_and_empty_ids_are_the_same(self) -> None:
        other = self.running(gpu_ids="")
        other["metadata"]["labels"][self.LABEL] = "client"
        assert len(self.change(other)["status"]["details"]["causes"]) == 2
        assert not self.change(self.running(without=self.LABEL), dryRun=True)["allowed"]

    def test_what_is_not_counted_yet_or_any_more_may_change(self) -> None:
        assert self.change(pod() | {"metadata": pod()["metadata"] | {"labels": {}}}, oldObject=pod())["allowed"]
        gone = self.running()
        gone["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z"
        assert self.change(self.running(without=self.LABEL), oldObject=gone)["allowed"]

    def test_fewer_gpus_than_it_has_are_refused(self) -> None:
        two = {"gpu_ids": "a,b", "gpu_count": "2"}
        fewer = self.running(**two | {"gpu_count": "1"})
        answer = self.change(fewer, oldObject=self.running(**two))
        assert [cause["field"] for cause in answer["status"]["details"]["causes"]] == [
            f"metadata.annotations[{PREFIX}gpu-count]"
        ]
        fewer["metadata"]["annotations"][self.IDS] = "a"
        assert self.change(fewer, oldObject=self.running(**two))["allowed"], "it gave one back"

    def test_a_smaller_amount_is_refused_with_its_place(self) -> None:
        """The worker keeps what was allocated to it, and would count less."""
        answer = self.change(self.running(tflops_request="1"))
        assert [cause["field"] for cause in answer["status"]["details"]["causes"]] == [
            f"metadata.annotations[{PREFIX}tflops-request]"
        ]
        assert not self.change(self.running(without=f"{PREFIX}tflops-request"))["allowed"]

    def test_other_devices_and_the_amounts_of_an_allowed_account_pass(self) -> None:
        assert self.change(self.running(gpu_ids="b"))["allowed"]
        world.apply_change(PutQueueGuard(backend="lab", accounts=["system:serviceaccount:fusion:operator"]))
        by = {"username": "system:serviceaccount:fusion:operator", "groups": []}
        assert self.change(self.running(tflops_request="1"), userInfo=by)["allowed"]

    def test_allowed_accounts_and_namespaces_without_a_quota_pass(self) -> None:
        stripped = self.running(without=self.LABEL)
        assert self.change(stripped, namespace="elsewhere")["allowed"]
        world.apply_change(PutQueueGuard(backend="lab", accounts=["system:masters"]))
        assert self.change(stripped, userInfo={"username": "root", "groups": ["system:masters"]})["allowed"]
        assert not self.change(stripped)["allowed"]


def test_every_broken_cap_is_reported() -> None:
    answer = ask(pod(tflops_request="51", gpu_count="5"))
    assert [cause["reason"] for cause in answer["status"]["details"]["causes"]] == [
        "single.max.tflops.request",
        "single.max.gpuCount.limit",
    ]
    assert not ask(pod(gpu_count="129"))["allowed"]


@pytest.mark.parametrize(
    ("now", "more"),
    [
        ({"metadata": {"name": "p"}, "spec": {}}, {}),
        (pod(), {"operation": "UPDATE", "oldObject": pod()}),
        (None, {"operation": "DELETE"}),
    ],
    ids=["no worker", "a change", "a deletion"],
)
def test_reviews_without_quota_are_allowed(now: Any, more: dict[str, Any]) -> None:
    assert ask(now, **more)["allowed"]
    assert not GpuAllocation.objects.exists()


def test_a_dry_run_reserves_nothing() -> None:
    assert ask(pod(), dryRun=True)["allowed"]
    assert not GpuAllocation.objects.exists()
    assert not ask(pod(tflops_request="51"), dryRun=True)["allowed"], "but gets the same answer"


@pytest.mark.parametrize("mark", ["guessed", "", "1-00000000000000000000000000000000"])
def test_a_caller_without_the_mark_learns_and_reserves_nothing(mark: str) -> None:
    ask(pod())
    for now in (pod("u2"), pod("u3", tflops_request="51"), pod("u4", gpu_count="129")):
        assert ask(now, mark=mark) == {"uid": "q1", "allowed": True}
    assert GpuAllocation.objects.count() == 1


def test_the_mark_of_an_older_version_is_believed_until_the_first_rotation() -> None:
    older = salted_hmac("osmo.gpu_quota.webhook", "lab", algorithm="sha256").hexdigest()[:32]
    assert not ask(pod(tflops_request="51"), mark=older)["allowed"]
    rotate_mark(actor=SYSTEM, backend="lab")
    assert ask(pod(tflops_request="51"), mark=older)["allowed"]


def test_a_pod_that_waited_too_long_is_checked_anew_when_it_is_bound() -> None:
    ask(pod())
    binding = {"metadata": {"name": "w", "namespace": "team-a", "uid": "u1"}, "target": {"name": "n1"}}
    assert ask(binding, kind="Binding")["allowed"], "its reservation is valid"
    GpuAllocation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert expire_assumed() == 1
    ask(pod("u2"))
    assert not ask(binding, kind="Binding")["allowed"]
    GpuAllocation.objects.filter(name="u2").update(expires_at=timezone.now() - timedelta(seconds=1))
    expire_assumed()
    assert ask(binding, kind="Binding")["allowed"]
    assert GpuUsage.objects.get(pk="team-a").assumed_workers == 1


@pytest.mark.parametrize(("mode", "warned", "reserved"), [("audit", True, 1), ("off", False, 0)])
def test_a_guard_that_does_not_enforce(mode: str, warned: bool, reserved: int) -> None:
    world.apply_change(PutQueueGuard(backend="lab", mode=mode))
    assert ask(pod())["allowed"]
    answer = ask(pod("u2"))
    assert answer["allowed"]
    assert ("would refuse" in " ".join(answer.get("warnings", ()))) is warned
    assert GpuAllocation.objects.count() == reserved


def test_bindings_of_others_pass() -> None:
    assert ask({"metadata": {"name": "x"}, "target": {"name": "n1"}}, kind="Binding")["allowed"]
    assert ask({"metadata": {"name": "x", "uid": "unknown"}, "target": {}}, kind="Binding")["allowed"]


def test_no_review_is_400_and_an_unknown_backend_tells_nothing() -> None:
    def post(path: str, body: Any) -> int:
        return Client().post(path, body, content_type="application/json").status_code

    assert post("/webhooks/gpu_quota", {}) == 400
    assert post("/webhooks/gpu_quota/lab", {"request": []}) == 400
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "request": {"uid": "u", "operation": "CREATE", "kind": {"kind": "Pod"}, "object": pod()},
    }
    assert post("/webhooks/gpu_quota/none/x", review) == 200
    review["request"]["kind"] = {"kind": "Queue"}  # type: ignore[index]
    assert post("/webhooks/gpu_quota/lab", review) == 400
