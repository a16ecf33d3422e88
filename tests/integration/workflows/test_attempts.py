"""The transitions of work: attempts that are preempted, end by themselves, and are retried (design, D11)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from pools.database.transactions import change
from pools.domain.people.roles import SYSTEM
from pools.locking import lock_pool_tree
from pools.models import Backend, Node, Pool, Reservation
from scheduling.domain.changes.workflows import EndStatus, EndWorkflow
from scheduling.domain.priorities import Priority
from scheduling.models import Group, Task, Workflow, WorkflowConfig
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.verify import verify
from scheduling.services.workflows.submission import Submission, submit
from scheduling.services.workflows.transitions import UNUSED_TASK_MESSAGE, WorkflowTransition
from tests.support import world

pytestmark = pytest.mark.django_db

PAIR = """workflow:
  name: pair
  resources: {default: {gpu: 2}}
  groups:
  - name: both
    tasks:
    - {name: one, image: i, command: [sh], lead: true%s}
    - {name: two, image: i, command: [sh]%s}
  - {name: after, tasks: [{name: three, image: i, command: [sh], inputs: [{task: one}]}]}
"""


@pytest.fixture(autouse=True)
def clean_ledger(db: None) -> Any:
    """After each test the counters and the statuses agree."""
    yield
    assert verify() == []


@contextmanager
def locked_transition(team: Pool) -> Iterator[WorkflowTransition]:
    """A transition of all workflows of a pool, under its lock."""
    with change(actor=SYSTEM):
        root = lock_pool_tree(team.pk)
        root.backend = team.backend
        work = WorkflowTransition(root, list(Workflow.objects.values_list("pk", flat=True)), now=timezone.now())
        yield work
        work.save()


def running_pair(team: Pool, lead: str = "", other: str = "") -> None:
    """`pair-1` with exit actions, its first group running."""
    actions = [f", exitActions: {{{text}}}" if text else "" for text in (lead, other)]
    submit(actor=world.admin_actor(), pool="team", submission=Submission(PAIR % tuple(actions), Priority.LOW))
    reconcile_backend(team.backend_id)


def preempt(team: Pool, name: str = "both", **more: Any) -> bool:
    """Preempt a group's tasks."""
    with locked_transition(team) as work:
        (group,) = [group for groups in work.groups.values() for group in groups.values() if group.name == name]
        return work.preempt_tasks(group, "other work needs the GPUs", **more)


def attempts_of(group: str = "both") -> list[tuple[str, int, str, int | None]]:
    """(task, retry, status, exit code) of every attempt of a group."""
    rows = Task.objects.filter(group__name=group).order_by("position", "retry_id")
    return list(rows.values_list("name", "retry_id", "status", "exit_code"))


def held() -> int:
    """GPUs of the one reservation."""
    return Reservation.objects.get().held_gpus


