"""Workflows under the GPU quota of their pool's namespace: refused at once, or waiting with the reason until there is
headroom; counted while they have a node."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from bench.fill import insert_pools
from pools.domain.changes.gpu_allocations import AdjustWorker, AllocateWorker, ReleaseWorker
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.changes.pools import PutPool
from pools.domain.errors import BadInput, Conflict
from pools.domain.people.roles import SYSTEM
from pools.models import GpuAllocation, GpuUsage, Pool
from pools.services.gpu_quota.gpu_allocations import adjust
from scheduling.domain.changes.workflows import CancelWorkflow, EndStatus, EndWorkflow
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import TaskStatus, WorkflowStatus
from scheduling.models import Task as TaskRow
from scheduling.models import Workflow
from scheduling.selectors.queue import gpu_headroom
from scheduling.selectors.queue.visible_queue import WaitingGang, list_waiting_gangs
from scheduling.services.simulated import reconcile as reconciliation
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.verify import verify
from scheduling.services.workflows.submission import Submission, submit, submit_many
from tests.support import world
from tests.unit.gpu_quota.builders import make_amounts

pytestmark = pytest.mark.django_db

NAMESPACE = "team-a"
AMOUNTS_PER_GPU = {"gpu_tflops": "100", "gpu_vram": "80Gi"}


def pool(name: str = "team", **more: Any) -> Pool:
    """A pool whose work counts in the namespace: each GPU counts as 100 TFLOPS and 80Gi."""
    world.make_backend()
    config = {
        "backend": "sim",
        "resources": {"gpu": {"guarantee": 100}},
        "gpu_quota_namespace": NAMESPACE,
        "platforms": {"default": AMOUNTS_PER_GPU},
    }
    world.apply_change(PutPool(name=name, body=config | more))
    return Pool.objects.get(name=name)


def caps(total: dict[str, Any] | None = None, single: dict[str, Any] | None = None) -> None:
    world.apply_change(PutGpuQuota(namespace=NAMESPACE, spec={"total": total, "single": single}))


def reconcile_pool(on: str = "team") -> dict[str, Any]:
    backend = Pool.objects.get(name=on).backend_id
    assert backend is not None
    return reconcile_backend(backend)


def used() -> tuple[int, int]:
    """TFLOPS requested and workers."""
    row = GpuUsage.objects.filter(pk=NAMESPACE).first()
    return (0, 0) if row is None else (int(row.requests_tflops), row.workers)


def status(workflow: Workflow) -> str:
    return Workflow.objects.values_list("status", flat=True).get(pk=workflow.pk)


def waiting_gang(workflow: Workflow) -> WaitingGang:
    (entry,) = [
        entry for entry in list_waiting_gangs(SYSTEM, limit=100, offset=0)[0] if entry.workflow == workflow.name
    ]
    return entry


def gang(*gpus: int, tree: str = "") -> str:
    tasks = "".join(
        f"    - {{name: t{place}, image: ubuntu, command: [sh], resource: r{size}{'' if place else ', lead: true'}}}\n"
        for place, size in enumerate(gpus)
    )
    sizes = "".join(f"    r{size}: {{gpu: {size}}}\n" for size in sorted(set(gpus)))
    return f"workflow:\n  name: gang\n  groups:\n  - name: g\n{tree}    tasks:\n{tasks}  resources:\n{sizes}"


def submit_elastic(*, minimum: int, gpus: str = '"1"') -> Workflow:
    """A gang of three groups of one pod, of which this number is required."""
    manifest = f"""
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata:
  name: elastic
  annotations: {{osmo/gpus-per-pod: {gpus}}}
spec:
  minSubGroup: {minimum}
  subGroups:
  - {{name: a, minMember: 1}}
  - {{name: b, minMember: 1}}
  - {{name: c, minMember: 1}}
