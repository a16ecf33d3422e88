"""The pages of approvals, without a browser: ask instead of a refusal, decide with the effect in view."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from pools.domain.changes.approvals import Withdraw
from pools.domain.changes.pools import PatchPool
from pools.models import ApprovalRequest, Pool
from tests.integration.admin.conftest import actor_named, confirm_change
from tests.support.world import ModuleData, apply_change

RESIZE = "/pools/team/subpools/a/resize"
LIST = "/activity/approvals"


@pytest.fixture(scope="module")
def limited_once(pools_and_users_once: None, module_data: ModuleData) -> None:
    with module_data():
        apply_change(PatchPool(name="team", patch={"approval_above": 10}))


@pytest.fixture
def limited(limited_once: None, as_person: Callable[[str], Client]) -> Callable[[str], Client]:
    """Changes of `team` above 10 GPUs need an approval."""
    return as_person


def _ask(person: Client, quota: str = "50") -> ApprovalRequest:
    preview = person.post(RESIZE, {"quota": quota, "description": "demo", "step": "preview"}, follow=True)
    assert "Ask for approval" in preview.content.decode()
    assert preview.context["nodes"]
    answer = person.post(RESIZE, {**preview.context["hidden"], "step": "ask"})
    row = ApprovalRequest.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, f"{LIST}/{row.pk}")
    return row


def test_ask_and_approve(limited: Callable[[str], Client]) -> None:
    chief, root = limited("chief"), limited("root")
    row = _ask(chief)
    assert (row.arguments["quota"], row.description, row.requested_by) == (50, "demo", "chief")
    assert "Withdraw" in chief.get(f"{LIST}/{row.pk}").content.decode()
    assert "Preview and approve" not in chief.get(f"{LIST}/{row.pk}").content.decode()
    assert "1 change waits for your approval" in root.get("/").content.decode()
    assert "for your approval" not in chief.get("/").content.decode()
    assert "Preview and approve" in root.get(f"{LIST}/{row.pk}").content.decode()
    preview = root.get(f"{LIST}/{row.pk}/approve/-/preview")
    shown = {node.label: (node.quota_before, node.quota_after) for node in preview.context["nodes"]}
    assert shown["a"] == (30, 50)
    done = root.post(f"{LIST}/{row.pk}/approve", {**preview.context["hidden"], "step": "confirm"})
    assert done.status_code == 302
    assert Pool.objects.get(name="team--a").last_quota == 50
    assert f"{LIST}/{row.pk}" not in root.get(LIST).content.decode()
    assert f"{LIST}/{row.pk}" in root.get(f"{LIST}?state=approved").content.decode()


def test_the_confirmation_without_the_request_is_refused_and_keeps_the_input(limited: Callable[[str], Client]) -> None:
    chief = limited("chief")
    preview = chief.post(RESIZE, {"quota": "50", "step": "preview"}, follow=True)
    answer = chief.post(RESIZE, {**preview.context["hidden"], "step": "confirm"})
    assert answer.status_code == 400
    assert answer.context["form"]["quota"].value() == "50"
    assert "approval of a second person" in answer.content.decode()
    assert Pool.objects.get(name="team--a").last_quota == 30


def test_the_requester_cannot_approve_by_address(limited: Callable[[str], Client]) -> None:
    chief = limited("chief")
    row = _ask(chief)
    assert chief.get(f"{LIST}/{row.pk}/approve/-/preview").status_code == 403
    assert chief.post(f"{LIST}/{row.pk}/approve", {"step": "confirm"}, follow=True).status_code == 403
    assert chief.post(f"{LIST}/{row.pk}/reject", {}).status_code == 400
    assert Pool.objects.get(name="team--a").last_quota == 30


@pytest.mark.parametrize(("person", "status"), [("viewer", 200), ("worker", 404), ("stranger", 404), ("prefix", 404)])
def test_people_who_see_a_request(limited: Callable[[str], Client], person: str, status: int) -> None:
    row = _ask(limited("chief"))
    assert limited(person).get(f"{LIST}/{row.pk}").status_code == status
    assert limited(person).get(LIST).status_code == 200


def test_reject_and_withdraw(limited: Callable[[str], Client]) -> None:
    row = _ask(limited("chief"))
    assert limited("root").post(f"{LIST}/{row.pk}/reject", {"description": "too much"}).status_code == 302
    row.refresh_from_db()
    assert (row.state, row.decision_note) == ("rejected", "too much")
    assert "too much" in limited("chief").get(f"{LIST}/{row.pk}").content.decode()
    withdrawn = limited("chief").post(RESIZE, {"quota": "60", "step": "preview"}, follow=True)
    limited("chief").post(RESIZE, {**withdrawn.context["hidden"], "step": "ask"})
    second = ApprovalRequest.objects.latest("pk")
    assert limited("chief").post(f"{LIST}/{second.pk}/withdraw", {}).status_code == 302
    second.refresh_from_db()
    assert second.state == "withdrawn"


def test_a_request_that_ended_meanwhile_says_so(limited: Callable[[str], Client]) -> None:
    row = _ask(limited("chief"))
    preview = limited("root").get(f"{LIST}/{row.pk}/approve/-/preview")
    apply_change(Withdraw(approval=row.pk), actor=actor_named("chief"))
    answer = limited("root").post(f"{LIST}/{row.pk}/approve", {**preview.context["hidden"], "step": "confirm"})
    assert "withdrawn by chief already" in answer.content.decode()


def test_the_limit_is_a_field_of_the_configuration(limited: Callable[[str], Client]) -> None:
    root, page = limited("root"), "/pools/team/configuration"
    assert root.get(page).context["form"]["approval_above"].value() == 10
    numbers = {"guarantee": "100", "maximum": "-1", "weight": "1"}
    assert confirm_change(root, page, **numbers, approval_above="5").status_code == 302
    assert Pool.objects.get(name="team").config["approval_above"] == 5
    preview = root.post(page, {**numbers, "approval_above": "", "step": "preview"}, follow=True)
    root.post(page, {**preview.context["hidden"], "step": "ask"})
    assert ApprovalRequest.objects.get().subject == "team"
    assert Pool.objects.get(name="team").config["approval_above"] == 5


def test_a_pool_with_a_limit_is_archived_by_two_people(as_person: Callable[[str], Client]) -> None:
    apply_change(PatchPool(name="team-admin", patch={"approval_above": 1}))
    root, page = as_person("root"), "/pools/team-admin/archive"
    preview = root.post(page, {"step": "preview"}, follow=True)
    assert "Ask for approval" in preview.content.decode()
    assert root.post(page, {**preview.context["hidden"], "step": "confirm"}).status_code == 400
    assert not ApprovalRequest.objects.exists()
    answer = root.post(page, {**preview.context["hidden"], "step": "ask"})
    row = ApprovalRequest.objects.get()
    assert (answer.status_code, row.service, row.subject) == (302, "delete_pool", "team-admin")
    assert Pool.objects.filter(name="team-admin", archived=False).exists()
