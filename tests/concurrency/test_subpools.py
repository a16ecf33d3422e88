"""Races about quotas. Each test first shows the failure: without the lock and without the database constraint the
quotas exceed the pool; with the constraint alone the commit is refused; with the lock the refusal has the numbers."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from itertools import count
from threading import Event
from time import sleep
from typing import Any

import pytest

from pools.admin import done_changes
from pools.admin.confirm_flow import ConfirmFlow
from pools.domain.changes.pools import PatchPool
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool
from pools.domain.errors import BadInput, Busy, Conflict, Stale
from pools.models import AuditEntry, Pool
from pools.representations import subpool as subpool_answers
from pools.selectors.quotas.pool_balance import read_balance
from pools.services.configuration import pool_configuration, subpools
from pools.services.configuration.subpools import SubpoolResult
from scheduling.services.verify import verify
from tests.support import world
from tests.support.races import Rendezvous, remove_tree_lock, without_triggers
from tests.support.threads import run_concurrently

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]


def _create(name: str, quota: int) -> SubpoolResult:
    return world.apply_change(CreateSubpool(parent="team", subpool_name=name, quota=quota))


class TestTwoCreatesThatTogetherExceedTheParent:
    def _race(self, monkeypatch: pytest.MonkeyPatch) -> list[object]:
        world.make_pool("team", 100)
        Rendezvous(2).after_call(monkeypatch, subpools, "read_balance")
        return list(run_concurrently([lambda: _create("a", 60), lambda: _create("b", 60)]))

    def test_without_lock_and_constraint_both_succeed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        remove_tree_lock(monkeypatch, subpools)
        with without_triggers("pools_pool", "subpools_within_guarantee"):
            results = self._race(monkeypatch)
        assert all(isinstance(result, SubpoolResult) for result in results)
        assert read_balance(Pool.objects.get(name="team")).allocated == 120
        assert [difference.code for difference in verify()] == ["promises"]

    def test_without_lock_the_constraint_refuses_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        remove_tree_lock(monkeypatch, subpools)
        results = self._race(monkeypatch)
        (refused,) = [result for result in results if isinstance(result, Exception)]
        assert isinstance(refused, Conflict)
        assert refused.details[0].code == "slices_within_guarantee"
        assert read_balance(Pool.objects.get(name="team")).allocated == 60

    def test_with_the_lock_one_is_refused_with_the_numbers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        results = self._race(monkeypatch)
        (refused,) = [result for result in results if isinstance(result, Exception)]
        assert isinstance(refused, BadInput)
        assert refused.details[0].as_dict()["free"] == 40
        assert verify() == []


class TestCreateAgainstParentCut:
    """A subpool of 60 is created while the pool of 100 is cut to 50: both have read the pool before either writes."""

    def _race(self, monkeypatch: pytest.MonkeyPatch) -> list[object]:
        world.make_pool("team", 100)
        meeting = (
            Rendezvous(2)
            .after_call(monkeypatch, subpools, "read_balance")
            .after_call(monkeypatch, pool_configuration, "read_balances")
        )
        assert isinstance(meeting, Rendezvous)
        patch = {"resources": {"gpu": {"guarantee": 50}}}
        cut = lambda: world.apply_change(PatchPool(name="team", patch=patch))  # noqa: E731
        return list(run_concurrently([lambda: _create("a", 60), cut]))

    @staticmethod
    def _remove_lock(monkeypatch: pytest.MonkeyPatch) -> None:
        remove_tree_lock(monkeypatch, subpools)
        plain_read = lambda ids: list(Pool.objects.filter(pk__in=ids))  # noqa: E731
        monkeypatch.setattr(pool_configuration, "lock_pool_trees", plain_read)

    def test_without_lock_and_constraint_the_quotas_exceed_the_pool(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._remove_lock(monkeypatch)
        with without_triggers("pools_pool", "subpools_within_guarantee"):
            results = self._race(monkeypatch)
        assert not [result for result in results if isinstance(result, Exception)]
        assert read_balance(Pool.objects.get(name="team")).unallocated == -10
        assert [difference.code for difference in verify()] == ["promises"]

    def test_without_lock_the_constraint_refuses_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._remove_lock(monkeypatch)
        (refused,) = [result for result in self._race(monkeypatch) if isinstance(result, Exception)]
        if not isinstance(refused, Busy):  # without the lock the two may also deadlock; the database ends one
            assert isinstance(refused, Conflict)
            assert refused.details[0].code == "slices_within_guarantee"
        assert read_balance(Pool.objects.get(name="team")).unallocated >= 0
        assert verify() == []

    def test_with_the_lock_the_second_is_refused_with_the_numbers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        (refused,) = [result for result in self._race(monkeypatch) if isinstance(result, Exception)]
        assert isinstance(refused, BadInput)
        assert refused.details[0].code in {"quota_exceeds_parent", "guarantee_below_slices"}
        assert read_balance(Pool.objects.get(name="team")).unallocated >= 0
        assert verify() == []


class TestTwoDeletes:
    def _race(self, monkeypatch: pytest.MonkeyPatch) -> list[object]:
        world.make_pool("team", 100, a=60)
        world.submit_workflow(world.admin_actor(), "team--a")
        Rendezvous(2).after_call(monkeypatch, subpools, "_find_subpool")
        call = lambda: world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))  # noqa: E731
        return list(run_concurrently([call, call]))

    def test_without_the_lock_both_report_success(self, monkeypatch: pytest.MonkeyPatch) -> None:
        remove_tree_lock(monkeypatch, subpools)
        assert all(isinstance(result, SubpoolResult) for result in self._race(monkeypatch))
        assert AuditEntry.objects.filter(action="subpool.deleting").count() == 1

    def test_with_the_lock_one_reads_the_change_of_the_other(self, monkeypatch: pytest.MonkeyPatch) -> None:
        results = self._race(monkeypatch)
        (refused,) = [result for result in results if isinstance(result, Exception)]
        assert isinstance(refused, Conflict)
        assert "DELETING" in refused.message
        assert verify() == []


class TestDeleteAgainstRecreate:
    """One user deletes the subpool as it was read (version 1) while another user deletes and recreates it."""

    def _race(self, monkeypatch: pytest.MonkeyPatch) -> tuple[object, object]:
        world.make_pool("team", 100, a=60)
        seen = Pool.objects.get(name="team--a").version
        checked, replaced = Rendezvous(2), Rendezvous(2)
        real = subpools._check_version

        def check_then_wait(row: Pool, expected: int | None) -> None:
            real(row, expected)
            if expected is not None:
                checked.wait()
                replaced.wait()

        monkeypatch.setattr(subpools, "_check_version", check_then_wait)

        def replace_subpool() -> SubpoolResult:
            checked.wait()
            world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))
            made = _create("a", 80)
            replaced.wait()
            return made

        first, second = run_concurrently(
            [
                lambda: world.apply_change(DeleteSubpool(parent="team", subpool_name="a"), expected_version=seen),
                replace_subpool,
            ]
        )
        return first, second

    def test_without_the_lock_the_new_subpool_is_deleted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        remove_tree_lock(monkeypatch, subpools)
        deleted, made = self._race(monkeypatch)
        assert isinstance(deleted, SubpoolResult)
        assert isinstance(made, SubpoolResult)
        assert Pool.objects.get(name="team--a").subpool_state == "ARCHIVED"

    def test_with_the_lock_the_new_subpool_stays(self, monkeypatch: pytest.MonkeyPatch) -> None:
        deleted, made = self._race(monkeypatch)
        assert isinstance(deleted, SubpoolResult), "it came first"
        assert isinstance(made, Conflict), "the replacement's own delete met an ARCHIVED subpool"
        made = _create("a", 80)
        with pytest.raises(Stale):
            world.apply_change(DeleteSubpool(parent="team", subpool_name="a"), expected_version=1)
        assert made.reactivated
        assert verify() == []


@pytest.mark.parametrize("locked", [False, True], ids=["lock off", "lock on"])
def test_32_one_gpu_subpools_on_20_free_gpus(locked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly 20 win. Without lock and constraint more do."""
    world.make_pool("team", 32, others=12)
    if not locked:
        remove_tree_lock(monkeypatch, subpools)
        Rendezvous(32, seconds=10).after_call(monkeypatch, subpools, "read_balance")
    with nullcontext() if locked else without_triggers("pools_pool", "subpools_within_guarantee"):
        results = run_concurrently([lambda n=n: _create(f"s{n}", 1) for n in range(32)])  # type: ignore[misc]
    won = [result for result in results if isinstance(result, SubpoolResult)]
    if locked:
        assert len(won) == 20
        assert {type(result) for result in results if isinstance(result, Exception)} == {BadInput}
        assert verify() == []
    else:
        assert len(won) == 32
        assert read_balance(Pool.objects.get(name="team")).unallocated == -12


