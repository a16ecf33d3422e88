"""The pages of approvals, without a browser: ask instead of a refusal, decide with the effect in view."""

from __future__ import annotations

import pytest
from django.test import Client

from pools.domain.changes.approvals import Withdraw
from pools.domain.changes.pools import PatchPool
from pools.models import ApprovalRequest, Pool
from tests.integration.admin.conftest import SignedIn, actor_named, confirm_change
from tests.support.world import ModuleData, apply_change

RESIZE = "/pools/team/subpools/a/resize"
LIST = "/activity/approvals"


@pytest.fixture(scope="module")
def limited_once(pools_and_users_once: None, module_data: ModuleData) -> None:
    with module_data():
        apply_change(PatchPool(name="team", patch={"approval_above": 10}))
        apply_change(PatchPool(name="team-admin", patch={"approval_above": 1}))


@pytest.fixture
def limited(limited_once: None, as_person: SignedIn) -> SignedIn:
    """Changes of `team` above 10 GPUs need an approval, and of `team-admin` above 1."""
    return as_person


def _ask(person: Client, quota: str = "50", address: str = RESIZE, **typed: str) -> ApprovalRequest:
    """A page asks instead of the change, which it refuses with the input kept."""
    typed = typed or {"quota": quota, "description": "demo"}
    preview = person.post(address, {**typed, "step": "preview"}, follow=True)
    assert "Ask for approval" in preview.content.decode()
    refused = person.post(address, {**preview.context["hidden"], "step": "confirm"})
    assert (refused.status_code, "approval of a second person" in refused.content.decode()) == (400, True)
    assert {name: refused.context["form"][name].value() for name in typed} == typed
    answer = person.post(address, {**preview.context["hidden"], "step": "ask"})
    row = ApprovalRequest.objects.latest("pk")
    assert (answer.status_code, answer["Location"]) == (302, f"{LIST}/{row.pk}")
    return row


def test_ask_and_approve(limited: SignedIn) -> None:
    chief, root = limited("chief"), limited("root")
    row = _ask(chief)
    assert (row.arguments["quota"], row.description, row.requested_by) == (50, "demo", "chief")
    page = chief.get(f"{LIST}/{row.pk}").content.decode()
    assert "Withdraw" in page and "Preview and approve" not in page
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


def test_who_sees_and_who_decides_a_request(limited: SignedIn) -> None:
    chief = limited("chief")
    row = _ask(chief)
    for person, status in {"viewer": 200, "worker": 404, "stranger": 404, "prefix": 404}.items():
        assert limited(person).get(f"{LIST}/{row.pk}").status_code == status, person
        assert limited(person).get(LIST).status_code == 200, person
    assert chief.get(f"{LIST}/{row.pk}/approve/-/preview").status_code == 403
    assert chief.post(f"{LIST}/{row.pk}/approve", {"step": "confirm"}, follow=True).status_code == 403
    assert chief.post(f"{LIST}/{row.pk}/reject", {}).status_code == 400
    assert Pool.objects.get(name="team--a").last_quota == 30


def test_reject_and_withdraw(limited: SignedIn) -> None:
    root, chief = limited("root"), limited("chief")
    row = _ask(chief)
    assert root.post(f"{LIST}/{row.pk}/reject", {"description": "too much"}).status_code == 302
    row.refresh_from_db()
    assert (row.state, row.decision_note) == ("rejected", "too much")
    assert "too much" in chief.get(f"{LIST}/{row.pk}").content.decode()
    row = _ask(chief, "60")
    assert chief.post(f"{LIST}/{row.pk}/withdraw", {}).status_code == 302
    row.refresh_from_db()
    assert row.state == "withdrawn"
    row = _ask(chief, "70")
    preview = root.get(f"{LIST}/{row.pk}/approve/-/preview")
    apply_change(Withdraw(approval=row.pk), actor=actor_named("chief"))
    answer = root.post(f"{LIST}/{row.pk}/approve", {**preview.context["hidden"], "step": "confirm"})
    assert "withdrawn by chief already" in answer.content.decode()


def test_the_limit_is_a_field_and_its_removal_and_an_archive_take_two_people(limited: SignedIn) -> None:
    root, page = limited("root"), "/pools/team/configuration"
    assert root.get(page).context["form"]["approval_above"].value() == 10
    numbers = {"guarantee": "100", "maximum": "-1", "weight": "1"}
    assert confirm_change(root, page, **numbers, approval_above="5").status_code == 302
    assert Pool.objects.get(name="team").config["approval_above"] == 5
    assert _ask(root, address=page, **numbers, approval_above="").subject == "team"
    assert Pool.objects.get(name="team").config["approval_above"] == 5
    row = _ask(root, address="/pools/team-admin/archive", description="merged")
    assert (row.service, row.subject) == ("delete_pool", "team-admin")
    assert Pool.objects.filter(name="team-admin", archived=False).exists()