"""
    work = submit(actor=world.admin_actor(), pool="team", submission=Submission(manifest)).workflow
    assert work is not None
    return work


def test_a_pool_names_its_namespace_and_the_amounts_of_its_platforms() -> None:
    config = pool().config
    assert (config["gpu_quota_namespace"], config["platforms"]["default"]) == (NAMESPACE, AMOUNTS_PER_GPU)
    body: dict[str, Any] = {"backend": "sim", "gpu_quota_namespace": "Team_A"}
    body["platforms"] = {"default": {"gpu_tflops": "-1", "gpu_vram": "1 Gi"}}
    with pytest.raises(BadInput) as refusal:
        world.apply_change(PutPool(name="team", body=body))
    assert {(fault.path, fault.code) for fault in refusal.value.details} == {
        ("gpu_quota_namespace", "bad_name"),
        ("platforms.default.gpu_tflops", "negative"),
        ("platforms.default.gpu_vram", "bad_value"),
    }


def test_each_task_is_a_worker_while_it_runs() -> None:
    pool()
    caps({"maxWorkers": 2})
    work = submit(actor=world.admin_actor(), pool="team", submission=Submission(gang(2, 1, 0))).workflow
    assert work is not None
    assert used() == (0, 0), "waiting work counts nothing"
    assert reconcile_pool()["settled"]
    assert used() == (300, 2), "a task without GPUs is not a worker"
    rows = {row.workload: row for row in GpuAllocation.objects.all()}
    assert set(rows) == {f"{work.name}/t0", f"{work.name}/t1"}
    assert {(row.source, row.state) for row in rows.values()} == {("workflow", "committed")}
    assert (rows[f"{work.name}/t0"].count, int(rows[f"{work.name}/t0"].request_tflops)) == (2, 100)
    assert verify() == []
    world.apply_change(EndWorkflow(name=work.name, status=EndStatus.COMPLETED), actor=world.admin_actor())
    assert used() == (0, 0)
    assert set(GpuAllocation.objects.values_list("state", "reason")) == {("released", "ended")}


def test_work_counts_where_it_was_counted_when_its_pool_moves_to_another_namespace() -> None:
    row = pool()
    caps({"maxWorkers": 1})
    work = world.submit_workflow(world.admin_actor(), "team", 1)
    reconcile_pool()
    Pool.objects.filter(pk=row.pk).update(config={"platforms": {"default": AMOUNTS_PER_GPU}})
    other = world.submit_workflow(world.admin_actor(), "team", 1)
    reconcile_pool()
    assert (status(other), GpuAllocation.objects.count()) == ("RUNNING", 1), "without a namespace nothing is counted"
    world.apply_change(CancelWorkflow(name=work.name), actor=world.admin_actor())
    assert used() == (0, 0)


def test_a_file_that_breaks_a_cap_on_one_worker_is_refused_at_once() -> None:
    pool()
    caps(None, {"maxRequests": {"tflops": "99"}, "maxGPUCount": 1})
    for operation in (submit, world.check_submission):
        with pytest.raises(BadInput) as refusal:
            operation(actor=world.admin_actor(), pool="team", submission=Submission(gang(2, 0)))
        assert refusal.value.error_code == "RESOURCE"
        assert [(fault.path, fault.code) for fault in refusal.value.details] == [
            ("tasks.t0", "single.max.tflops.request"),
            ("tasks.t0", "single.max.gpuCount.limit"),
        ]
        numbers = refusal.value.details[0].as_dict()
        assert (numbers["requested"], numbers["limit"], numbers["used"]) == ("100", "99", None)
    two = [Submission(world.workflow_file("good", 0)), Submission(gang(1))]
    with pytest.raises(BadInput) as refusal:
        submit_many(actor=world.admin_actor(), pool="team", submissions=two)
    assert refusal.value.details[0].path == "workflows[1].tasks.t0"
    assert not Workflow.objects.exists()


def test_work_over_a_total_waits_with_the_reason_and_starts_when_there_is_headroom() -> None:
    pool()
    caps({"requests": {"tflops": "300", "vram": "10Ti"}})
    first = world.submit_workflow(world.admin_actor(), "team", 2)
    second = world.submit_workflow(world.admin_actor(), "team", 2)
    small = world.submit_workflow(world.admin_actor(), "team", 1)
    assert reconcile_pool()["settled"]
    assert (status(first), status(second), status(small)) == ("RUNNING", "PENDING", "RUNNING")
    entry = waiting_gang(second)
    assert entry.reason.code == "gpu_quota"
    assert entry.reason.message == (
        "Quota exceeded in namespace team-a for total.max.tflops.request: requested 200, limit 300, used 300."
    )
    assert (entry.reason.queue, entry.reason.limit) == ("team-a", "total.max.tflops.request")
    assert "until 200 fit under 300" in entry.unblock[0]
    world.apply_change(EndWorkflow(name=first.name, status=EndStatus.COMPLETED), actor=world.admin_actor())
    reconcile_pool()
    assert status(second) == WorkflowStatus.RUNNING
    assert used() == (300, 2), "a task without GPUs is not a worker"


def test_a_raised_cap_lets_it_start_and_the_reason_follows_the_quota() -> None:
    pool()
    caps({"maxWorkers": 0})
    work = world.submit_workflow(world.admin_actor(), "team", 1)
    reconcile_pool()
    assert "limit 0" in waiting_gang(work).reason.message
    caps({"maxWorkers": 1})
    assert waiting_gang(work).reason.code == "next_pass"
    reconcile_pool()
    assert status(work) == WorkflowStatus.RUNNING


def test_others_in_the_namespace_count() -> None:
    """Workers that were allocated manually, and pools that share the namespace."""
    pool()
    pool("else")
    caps({"maxWorkers": 2})
    world.apply_change(AllocateWorker(namespace=NAMESPACE, id="mine", request=make_amounts(1)))
    works = [world.submit_workflow(world.admin_actor(), name, 1) for name in ("team", "else")]
    assert reconcile_pool()["settled"]
    assert sorted(status(work) for work in works) == ["PENDING", "RUNNING"]
    world.apply_change(ReleaseWorker(namespace=NAMESPACE, id="mine"))
    reconcile_pool()
    assert [status(work) for work in works] == ["RUNNING", "RUNNING"]
    assert used() == (200, 2)


def test_a_worker_that_came_after_the_plan_is_seen_under_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    pool()
    caps({"maxWorkers": 1})
    work = world.submit_workflow(world.admin_actor(), "team", 1)
    real = reconciliation.read_live_facts
    came: list[str] = []

    def allocate_meanwhile(backend: Any) -> Any:
        found = real(backend)
        if not came:
            came.append("between")
            world.apply_change(AllocateWorker(namespace=NAMESPACE, id="between", request=make_amounts(1)))
        return found

    monkeypatch.setattr(reconciliation, "read_live_facts", allocate_meanwhile)
    assert reconcile_pool()["settled"]
    assert status(work) == WorkflowStatus.PENDING
    assert used()[1] == 1


def test_preempted_work_is_released_and_counts_again() -> None:
    pool(resources={"gpu": {"guarantee": 128}})
    caps({"maxWorkers": 8})

    def whole(priority: Priority) -> Workflow:
        file = Submission(gang(32, 32, 32, 32), priority=priority)
        work = submit(actor=world.admin_actor(), pool="team", submission=file).workflow
        assert work is not None
        reconcile_pool()
        return work

    low = whole(Priority.LOW)
    assert used() == (12_800, 4)
    high = whole(Priority.HIGH)
    assert (status(low), status(high)) == ("PENDING", "RUNNING")
    assert used() == (12_800, 4)
    world.apply_change(CancelWorkflow(name=high.name), actor=world.admin_actor())
    reconcile_pool()
    assert status(low) == WorkflowStatus.RUNNING
    assert used() == (12_800, 4)
    assert verify() == []


def test_an_elastic_gang_grows_as_far_as_the_namespace_allows() -> None:
    pool()
    caps({"maxWorkers": 2})
    work = submit_elastic(minimum=1)
    assert reconcile_pool()["settled"]
    assert status(work) == WorkflowStatus.RUNNING
    assert used()[1] == 2
    caps({"maxWorkers": 3})
    reconcile_pool()
    assert used()[1] == 3
    world.apply_change(CancelWorkflow(name=work.name), actor=world.admin_actor())
    assert used() == (0, 0)


def test_the_reason_of_an_elastic_gang_whose_minimum_is_too_large() -> None:
    pool()
    caps({"maxWorkers": 0})
    small, large = (submit_elastic(minimum=each, gpus="{a: 1, b: 2, c: 2}") for each in (1, 2))
    caps({"maxWorkers": 9}, {"maxGPUCount": 1})
    assert reconcile_pool()["settled"]
    assert status(small) == WorkflowStatus.RUNNING
    assert used()[1] == 1
    assert (waiting_gang(large).reason.code, waiting_gang(large).reason.limit) == (
        "gpu_quota",
        "single.max.gpuCount.limit",
    )


def _low_work_on_every_node() -> tuple[Workflow, Workflow]:
    """LOW work on all 128 GPUs, and HIGH work that would preempt it."""
    works = []
    for priority in (Priority.LOW, Priority.HIGH):
        file = Submission(gang(32, 32, 32, 32), priority=priority)
        works.append(submit(actor=world.admin_actor(), pool="team", submission=file).workflow)
        if priority is Priority.LOW:
            reconcile_pool()
    low, high = works
    assert low is not None
    assert high is not None
    assert status(low) == WorkflowStatus.RUNNING
    return low, high


def test_work_that_its_namespace_holds_back_preempts_no_other_work() -> None:
    """LOW work is not preempted for a gang that could not start then."""
    pool(resources={"gpu": {"guarantee": 128}})
    low, high = _low_work_on_every_node()
    caps({"maxWorkers": 7})  # 4 of LOW and 4 of HIGH are 8, until LOW is released
    assert reconcile_pool()["settled"]
    assert (status(low), status(high)) == ("RUNNING", "PENDING")
    assert waiting_gang(high).reason.code == "gpu_quota"
    assert not TaskRow.objects.filter(group__workflow=low).exclude(status=TaskStatus.RUNNING).exists()
    caps({"maxWorkers": 8})
    reconcile_pool()
    assert (status(low), status(high)) == ("PENDING", "RUNNING")


def test_headroom_that_is_used_after_the_plan_preempts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan preempts LOW work; under the lock the namespace has no headroom, so LOW work continues."""
    pool(resources={"gpu": {"guarantee": 128}})
    caps({"maxWorkers": 8})
    low, high = _low_work_on_every_node()
    real, came = reconciliation.read_live_facts, list[str]()

    def allocate_meanwhile(*args: Any, **more: Any) -> Any:
        found = real(*args, **more)
        if not came:
            for number in range(5):  # with 4 of LOW, which would be preempted, 4 more do not fit
                came.append(f"between{number}")
                one = AllocateWorker(namespace=NAMESPACE, id=came[-1], request=make_amounts(1))
                caps({"maxWorkers": 20})
                world.apply_change(one)
                caps({"maxWorkers": 8})
        return found

    monkeypatch.setattr(reconciliation, "read_live_facts", allocate_meanwhile)
    assert reconcile_pool()["settled"]
    assert len(came) == 5
    assert (status(low), status(high)) == ("RUNNING", "PENDING")
    assert not TaskRow.objects.filter(group__workflow=low).exclude(status=TaskStatus.RUNNING).exists()
    assert waiting_gang(high).reason.code == "gpu_quota"


