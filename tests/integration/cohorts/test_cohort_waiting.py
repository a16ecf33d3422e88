"""Dry runs of a limit or of a move name the waiting work that could start then, and work that no longer could."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from pools.domain.changes.cohorts import PutCohort
from pools.models import Backend
from pools.services.changes.dry_run import read_effect
from scheduling.domain.priorities import Priority
from scheduling.models import Workflow
from tests.integration.cohorts.conftest import create_cohorts, create_member_pool, gpu_quota_row
from tests.support import world
from tests.support.api_client import ApiClient
from tests.support.world import ModuleData, apply_change, reconcile, sign_in

pytestmark = pytest.mark.django_db
PROD = "/api/configs/cohort/prod"
TRY = {"dry_run": "True"}


def submit_low_work(pool: str, gpus: int, name: str) -> str:
    return world.submit_workflow(world.admin_actor(), pool, gpus, name=name, priority=Priority.LOW).name


def starting_and_blocked(answer: Any) -> tuple[list[str], list[str]]:
    assert answer.status == 200, answer.body
    return answer.body["could_start"], answer.body["could_no_longer_start"]


@pytest.fixture(scope="module")
def example_tree(module_data: ModuleData) -> None:
    """`serve` holds its 10 and borrows 4 of `train`, as much as `prod` may. Gangs of 2 and of 4 GPUs wait there."""
    with module_data():
        create_cohorts("corp 0", "  prod 0 borrow 4", "  research 0")
        create_member_pool("serve", "prod", 10)
        create_member_pool("train", "research", 16)
        submit_low_work("serve", 14, "runs")
        reconcile()
        assert [submit_low_work("serve", 2, "two"), submit_low_work("serve", 4, "four")] == ["two-1", "four-1"]
        reconcile()


def test_dry_run_of_a_limit(example_tree: None, admin: ApiClient) -> None:
    def dry_run_limit(gpus: int | None) -> tuple[list[str], list[str]]:
        return starting_and_blocked(
            admin("PUT", PROD, {"parent": "corp", "quotas": [gpu_quota_row(0, gpus)]}, query=TRY)
        )

    assert dry_run_limit(4) == ([], [])
    assert dry_run_limit(6) == (["two-1"], [])
    assert dry_run_limit(10) == (["two-1", "four-1"], [])
    assert dry_run_limit(2) == ([], [])
    assert sorted(Workflow.objects.filter(status="PENDING").values_list("name", flat=True)) == ["four-1", "two-1"]


def test_work_that_can_never_start(example_tree: None, admin: ApiClient) -> None:
    """`train` uses its own quota, and a gang of 20 GPUs waits there to borrow from `serve`; it can never start if
    `research` may not borrow."""
    submit_low_work("train", 20, "large")
    reconcile()
    body = {"parent": "corp", "quotas": [gpu_quota_row(0, 3)]}
    assert starting_and_blocked(admin("PUT", "/api/configs/cohort/research", body, query=TRY)) == ([], ["large-1"])
    wider = body | {"quotas": [gpu_quota_row(0, 4)]}
    assert starting_and_blocked(admin("PUT", "/api/configs/cohort/research", wider, query=TRY)) == ([], [])
    apply_change(PutCohort(name="research", body=body))
    again = admin("PUT", "/api/configs/cohort/research", body, query=TRY)
    assert starting_and_blocked(again) == ([], []), "it was so before"


def test_admitted_work_that_does_not_run_yet(example_tree: None, admin: ApiClient) -> None:
    """Work that was admitted and does not run yet loses its admission."""
    Backend.objects.update(offline=True)
    apply_change(PutCohort(name="prod", body={"parent": "corp", "quotas": [gpu_quota_row(0, 6)]}))
    Backend.objects.update(offline=False)
    tight = {"parent": "corp", "quotas": [gpu_quota_row(0, 4)]}
    assert starting_and_blocked(admin("PUT", PROD, tight, query=TRY)) == ([], ["two-1"])


def test_dry_run_of_a_move(example_tree: None, admin: ApiClient) -> None:
    """Alone, `serve` cannot borrow; below a cohort that owns 6, both start."""
    create_cohorts("rich 6")
    assert starting_and_blocked(admin("PATCH", PROD, {"parent": "rich", "quotas": [gpu_quota_row(0)]}, query=TRY)) == (
        ["two-1"],
        [],
    )
    submit_low_work("serve", 13, "large")
    assert starting_and_blocked(admin("PATCH", PROD, {"parent": None, "quotas": [gpu_quota_row(0)]}, query=TRY)) == (
        [],
        ["large-1"],
    )


def test_invisible_work_is_a_number(example_tree: None) -> None:
    wide = {"parent": "corp", "quotas": [gpu_quota_row(0, 6)]}

    def dry_run_change() -> object:
        return apply_change(PutCohort(name="prod", body=wide))

    effect = read_effect(dry_run_change, read_state=dict, actor=world.make_user("sam", "osmo-train-admin"))
    assert (effect["could_start"], effect["could_start_elsewhere"]) == ([], 1)
    assert "two-1" not in str(effect)


def test_the_page_of_the_effect_lists_it(example_tree: None) -> None:
    page = preview_page("prod", parent="corp", nominal="0", borrowing_limit="6")
    assert "Could start" in page
    assert ">two-1</a>" in page
    assert "Could no longer start" not in page
    assert "becomes reclaimable" not in page
    apply_change(PutCohort(name="prod", body={"parent": "corp", "quotas": [gpu_quota_row(4, 4)]}))
    page = preview_page("prod", parent="corp", nominal="0", borrowing_limit="4")
    assert "LOW work that becomes reclaimable" in page
    assert ">runs-1</a>" in page


def preview_page(name: str, **typed: str) -> str:
    """The preview page of a cohort's form with this input."""
    form = {"lending_limit": "", "weight": "1", "others": "", **typed}
    return post_form(reverse("admin:pools_cohort_configure", args=[name]), form)


