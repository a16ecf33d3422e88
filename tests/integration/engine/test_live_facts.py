"""The state of a backend as facts of the engine, and the rows that the facts refer to."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pools.database.transactions import database_time
from pools.domain.changes.subpools import DeleteSubpool, ResizeSubpool
from pools.domain.values.amounts import GPU, UNLIMITED
from pools.models import Backend, Node, Pool
from pools.services.configuration.subpools import end_temporary_quotas
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.engine.cycle import run_cycle as plan
from scheduling.domain.engine.facts import HIGH, LOW, NORMAL, QueueFacts, TaskState
from scheduling.domain.engine.pool_quotas import QuotaReturns
from scheduling.domain.priorities import Priority
from scheduling.history.forecast.futures import ReturningQuotas
from scheduling.history.starts.forecast_facts import read_forecast_facts
from scheduling.models import Group, Task
from scheduling.selectors.queue.live_facts import CPU, MEMORY, LiveFacts, read_live_facts
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.workflows.submission import Submission, submit
from tests.support import world

pytestmark = pytest.mark.django_db


def of(pool: Pool) -> LiveFacts:
    """The facts of a pool's backend."""
    return read_live_facts(Backend.objects.get(pk=pool.backend_id))


def gpus(amounts: Any) -> Any:
    """The GPUs of an amount."""
    return amounts[GPU]


@pytest.fixture
def team(db: None) -> Pool:
    """Made anew for each test, since some make a pool of this name themselves."""
    return world.make_pool("team", 100, a=30)


def test_queues_have_their_logical_names_and_scheduling_quotas(split_team: Pool) -> None:
    Pool.objects.filter(pk=split_team.pk).update(maximum=120, weight=3)
    live = of(split_team)
    facts = {queue.name: queue for queue in live.facts.queues}
    assert {name: gpus(queue.quota) for name, queue in facts.items()} == {
        "osmo-pool-ns-team": 100,
        "osmo-pool-ns-team--_shared": 50,
        "osmo-pool-ns-team--a": 30,
        "osmo-pool-ns-team--b": 20,
    }
    container = facts["osmo-pool-ns-team"]
    assert (container.parent, container.limit, container.weight) == (None, {GPU: 120}, 3)
    assert {queue.parent for queue in facts.values()} == {None, "osmo-pool-ns-team"}
    assert facts["osmo-pool-ns-team--a"].quota[CPU] == UNLIMITED  # only GPUs have quotas
    assert live.leaves["osmo-pool-ns-team--_shared"] == split_team.pk
    assert live.leaves["osmo-pool-ns-team--a"] == Pool.objects.get(name="team--a").pk
    assert live.roots == {"osmo-pool-ns-team": split_team.pk}


def test_a_pool_without_numbers_is_unlimited_and_an_archived_one_is_missing() -> None:
    split_team = world.make_pool("team", -1)
    gone = world.make_pool("gone", 5)
    Pool.objects.filter(pk=gone.pk).update(archived=True)
    facts = {queue.name: queue for queue in of(split_team).facts.queues}
    assert set(facts) == {"osmo-pool-ns-team", "osmo-pool-ns-team--_shared"}
    assert {gpus(queue.quota) for queue in facts.values()} == {UNLIMITED}
    assert facts["osmo-pool-ns-team"].limit == {}


def test_a_draining_subpool_keeps_what_its_live_work_needs(split_team: Pool) -> None:
    world.submit_workflow(world.admin_actor(), "team--a", 12)
    world.submit_workflow(world.admin_actor(), "team--a", 25, priority=Priority.LOW)
    world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    world.apply_change(DeleteSubpool(parent="team", subpool_name="b"))  # nothing live, so it is gone
    facts = {queue.name: gpus(queue.quota) for queue in of(split_team).facts.queues}
    assert facts == {
        "osmo-pool-ns-team": 100,
        "osmo-pool-ns-team--_shared": 88,
        "osmo-pool-ns-team--a": 12,
    }


