"""A what-if without a node says what happens when that node is taken away, on random installations."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from django.db import transaction

from pools.database.transactions import change, database_time
from pools.domain.people.roles import SYSTEM
from pools.locking import lock_pool_tree
from pools.models import Backend, Node, Pool
from scheduling.domain.judgement.node_loss import holds_minimum
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Task, Workflow, WorkflowConfig
from scheduling.selectors.queue.live_facts import read_live_facts
from scheduling.services.workflows.transitions import WorkflowTransition
from tests.integration.engine.conftest import Cluster
from tests.support import world
from tests.support.nightly_parts import samples

pytestmark = pytest.mark.django_db

OF_A_DAY, OF_A_NIGHT = (0, 2), (1, *range(3, 100))


def gang_file(name: str, tasks: int, gpus: int, action: str) -> str:
    actions = f", exitActions: {{{action}: '3001'}}" if action else ""
    lead = ", lead: true"
    lines = [
        f"    - {{name: t{n}, image: i, command: [sh], resource: r{lead * (n == 0)}{actions}}}" for n in range(tasks)
    ]
    group = f"workflow:\n  name: {name}\n  groups:\n  - name: g\n    tasks:\n"
    return group + "\n".join(lines) + f"\n  resources:\n    r: {{gpu: {gpus}}}\n"


def random_cluster(pick: random.Random) -> Cluster:
    """Some nodes and pools, work of every kind that runs, and some that waits."""
    nodes = {f"n{n}": pick.choice([2, 4, 8]) for n in range(pick.randint(2, 5))}
    pools = {f"pool{n}": {"a": pick.randint(1, 6), "b": pick.randint(0, 6)} for n in range(pick.randint(1, 3))}
    cluster = Cluster(nodes, pools)
    WorkflowConfig.objects.update_or_create(pk=1, defaults={"max_retry_per_task": 1})
    Backend.objects.update(victims=pick.choice(["youngest", "least_lost"]))
    for n in range(pick.randint(4, 14)):
        pool = pick.choice(list(pools))
        leaf = f"{pool}{pick.choice(['--a', '--b'])}"
        quota = Pool.objects.get(name=leaf).last_quota or 0
        priority = pick.choice(["LOW", "LOW", "NORMAL", "HIGH"])
        tasks, gpus = pick.randint(1, 3), pick.choice([1, 1, 2, 4])
        if tasks * gpus > quota and priority != "LOW":
            tasks, gpus = 1, 1
        if (priority != "LOW" and quota < 1) or gpus > max(nodes.values()) or tasks * gpus > sum(nodes.values()):
            continue
        file = gang_file(f"w{n}", tasks, gpus, pick.choice(["", "RESCHEDULE", "RESCHEDULE", "FAIL"]))
        cluster.submit(f"w{n}", leaf, priority, file=file)
        if tasks > 1 and pick.random() < 0.4:
            minimum = pick.randint(1, tasks)
            world.set_gang_tree(f"w{n}-1", {"min_member": minimum}, gpus=minimum * gpus)
        if pick.random() < 0.6:
            cluster.reconcile()
    cluster.reconcile()
    return cluster


def take_away(backend: Backend, name: str) -> None:
    """What a cluster does with a lost node: its pods end with 3001; a gang that keeps its minimum gets others, and the
    exit actions of the other gangs decide."""
    facts = {gang.name: gang for gang in read_live_facts(backend).facts.gangs}
    for root in Pool.objects.roots().filter(backend=backend):
        with change(actor=SYSTEM, description="observed"):
            tree = lock_pool_tree(root.pk)
            tree.backend = backend
            held = Task.objects.filter(node_name=name, status=TaskStatus.RUNNING, group__workflow__root_pool=root)
            work = WorkflowTransition(tree, set(held.values_list("group__workflow", flat=True)), now=database_time())
            for workflow, groups in work.groups.items():
                for group in groups.values():
                    running = work.attempts.running(group.pk)
                    lost = [task for task in running if task.node_name == name]
                    if not lost:
                        continue
                    gang = facts[work.workflows[workflow].name]
                    names = {task.name for task in lost}
                    has_lead = not any(task.lead for task in lost)
                    if has_lead and holds_minimum(gang.tree, [task for task in gang.tasks if task.name not in names]):
                        for task in lost:
                            work.end_attempt(group, task, TaskStatus.FAILED_BACKEND_ERROR, "lost", 3001)
                            work.attempts.retry(task)
                        work._touched[group.pk] = group
                    else:
                        work.report_end(group, TaskStatus.FAILED_BACKEND_ERROR, "lost")
            work.save()
    with change(actor=SYSTEM, description="observed"):
        Node.objects.filter(backend=backend, name=name).delete()


def where(rows: Any) -> dict[str, list[str]]:
    """The nodes of each workflow, by its name; none while it waits or has ended."""
    found: dict[str, list[str]] = {str(name): [] for name in rows}
    running = Task.objects.filter(status=TaskStatus.RUNNING).values_list("group__workflow__name", "node_name")
    for work, node in running:
        found[work].append(node)
    return {work: sorted(nodes) for work, nodes in found.items()}


def question(cluster: Cluster, *changes: dict[str, Any]) -> Any:
    body = {"live": True, "changes": list(changes)}
    answer = cluster.admin.post("/api/simulate", json.dumps(body), content_type="application/json")
    assert answer.status_code == 200, answer.content
    return answer.json()


def placed(answer: Any) -> dict[str, list[str]]:
    """The nodes of each workflow of an answer."""
    return {
        name: sorted(task["node"] for task in work["tasks"].values() if task["state"] == "running")
        for name, work in answer["workloads"].items()
    }


def check(seed: int) -> int:
    """One random installation, and each of its nodes taken away in a copy; returns the number of nodes."""
    pick = random.Random(seed)
    cluster = random_cluster(pick)
    nodes = list(cluster.backend.nodes.order_by("name").values_list("name", flat=True))
    for node in nodes:
        answer = question(cluster, {"remove_node": node})
        with transaction.atomic():
            take_away(cluster.backend, node)
            cluster.reconcile()
            after = where(answer["workloads"])
            statuses = dict(Workflow.objects.values_list("name", "status"))
            transaction.set_rollback(True)
        assert placed(answer) == after, (seed, node)
        for lost in answer["loss"]["workloads"]:
            assert lost["restarts"] is (statuses[lost["workload"]] in {"RUNNING", "PENDING"}), (seed, node, lost)
            assert lost["nodes"] == sorted(set(after[lost["workload"]])), (seed, node, lost)
        waiting = sum(each["gangs"] - each["gangs_before"] for each in answer["loss"]["queues"])
        before = question(cluster)
        assert waiting == count_waiting(answer) - count_waiting(before), (seed, node)
    return len(nodes)


def count_waiting(answer: Any) -> int:
    return sum(work["state"] in {"pending", "preempted"} for work in answer["workloads"].values())


@pytest.mark.parametrize("seed", samples(OF_A_DAY, OF_A_NIGHT))
def test_without_a_node_as_when_it_is_taken_away(db: None, seed: int) -> None:
    assert check(seed)