@pytest.mark.parametrize(
    ("address", "typed"),
    [
        ("/pools/team/subpools/create", {"subpool_name": "fresh", "quota": "1"}),
        ("/pools/team/subpools/a/resize", {"quota": "20"}),
    ],
)
def test_a_confirmation_that_arrives_twice_at_once_is_made_once(address: str, typed: dict[str, str]) -> None:
    """A double click without scripts, or a proxy that repeats a request: both answers say what was done."""
    world.make_pool("team", 100, a=30)
    world.make_user("chief", "osmo-team-admin")
    browsers = [world.sign_in("chief") for _ in range(2)]
    preview = browsers[0].post(address, {**typed, "step": "preview"}, follow=True)
    confirmed = {**preview.context["hidden"], "step": "confirm"}
    entries = AuditEntry.objects.count()
    answers = run_concurrently([partial(browser.post, address, confirmed) for browser in browsers])
    assert [getattr(each, "url", each) for each in answers] == ["/pools/team"] * 2
    assert AuditEntry.objects.count() == entries + 1


def test_a_subpool_that_is_made_while_its_pool_is_read_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page compares what was seen without a snapshot; it fell over the row whose numbers it had not read."""
    pool = world.make_pool("team", 100, a=30)
    read = subpool_answers.read_balance

    def read_before_another(root: Pool) -> Any:
        facts = read(root)
        world.make_subpool("team", "late", 1)
        return facts

    monkeypatch.setattr(subpool_answers, "read_balance", read_before_another)
    assert [each["name"] for each in subpool_answers.pool_tree_body(pool)["subpools"]] == ["team--a"]


def test_the_first_of_two_confirmations_waits_for_the_one_that_overtakes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds the change made before the other request has said so."""
    world.make_pool("team", 100, a=30)
    world.make_user("chief", "osmo-team-admin")
    browsers = [world.sign_in("chief") for _ in range(2)]
    address = "/pools/team/subpools/a/resize"
    preview = browsers[0].post(address, {"quota": "20", "step": "preview"}, follow=True)
    confirmed = {**preview.context["hidden"], "step": "confirm"}
    make, keep, is_overtaken, order = ConfirmFlow._make, done_changes.keep_done, Event(), count()

    def make_second_first(flow: Any, *arguments: Any) -> Any:
        if next(order) == 0:
            assert is_overtaken.wait(10)
            return make(flow, *arguments)
        result = make(flow, *arguments)
        is_overtaken.set()
        return result

    def keep_late(*arguments: Any) -> None:
        sleep(0.3)
        keep(*arguments)

    monkeypatch.setattr(ConfirmFlow, "_make", make_second_first)
    monkeypatch.setattr(done_changes, "keep_done", keep_late)
    answers = run_concurrently([partial(browser.post, address, confirmed) for browser in browsers])
    assert [getattr(each, "url", each) for each in answers] == ["/pools/team"] * 2