class TestPreempted:
    @pytest.mark.parametrize("actions", ["", "RESCHEDULE: '3006'"])
    def test_the_attempt_ends_and_the_gang_waits_again(self, team: Pool, actions: str) -> None:
        running_pair(team, actions)
        before = Workflow.objects.get()
        assert preempt(team)
        assert attempts_of() == [
            ("one", 0, "FAILED_PREEMPTED", 3006),
            ("one", 1, "SCHEDULING", None),
            ("two", 0, "FAILED_PREEMPTED", 3006),
            ("two", 1, "SCHEDULING", None),
        ]
        now = Workflow.objects.get()
        assert (now.status, now.submit_time, now.start_time) == ("PENDING", before.submit_time, before.start_time)
        group = Group.objects.get(name="both")
        assert (group.status, group.start_time, group.ends_at) == ("SCHEDULING", None, None)
        assert group.ready_at is not None
        assert group.ready_at > before.submit_time  # a queue timeout counts from now
        assert (held(), Reservation.objects.get().needed_gpus) == (0, 4)
        assert Group.objects.get(name="after").status == "WAITING"

        reconcile_backend(team.backend_id)
        assert [status for _, _, status, _ in attempts_of()] == ["FAILED_PREEMPTED", "RUNNING"] * 2
        assert Workflow.objects.get().status == "RUNNING"
        assert held() == 4

    def test_exit_actions_may_fail_the_gang(self, team: Pool) -> None:
        running_pair(team, "FAIL: '3000-3010'")
        assert not preempt(team)
        assert attempts_of() == [("one", 0, "FAILED_PREEMPTED", 3006), ("two", 0, "FAILED_PREEMPTED", 3006)]
        workflow = Workflow.objects.get()
        assert (workflow.status, workflow.failure_message) == ("FAILED_PREEMPTED", "other work needs the GPUs")
        assert Group.objects.get(name="after").status == "FAILED_UPSTREAM"

    def test_exit_actions_may_complete_the_gang(self, team: Pool) -> None:
        running_pair(team, "COMPLETE: '3006'")
        assert not preempt(team)
        assert attempts_of() == [("one", 0, "COMPLETED", 3006), ("two", 0, "COMPLETED", 3006)]
        reconcile_backend(team.backend_id)
        assert Group.objects.get(name="after").status == "RUNNING"

    def test_the_lead_decides_for_its_gang(self, team: Pool) -> None:
        running_pair(team, other="FAIL: '3006'")
        assert preempt(team)
        assert Workflow.objects.get().status == "PENDING"

    def test_the_pool_s_exit_actions_count_where_the_task_says_nothing(self, team: Pool) -> None:
        Pool.objects.filter(pk=team.pk).update(config={"default_exit_actions": {"FAIL": "3006"}})
        running_pair(team)
        assert not preempt(team)

    def test_a_plain_gang_is_preempted_as_a_whole(self, team: Pool) -> None:
        running_pair(team)
        preempt(team, tasks=["two"])
        assert {status for _, retry, status, _ in attempts_of() if retry == 0} == {"FAILED_PREEMPTED"}
        assert held() == 0


class TestMoved:
    def test_a_task_starts_again_at_once_on_another_node(self, team: Pool) -> None:
        running_pair(team)
        assert preempt(team, tasks=["two"], moved_to={"two": "sim-n4"})
        assert attempts_of() == [
            ("one", 0, "RUNNING", None),
            ("two", 0, "FAILED_PREEMPTED", 3006),
            ("two", 1, "RUNNING", None),
        ]
        assert Task.objects.get(name="two", retry_id=1).node_name == "sim-n4"
        assert (Workflow.objects.get().status, held()) == ("RUNNING", 4)

    def test_it_needs_its_whole_time_again(self, team: Pool) -> None:
        Backend.objects.filter(pk=team.backend_id).update(auto_end=True)
        team = Pool.objects.get(pk=team.pk)
        running_pair(team)
        Group.objects.filter(name="both").update(ends_at=timezone.now() + timedelta(seconds=1))
        preempt(team, tasks=["two"], moved_to={"two": "sim-n4"})
        group = Group.objects.get(name="both")
        assert group.ends_at == group.due_at
        assert group.ends_at is not None
        assert group.ends_at > timezone.now() + timedelta(seconds=20)

    def test_exit_actions_may_fail_the_gang(self, team: Pool) -> None:
        running_pair(team, "FAIL: '3006'")
        assert not preempt(team, tasks=["two"], moved_to={"two": "sim-n4"})
        assert Workflow.objects.get().status == "FAILED_PREEMPTED"


class TestReportedEnds:
    def end(self, status: EndStatus = EndStatus.FAILED) -> None:
        world.apply_change(
            EndWorkflow(name="pair-1", status=status, group="both"), actor=world.admin_actor(), description="broken"
        )

    @pytest.mark.parametrize(
        ("action", "reported", "ends", "after"),
        [
            ("COMPLETE: '1'", EndStatus.FAILED, ("COMPLETED", 1), "PENDING"),  # the next group's turn
            ("FAIL: '0'", EndStatus.COMPLETED, ("FAILED", 0), "FAILED"),
        ],
    )
    def test_exit_actions_decide(
        self, team: Pool, action: str, reported: EndStatus, ends: tuple[str, int], after: str
    ) -> None:
        running_pair(team, action)
        self.end(reported)
        assert attempts_of() == [("one", 0, *ends), ("two", 0, *ends)]
        assert Workflow.objects.get().status == after

    def test_a_retry_needs_the_permission_of_the_settings(self, team: Pool) -> None:
        running_pair(team, "RESCHEDULE: '1'")
        self.end()
        assert (Workflow.objects.get().status, Workflow.objects.get().failure_message) == ("FAILED", "broken")

    def test_it_is_retried_as_often_as_the_settings_allow_and_preemptions_do_not_count(self, team: Pool) -> None:
        WorkflowConfig.objects.update_or_create(pk=1, defaults={"max_retry_per_task": 2})
        running_pair(team, "RESCHEDULE: '1'")
        for _ in range(2):
            preempt(team)
            reconcile_backend(team.backend_id)
            self.end()
            reconcile_backend(team.backend_id)
        assert Workflow.objects.get().status == "RUNNING"
        self.end()
        assert [status for name, _, status, _ in attempts_of() if name == "one"] == [
            "FAILED_PREEMPTED",
            "RESCHEDULED",
            "FAILED_PREEMPTED",
            "RESCHEDULED",
            "FAILED",
        ]
        assert Workflow.objects.get().status == "FAILED"


