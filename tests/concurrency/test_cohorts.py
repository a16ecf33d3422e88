"""Races in a tree of cohorts. Two workers reconcile two leaves on two backends that share only the tree: one of
them gets the last GPU that may be borrowed. And two changes of parents never form a cycle together."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from pools.domain.changes.cohorts import PatchCohort, PutCohort
from pools.domain.changes.pools import PatchPool
from pools.domain.errors import BadInput, Conflict
from pools.models import Cohort, LeafUsage, Pool
from pools.selectors.quotas.quota_facts import cohort_roots, read_admission_tree
from pools.services.configuration import cohorts
from scheduling.domain.priorities import Priority
from scheduling.models import Group, Workflow
from scheduling.services.kubernetes.dispatching import dispatch_admission
from scheduling.services.simulated import apply_plan
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.verify import verify
from tests.support import world
from tests.support.agent_harness import AgentHarness
from tests.support.fake_cluster import FakeCluster
from tests.support.races import Rendezvous, without_triggers
from tests.support.threads import run_concurrently

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]
GPUS = "default/gpu"
SURELY, BRIEFLY = 60.0, 0.5
"""How long the parties of a race wait for one another: without a lock both arrive, even on a slow machine; if a lock
blocks one, the other continues alone."""


class TestTheLastBorrowableGpu:
    """Cohort `org` owns 3 GPUs that its two pools, without a quota of their own, may borrow."""

    def _race(self, monkeypatch: pytest.MonkeyPatch, patience: float, gpus: int = 2) -> None:
        quotas = [{"resource": "gpu", "nominal": 3}]
        world.apply_change(PutCohort(name="org", body={"quotas": quotas}))
        backends = []
        for name in ("left", "right"):
            pool = world.make_pool(name, 0, on=world.make_backend(f"sim-{name}", namespace=name))
            world.apply_change(PatchPool(name=name, patch={"cohort": "org"}))
            world.submit_workflow(world.admin_actor(), name, gpus, priority=Priority.LOW)
            assert pool.backend_id is not None
            backends.append(pool.backend_id)
        Rendezvous(2, patience).after_call(monkeypatch, apply_plan, "read_tree_gates")
        calls = [lambda pk=pk: reconcile_backend(pk) for pk in backends]
        results = run_concurrently(calls)
        assert not [result for result in results if isinstance(result, Exception)], results

    @staticmethod
    def _held_gpus() -> list[int]:
        return sorted(LeafUsage.objects.values_list("total_usage", flat=True))

    @staticmethod
    def _read_debt() -> object:
        tree = read_admission_tree([Cohort.objects.get(name="org").pk])
        return tree.columns[GPUS].debt(tree.index["cohort/org"])

    def test_without_the_lock_both_win(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def lock_nothing(ids: set[int]) -> list[int]:
            return sorted(set(cohort_roots(ids).values()))

        monkeypatch.setattr(apply_plan, "lock_cohort_trees", lock_nothing)
        self._race(monkeypatch, SURELY)
        assert (self._held_gpus(), self._read_debt()) == ([2, 2], 1)

    def test_with_the_lock_exactly_one_starts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._race(monkeypatch, BRIEFLY)
        assert (self._held_gpus(), self._read_debt()) == ([0, 2], 0)
        assert sorted(Workflow.objects.values_list("status", flat=True)) == ["PENDING", "RUNNING"]
        assert verify() == []

    def test_where_both_fit_both_start(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._race(monkeypatch, BRIEFLY, gpus=1)
        assert (self._held_gpus(), self._read_debt()) == ([1, 1], 0)


class TestTheLastGpuLentOfTwoClusters:
    """Cohort `org` owns 3 GPUs; a pool on each of two clusters wants 2 of them, and two agents dispatch at once."""

    def _race(self, monkeypatch: pytest.MonkeyPatch, patience: float) -> list[int]:
        world.apply_change(PutCohort(name="org", body={"quotas": [{"resource": "gpu", "nominal": 3}]}))
        rooms = []
        for name in ("left", "right"):
            room = AgentHarness.make(FakeCluster(namespaces=[name]), name, name=name, pool=name)
            world.apply_change(
                PatchPool(name=name, patch={"cohort": "org", "resources": {"gpu": {"guarantee": 0, "maximum": -1}}})
            )
            room.submit(gpus=2, priority=Priority.LOW)
            rooms.append(room)
        Rendezvous(2, patience).after_call(monkeypatch, dispatch_admission, "read_quota_tree")
        results = run_concurrently([room.run_agent for room in rooms])
        assert not [result for result in results if isinstance(result, Exception)], results
        return sorted(len(room.list_pods()) for room in rooms)

    def test_without_the_lock_both_are_dispatched(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def lock_nothing(ids: set[int]) -> list[int]:
            return sorted(set(cohort_roots(ids).values()))

        monkeypatch.setattr(dispatch_admission, "lock_cohort_trees", lock_nothing)
        assert self._race(monkeypatch, SURELY) == [1, 1]

    def test_with_the_lock_exactly_one_is_dispatched(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self._race(monkeypatch, BRIEFLY) == [0, 1]
        (waits,) = Group.objects.exclude(waiting_reason=None)
        assert waits.waiting_reason["code"] == "nothing_to_borrow"
        assert verify() == []


class TestTwoMovesThatTogetherFormACycle:
    """`a` moves below `b` while `b` moves below `a`: both read the tree before either writes."""

    def _race(self, monkeypatch: pytest.MonkeyPatch, patience: float) -> list[object]:
        for name in ("a", "b"):
            world.apply_change(PutCohort(name=name, body={}))
        Rendezvous(2, patience).after_call(monkeypatch, cohorts, "parse_cohort")
        Rendezvous(2, patience).after_call(monkeypatch, cohorts, "get_or_create_cohorts")
        moves = [lambda: world.apply_change(PatchCohort(name="a", patch={"parent": "b"}))]
        moves.append(lambda: world.apply_change(PatchCohort(name="b", patch={"parent": "a"})))
        return list(run_concurrently(moves))

    @staticmethod
    def _remove_locks(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cohorts, "lock_configuration", lambda: None)
        monkeypatch.setattr(cohorts, "lock_cohort_trees", sorted)

    @staticmethod
    def _parents() -> dict[str, str | None]:
        return dict(Cohort.objects.values_list("name", "parent__name"))

    def test_without_lock_and_trigger_the_cycle_is_stored_and_admits_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._remove_locks(monkeypatch)
        with without_triggers("pools_cohort", "no_cycle"):
            results = self._race(monkeypatch, SURELY)
        assert not [result for result in results if isinstance(result, Exception)], results
        assert self._parents() == {"a": "b", "b": "a"}
        world.make_pool("p", 4)
        world.apply_change(PatchPool(name="p", patch={"cohort": "a"}))
        world.submit_workflow(world.admin_actor(), "p", priority=Priority.LOW)
        reconcile_backend(Pool.objects.get(name="p").backend_id or 0)
        assert Workflow.objects.get().status == "PENDING"

    def test_without_the_lock_the_trigger_refuses_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._remove_locks(monkeypatch)
        (refused,) = [result for result in self._race(monkeypatch, SURELY) if isinstance(result, Exception)]
        assert isinstance(refused, Conflict)
        assert refused.details[0].code == "cohort_no_circle"
        assert sum(parent is None for parent in self._parents().values()) == 1

    def test_with_the_lock_one_is_refused_with_the_cycle(self, monkeypatch: pytest.MonkeyPatch) -> None:
        (refused,) = [result for result in self._race(monkeypatch, BRIEFLY) if isinstance(result, Exception)]
        assert isinstance(refused, BadInput)
        assert refused.details[0].code == "cycle"

    def test_raw_sql_waits_for_the_same_lock(self) -> None:
        """The trigger takes the configuration's lock, so two raw statements run one after the other."""
        for name in ("a", "b"):
            world.apply_change(PutCohort(name=name, body={}))

        def set_parent_by_sql(name: str, parent: str) -> None:
            with transaction.atomic():
                Cohort.objects.filter(name=name).update(parent=Cohort.objects.get(name=parent))

        results = run_concurrently([lambda: set_parent_by_sql("a", "b"), lambda: set_parent_by_sql("b", "a")])
        (refused,) = [result for result in results if result is not None]
        assert isinstance(refused, IntegrityError)
        assert "cycle" in str(refused)
