"""The state may change between a plan and its execution: units that are no longer valid are dropped, and no unit is
half done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pools.domain.changes.subpools import ResizeSubpool
from pools.models import Pool, Reservation
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.models import Decision, Task, Workflow
from scheduling.services.simulated import apply_plan, reconcile
from scheduling.services.verify import verify
from tests.support import world

Make = Callable[..., Any]
Meanwhile = Callable[[Callable[[], object]], None]
pytestmark = pytest.mark.django_db


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """`meanwhile(operation)`: the operation runs right after the next plan was made."""

    def arrange(operation: Callable[[], object]) -> None:
        waiting, real = [operation], reconcile.run_cycle

        def plan_then(facts: Any, **more: Any) -> Any:
            planned = real(facts, **more)
            if waiting:
                waiting.pop()()
            return planned

        monkeypatch.setattr(reconcile, "run_cycle", plan_then)

    return arrange


def borrowed(cluster: Make) -> Any:
    """WF3 (LOW) of pool1 runs on a GPU of pool2, which WF5 reclaims."""
    sim = cluster({"n": 4}, pool1=2, pool2=2)
    sim.submit("wf1", "pool1", gpus=2)
    sim.submit("wf4", "pool2")
    sim.submit("wf3", "pool1", "LOW")
    sim.reconcile()
    sim.submit("wf5", "pool2")
    return sim


def cancel(name: str) -> object:
    """Cancel a workflow."""
    return world.apply_change(CancelWorkflow(name=f"{name}-1"), actor=world.admin_actor())


class TestEvicting:
    def test_no_eviction_for_a_gang_that_was_cancelled(self, cluster: Make, meanwhile: Meanwhile) -> None:
        sim = borrowed(cluster)
        meanwhile(lambda: cancel("wf5"))
        assert sim.reconcile() == []
        sim.assert_running("wf1", "wf3", "wf4")

    def test_no_eviction_of_a_gang_that_ended(self, cluster: Make, meanwhile: Meanwhile) -> None:
        sim = borrowed(cluster)
        meanwhile(lambda: sim.end("wf3"))
        assert sim.reconcile() == [("start", "wf5")]
        assert Workflow.objects.get(name="wf3-1").status == "COMPLETED"

    def test_no_reclaim_from_a_pool_that_is_inside_its_quota_now(self, cluster: Make, meanwhile: Meanwhile) -> None:
        sim = borrowed(cluster)
        meanwhile(lambda: Pool.objects.filter(name="pool1").update(guarantee=3))
        assert sim.reconcile() == []
        sim.assert_running("wf1", "wf3", "wf4")

    def test_a_pool_whose_usage_shrank_is_planned_again(self, cluster: Make, meanwhile: Meanwhile) -> None:
        sim = cluster({"n": 4}, pool1=2, pool2=2)
        sim.submit("wf1", "pool1", "LOW")
        sim.submit("wf2", "pool1", "LOW")
        sim.submit("wf3", "pool1", "LOW")
        sim.submit("wf4", "pool2")
        sim.reconcile()
        sim.submit("wf5", "pool2")
        meanwhile(lambda: sim.end("wf1"))  # pool1 is inside its quota now, and there is free capacity
        assert sim.reconcile() == [("start", "wf5")]
        sim.assert_running("wf2", "wf3", "wf4", "wf5")

    def test_a_preemption_needs_the_quota_it_was_planned_with(self, cluster: Make, meanwhile: Meanwhile) -> None:
        sim = cluster({"n": 2}, pool=2)
        sim.submit("wf1", "pool", "LOW", gpus=2)
        sim.reconcile()
        sim.submit("wf2", "pool", gpus=2)
        meanwhile(lambda: Pool.objects.filter(name="pool").update(guarantee=1))
        assert sim.reconcile() == []
        sim.assert_running("wf1")


class TestStarting:
    def test_a_quota_that_was_cut_holds(self, cluster: Make, meanwhile: Meanwhile) -> None:
        sim = cluster({"n": 8}, team={"": 8, "a": 4})
        sim.submit("wf1", "team--a", gpus=2)
        sim.submit("wf2", "team--a", gpus=2)
        meanwhile(lambda: world.apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=3)))
        assert sim.reconcile() == [("start", "wf1")]

    def test_a_maximum_that_was_cut_holds(self, cluster: Make, meanwhile: Meanwhile) -> None:
        sim = cluster({"n": 8}, pool=4)
        sim.submit("wf1", "pool", "LOW", gpus=6)
        meanwhile(lambda: Pool.objects.filter(name="pool").update(maximum=5))
        assert sim.reconcile() == []

    def test_the_other_units_are_applied_nevertheless(self, cluster: Make, meanwhile: Meanwhile) -> None:
        sim = cluster({"n": 8}, pool=4, other=4)
        for name in ("wf1", "wf2", "wf3"):
            sim.submit(name, "pool")
        sim.submit("wf4", "other")
        meanwhile(lambda: cancel("wf2"))
        assert sorted(sim.reconcile()) == [("start", "wf1"), ("start", "wf3"), ("start", "wf4")]


class TestCrash:
    def test_a_step_over_two_trees_is_done_whole_or_not_at_all(
        self, cluster: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The process dies after the tree of the victim was written, before the other tree is written."""
        sim = borrowed(cluster)
        decisions = Decision.objects.count()
        real, written = apply_plan.WorkflowTransition.save, []

        def save_one_and_die(work: Any) -> None:
            if written:
                raise KeyboardInterrupt
            written.append(work)
            real(work)

        with monkeypatch.context() as patch:
            patch.setattr(apply_plan.WorkflowTransition, "save", save_one_and_die)
            with pytest.raises(KeyboardInterrupt):
                sim.reconcile()
        assert len(written) == 1
        sim.assert_running("wf1", "wf3", "wf4")
        assert Task.objects.count() == 4
        assert Decision.objects.count() == decisions
        assert verify() == []

        assert sim.reconcile() == [("reclaim", "wf3"), ("start", "wf5")]

    def test_many_starts_are_written_in_batches(self, cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(apply_plan, "MAX_STARTS_TOGETHER", 2)
        sim = cluster({"n": 8}, pool=8)
        for number in range(5):
            sim.submit(f"wf{number}", "pool")
        assert len(sim.reconcile()) == 5
        assert Reservation.objects.filter(held_gpus=1).count() == 5


class TestMoving:
    """Two nodes of 4 with a LOW gang on each; a large gang fits when one of them moves."""

    def test_a_gang_moves_for_a_large_gang_and_starts_again(self, cluster: Make) -> None:
        sim = cluster({"n1": 4, "n2": 4}, pool=8)
        for name in ("wf1", "wf2", "wf3"):
            sim.submit(name, "pool", "LOW", gpus=2)
        sim.reconcile()
        sim.end("wf1")
        sim.reconcile()  # wf2 on n1, wf3 on n2
        assert len(set(Task.objects.filter(status="RUNNING").values_list("node_name", flat=True))) == 2
        sim.submit("wide", "pool", "LOW", gpus=4)
        (move, start) = sim.reconcile()
        assert (move[0], start) == ("move", ("start", "wide"))
        first, second = sim.attempts(move[1])
        assert (first[2:], second[2:]) == (("FAILED_PREEMPTED", 3006), ("RUNNING", None))
        assert Workflow.objects.get(name=f"{move[1]}-1").status == "RUNNING"
        decision = Decision.objects.get(action="move")
        assert decision.for_workflow is not None
        assert decision.for_workflow.name == "wide-1"
        sim.assert_running("wf2", "wf3", "wide")
