"""After random submissions, ends and changes the rows of a reconciled backend are consistent (without the engine)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Sum
from hypothesis import given, settings
from hypothesis import strategies as st

from pools.domain.changes.subpools import DeleteSubpool, ResizeSubpool
from pools.domain.errors import DomainError
from pools.models import Backend, LeafUsage, Node, Pool
from scheduling.domain.changes.workflows import CancelWorkflow, EndWorkflow
from scheduling.domain.gang import tree_from_json
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Decision, Group, Task, Workflow
from scheduling.selectors.queue.start_gates import read_gate_paths
from scheduling.services.simulated.dirty import Scope
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.verify import verify
from scheduling.services.workflows.submission import Submission, submit
from tests.support import world

SUBPOOLS = ("one--a", "one--b", "two--c")
LEAVES = ("one", "two", *SUBPOOLS)
SEQUENCES = {"default": 3, "nightly": 300}

NUMBER, LEAF, LEAST = st.integers(1, 12), st.sampled_from(LEAVES), st.integers(1, 3)
LOW_OR_FIRM = st.sampled_from([Priority.LOW, Priority.LOW, Priority.NORMAL, Priority.HIGH])
work = st.one_of(
    st.tuples(st.just("submit"), LEAF, LOW_OR_FIRM, st.integers(1, 2), st.integers(1, 2)),
    st.tuples(st.just("elastic"), LEAF, LOW_OR_FIRM, st.integers(2, 5), LEAST),
)
change = st.one_of(
    st.tuples(st.just("end"), NUMBER, st.sampled_from([TaskStatus.COMPLETED, TaskStatus.FAILED])),
    st.tuples(st.just("cancel"), NUMBER),
    st.tuples(st.just("quota"), st.sampled_from(SUBPOOLS), st.integers(0, 3)),
    st.tuples(st.just("delete"), st.sampled_from(SUBPOOLS)),
)
scope = st.tuples(st.just("reconcile"), st.sampled_from(Scope))
DAYS = st.lists(
    st.tuples(st.lists(work, min_size=2, max_size=5), st.lists(change, max_size=2), scope), min_size=3, max_size=5
)
"""New work, other changes, then a cycle: several times, so that full nodes receive more work."""


def job_file(gpus: int, tasks: int) -> str:
    """A gang of equal tasks."""
    lines = [f"  - {{name: t{n}, image: i, command: [c], lead: {str(n == 0).lower()}}}" for n in range(tasks)]
    head = f"workflow:\n  name: job\n  resources: {{default: {{gpu: {gpus}}}}}\n  groups:\n  - name: g\n    tasks:\n"
    return head + "\n".join(f"  {line}" for line in lines)


def elastic_gang_file(pods: int, least: int) -> str:
    """A PodGroup of pods of one GPU."""
    notes = f"{{osmo/gpus-per-pod: 1, osmo/pods: {max(pods, least)}}}"
    return f"kind: PodGroup\nmetadata: {{name: job, annotations: {notes}}}\nspec: {{minMember: {least}}}\n"


class ReconciledScene:
    """Two pools that share two nodes, and the checks after each cycle."""

    def __init__(self) -> None:
        self.backend = world.make_backend(nodes=2, gpus=4)
        world.make_pool("one", 4, on=self.backend, a=2, b=1)
        world.make_pool("two", 4, on=self.backend, c=2)
        self.admin = world.admin_actor()

    def do(self, what: str, *how: Any) -> None:
        """One operation; a refusal changes nothing."""
        try:
            with transaction.atomic():
                self._do(what, *how)
        except DomainError:
            pass

    def _do(self, what: str, *how: Any) -> None:
        if what == "submit":
            leaf, priority, gpus, tasks = how
            submit(actor=self.admin, pool=leaf, submission=Submission(job_file(gpus, tasks), priority))
        elif what == "elastic":
            leaf, priority, pods, least = how
            submit(actor=self.admin, pool=leaf, submission=Submission(elastic_gang_file(pods, least), priority))
        elif what == "end":
            world.apply_change(EndWorkflow(name=f"job-{how[0]}", status=how[1]))
        elif what == "cancel":
            world.apply_change(CancelWorkflow(name=f"job-{how[0]}"), actor=self.admin)
        elif what == "quota":
            parent, _, short = how[0].partition("--")
            world.apply_change(ResizeSubpool(parent=parent, subpool_name=short, quota=how[1]))
        elif what == "delete":
            parent, _, short = how[0].partition("--")
            world.apply_change(DeleteSubpool(parent=parent, subpool_name=short))
        else:
            self.reconcile(how[0])

    def reconcile(self, scope: Scope = Scope.THOROUGH) -> None:
        """Run a scheduling cycle, and check every property of its result."""
        used, total, quotas = self._numbers()
        last = Decision.objects.order_by("-id").values_list("id", flat=True).first() or 0
        assert reconcile_backend(self.backend.pk, scope=scope)["settled"]
        preempted = self._count_reclaimed(last)
        self._check_firm_work_within_quota(used)
        self._check_reclaims_from_borrowers_only(preempted, total, quotas)
        self._check_nodes()
        self._check_gang_minimums()
        assert verify() == []
        if scope is Scope.THOROUGH:
            assert reconcile_backend(self.backend.pk)["steps"] == [], "a second cycle changes nothing"
            self._check_no_waiting_gang_fits()

    def _numbers(self) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
        rows = LeafUsage.objects.all()
        quotas = {
            leaf: paths["default"][0].quota
            for root in Pool.objects.roots().all()
            for leaf, paths in read_gate_paths(root).items()
        }
        return {row.pool_id: row.used for row in rows}, {row.pool_id: row.total_usage for row in rows}, quotas

    @staticmethod
    def _count_reclaimed(last: int) -> Counter[int]:
        lost: Counter[int] = Counter()
        for decision in Decision.objects.filter(pk__gt=last, action="reclaim"):
            assert decision.workflow.priority == Priority.LOW
            lost[decision.pool_id] += decision.gpus
        for decision in Decision.objects.filter(pk__gt=last).exclude(for_workflow=None):
            assert decision.workflow.priority == Priority.LOW, "HIGH and NORMAL work is never preempted or moved"
        return lost

    def _check_firm_work_within_quota(self, before: dict[int, int]) -> None:
        used, _, quotas = self._numbers()
        for leaf, held in used.items():
            if leaf in quotas:  # a quota may be cut below the usage; then no more work starts
                assert held <= max(quotas[leaf], before.get(leaf, 0))

    @staticmethod
    def _check_reclaims_from_borrowers_only(
        preempted: Counter[int], total: dict[int, int], quotas: dict[int, int]
    ) -> None:
        for leaf, gpus in preempted.items():
            started = Decision.objects.filter(pool_id=leaf, action="start").aggregate(held=Sum("gpus"))["held"] or 0
            assert gpus > 0
            assert total.get(leaf, 0) + started > quotas[leaf]

    @staticmethod
    def _check_nodes() -> None:
        held = Task.objects.filter(status=TaskStatus.RUNNING).values_list("node_name").annotate(Sum("gpu_count"))
        for node, gpus in held:
            assert gpus <= Node.objects.get(name=node).gpus

    @staticmethod
    def _check_gang_minimums() -> None:
        for group in Group.objects.filter(status__in=[TaskStatus.RUNNING, TaskStatus.SCHEDULING]):
            pods = group.tasks.filter(status=TaskStatus.RUNNING).count()
            whole = group.tasks.filter(status__in=[TaskStatus.RUNNING, TaskStatus.SCHEDULING]).count()
            least = whole if group.gang is None else tree_from_json(group.gang, whole).thresholds[0]
            assert pods >= least if group.status == TaskStatus.RUNNING else pods == 0

    def _check_no_waiting_gang_fits(self) -> None:
        """Checks gangs of one task, which fit on any free node."""
        free = {node.name: node.gpus for node in Node.objects.filter(backend=self.backend)}
        for node, gpus in (
            Task.objects.filter(status=TaskStatus.RUNNING).values_list("node_name").annotate(Sum("gpu_count"))
        ):
            free[node] -= gpus
        paths = {leaf: of["default"] for root in Pool.objects.roots() for leaf, of in read_gate_paths(root).items()}
        waiting = Task.objects.filter(status=TaskStatus.SCHEDULING, group__status=TaskStatus.SCHEDULING)
        for task in waiting.select_related("group__workflow"):
            workflow = task.group.workflow
            if task.group.tasks.count() > task.retry_id + 1:
                continue
            firm = workflow.priority != Priority.LOW
            allowed = all(not firm or gate.used + task.gpu_count <= gate.quota for gate in paths[workflow.pool_id])
            assert not allowed or max(free.values()) < task.gpu_count, workflow.name


@pytest.mark.django_db
@pytest.mark.timeout(1800)
def test_a_reconciled_backend_is_consistent(request: pytest.FixtureRequest) -> None:
    nightly = bool(request.config.getoption("--nightly"))

    @settings(max_examples=SEQUENCES["nightly" if nightly else "default"], deadline=None)
    @given(DAYS)
    def run_days(days: list[tuple[list[tuple[Any, ...]], list[tuple[Any, ...]], tuple[Any, ...]]]) -> None:
        with transaction.atomic():
            scene = ReconciledScene()
            for coming, changes, cycle in days:
                for what, *how in (*coming, *changes, cycle):
                    scene.do(what, *how)
            scene.reconcile()
            transaction.set_rollback(True)

    run_days()
    assert Workflow.objects.count() == 0, "every sequence was rolled back"
    assert Backend.objects.count() <= 1