def post_form(address: str, typed: dict[str, str]) -> str:
    client = sign_in("root-admin")
    return client.post(address, {**typed, "step": "preview"}, follow=True).content.decode()


DEBTS: list[tuple[dict[str, Any], list[tuple[str, str, int, int]]]] = [
    ({"borrowing_limit": 1}, [("serve", "pool", 0, 3)]),
    ({"borrowing_limit": 4}, []),
    ({"cohort": None, "borrowing_limit": None}, []),
    ({"resources": {"gpu": {"guarantee": 8}}}, [("prod", "cohort", 0, 2)]),
]


def test_a_pool_s_dry_run_names_the_debts_of_its_cohorts(example_tree: None, admin: ApiClient) -> None:
    for patch, debts in DEBTS:
        one = admin("PATCH", "/api/configs/pool/serve", patch, query=TRY)
        assert [(each["name"], each["kind"], each["before"], each["after"]) for each in one.body["debts"]] == debts
        configs = one.body["after"]["configs"]
        many = admin("PUT", "/api/configs/pool", {"configs": {"serve": configs}}, query=TRY)
        assert many.body["debts"] == one.body["debts"]


def test_low_work_that_more_lenders_may_reclaim(admin: ApiClient) -> None:
    """`taker` borrows 4 of what `own` owns itself: no pool outside may reclaim them until `own` owns less."""
    create_cohorts("top 0", "  own 6", "  outside 0")
    for pool, cohort, quota in (("taker", "own", 10), ("small", "own", 2), ("giver", "outside", 16)):
        create_member_pool(pool, cohort, quota)
    for pool, gpus, name in (("taker", 14, "over"), ("small", 1, "within"), ("giver", 3, "far")):
        submit_low_work(pool, gpus, name)
    reconcile()

    def reclaimable_names(address: str, body: dict[str, Any]) -> list[str]:
        answer = admin("PATCH", address, body, query=TRY).body
        assert answer["may_be_reclaimed"] == [], "nobody wants it now"
        found: list[str] = answer["becomes_reclaimable"]
        return found

    assert reclaimable_names("/api/configs/cohort/own", {"quotas": [gpu_quota_row(3)]}) == [], "15 of 15"
    assert reclaimable_names("/api/configs/cohort/own", {"quotas": [gpu_quota_row(2)]}) == ["over-1"]
    assert reclaimable_names("/api/configs/cohort/own", {"quotas": [gpu_quota_row(8)]}) == []
    assert reclaimable_names("/api/configs/cohort/top", {"quotas": [gpu_quota_row(5)]}) == []
    half = {"resources": {"gpu": {"guarantee": 0}}}
    assert reclaimable_names("/api/configs/pool/small", half) == ["within-1"], "own keeps within its own 16"
    assert reclaimable_names("/api/configs/pool/taker", {"cohort": "outside"}) == []
    typed = {"guarantee": "0", "maximum": "-1", "weight": "1", "cohort": "own"}
    page = post_form(reverse("admin:pools_pool_configure", args=["small"]), typed)
    assert "LOW work that becomes reclaimable" in page
    assert ">within-1</a>" in page