def test_a_worker_of_a_workflow_cannot_be_released_manually() -> None:
    """Otherwise an admin could free quota of work that still runs."""
    pool()
    caps({"maxWorkers": 1})
    work = world.submit_workflow(world.admin_actor(), "team", 1)
    reconcile_pool()
    name = GpuAllocation.objects.get().name
    operations: list[Any] = [
        lambda: world.apply_change(ReleaseWorker(namespace=NAMESPACE, id=name)),
        lambda: adjust(
            AdjustWorker.from_json({"namespace": NAMESPACE, "id": name, "request": {"tflops": "1"}}), actor=SYSTEM
        ),
    ]
    for operation in operations:
        with pytest.raises(Conflict, match=f"is the workflow task {work.name}/") as refusal:
            operation()
        assert refusal.value.details[0].code == "kept_by_workflow"
    assert used() == (100, 1)
    world.apply_change(CancelWorkflow(name=work.name), actor=world.admin_actor())
    assert world.apply_change(ReleaseWorker(namespace=NAMESPACE, id=name)).state == "released", (
        "a repetition is not an error"
    )


def test_the_pools_of_a_namespace_have_an_index() -> None:
    """Every release of a worker asks for them, however many pools there are."""
    insert_pools(500, prefix="many", on=world.make_backend().pk)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE pools_pool")
        cursor.execute("EXPLAIN " + gpu_headroom._BACKENDS_SQL, [["team"]])
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "pool_of_gpu_namespace" in plan