class TestElastic:
    """Four tasks of 2 GPUs, of which two are enough."""

    @pytest.fixture
    def gang(self, team: Pool) -> Pool:
        file = "workflow:\n  name: gang\n  resources: {default: {gpu: 2}}\n  groups:\n  - name: g\n    tasks:\n"
        for n, lead in enumerate(["true", "false", "false", "false"]):
            file += f"    - {{name: t{n}, image: i, command: [sh], lead: {lead}}}\n"
        submit(actor=world.admin_actor(), pool="team", submission=Submission(file, Priority.LOW))
        world.set_gang_tree("gang-1", {"min_member": 2}, gpus=4)
        with locked_transition(team) as work:
            self.start(work, "t0", "t1", "t2")
        return team

    @staticmethod
    def start(work: WorkflowTransition, *tasks: str) -> None:
        (groups,) = work.groups.values()
        work.start_tasks(groups["g"], dict.fromkeys(tasks, "sim-n1"))

    def test_surplus_is_preempted_alone_and_waits_again(self, gang: Pool) -> None:
        assert (held(), Group.objects.get().status) == (6, "RUNNING")
        assert preempt(gang, "g", tasks=["t2"])
        assert attempts_of("g")[2:4] == [("t2", 0, "FAILED_PREEMPTED", 3006), ("t2", 1, "SCHEDULING", None)]
        assert (held(), Workflow.objects.get().status) == (4, "RUNNING")
        started = Group.objects.get().start_time
        with locked_transition(gang) as work:
            self.start(work, "t3")
        assert (held(), Group.objects.get().start_time) == (6, started)

    def test_below_its_minimum_all_of_it_is_preempted(self, gang: Pool) -> None:
        preempt(gang, "g", tasks=["t1", "t2"])
        assert (held(), Group.objects.get().status) == (0, "SCHEDULING")
        assert len(Task.objects.filter(status="SCHEDULING")) == 4
        assert attempts_of("g")[-1] == ("t3", 0, "SCHEDULING", None)  # it never ran, so this was not an attempt

    def test_a_surplus_task_may_fail_alone(self, gang: Pool) -> None:
        Task.objects.filter(name="t2").update(exit_actions={"FAIL": [[3006, 3006]]})
        assert not preempt(gang, "g", tasks=["t2"])
        assert attempts_of("g")[2:] == [("t2", 0, "FAILED_PREEMPTED", 3006), ("t3", 0, "SCHEDULING", None)]
        assert (held(), Workflow.objects.get().status) == (4, "RUNNING")

    def test_it_completes_without_those_that_never_started(self, gang: Pool) -> None:
        world.apply_change(EndWorkflow(name="gang-1", status=EndStatus.COMPLETED), actor=world.admin_actor())
        assert Workflow.objects.get().status == "COMPLETED"
        assert [status for _, _, status, _ in attempts_of("g")] == ["COMPLETED"] * 3 + ["FAILED_CANCELED"]
        assert Task.objects.get(name="t3").failure_message == UNUSED_TASK_MESSAGE

    def test_verify_finds_a_gang_that_is_half_started(self, gang: Pool) -> None:
        Task.objects.filter(name__in=["t1", "t2"]).update(status="SCHEDULING")
        assert {difference.code for difference in verify()} == {"gang", "reservation"}
        Task.objects.filter(name__in=["t1", "t2"]).update(status="RUNNING")
        Group.objects.update(gpus=6)
        assert "size" in {difference.code for difference in verify()}
        Group.objects.update(gpus=4)


def test_a_removed_node_does_not_stop_a_preemption(team: Pool) -> None:
    running_pair(team)
    Node.objects.all().delete()
    assert preempt(team)