def test_futures_return_the_quota_of_a_drain_as_the_ledger_does(split_team: Pool) -> None:
    admin = world.admin_actor()
    first = world.submit_workflow(admin, "team--a", 12)
    world.submit_workflow(admin, "team--a", 8)
    reconcile_backend(split_team.backend_id)
    world.submit_workflow(admin, "team--a", 15, priority=Priority.LOW)
    groups = """workflow:
  name: two
  resources: {r: {gpu: 3, cpu: 1, memory: 1Gi}, s: {gpu: 4, cpu: 1, memory: 1Gi}}
  groups:
  - {name: one, tasks: [{name: a, image: i, command: [c], resource: r}]}
  - {name: other, tasks: [{name: b, image: i, command: [c], resource: s}]}
"""
    submit(actor=admin, pool="team--a", submission=Submission(file=groups))
    world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    assert of(split_team).quota_returns == (
        QuotaReturns("osmo-pool-ns-team", "osmo-pool-ns-team--_shared", {GPU: 100}, ("osmo-pool-ns-team--a",)),
    )
    known = read_forecast_facts(Backend.objects.get(pk=split_team.backend_id), even_if_nothing_waits=True)
    assert known is not None
    quotas = ReturningQuotas(known.present)
    running = {name for name, info in known.present.gangs.items() if info.started is not None}
    assert quotas.at(0, running) == ()
    quotas.ended(next(name for name, row in known.live.gangs.items() if row.workflow == first.uuid))
    world.apply_change(CancelWorkflow(name=first.name), actor=admin)
    assert _gpu_quotas(quotas.at(0, running)) == _gpu_quotas(of(split_team).facts.queues)
    assert _gpu_quotas(of(split_team).facts.queues)["osmo-pool-ns-team--a"] == 8 + 4


def test_futures_end_a_temporary_quota_as_the_ledger_does(split_team: Pool) -> None:
    until = database_time() + timedelta(days=1)
    world.apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=50, until=until))
    known = read_forecast_facts(Backend.objects.get(pk=split_team.backend_id), even_if_nothing_waits=True)
    assert known is not None
    quotas = ReturningQuotas(known.present)
    assert (quotas.at(quotas.next_end - 1, ()), quotas.next_end) == ((), until.timestamp())
    later = quotas.at(quotas.next_end, ())
    Pool.objects.filter(name="team--a").update(quota_until=database_time() - timedelta(seconds=1))
    end_temporary_quotas()
    assert _gpu_quotas(later) == _gpu_quotas(of(split_team).facts.queues)
    assert _gpu_quotas(later)["osmo-pool-ns-team--_shared"] == 50


def _gpu_quotas(queues: Iterable[QueueFacts]) -> dict[str, Any]:
    return {queue.name: gpus(queue.quota) for queue in queues}


def test_work_has_the_names_that_users_know_and_refers_to_its_rows(split_team: Pool) -> None:
    two = """workflow:
  name: two
  resources: {r: {gpu: 2, cpu: 3, memory: 4Gi}, default: {}}
  groups:
  - {name: one, tasks: [{name: a, image: i, command: [c], resource: r, lead: true}, {name: b, image: i, command: [c]}]}
  - {name: other, tasks: [{name: c, image: i, command: [c], resource: r}]}
  - {name: last, tasks: [{name: d, image: i, command: [c], inputs: [{task: c}]}]}
"""
    admin = world.admin_actor()
    single = world.submit_workflow(admin, "team--a", 1, priority=Priority.HIGH)
    submit(actor=admin, pool="team", submission=Submission(file=two, priority=Priority.LOW))
    reconcile_backend(split_team.backend_id)
    waiting = world.submit_workflow(admin, "team", 3)

    live = of(split_team)
    facts = {gang.name: gang for gang in live.facts.gangs}
    assert set(facts) == {"job-1", "two-1/one", "two-1/other", waiting.name}  # `last` waits for another group
    assert (facts["job-1"].priority, facts["job-1"].preemptible) == (HIGH, False)
    assert (facts["two-1/one"].priority, facts["two-1/one"].preemptible) == (LOW, True)
    assert (facts[waiting.name].priority, facts[waiting.name].queue) == (NORMAL, "osmo-pool-ns-team--_shared")
    assert facts["job-1"].submitted < facts["two-1/one"].submitted < facts["two-1/other"].submitted
    assert facts["two-1/other"].submitted < facts[waiting.name].submitted
    a, b = facts["two-1/one"].tasks
    assert (a.name, a.state, b.name, b.request[GPU]) == ("a", TaskState.RUNNING, "b", 0)
    assert (a.request[GPU], a.request[CPU], a.request[MEMORY]) == (2, 3000, 4 * 2**30)
    assert a.node == Task.objects.get(name="a").node_name
    (task,) = facts[waiting.name].tasks
    assert (task.state, task.node) == (TaskState.PENDING, None)

    row = live.gangs["two-1/other"]
    group = Group.objects.get(pk=row.group)
    assert (group.name, group.workflow_id, row.workflow_name, row.group_name) == (
        "other",
        row.workflow,
        "two-1",
        "other",
    )
    assert (live.gangs["job-1"].leaf, live.gangs["job-1"].root) == (single.pool_id, split_team.pk)


def test_only_the_latest_attempt_counts(split_team: Pool) -> None:
    world.submit_workflow(world.admin_actor(), "team", 1)
    first = Task.objects.get()
    Task.objects.filter(pk=first.pk).update(status="FAILED_PREEMPTED")
    Task.objects.create(group=first.group, name=first.name, retry_id=1, position=0, gpu_count=1)
    (gang,) = of(split_team).facts.gangs
    assert [task.state for task in gang.tasks] == [TaskState.PENDING]


