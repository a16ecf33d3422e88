"""The preview of a pool's configuration names every field that changes, its neighbours, and a promise without GPUs."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from pools.admin.configuration.pool_changes import CreatePoolForm
from pools.domain.changes.cohorts import CreateCohort
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.changes.pools import PatchPool, PutPool
from pools.models import Backend, Pool
from tests.integration.admin.conftest import SignedIn, confirm_change
from tests.support.world import apply_change, make_user, sign_in

ADDRESS = "/pools/other/configuration"
TYPED = {"guarantee": "50", "maximum": "-1", "weight": "1", "cohort": "org", "lending_limit": "8"}


@pytest.fixture
def lenders(pools_and_users: None) -> None:
    """The pools `other` and `team` in one cohort; `other` lends 8 of its 50 GPUs."""
    apply_change(PatchPool(name="team", patch={"cohort": "org"}))
    apply_change(PatchPool(name="other", patch={"cohort": "org", "lending_limit": 8}))


def _preview(client: Client, **typed: str) -> Any:
    answer = client.post(ADDRESS, {**TYPED, **typed, "step": "preview"}, follow=True)
    assert answer.status_code == 200, answer.content.decode()
    return answer


def _dry_run(client: Client, patch: dict[str, Any]) -> dict[str, Any]:
    answer = client.patch(
        "/api/configs/pool/other?dry_run=True", {"configs_dict": patch}, content_type="application/json"
    )
    assert answer.status_code == 200, answer.content.decode()
    body: dict[str, Any] = answer.json()
    return body


def test_a_lending_limit_is_named_with_the_loss_of_the_neighbour(lenders: None, as_person: SignedIn) -> None:
    root = as_person("root")
    page = _preview(root, lending_limit="0")
    text = page.content.decode()
    assert "Lending limit" in text
    assert page.context["effect"]["changes"] == [{"path": "lending_limit", "before": 8, "after": 0}]
    (team,) = [each for each in page.context["effect"]["neighbours"] if each["name"] == "team"]
    assert team["numbers"]["available"] == {"before": 108, "after": 100}
    assert "Only the numbers below change" not in text
    assert root.post(ADDRESS, {**page.context["hidden"], "step": "confirm"}).status_code == 302
    assert Pool.objects.get(name="other").lending_limit == 0


def test_every_field_is_named(lenders: None, as_person: SignedIn) -> None:
    typed = {"weight": "3", "borrowing_limit": "2", "about": "for speech", "maximum": "60", "maintenance": "on"}
    changes = _preview(as_person("root"), **typed).context["effect"]["changes"]
    assert {each["path"]: (each["before"], each["after"]) for each in changes} == {
        "resources.gpu.weight": (1, 3), "borrowing_limit": (None, 2), "description": ("", "for speech"),
        "resources.gpu.maximum": (-1, 60), "enable_maintenance": (False, True),
    }  # fmt: skip


def test_leaving_a_cohort_names_the_cohort_and_all_its_nodes(lenders: None, as_person: SignedIn) -> None:
    effect = _dry_run(as_person("root"), {"cohort": None, "lending_limit": None})
    assert {"path": "cohort", "before": "org", "after": None} in effect["changes"]
    found = {(each["kind"], each["name"]) for each in effect["neighbours"]}
    assert {("cohort", "org"), ("pool", "team"), ("pool", "other")} <= found


def test_a_change_of_a_cohort_names_its_fields(lenders: None, as_person: SignedIn) -> None:
    root = as_person("root")
    answer = root.put(
        "/api/configs/cohort/org?dry_run=True",
        {"parent": None, "quotas": [{"flavor": "default", "resource": "gpu", "nominal": 4}], "weight": 2},
        content_type="application/json",
    )
    paths = {each["path"] for each in answer.json()["changes"]}
    assert {"quotas.default/gpu.nominal", "weight"} <= paths
    assert not paths & {"version", "nodes", "pools", "cohorts"}
    typed = {"parent": "", "nominal": "4", "weight": "2", "step": "preview"}
    page = root.post("/cohorts/org/configuration", typed, follow=True)
    assert {each["path"] for each in page.context["effect"]["changes"]} >= {"weight", "quotas.default/gpu.nominal"}
    assert "Fields that change" in page.content.decode()


def test_a_promise_beyond_the_nodes_is_a_warning_everywhere(as_person: SignedIn) -> None:
    root = as_person("root")  # 160 GPUs; promised are 100 + 50 + 10
    effect = _dry_run(root, {"resources": {"gpu": {"guarantee": 9999}}})
    (warning,) = effect["warnings"]
    assert "sim has 160 GPUs" in warning
    assert "10109" in warning
    assert warning in _preview(root, guarantee="9999", cohort="", lending_limit="").content.decode()
    assert _dry_run(root, {"resources": {"gpu": {"guarantee": 49}}})["warnings"] == []
    result = apply_change(PatchPool(name="other", patch={"resources": {"gpu": {"guarantee": 60}}}))
    assert [text for text in result.warnings if "sim has 160 GPUs" in text]
    for page in ("/pools", "/pools/other"):
        assert "sim has 160 GPUs" in root.get(page).content.decode()


def test_a_backend_whose_nodes_are_unknown_is_not_oversubscribed(pools_and_users: None) -> None:
    backend = Backend.objects.create(name="later", kind=Backend.Kind.KUBERNETES, namespace="later")
    body = {"backend": backend.name, "resources": {"gpu": {"guarantee": 9999}}}
    assert apply_change(PutPool(name="fresh", body=body)).warnings == ()


def test_the_form_of_a_new_pool_begins_with_its_name_and_ends_with_the_reason(db: None) -> None:
    fields = [name for name, field in CreatePoolForm().fields.items() if not field.widget.is_hidden]
    assert (fields[:3], fields[-1]) == (["name", "backend", "guarantee"], "description")


@pytest.mark.usefixtures("pools_and_users")
def test_the_page_of_a_pool_has_its_stored_keys_by_their_labels(as_person: SignedIn) -> None:
    apply_change(PatchPool(name="other", patch={"hold_after": 60, "topology_keys": []}))
    page = as_person("root").get("/pools/other").content.decode()
    assert '<dt>Hold later work after</dt><dd class="oa-keeps-lines">60 seconds</dd>' in page
    assert "Topology keys" not in page


def test_back_after_a_done_change_says_that_it_was_done(pools_and_users: None, as_person: SignedIn) -> None:
    root, typed = as_person("root"), {"subpool_name": "fresh", "quota": "4"}
    address = "/pools/team/subpools/create"
    preview = root.post(address, {**typed, "step": "preview"}).headers["Location"]
    assert confirm_change(root, address, **typed).status_code == 302
    page = root.get(preview)
    assert (page.status_code, page.context["title"]) == (200, "Create a subpool of team")
    text = page.content.decode()
    assert "This change was made" in text
    assert "team--fresh was created" in text
    assert 'href="/pools/team"' in text
    assert "Nothing was changed" not in text
    again = root.post(address, {**typed, "step": "preview"}, follow=True)
    assert "exists" in str(again.context["form"].errors), "a new attempt is judged"


def test_the_same_input_after_another_change_is_a_change_again(pools_and_users: None, as_person: SignedIn) -> None:
    root, address = as_person("root"), "/pools/team/subpools/a/resize"
    assert confirm_change(root, address, quota="25").status_code == 302
    preview = root.post(address, {"quota": "20", "step": "preview"}, follow=True)
    confirmed = {**preview.context["hidden"], "step": "confirm"}
    assert root.post(address, confirmed)["Location"] == "/pools/team"
    assert "This change was made" in root.get(f"{address}/-/preview?quota=20").content.decode()
    assert "This change was made" not in root.get(f"{address}/-/preview?quota=25").content.decode()
    assert "This change was made" not in as_person("chief").get(f"{address}/-/preview?quota=20").content.decode()
    confirm_change(as_person("chief"), address, quota="27")
    assert "changed_meanwhile=1" in root.post(address, confirmed)["Location"]


def test_back_to_a_done_deletion_says_that_it_was_done(pools_and_users: None, as_person: SignedIn) -> None:
    root, address = as_person("root"), "/cohorts/org/delete"
    apply_change(CreateCohort(name="org", body={}))
    apply_change(PutGpuQuota(namespace="lab", spec={"total": {"maxWorkers": 4}}))
    preview = root.post(address, {"step": "preview"}).headers["Location"]
    assert confirm_change(root, address).status_code == 302
    assert confirm_change(root, "/gpu-quotas/lab/delete").status_code == 302
    for gone in (preview, address, "/gpu-quotas/lab/delete/-/preview"):
        page = root.get(gone)
        text = page.content.decode()
        assert (page.status_code, "This change was made" in text) == (200, True)
        assert "open the form" not in text, "there is none any more"
    assert "Cohort org was deleted." in root.get(preview).content.decode()
    assert as_person("viewer").get(preview).status_code == 403, "the message is for who deleted it"
    make_user("second", "osmo-admin")
    assert sign_in("second").get(preview).status_code == 404
    assert root.post(address, {"step": "preview"}).status_code == 404
