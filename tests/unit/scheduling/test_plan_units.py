"""The units of a plan, and whether they still apply."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from pools.domain.values.amounts import UNLIMITED
from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.steps import Step, StepAction
from scheduling.domain.judgement.admission import Gate
from scheduling.domain.judgement.plan_units import Gates, NodeCapacity, PlanUnit, split_plan
from scheduling.domain.priorities import Priority
from scheduling.domain.reason_codes import ReasonCode
from tests.unit.engine import sample_clusters
from tests.unit.engine.sample_clusters import facts, gang, queue


def step(action: StepAction, name: str, *nodes: str, whom: str | None = None) -> Step:
    """One step about the only task of a gang."""
    return Step(1, action, name, (f"{name}-0",), whom, "", nodes)


def start(name: str, node: str) -> Step:
    """A start of the gang on the node."""
    return step(StepAction.START, name, node)


def reclaim(name: str, whom: str) -> Step:
    """A preemption of the gang."""
    return step(StepAction.RECLAIM, name, whom=whom)


class TestPlanUnits:
    def test_evictions_are_in_the_unit_of_the_start_that_needs_them(self) -> None:
        steps = [
            start("a", "n"),
            reclaim("x", "b"),
            step(StepAction.MOVE, "y", "m", whom="b"),
            start("b", "n"),
            step(StepAction.GIVE_UP, "z"),
            start("c", "n"),
        ]
        found = list(split_plan(steps))
        assert [[each.gang for each in unit.steps] for unit in found] == [["a"], ["x", "y", "b"], ["z"], ["c"]]
        assert [unit.is_plain_start for unit in found] == [True, False, False, True]
        assert found[1].gangs == {"x", "y", "b"}

    @given(sample_clusters.cluster_facts())
    def test_every_step_of_a_plan_is_in_one_unit_and_ends_with_a_start_or_a_giving_up(self, given_facts: Any) -> None:
        plan = run_cycle(given_facts)
        found = list(split_plan(plan.steps))
        assert [each for unit in found for each in unit.steps] == list(plan.steps)
        for unit in found:
            *taken, last = unit.steps
            assert last.action in {StepAction.START, StepAction.GIVE_UP}
            assert all(each.beneficiary == last.gang for each in taken)
        capacity = NodeCapacity(given_facts)
        assert all(capacity.book(unit) for unit in found), "an undisturbed plan finds the capacity that it needs"


class TestRoom:
    """Node n of 2 GPUs with `old` of 1 on it; `a`, `b`, `wide` (2) wait."""

    def capacity(self) -> NodeCapacity:
        work = [gang("old", "q", on="n"), gang("a", "q"), gang("b", "q"), gang("wide", "q", gpus=2)]
        return NodeCapacity(facts([queue("q", 9)], work, {"n": 2}))

    def test_a_full_node_accepts_no_further_start(self) -> None:
        capacity = self.capacity()
        assert capacity.book(PlanUnit((start("a", "n"),)))
        assert not capacity.book(PlanUnit((start("b", "n"),)))

    def test_a_victim_frees_capacity_in_the_same_unit(self) -> None:
        capacity = self.capacity()
        assert not capacity.book(PlanUnit((start("wide", "n"),)))
        assert capacity.book(PlanUnit((reclaim("old", "wide"), start("wide", "n"))))
        assert not capacity.book(PlanUnit((start("a", "n"),)))

    def test_a_dropped_unit_frees_no_capacity(self) -> None:
        capacity = self.capacity()
        assert not capacity.book(PlanUnit((reclaim("old", "wide"), start("wide", "n"), start("a", "n"))))
        assert capacity.book(PlanUnit((start("a", "n"),)))

    def test_undo_returns_the_booked_capacity(self) -> None:
        capacity = self.capacity()
        mark = capacity.mark()
        assert capacity.book(PlanUnit((start("a", "n"),)))
        capacity.undo(mark)
        assert capacity.book(PlanUnit((start("b", "n"),)))

    def test_a_move_gives_the_old_node_back(self) -> None:
        work = [gang("old", "q", on="n"), gang("wide", "q", gpus=2)]
        capacity = NodeCapacity(facts([queue("q", 9)], work, {"n": 2, "m": 2}))
        assert capacity.book(PlanUnit((step(StepAction.MOVE, "old", "m", whom="wide"), start("wide", "n"))))

    def test_no_gang_starts_on_a_missing_node(self) -> None:
        assert not self.capacity().book(PlanUnit((start("a", "gone"),)))

    def test_an_overfull_node_accepts_only_tasks_without_the_overfull_resource(self) -> None:
        work = [gang("old", "q", on="n", gpus=4), gang("a", "q"), gang("none", "q", gpus=0)]
        capacity = NodeCapacity(facts([queue("q", 9)], work, {"n": 2}))
        assert not capacity.book(PlanUnit((start("a", "n"),)))
        assert capacity.book(PlanUnit((start("none", "n"),)))


class TestGates:
    """Leaf 1 of 10 in a pool of 12 that may hold 15."""

    def gates(self) -> Gates:
        pool = Gate("pool", 12, 0, 15, 0)
        return Gates(
            {
                1: {"default": (Gate("a", 10, 0, UNLIMITED, 0), pool)},
                2: {"default": (Gate("b", 2, 0, UNLIMITED, 0), pool)},
            }
        )

    def test_firm_work_counts_against_quotas_and_low_work_against_the_maximum(self) -> None:
        gates = self.gates()
        assert gates.verdict(1, Priority.NORMAL, 10) is None
        gates.add_usage(1, Priority.NORMAL, 10)
        wait = gates.verdict(1, Priority.HIGH, 1)
        assert (wait.code if wait else None) == ReasonCode.OVER_QUOTA
        gates.add_usage(2, Priority.LOW, 5)
        wait = gates.verdict(1, Priority.LOW, 1)
        assert (wait.code if wait else None) == ReasonCode.OVER_LIMIT
        gates.add_usage(2, Priority.LOW, -5)
        assert gates.verdict(1, Priority.LOW, 5) is None

    def test_a_node_above_two_leaves_counts_for_both(self) -> None:
        gates = self.gates()
        gates.add_usage(1, Priority.NORMAL, 10)
        assert gates.path(2) == (Gate("b", 2, 0, UNLIMITED, 0), Gate("pool", 12, 10, 15, 10))
        assert gates.path(3) == ()
