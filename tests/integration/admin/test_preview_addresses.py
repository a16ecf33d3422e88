"""A preview has an address of its own: Back and reload show it again, and reading it changes nothing."""

from __future__ import annotations

from pools.domain.changes.subpools import DeleteSubpool
from pools.models import AuditEntry, Pool
from tests.integration.admin.conftest import SignedIn, actor_named, submit_workflow
from tests.support.world import apply_change, reconcile

RESIZE = "/pools/team/subpools/a/resize"


def test_a_preview_is_reached_by_a_redirect_and_can_be_read_again(as_person: SignedIn) -> None:
    chief = as_person("chief")
    sent = chief.post(RESIZE, {"quota": "40", "description": "for Friday", "step": "preview"})
    assert sent.status_code == 302
    address = sent.headers["Location"]
    assert address.startswith(f"{RESIZE}/-/preview?")
    before = AuditEntry.objects.count()
    for _ in range(2):
        page = chief.get(address)
        assert page.status_code == 200
        assert page.context["hidden"]["quota"] == "40"
    assert AuditEntry.objects.count() == before
    assert Pool.objects.get(name="team--a").last_quota == 30
    done = chief.post(RESIZE, {**page.context["hidden"], "step": "confirm"})
    assert done.status_code == 302
    assert Pool.objects.get(name="team--a").last_quota == 40
    assert chief.get(address).status_code == 200, "Back after the change"


def test_the_input_can_be_changed_and_is_refused_and_hidden_as_the_form_is(as_person: SignedIn) -> None:
    chief = as_person("chief")
    page = chief.get(f"{RESIZE}/-/preview?quota=40&description=why")
    again = chief.post(RESIZE, {**page.context["hidden"], "step": "edit"}, follow=True)
    assert again.redirect_chain[0][0].startswith(f"{RESIZE}?")
    assert again.context["form"]["quota"].value() == "40"
    assert again.context["form"]["description"].value() == "why"
    refused = chief.get(f"{RESIZE}/-/preview?quota=999")
    assert refused.status_code == 400
    assert "are free to give" in refused.context["form"].errors["quota"][0]
    assert as_person("worker").get(f"{RESIZE}/-/preview?quota=40").status_code == 403
    assert as_person("stranger").get(f"{RESIZE}/-/preview?quota=40").status_code == 404


def test_a_draining_subpool_has_no_form(as_person: SignedIn) -> None:
    submit_workflow("team--a", gpus=8)
    reconcile()
    apply_change(DeleteSubpool(parent="team", subpool_name="a"), actor=actor_named("root"))
    chief = as_person("chief")
    preview = chief.get(f"{RESIZE}/-/preview?quota=4")
    for answer in (chief.get(RESIZE), preview, chief.post(RESIZE, {"step": "preview"})):
        assert answer.status_code == 409
        text = answer.content.decode()
        assert "team--a is DELETING" in text
        assert "cannot be resumed" in text
        assert 'name="quota"' not in text
    assert Pool.objects.get(name="team--a").subpool_state == "DELETING"


def test_a_quota_is_resized_from_the_page_of_the_pool(as_person: SignedIn) -> None:
    chief = as_person("chief")
    page = chief.get("/pools/team").content.decode()
    assert f'action="{RESIZE}/-/preview"' in page
    assert 'name="quota"' in page
    assert f'action="{RESIZE}/-/preview"' not in as_person("worker").get("/pools/team").content.decode()