def test_tasks_may_use_the_nodes_that_their_platform_and_their_file_allow() -> None:
    split_team = world.make_pool("team", 100)
    backend = Backend.objects.get(pk=split_team.backend_id)
    Node.objects.create(backend=backend, name="old", gpus=8, platform="old")
    file = world.workflow_file().replace("{gpu: 1}", "{gpu: 1, nodesExcluded: [sim-n1, sim-n2]}")
    submit(actor=world.admin_actor(), pool="team", submission=Submission(file=file))
    live = of(split_team)
    (gang,) = live.facts.gangs
    assert gang.tasks[0].allowed_nodes == {"sim-n3", "sim-n4"}
    assert {node.name for node in live.facts.nodes or ()} == {"old", "sim-n1", "sim-n2", "sim-n3", "sim-n4"}

    Node.objects.filter(name="old").delete()
    plain = world.submit_workflow(world.admin_actor(), "team", 1)
    facts = {gang.name: gang for gang in of(split_team).facts.gangs}
    assert facts[plain.name].tasks[0].allowed_nodes is None  # all of them


def test_an_offline_backend_starts_nothing_and_maintenance_holds_nothing_back(split_team: Pool) -> None:
    world.submit_workflow(world.admin_actor(), "team", 1)
    Pool.objects.filter(pk=split_team.pk).update(enable_maintenance=True)
    assert [step.action for step in plan(of(split_team).facts).steps] == ["start"]
    Backend.objects.filter(pk=split_team.backend_id).update(offline=True)
    facts = of(split_team).facts
    assert plan(facts).steps == ()
    assert {queue.hold.code for queue in facts.queues if queue.hold} == {"backend_offline"}


def test_an_elastic_gang_has_its_tree(split_team: Pool) -> None:
    world.submit_workflow(world.admin_actor(), "team", 1)
    task = Task.objects.get()
    Group.objects.update(gang={"min_sub_group": 1, "sub_groups": [{"name": "x", "min_member": 1}, {"name": "y"}]})
    Task.objects.update(sub_group="x")
    Task.objects.create(group=task.group, name="two", position=1, gpu_count=1, sub_group="y")
    (gang,) = of(split_team).facts.gangs
    assert gang.tree is not None
    assert gang.tree.thresholds == [1, 1, 0]
    assert [each.group for each in gang.tasks] == ["x", "y"]


def test_a_kubernetes_backend_without_known_nodes_has_quotas_alone() -> None:
    cluster = Backend.objects.create(name="kube", kind=Backend.Kind.KUBERNETES, namespace="k")
    split_team = world.make_pool("team", 4, on=cluster)
    world.submit_workflow(world.admin_actor(), "team", 1)
    live = of(split_team)
    assert live.facts.nodes is None
    assert [step.action for step in plan(live.facts).steps] == ["start"]


def test_the_number_of_queries_does_not_depend_on_the_amount_of_work(split_team: Pool) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            of(split_team)
        return len(queries)

    world.submit_workflow(world.admin_actor(), "team", 1)
    before = cost()
    world.make_pool("other", 10, x=1, y=1)
    for _ in range(5):
        world.submit_workflow(world.admin_actor(), "other", 1)
    assert cost() == before


def _three_of_three(split_team: Pool) -> None:
    """A LOW gang of three pods that are all needed, and run."""
    file = """kind: PodGroup
metadata: {name: flex, annotations: {osmo/gpus-per-pod: 1, osmo/pods: 3}}
spec: {minMember: 3}
"""
    submit(actor=world.admin_actor(), pool="team", submission=Submission(file=file, priority=Priority.LOW))
    reconcile_backend(split_team.backend_id)
    assert {task.state for task in of(split_team).facts.gangs[0].tasks} == {TaskState.RUNNING}


def test_a_gang_with_a_completed_task_is_about_to_end(split_team: Pool) -> None:
    """It is below its minimum and stays on its nodes nevertheless (design, K5: none Succeeded)."""
    _three_of_three(split_team)
    Task.objects.filter(pk=Task.objects.earliest("position").pk).update(status="COMPLETED")
    live = of(split_team)
    assert [task.state for task in live.facts.gangs[0].tasks] == [
        TaskState.FINISHED,
        TaskState.RUNNING,
        TaskState.RUNNING,
    ]
    assert plan(live.facts).steps == ()


def test_a_gang_that_lost_a_task_otherwise_gives_up_its_nodes(split_team: Pool) -> None:
    _three_of_three(split_team)
    Task.objects.filter(pk=Task.objects.earliest("position").pk).update(status="FAILED_EVICTED")
    assert [(step.action, len(step.tasks)) for step in plan(of(split_team).facts).steps] == [("give_up", 2)]
